// Rows of the embedding, and their gradient.
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"

// The place of a token among `vocab` rows from `first` on; no less than vocab where it is not.
VF_INLINE size_t row_of(int32_t token, size_t first)
{
    return (size_t)token - first; // wraps to a huge number below
}

VF_INLINE void forward_rows(const embedding_forward_args *a, size_t begin, size_t end, dtype type)
{
    const size_t cols = a->cols, size = dtype_size(type);
    for (size_t r = begin; r < end; r++) {
        const size_t row = row_of(a->tokens[r], a->first_token), to = r * cols;
        const bool here = row < a->vocab;
        const size_t from = here ? row * cols : 0;
        if (!a->positions) {
            unsigned char *y = (unsigned char *)a->y + to * size;
            if (here)
                memcpy(y, (const unsigned char *)a->weight + from * size, cols * size);
            else
                memset(y, 0, cols * size);
            continue;
        }
        const size_t position = r % a->tokens_per_sample * cols;
        for (size_t c = 0; c < cols; c += VF_LANES)
            vf_store_upto(
                a->y, to + c, to + cols,
                (here ? vf_load_upto(a->weight, from + c, from + cols, type) : vf_set(0)) +
                    vf_load_upto(a->positions, position + c, position + cols, type),
                type);
    }
}

status CPU_OP(embedding_forward)(device_stream *s, const embedding_forward_args *args)
{
    const size_t rows = args->batch * args->tokens_per_sample;
#pragma omp parallel num_threads(cpu_split_threads(s, rows * args->cols, rows))
    {
        size_t begin, end;
        cpu_split_own(rows, &begin, &end);
        CPU_BY_TYPE(args->type, T, forward_rows(args, begin, end, T));
    }
    return STATUS_OK;
}

// Each thread adds its columns of every row, in row order: no two threads meet, and the sums do not
// depend on their number.
VF_INLINE void backward_columns(const embedding_backward_args *a, size_t begin, size_t end,
                                dtype type)
{
    const size_t rows = a->batch * a->tokens_per_sample;
    for (size_t r = 0; r < rows; r++) {
        const size_t row = row_of(a->tokens[r], a->first_token);
        float *weight = row < a->vocab ? a->dweight + row * a->cols : NULL;
        float *position = a->dpositions ? a->dpositions + r % a->tokens_per_sample * a->cols : NULL;
        for (size_t c = begin; c < end; c += VF_LANES) {
            const vf dy = vf_load_upto(a->dy, r * a->cols + c, r * a->cols + end, type);
            if (weight)
                vf_accumulate(weight, c, end, dy, true);
            if (position)
                vf_accumulate(position, c, end, dy, true);
        }
    }
}

status CPU_OP(embedding_backward)(device_stream *s, const embedding_backward_args *args)
{
    const size_t elements = args->batch * args->tokens_per_sample * args->cols;
#pragma omp parallel num_threads(cpu_split_threads(s, elements, args->cols))
    {
        size_t begin, end;
        cpu_split_columns(args->cols, &begin, &end);
        CPU_BY_TYPE(args->type, T, backward_columns(args, begin, end, T));
    }
    return STATUS_OK;
}
