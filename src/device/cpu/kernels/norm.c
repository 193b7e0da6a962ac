// LayerNorm and RMSNorm, forward and backward, for one or two norms of the same rows.
#include <math.h>

#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"

VF_INLINE vf masked(vf v, size_t n)
{
    for (size_t lane = n; lane < VF_LANES; lane++)
        v[lane] = 0;
    return v;
}

// Mean (0 for RMSNorm) and 1 / standard deviation of a row, in two passes; the second also finds
// what rounding left in the mean.
VF_INLINE void row_statistics(const norm_forward_args *a, size_t row, dtype type, float *mean,
                              float *rstd)
{
    const size_t end = (row + 1) * a->cols;
    vf sum = vf_set(0);
    *mean = 0;
    if (a->kind == NORM_LAYERNORM) {
        for (size_t i = row * a->cols; i < end; i += VF_LANES)
            sum += vf_load_upto(a->x, i, end, type);
        *mean = vf_sum(sum) / (float)a->cols;
    }
    vf square = vf_set(0), drift = vf_set(0);
    for (size_t i = row * a->cols; i < end; i += VF_LANES) {
        vf d = vf_load_upto(a->x, i, end, type) - *mean;
        if (i + VF_LANES > end)
            d = masked(d, end - i);
        square += d * d;
        drift += d;
    }
    const float count = (float)a->cols;
    const float left = a->kind == NORM_LAYERNORM ? vf_sum(drift) / count : 0;
    *mean += left;
    *rstd = 1.0f / sqrtf(vf_sum(square) / count - left * left + a->epsilon);
}

VF_INLINE vf affine(vf normal, const void *weight, const void *bias, size_t c, size_t cols,
                    dtype type)
{
    vf y = normal * vf_load_upto(weight, c, cols, type);
    if (bias)
        y += vf_load_upto(bias, c, cols, type);
    return y;
}

VF_INLINE void forward_rows(const norm_forward_args *a, size_t begin, size_t end, dtype type)
{
    const size_t cols = a->cols;
    for (size_t r = begin; r < end; r++) {
        float mean, rstd;
        row_statistics(a, r, type, &mean, &rstd);
        a->rstd[r] = rstd;
        if (a->mean)
            a->mean[r] = mean;
        const size_t row = r * cols;
        for (size_t c = 0; c < cols; c += VF_LANES) {
            const vf normal = (vf_load_upto(a->x, row + c, row + cols, type) - mean) * rstd;
            vf_store_upto(a->y, row + c, row + cols,
                          affine(normal, a->weight, a->bias, c, cols, type), type);
            if (a->y2)
                vf_store_upto(a->y2, row + c, row + cols,
                              affine(normal, a->weight2, a->bias2, c, cols, type), type);
        }
    }
}

status CPU_OP(norm_forward)(device_stream *s, const norm_forward_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->rows * args->cols, args->rows))
    {
        size_t begin, end;
        cpu_split_own(args->rows, &begin, &end);
        CPU_BY_TYPE(args->type, T, forward_rows(args, begin, end, T));
    }
    return STATUS_OK;
}

// The sums over rows of one thread: (4, cols) for dweight, dbias and those of the second norm.
typedef struct norm_sums {
    float *dweight, *dbias, *dweight2, *dbias2;
} norm_sums;

static norm_sums sums_of(float *scratch, size_t thread, size_t cols)
{
    float *own = scratch + thread * 4 * cols;
    return (norm_sums){own, own + cols, own + 2 * cols, own + 3 * cols};
}

// g = dy weight [+ dy2 weight2]: the gradient of the normalised row.
VF_INLINE vf normal_gradient(const norm_backward_args *a, size_t row, size_t c, dtype type)
{
    const size_t end = row + a->cols;
    vf g = vf_load_upto(a->dy, row + c, end, type) * vf_load_upto(a->weight, c, a->cols, type);
    if (a->dy2)
        g += vf_load_upto(a->dy2, row + c, end, type) * vf_load_upto(a->weight2, c, a->cols, type);
    return g;
}

// dx = rstd (g - mean(g) - normal mean(g normal)); RMSNorm lacks the first mean.
VF_INLINE void backward_row(const norm_backward_args *a, size_t r, const norm_sums *sums,
                            dtype type)
{
    const size_t cols = a->cols, row = r * cols, end = row + cols;
    const float mean = a->kind == NORM_LAYERNORM ? a->mean[r] : 0;
    const float rstd = a->rstd[r];
    vf sum_g = vf_set(0), sum_gn = vf_set(0);
    for (size_t c = 0; c < cols; c += VF_LANES) {
        const vf normal = (vf_load_upto(a->x, row + c, end, type) - mean) * rstd;
        const vf dy = vf_load_upto(a->dy, row + c, end, type);
        const vf g = normal_gradient(a, row, c, type);
        sum_g += g; // lanes past the end are zero: weights there are
        sum_gn += g * normal;
        vf_accumulate(sums->dweight, c, cols, dy * normal, true);
        vf_accumulate(sums->dbias, c, cols, dy, true);
        if (a->dy2) {
            const vf dy2 = vf_load_upto(a->dy2, row + c, end, type);
            vf_accumulate(sums->dweight2, c, cols, dy2 * normal, true);
            vf_accumulate(sums->dbias2, c, cols, dy2, true);
        }
    }
    const float mean_g = a->kind == NORM_LAYERNORM ? vf_sum(sum_g) / (float)cols : 0;
    const float mean_gn = vf_sum(sum_gn) / (float)cols;
    for (size_t c = 0; c < cols; c += VF_LANES) {
        const vf normal = (vf_load_upto(a->x, row + c, end, type) - mean) * rstd;
        vf dx = (normal_gradient(a, row, c, type) - mean_g - normal * mean_gn) * rstd;
        if (a->dresidual)
            dx += vf_load_upto(a->dresidual, row + c, end, type);
        vf_store_upto(a->dx, row + c, end, dx, type);
    }
}

// The sums of all threads into the result, in the order of threads.
static void combine(float *result, const float *first, size_t stride, size_t threads, size_t cols,
                    bool accumulate)
{
    if (!result)
        return;
    for (size_t c = 0; c < cols; c++) {
        float sum = 0;
        for (size_t t = 0; t < threads; t++)
            sum += first[t * stride + c];
        result[c] = accumulate ? result[c] + sum : sum;
    }
}

status CPU_OP(norm_backward)(device_stream *s, const norm_backward_args *args)
{
    const size_t cols = args->cols;
    const int threads = cpu_split_threads(s, args->rows * cols, args->rows);
    void *memory;
    TRY(cpu_stream_scratch(s, (size_t)threads * 4 * cols * sizeof(float), &memory));
    float *scratch = memory;
    memset(scratch, 0, (size_t)threads * 4 * cols * sizeof(float));
#pragma omp parallel num_threads(threads)
    {
        size_t begin, end;
        cpu_split_own(args->rows, &begin, &end);
        const norm_sums sums = sums_of(scratch, (size_t)omp_get_thread_num(), cols);
        for (size_t r = begin; r < end; r++)
            CPU_BY_TYPE(args->type, T, backward_row(args, r, &sums, T));
    }
    const norm_sums first = sums_of(scratch, 0, cols);
    const size_t stride = 4 * cols, n = (size_t)threads;
    combine(args->dweight, first.dweight, stride, n, cols, args->accumulate);
    combine(args->dbias, first.dbias, stride, n, cols, args->accumulate);
    combine(args->dweight2, first.dweight2, stride, n, cols, args->accumulate);
    combine(args->dbias2, first.dbias2, stride, n, cols, args->accumulate);
    return STATUS_OK;
}
