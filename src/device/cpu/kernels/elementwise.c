// Sums, conversions and dropout.
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_philox.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"

VF_INLINE void add_part(const add_args *a, size_t begin, size_t end, dtype type)
{
    for (size_t i = begin; i < end; i += VF_LANES)
        vf_store_upto(a->y, i, end,
                      vf_load_upto(a->x, i, end, type) + vf_load_upto(a->a, i, end, type), type);
}

status CPU_OP(add)(device_stream *s, const add_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->count, args->count))
    {
        size_t begin, end;
        cpu_split_own(args->count, &begin, &end);
        CPU_BY_TYPE(args->type, T, add_part(args, begin, end, T));
    }
    return STATUS_OK;
}

VF_INLINE void cast_part(const cast_args *a, size_t begin, size_t end, dtype to, dtype from)
{
    for (size_t i = begin; i < end; i += VF_LANES)
        vf_store_upto(a->dst, i, end, vf_load_upto(a->src, i, end, from), to);
}

status CPU_OP(cast)(device_stream *s, const cast_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->count, args->count))
    {
        size_t begin, end;
        cpu_split_own(args->count, &begin, &end);
        CPU_BY_TYPE(args->dst_type, TO,
                    CPU_BY_TYPE(args->src_type, FROM, cast_part(args, begin, end, TO, FROM)));
    }
    return STATUS_OK;
}

// v / (1 - probability) where its word is kept, else 0, also where v is not finite. A word counts
// as its upper 24 bits, as in philox_unit(), and is compared at that scale, which is exact.
VF_INLINE vf dropout_apply(const dropout_spec *d, const uint32_t *words, vf v)
{
    vi word;
    memcpy(&word, words, sizeof word);
    const vf uniform = __builtin_convertvector((vi)((vu)word >> 8), vf);
    const vi kept = uniform >= d->probability * 0x1p24f;
    return vf_select(kept, v * (1.0f / (1.0f - d->probability)), vf_set(0));
}

VF_INLINE void dropout_part(const dropout_args *a, size_t begin, size_t end, dtype type)
{
    const dropout_spec *d = &a->dropout;
    for (size_t run = begin; run < end; run += PHILOX_RUN) {
        uint32_t buffer[PHILOX_RUN + 4 * VF_LANES];
        const size_t stop = size_min(run + PHILOX_RUN, end);
        const size_t whole = size_round_up(stop - run, VF_LANES);
        const uint32_t *words = philox_run(d->seed, d->stream, d->offset + run, whole, buffer);
        for (size_t i = run; i < stop; i += VF_LANES) {
            const vf x = a->x ? vf_load_upto(a->x, i, stop, type) : vf_set(0);
            const vf v = vf_load_upto(a->a, i, stop, type);
            vf_store_upto(a->y, i, stop, x + dropout_apply(d, words + i - run, v), type);
        }
    }
}

status CPU_OP(dropout)(device_stream *s, const dropout_args *args)
{
#pragma omp parallel num_threads(cpu_split_threads(s, args->count, args->count))
    {
        size_t begin, end;
        cpu_split_own(args->count, &begin, &end);
        CPU_BY_TYPE(args->type, T, dropout_part(args, begin, end, T));
    }
    return STATUS_OK;
}
