// Cross entropy of rows of logits, and its gradient.
//
// One exponential a logit: the first pass over a row keeps e^(x - m) in scratch, a block at a time
// with the running maximum m so far; the second turns them into the gradient by one factor a block.
// A row of 50k logits and its scratch stay in the second cache.
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

// Scratch of a thread: the exponentials of a row, and what each block subtracted.
typedef struct row_scratch {
    float *exps;   // (V)
    float *shifts; // a block each
} row_scratch;

static size_t block_count(size_t vocab)
{
    return (vocab + BLOCK - 1) / BLOCK;
}

static size_t scratch_floats(size_t vocab)
{
    return size_round_up(vocab, VF_LANES) + size_round_up(block_count(vocab), VF_LANES);
}

// e^(x - shift) of one block to scratch; their sum.
VF_INLINE double block_exps(const float *x, float *exps, size_t begin, size_t end, float shift)
{
    vf part = vf_set(0);
    for (size_t i = begin; i < end; i += VF_LANES) {
        const vf e = vf_exp(load_whole(x, i, end) - shift);
        vf_store_f32(exps + i, e);
        part += e;
    }
    return (double)vf_sum(part);
}

// The largest of some logits, and the sum of e^(logit - largest).
typedef struct exp_sum {
    float most;
    double sum;
} exp_sum;

// A NaN must survive the maximum, so sums are what carries it: e^(NaN) is NaN.
static exp_sum sum_exps(const float *x, size_t n, const row_scratch *scratch)
{
    exp_sum s = {.most = -INFINITY};
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t end = size_min(begin + BLOCK, n);
        vf top = vf_set(-INFINITY);
        for (size_t i = begin; i < end; i += VF_LANES)
            top = vf_max(load_whole(x, i, end), top);
        const float block_most = vf_max_lane(top);
        if (block_most > s.most) {
            s.sum *= exp((double)s.most - (double)block_most);
            s.most = block_most;
        }
        const float shift = isfinite(s.most) ? s.most : 0;
        scratch->shifts[begin / BLOCK] = s.most > -INFINITY ? shift : s.most; // a factor of 0
        s.sum += block_exps(x, scratch->exps, begin, end, shift);
    }
    return s;
}

static double log_of(exp_sum s)
{
    return (isfinite(s.most) ? (double)s.most : 0) + log(s.sum);
}

VF_INLINE void write_gradient(void *dlogits, size_t first, size_t n, const row_scratch *scratch,
                              double lse, float scale, dtype type)
{
    for (size_t begin = 0; begin < n; begin += BLOCK) {
        const size_t end = size_min(begin + BLOCK, n);
        const float factor = (float)exp((double)scratch->shifts[begin / BLOCK] - lse) * scale;
        for (size_t i = begin; i < end; i += VF_LANES)
            vf_store_upto(dlogits, first + i, first + end, vf_load_f32(scratch->exps + i) * factor,
                          type);
    }
}

VF_INLINE void one_row(const cross_entropy_args *a, size_t r, const row_scratch *scratch,
                       dtype type)
{
    const size_t first = r * a->vocab;
    const size_t label = (size_t)a->labels[r];
    const double target = (double)a->logits[first + label];
    const double lse = log_of(sum_exps(a->logits + first, a->vocab, scratch));
    a->losses[r] = (float)(lse - target);
    if (!a->dlogits)
        return;
    write_gradient(a->dlogits, first, a->vocab, scratch, lse, a->scale[r], type);
    const float of_label = (float)(exp(target - lse) - 1) * a->scale[r];
    vf_store_part(a->dlogits, first + label, 1, vf_set(of_label), type);
}

// A thread's scratch inside a parallel region.
static row_scratch own_scratch(void *memory, size_t vocab)
{
    float *own = (float *)memory + scratch_floats(vocab) * (size_t)omp_get_thread_num();
    return (row_scratch){own, own + size_round_up(vocab, VF_LANES)};
}

status CPU_OP(cross_entropy)(device_stream *s, const cross_entropy_args *args)
{
    const size_t floats = scratch_floats(args->vocab);
    void *memory;
    TRY(cpu_stream_scratch(s, floats * (size_t)cpu_stream_threads(s) * sizeof(float), &memory));
#pragma omp parallel num_threads(cpu_split_threads(s, args->rows * args->vocab, args->rows))
    {
        size_t begin, end;
        const row_scratch scratch = own_scratch(memory, args->vocab);
        cpu_split_own(args->rows, &begin, &end);
        for (size_t r = begin; r < end; r++)
            CPU_BY_TYPE(args->type, T, one_row(args, r, &scratch, T));
    }
    return STATUS_OK;
}

// ---- Columns split over ranks ----

status CPU_OP(cross_entropy_stats)(device_stream *s, const cross_entropy_stats_args *args)
{
    const size_t bytes = scratch_floats(args->vocab) * sizeof(float);
    void *memory;
    TRY(cpu_stream_scratch(s, bytes * (size_t)cpu_stream_threads(s), &memory));
#pragma omp parallel num_threads(cpu_split_threads(s, args->rows * args->vocab, args->rows))
    {
        size_t begin, end;
        const row_scratch scratch = own_scratch(memory, args->vocab);
        cpu_split_own(args->rows, &begin, &end);
        for (size_t r = begin; r < end; r++) {
            const float *row = args->logits + r * args->vocab;
            const size_t label = (size_t)args->labels[r] - args->first;
            const exp_sum sum = sum_exps(row, args->vocab, &scratch);
            float *stats = args->stats + r * CROSS_ENTROPY_STATS;
            stats[0] = sum.most;
            stats[1] = (float)sum.sum;
            stats[2] = label < args->vocab ? row[label] : 0;
        }
    }
    return STATUS_OK;
}

// log sum exp and the label's logit of row r, of all ranks' statistics.
static double merge_stats(const cross_entropy_merge_args *a, size_t r, double *target)
{
    exp_sum all = {.most = -INFINITY};
    *target = 0;
    for (size_t rank = 0; rank < a->ranks; rank++) {
        const float *stats = a->stats + (rank * a->rows + r) * CROSS_ENTROPY_STATS;
        if (stats[0] > all.most)
            all.most = stats[0];
        *target += (double)stats[2];
    }
    const double shift = isfinite(all.most) ? (double)all.most : 0;
    for (size_t rank = 0; rank < a->ranks; rank++) {
        const float *stats = a->stats + (rank * a->rows + r) * CROSS_ENTROPY_STATS;
        const double own = isfinite(stats[0]) ? (double)stats[0] : 0; // what its sum subtracted
        all.sum += (double)stats[1] * exp(own - shift);
    }
    return log_of(all);
}

VF_INLINE void merge_row(const cross_entropy_merge_args *a, size_t r, dtype type)
{
    const size_t first = r * a->vocab, label = (size_t)a->labels[r] - a->first;
    double target;
    const double lse = merge_stats(a, r, &target);
    a->losses[r] = (float)(lse - target);
    if (!a->dlogits)
        return;
    // lse in two parts: its rounding would be an error of every probability.
    const vf high = vf_set((float)lse), low = vf_set((float)((double)(float)lse - lse));
    for (size_t i = first; i < first + a->vocab; i += VF_LANES) {
        const vf x = vf_load_upto(a->logits, i, first + a->vocab, DTYPE_F32);
        vf_store_upto(a->dlogits, i, first + a->vocab, vf_exp_sum(x - high, low) * a->scale[r],
                      type);
    }
    const float of_label = (float)(exp(target - lse) - 1) * a->scale[r];
    if (label < a->vocab)
        vf_store_part(a->dlogits, first + label, 1, vf_set(of_label), type);
}

status CPU_OP(cross_entropy_merge)(device_stream *s, const cross_entropy_merge_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->rows * args->vocab, args->rows))
    {
        size_t begin, end;
        cpu_split_own(args->rows, &begin, &end);
        for (size_t r = begin; r < end; r++)
            CPU_BY_TYPE(args->type, T, merge_row(args, r, T));
    }
    return STATUS_OK;
}
