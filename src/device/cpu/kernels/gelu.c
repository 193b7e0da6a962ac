// GELU and its gradient, and the sum of columns that biases need.
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"

// gelu(x) = x c(x); slope is its derivative.
VF_INLINE vf gelu_value(vf x, gelu_kind kind, vf *slope)
{
    if (kind == GELU_ERF) {
        vf gauss;
        const vf c = vf_normal_cdf(x, &gauss);
        *slope = c + x * gauss * 0.398942280f; // 1 / sqrt(2 pi)
        return x * c;
    }
    // (1 + tanh u) / 2 is the logistic function of 2 u. Past 12 it is 0 or 1, and powers of x may
    // not overflow into its slope.
    const vf near = vf_max(vf_set(-12.0f), vf_min(vf_set(12.0f), x));
    const vf square = near * near;
    const vf twice_u = near * (square * 0.0713548163f + 1.59576912f); // 2 sqrt(2/pi) (0.044715, 1)
    // c and 1 - c, neither by a difference.
    const vf e = vf_exp(-vf_abs(twice_u));
    const vf most = 1.0f / (1.0f + e), least = e * most;
    const vf c = vf_select(x < 0.0f, least, most);
    const vf du = square * 0.214064449f + 1.59576912f;
    *slope = c + near * (most * least) * du;
    return x * c;
}

VF_INLINE void forward_part(const gelu_forward_args *a, size_t begin, size_t end, dtype type,
                            gelu_kind kind)
{
    vf slope;
    for (size_t i = begin; i < end; i += VF_LANES)
        vf_store_upto(a->y, i, end, gelu_value(vf_load_upto(a->x, i, end, type), kind, &slope),
                      type);
}

static void forward_kind(const gelu_forward_args *a, size_t begin, size_t end)
{
    if (a->kind == GELU_ERF)
        CPU_BY_TYPE(a->type, T, forward_part(a, begin, end, T, GELU_ERF));
    else
        CPU_BY_TYPE(a->type, T, forward_part(a, begin, end, T, GELU_TANH));
}

status CPU_OP(gelu_forward)(device_stream *s, const gelu_forward_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->count, args->count))
    {
        size_t begin, end;
        cpu_split_own(args->count, &begin, &end);
        forward_kind(args, begin, end);
    }
    return STATUS_OK;
}

enum {
    STRIP = 512,    // columns whose sums stay in the first cache
    SUM_ROWS = 128, // rows summed apart: a long sum keeps its digits
};

// Sums over rows gather in blocks of SUM_ROWS, in row order, so that they do not depend on the
// number of threads. `sums` are those of one block, columns from `first` on.
VF_INLINE void add_block(float *dbias, const float *sums, size_t first, size_t end)
{
    for (size_t c = first; c < end; c += VF_LANES)
        vf_accumulate(dbias, c, end, vf_load_upto(sums, c - first, end - first, DTYPE_F32), true);
}

static void clear_sums(float *dbias, size_t begin, size_t end, bool accumulate)
{
    if (dbias && !accumulate && begin < end)
        memset(dbias + begin, 0, (end - begin) * sizeof *dbias);
}

// Columns [begin, end) of the row that starts at element `row`.
VF_INLINE void backward_row(const gelu_backward_args *a, float *sums, size_t row, size_t begin,
                            size_t end, dtype type, gelu_kind kind)
{
    for (size_t c = begin; c < end; c += VF_LANES) {
        vf slope;
        const vf y = gelu_value(vf_load_upto(a->x, row + c, row + end, type), kind, &slope);
        const vf dx = vf_load_upto(a->dy, row + c, row + end, type) * slope;
        vf_store_upto(a->dx, row + c, row + end, dx, type);
        if (a->y)
            vf_store_upto(a->y, row + c, row + end, y, type);
        vf_accumulate(sums, c - begin, end - begin, dx, true);
    }
}

VF_INLINE void backward_part(const gelu_backward_args *a, size_t begin, size_t end, dtype type,
                             gelu_kind kind)
{
    clear_sums(a->dbias, begin, end, a->accumulate);
    for (size_t first = begin; first < end; first += STRIP) {
        const size_t stop = size_min(first + STRIP, end);
        for (size_t block = 0; block < a->rows; block += SUM_ROWS) {
            float sums[STRIP] = {0};
            for (size_t r = block; r < size_min(block + SUM_ROWS, a->rows); r++)
                backward_row(a, sums, r * a->cols, first, stop, type, kind);
            if (a->dbias)
                add_block(a->dbias, sums, first, stop);
        }
    }
}

static void backward_kind(const gelu_backward_args *a, size_t begin, size_t end)
{
    if (a->kind == GELU_ERF)
        CPU_BY_TYPE(a->type, T, backward_part(a, begin, end, T, GELU_ERF));
    else
        CPU_BY_TYPE(a->type, T, backward_part(a, begin, end, T, GELU_TANH));
}

status CPU_OP(gelu_backward)(device_stream *s, const gelu_backward_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->rows * args->cols, args->cols))
    {
        size_t begin, end;
        cpu_split_columns(args->cols, &begin, &end);
        backward_kind(args, begin, end);
    }
    return STATUS_OK;
}

VF_INLINE void bias_part(const bias_backward_args *a, size_t begin, size_t end, dtype type)
{
    clear_sums(a->dbias, begin, end, a->accumulate);
    for (size_t first = begin; first < end; first += STRIP) {
        const size_t stop = size_min(first + STRIP, end);
        for (size_t block = 0; block < a->rows; block += SUM_ROWS) {
            float sums[STRIP] = {0};
            for (size_t r = block; r < size_min(block + SUM_ROWS, a->rows); r++) {
                const size_t row = r * a->cols;
                for (size_t c = first; c < stop; c += VF_LANES)
                    vf_accumulate(sums, c - first, stop - first,
                                  vf_load_upto(a->dy, row + c, row + stop, type), true);
            }
            add_block(a->dbias, sums, first, stop);
        }
    }
}

status CPU_OP(bias_backward)(device_stream *s, const bias_backward_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->rows * args->cols, args->cols))
    {
        size_t begin, end;
        cpu_split_columns(args->cols, &begin, &end);
        CPU_BY_TYPE(args->type, T, bias_part(args, begin, end, T));
    }
    return STATUS_OK;
}
