#include "parallel/tensor_region.h"

#include "base/memory.h"
#include "base/sizes.h"

status tensor_region_init(size_t rank, size_t ranks, bool sequence, size_t rows, size_t cols,
                          dtype type, tensor_region *out)
{
    *out = (tensor_region){.rank = rank,
                           .ranks = ranks,
                           .sequence = sequence && ranks > 1,
                           .rows = rows,
                           .cols = cols,
                           .own_rows = rows,
                           .type = type};
    if (!out->sequence)
        return STATUS_OK;
    void *memory;
    TRY(memory_alloc(out->ranks, sizeof(size_t), "tensor region", &memory));
    out->counts = memory;
    for (size_t r = 0; r < out->ranks; r++) {
        size_t begin, end;
        size_split(rows, out->ranks, r, &begin, &end);
        out->counts[r] = (end - begin) * cols;
        if (r == out->rank) {
            out->first_row = begin;
            out->own_rows = end - begin;
        }
    }
    return STATUS_OK;
}

void tensor_region_fini(tensor_region *region)
{
    memory_free(region->counts);
    *region = (tensor_region){0};
}

void *tensor_region_own(const tensor_region *region, void *matrix)
{
    return (unsigned char *)matrix + region->first_row * region->cols * dtype_size(region->type);
}

status tensor_region_gather_begin(const tensor_region *region, comm_kind kind, void *matrix,
                                  comm_request *request)
{
    if (!region->sequence)
        return STATUS_OK;
    return comm_allgather_begin(region->group, kind, matrix, region->counts, region->type, request);
}

status tensor_region_reduce_begin(const tensor_region *region, comm_kind kind, void *matrix,
                                  comm_request *request)
{
    if (region->ranks == 1)
        return STATUS_OK;
    if (region->sequence)
        return comm_reduce_scatter_begin(region->group, kind, COMM_SUM, matrix, region->counts,
                                         region->type, request);
    return comm_allreduce_begin(region->group, kind, COMM_SUM, matrix, region->rows * region->cols,
                                region->type, request);
}

status tensor_region_gather(const tensor_region *region, comm_kind kind, void *matrix)
{
    comm_request request = {0};
    TRY(tensor_region_gather_begin(region, kind, matrix, &request));
    return comm_wait(&request);
}

status tensor_region_reduce(const tensor_region *region, comm_kind kind, void *matrix)
{
    comm_request request = {0};
    TRY(tensor_region_reduce_begin(region, kind, matrix, &request));
    return comm_wait(&request);
}
