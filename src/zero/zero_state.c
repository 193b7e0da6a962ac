// Masters and moments, tensor by tensor, from the ranks that own them and back.
#include "base/sizes.h"
#include "zero/zero_internal.h"

// This rank's part of a bucket.
static float *own_part(const zero *z, zero_part part, const zero_bucket *b)
{
    switch (part) {
    case ZERO_PARAM:
        return own_master(z, b);
    case ZERO_EXP_AVG:
        return z->exp_avg + b->shard;
    case ZERO_EXP_AVG_SQ:
        return z->exp_avg_sq + b->shard;
    }
    return NULL;
}

static status check_index(const zero *z, size_t index)
{
    if (index < z->table->count)
        return STATUS_OK;
    return fail(STATUS_ERR_COMM, "the state of tensor %zu is wanted, but there are %zu", index,
                z->table->count);
}

// What a rank has of a tensor, values from its start, without padding.
static void values_of(const zero *z, size_t index, size_t rank, size_t *begin, size_t *end)
{
    const tensor_info *info = &z->table->tensors[index];
    zero_plan_piece(&z->plan, index, rank, begin, end);
    *begin = size_min(*begin - info->offset, tensor_elements(info));
    *end = size_min(*end - info->offset, tensor_elements(info));
}

// Where value `begin` of a tensor lies, one of this rank's.
static float *place_of(const zero *z, zero_part part, size_t index, size_t begin)
{
    const zero_bucket *b = &z->plan.buckets[z->plan.bucket_of[index]];
    return own_part(z, part, b) + (z->table->tensors[index].offset + begin - b->own_begin);
}

status zero_read(zero *z, device_stream *s, zero_part part, size_t index, float *host)
{
    const size_t ranks = z->plan.options.ranks;
    size_t begin, end;
    comm_request request = {0};
    TRY(check_index(z, index));
    values_of(z, index, z->plan.options.rank, &begin, &end);
    if (begin < end)
        TRY(device_download(s, host + begin, place_of(z, part, index, begin),
                            (end - begin) * sizeof(float)));
    if (ranks == 1)
        return STATUS_OK;
    for (size_t r = 0; r < ranks; r++) {
        values_of(z, index, r, &begin, &end);
        z->counts[r] = end - begin;
    }
    TRY(comm_allgather_begin(z->options.zero, COMM_CONTROL, host, z->counts, DTYPE_F32, &request));
    return comm_wait(&request);
}

status zero_write(zero *z, device_stream *s, zero_part part, size_t index, const float *host)
{
    size_t begin, end;
    TRY(check_index(z, index));
    TRY(zero_wait_params(z)); // a message may still read its part
    values_of(z, index, z->plan.options.rank, &begin, &end);
    if (begin == end)
        return STATUS_OK;
    return device_upload(s, place_of(z, part, index, begin), host + begin,
                         (end - begin) * sizeof(float));
}
