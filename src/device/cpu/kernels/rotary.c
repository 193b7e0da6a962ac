// Rotary position embedding, half-rotate layout, in place on q and k.
#include "device/cpu/kernels/cpu_kernels.h"
#include "device/cpu/kernels/cpu_simd.h"
#include "device/cpu/kernels/cpu_split.h"

// One head's q or k, `half` pairs (x[i], x[half + i]).
VF_INLINE void rotate_head(void *qkv, size_t first, const float *cosines, const float *sines,
                           size_t half, float direction, dtype type)
{
    for (size_t i = 0; i < half; i += VF_LANES) {
        const vf c = vf_load_upto(cosines, i, half, DTYPE_F32);
        const vf s = vf_load_upto(sines, i, half, DTYPE_F32) * direction;
        const vf x1 = vf_load_upto(qkv, first + i, first + half, type);
        const vf x2 = vf_load_upto(qkv, first + half + i, first + 2 * half, type);
        vf_store_upto(qkv, first + i, first + half, x1 * c - x2 * s, type);
        vf_store_upto(qkv, first + half + i, first + 2 * half, x2 * c + x1 * s, type);
    }
}

VF_INLINE void rotate_rows(const rotary_args *a, size_t begin, size_t end, dtype type)
{
    const size_t half = a->rotary_dims / 2;
    const float direction = a->backward ? -1.0f : 1.0f;
    for (size_t r = begin; r < end; r++) {
        const size_t t = r % a->tokens;
        for (size_t h = 0; h < a->heads; h++) {
            for (size_t part = 0; part < 2; part++)
                rotate_head(a->qkv, ((r * a->heads + h) * 3 + part) * a->head_dim,
                            a->cos + t * half, a->sin + t * half, half, direction, type);
        }
    }
}

status CPU_OP(rotary)(device_stream *s, const rotary_args *args)
{
    const size_t rows = args->batch * args->tokens;
#pragma omp parallel num_threads(cpu_split_threads(s, rows * args->heads * args->rotary_dims, rows))
    {
        size_t begin, end;
        cpu_split_own(rows, &begin, &end);
        CPU_BY_TYPE(args->type, T, rotate_rows(args, begin, end, T));
    }
    return STATUS_OK;
}
