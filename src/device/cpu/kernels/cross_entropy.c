// Cross entropy of rows of logits, and its gradient.
//
// Two passes over a row: the first carries a running maximum and the sum of exponentials under it,
// a block at a time; the second writes the gradient. A row of 50k logits stays in the cache.
#include <math.h>

#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"

enum {
    BLOCK = 64 * VF_LANES, // logits that share one maximum
};

VF_INLINE vf load_logits(const float *x, size_t i, size_t n)
{
    vf v = vf_load_upto(x, i, n, DTYPE_F32);
    for (size_t lane = n - i; lane < VF_LANES; lane++)
        v[lane] = -INFINITY;
    return v;
}

VF_INLINE vf load_whole(const float *x, size_t i, size_t n)
{
    return i + VF_LANES <= n ? vf_load_f32(x + i) : load_logits(x, i, n);
}

// A NaN must survive the maximum, so sums are what carries it: e^(NaN) is NaN.
static double log_sum_exp(const float *x, size_t n)
{
    float most = -INFINITY;
    double sum = 0;
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t end = size_min(begin + BLOCK, n);
        vf top = vf_set(-INFINITY);
        for (size_t i = begin; i < end; i += VF_LANES)
            top = vf_max(load_whole(x, i, end), top);
        const float block_most = vf_max_lane(top);
        if (block_most > most) {
            sum *= exp((double)most - (double)block_most);
            most = block_most;
        }
        const float shift = isfinite(most) ? most : 0;
        vf part = vf_set(0);
        for (size_t i = begin; i < end; i += VF_LANES)
            part += vf_exp(load_whole(x, i, end) - shift);
        sum += (double)vf_sum(part);
    }
    return (isfinite(most) ? (double)most : 0) + log(sum);
}

VF_INLINE void write_gradient(void *dlogits, size_t first, const float *x, size_t n, float lse,
                              float scale, dtype type)
{
    for (size_t i = 0; i < n; i += VF_LANES)
        vf_store_upto(dlogits, first + i, first + n,
                      vf_exp(vf_load_upto(x, i, n, DTYPE_F32) - lse) * scale, type);
}

VF_INLINE void one_row(const cross_entropy_args *a, size_t r, dtype type)
{
    const float *x = a->logits + r * a->vocab;
    const size_t label = (size_t)a->labels[r];
    const float target = x[label];
    const double lse = log_sum_exp(x, a->vocab);
    a->losses[r] = (float)(lse - (double)target);
    if (!a->dlogits)
        return;
    const float of_label = (expf(target - (float)lse) - 1.0f) * a->scale[r];
    const size_t first = r * a->vocab;
    write_gradient(a->dlogits, first, x, a->vocab, (float)lse, a->scale[r], type);
    vf_store_part(a->dlogits, first + label, 1, vf_set(of_label), type);
}

status CPU_OP(cross_entropy)(device_stream *s, const cross_entropy_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->rows * args->vocab, args->rows))
    {
        size_t begin, end;
        cpu_split_own(args->rows, &begin, &end);
        for (size_t r = begin; r < end; r++)
            CPU_BY_TYPE(args->type, T, one_row(args, r, T));
    }
    return STATUS_OK;
}
