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
    // (1 + tanh u) / 2 is the logistic function of 2 u.
    const vf square = x * x;
    const vf twice_u = x * (square * 0.0713548163f + 1.59576912f); // 2 sqrt(2/pi) (0.044715, 1)
    const vf c = 1.0f / (1.0f + vf_exp(-twice_u));
    const vf du = square * 0.214064449f + 1.59576912f;
    *slope = c + x * c * (1.0f - c) * du;
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

// Columns [begin, end) of all rows. Sums over rows gather in dbias itself, in row order, so that
// the result does not depend on the number of threads.
VF_INLINE void backward_part(const gelu_backward_args *a, size_t begin, size_t end, dtype type,
                             gelu_kind kind)
{
    for (size_t r = 0; r < a->rows; r++) {
        const size_t row = r * a->cols;
        const bool add = a->accumulate || r > 0;
        for (size_t c = begin; c < end; c += VF_LANES) {
            vf slope;
            const vf y = gelu_value(vf_load_upto(a->x, row + c, row + end, type), kind, &slope);
            const vf dx = vf_load_upto(a->dy, row + c, row + end, type) * slope;
            vf_store_upto(a->dx, row + c, row + end, dx, type);
            if (a->y)
                vf_store_upto(a->y, row + c, row + end, y, type);
            if (a->dbias)
                vf_accumulate(a->dbias, c, end, dx, add);
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
    for (size_t r = 0; r < a->rows; r++) {
        const size_t row = r * a->cols;
        for (size_t c = begin; c < end; c += VF_LANES)
            vf_accumulate(a->dbias, c, end, vf_load_upto(a->dy, row + c, row + end, type),
                          a->accumulate || r > 0);
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
