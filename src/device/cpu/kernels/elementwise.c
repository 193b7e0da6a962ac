// Sums, conversions and dropout.
#include "base/philox.h"
#include "device/cpu/kernels/cpu_kernels.h"
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

// The factors of elements [i, i + VF_LANES): 0 where dropped, else 1 / (1 - probability).
VF_INLINE vf dropout_factors(const dropout_spec *d, size_t i)
{
    const float keep = 1.0f / (1.0f - d->probability);
    vf factors = {0};
    for (int lane = 0; lane < VF_LANES; lane++) {
        const uint64_t index = d->offset + i + (uint64_t)lane;
        factors[lane] = philox_uniform(d->seed, d->stream, index) >= d->probability ? keep : 0;
    }
    return factors;
}

VF_INLINE void dropout_part(const dropout_args *a, size_t begin, size_t end, dtype type)
{
    for (size_t i = begin; i < end; i += VF_LANES) {
        const vf x = a->x ? vf_load_upto(a->x, i, end, type) : vf_set(0);
        const vf v = vf_load_upto(a->a, i, end, type);
        vf_store_upto(a->y, i, end, x + v * dropout_factors(&a->dropout, i), type);
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
