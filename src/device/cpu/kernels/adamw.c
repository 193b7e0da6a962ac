// The optimizer's passes over flat fp32 buffers.
#include <math.h>

#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"

enum {
    SUM_BLOCK = 1 << 16, // elements summed apart, so that the result does not depend on threads
};

static double block_squares(const float *x, size_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

status CPU_OP(sum_squares)(device_stream *s, double *sum_host, const float *x, size_t count)
{
    const size_t blocks = (count + SUM_BLOCK - 1) / SUM_BLOCK;
    void *memory;
    TRY(cpu_stream_scratch(s, blocks * sizeof(double), &memory));
    double *sums = memory;
#pragma omp parallel num_threads(cpu_split_threads(s, count, blocks))
    {
        size_t begin, end;
        cpu_split_own(blocks, &begin, &end);
        for (size_t b = begin; b < end; b++)
            sums[b] = block_squares(x + b * SUM_BLOCK, size_min(SUM_BLOCK, count - b * SUM_BLOCK));
    }
    *sum_host = 0;
    for (size_t b = 0; b < blocks; b++)
        *sum_host += sums[b];
    return STATUS_OK;
}

// lr / c1 and 1 / c2 once for all elements: p -= a m / (sqrt(v c) + eps) + lr decay p.
typedef struct adamw_factors {
    float step_size;    // lr / (1 - beta1^t)
    float second_scale; // 1 / sqrt(1 - beta2^t)
    float shrink;       // 1 - lr decay
} adamw_factors;

static void adamw_part(const adamw_args *a, const adamw_factors *f, size_t begin, size_t end)
{
    // Copies: what is read through `a` could be one of the arrays, which would forbid vectors.
    const float beta1 = a->beta1, beta2 = a->beta2, epsilon = a->epsilon, scale = a->grad_scale;
    const float step_size = f->step_size, second_scale = f->second_scale, shrink = f->shrink;
    float *restrict param = a->param;
    float *restrict exp_avg = a->exp_avg;
    float *restrict exp_avg_sq = a->exp_avg_sq;
    const float *restrict grad = a->grad;
    for (size_t i = begin; i < end; i++) {
        const float g = grad[i] * scale;
        const float m = beta1 * exp_avg[i] + (1.0f - beta1) * g;
        const float v = beta2 * exp_avg_sq[i] + (1.0f - beta2) * g * g;
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        param[i] = shrink * param[i] - step_size * m / (sqrtf(v) * second_scale + epsilon);
    }
}

VF_INLINE void publish_part(const adamw_args *a, size_t begin, size_t end, dtype type)
{
    for (size_t i = begin; i < end; i += VF_LANES)
        vf_store_upto(a->param_out, i, end, vf_load_upto(a->param, i, end, DTYPE_F32), type);
}

status CPU_OP(adamw)(device_stream *s, const adamw_args *args)
{
    const double step = (double)args->step;
    const adamw_factors factors = {
        .step_size = (float)((double)args->lr / (1 - pow((double)args->beta1, step))),
        .second_scale = (float)(1 / sqrt(1 - pow((double)args->beta2, step))),
        .shrink = (float)(1 - (double)args->lr * (double)args->weight_decay)};
    const size_t block = 4096; // both passes while it is in the first cache
#pragma omp parallel num_threads(cpu_split_threads(s, args->count, args->count))
    {
        size_t begin, end;
        cpu_split_own(args->count, &begin, &end);
        for (size_t i = begin; i < end; i += block) {
            const size_t stop = size_min(i + block, end);
            adamw_part(args, &factors, i, stop);
            if (args->param_out)
                CPU_BY_TYPE(args->out_type, T, publish_part(args, i, stop, T));
        }
    }
    return STATUS_OK;
}
