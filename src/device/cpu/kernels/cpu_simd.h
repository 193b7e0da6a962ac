/* Vectors of fp32 as wide as the variant's registers, with the functions that kernels need.
 *
 * GCC's vector extensions, which clang has too, so the same text serves every instruction set; the
 * few intrinsics, each beside its plain form, are here and nowhere else. The variants are compiled
 * with -ffp-contract=fast: a * b + c is one fused operation where the processor has it. Functions
 * that take a dtype expect a constant and become one branch of their switch. */
#ifndef TRIFOLD_DEVICE_CPU_SIMD_H
#define TRIFOLD_DEVICE_CPU_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "base/dtype.h"

#if defined(__AVX512F__)
#define VF_LANES 16
#elif defined(__AVX2__)
#define VF_LANES 8
#else
#define VF_LANES 4
#endif

#define VF_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(VF_LANES * 4)));
typedef int32_t vi __attribute__((vector_size(VF_LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(VF_LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(VF_LANES * 2)));
typedef uint64_t vd __attribute__((vector_size(VF_LANES * 4)));
typedef float vf_unaligned __attribute__((vector_size(VF_LANES * 4), aligned(1), may_alias));
typedef uint16_t vh_unaligned __attribute__((vector_size(VF_LANES * 2), aligned(1), may_alias));

VF_INLINE vf vf_set(float x)
{
    return x - (vf){0};
}

VF_INLINE vf vf_bits(vu bits)
{
    return (vf)bits;
}

/* Lanes of `yes` where the mask is all ones, of `no` where it is zero. */
VF_INLINE vf vf_select(vi mask, vf yes, vf no)
{
#if defined(__AVX512F__)
    return (vf)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)mask), (__m512)no, (__m512)yes);
#elif defined(__AVX2__)
    return (vf)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)mask);
#else
    return (vf)(((vi)yes & mask) | ((vi)no & ~mask));
#endif
}

/* a > b ? a : b, so b where either is NaN. */
VF_INLINE vf vf_max(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return vf_select(a > b, a, b);
#endif
}

/* a < b ? a : b. */
VF_INLINE vf vf_min(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return vf_select(a < b, a, b);
#endif
}

VF_INLINE vf vf_abs(vf a)
{
    return (vf)((vi)a & 0x7fffffff);
}

/* Lanes turned by the constant n: lane i of the result is lane i + n of `a`. */
#if VF_LANES == 16
#define VF_TURN(a, n)                                                                        \
    __builtin_shufflevector(a, a, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, \
                            n + 9, n + 10, n + 11, n + 12, n + 13, n + 14, n + 15)
#elif VF_LANES == 8
#define VF_TURN(a, n) \
    __builtin_shufflevector(a, a, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7)
#else
#define VF_TURN(a, n) __builtin_shufflevector(a, a, n, n + 1, n + 2, n + 3)
#endif

VF_INLINE float vf_sum(vf a)
{
#if VF_LANES == 16
    a += VF_TURN(a, 8);
#endif
#if VF_LANES >= 8
    a += VF_TURN(a, 4);
#endif
    a += VF_TURN(a, 2);
    a += VF_TURN(a, 1);
    return a[0];
}

VF_INLINE float vf_max_lane(vf a)
{
#if VF_LANES == 16
    a = vf_max(a, VF_TURN(a, 8));
#endif
#if VF_LANES >= 8
    a = vf_max(a, VF_TURN(a, 4));
#endif
    a = vf_max(a, VF_TURN(a, 2));
    a = vf_max(a, VF_TURN(a, 1));
    return a[0];
}

/* The products of the lower halves of 64-bit lanes with b, whole. */
VF_INLINE vd vd_multiply_low(vd a, uint32_t b)
{
#if defined(__AVX512F__)
    return (vd)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
    return (vd)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__SSE2__)
    return (vd)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#else
    return (a & 0xffffffffu) * b;
#endif
}

/* a0 b0 a1 b1 ..., the first and the second half. */
#if VF_LANES == 16
#define VD_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VD_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif VF_LANES == 8
#define VD_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VD_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
#define VD_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 2)
#define VD_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#endif

/* ---- Loads and stores of VF_LANES elements of any float type, from element `i` on ---- */

VF_INLINE vf vf_load_f32(const float *p)
{
    return *(const vf_unaligned *)p;
}

VF_INLINE void vf_store_f32(float *p, vf v)
{
    *(vf_unaligned *)p = v;
}

VF_INLINE vf vf_from_bf16(vh half)
{
    return (vf)(__builtin_convertvector(half, vu) << 16);
}

// Round to nearest even; a NaN keeps its top bits and becomes quiet.
VF_INLINE vh vf_to_bf16(vf v)
{
    const vu bits = (vu)v;
    const vu rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const vu quiet = (bits >> 16) | 0x40;
    const vu is_nan = (vu)(v != v);
    return __builtin_convertvector((quiet & is_nan) | (rounded & ~is_nan), vh);
}

// Exact, NaN made quiet: exponent and mantissa move into place, a product with a power of two mends
// the exponent (also of subnormals), infinities and NaN are set apart.
VF_INLINE vf vf_from_f16(vh half)
{
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps((__m256i)half);
#elif defined(__AVX2__)
    return (vf)_mm256_cvtph_ps((__m128i)half);
#else
    const vu wide = __builtin_convertvector(half, vu);
    const vu magnitude = (wide & 0x7fff) << 13;
    const vf scaled = (vf)magnitude * 0x1p112f;
    const vu quiet = (vu)(magnitude > (0x7c00u << 13)) & 0x400000;
    const vu special = (vu)(magnitude >= (0x7c00u << 13)) & (magnitude | quiet | 0x7f800000);
    const vu is_special = (vu)(magnitude >= (0x7c00u << 13));
    return (vf)(((wide & 0x8000) << 16) | special | ((vu)scaled & ~is_special));
#endif
}

// Round to nearest even, as f32_to_f16().
VF_INLINE vh vf_to_f16(vf v)
{
#if defined(__AVX512F__)
    return (vh)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__AVX2__)
    return (vh)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
    const vu bits = (vu)v;
    const vu sign = (bits >> 16) & 0x8000;
    const vu magnitude = bits & 0x7fffffff;
    const vu normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
    const vu small = (vu)((vf)magnitude + 0.5f) - 0x3f000000;
    const vu quiet = 0x7e00 | ((magnitude >> 13) & 0x3ff);
    const vu is_small = (vu)(magnitude < 0x38800000);
    const vu is_huge = (vu)(magnitude >= 0x477ff000);
    const vu is_nan = (vu)(magnitude > 0x7f800000);
    vu result = (small & is_small) | (normal & ~is_small);
    result = (result & ~is_huge) | (0x7c00 & is_huge);
    result = (result & ~is_nan) | (quiet & is_nan);
    return __builtin_convertvector(result | sign, vh);
#endif
}

VF_INLINE vf vf_load(const void *p, size_t i, dtype type)
{
    if (type == DTYPE_F32)
        return vf_load_f32((const float *)p + i);
    const vh half = *(const vh_unaligned *)((const uint16_t *)p + i);
    return type == DTYPE_BF16 ? vf_from_bf16(half) : vf_from_f16(half);
}

VF_INLINE void vf_store(void *p, size_t i, vf v, dtype type)
{
    if (type == DTYPE_F32)
        vf_store_f32((float *)p + i, v);
    else
        *(vh_unaligned *)((uint16_t *)p + i) = type == DTYPE_BF16 ? vf_to_bf16(v) : vf_to_f16(v);
}

/* The same for the last `n` < VF_LANES elements of a row; the other lanes are zero. */
VF_INLINE vf vf_load_part(const void *p, size_t i, size_t n, dtype type)
{
    float buffer[VF_LANES] = {0};
    const size_t size = type == DTYPE_F32 ? 4 : 2;
    memcpy(buffer, (const unsigned char *)p + i * size, n * size);
    return vf_load(buffer, 0, type);
}

VF_INLINE void vf_store_part(void *p, size_t i, size_t n, vf v, dtype type)
{
    float buffer[VF_LANES];
    const size_t size = type == DTYPE_F32 ? 4 : 2;
    vf_store(buffer, 0, v, type);
    memcpy((unsigned char *)p + i * size, buffer, n * size);
}

/* Elements [i, i + VF_LANES) of `count`, whole or the last part. */
VF_INLINE vf vf_load_upto(const void *p, size_t i, size_t count, dtype type)
{
    return i + VF_LANES <= count ? vf_load(p, i, type) : vf_load_part(p, i, count - i, type);
}

VF_INLINE void vf_store_upto(void *p, size_t i, size_t count, vf v, dtype type)
{
    if (i + VF_LANES <= count)
        vf_store(p, i, v, type);
    else
        vf_store_part(p, i, count - i, v, type);
}

/* sums[i..] = v, or += v where `add`, up to element `count`. */
VF_INLINE void vf_accumulate(float *sums, size_t i, size_t count, vf v, bool add)
{
    if (add)
        v += vf_load_upto(sums, i, count, DTYPE_F32);
    vf_store_upto(sums, i, count, v, DTYPE_F32);
}

/* Run `call` with the constant `T_` in place of the model's type `type_`. */
#define CPU_BY_TYPE(type_, T_, call)        \
    do {                                    \
        if ((type_) == DTYPE_F32) {         \
            const dtype T_ = DTYPE_F32;     \
            call;                           \
        } else if ((type_) == DTYPE_BF16) { \
            const dtype T_ = DTYPE_BF16;    \
            call;                           \
        } else {                            \
            const dtype T_ = DTYPE_F16;     \
            call;                           \
        }                                   \
    } while (0)

/* ---- Functions ---- */

/* p 2^n of exp's parts: 0 where x is below -87.3. n is at most 128, in two factors that are
 * numbers.
 */
VF_INLINE vf vf_exp_scale(vf p, vf n, vf x)
{
#if defined(__AVX512F__)
    const __mmask16 kept = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ);
    return (vf)_mm512_maskz_scalef_ps(kept, (__m512)p, (__m512)n);
#else
    const vi whole = __builtin_convertvector(n, vi);
    const vi half = whole >> 1;
    const vf value = p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
    return vf_select(x < -87.3f, vf_set(0), vf_select(x != x, x, value));
#endif
}

/* e^(x + low) within 1.5 ulp; `low` is what rounding took from x, small beside ln 2. 0 below -87.3,
 * infinity above 88.7, NaN stays. x = n ln 2 + r, e^r by a polynomial (Chebyshev fit on |r| <=
 * ln 2 / 2), times 2^n. */
VF_INLINE vf vf_exp_sum(vf x, vf low)
{
    const vf bounded = vf_min(vf_set(89.0f), vf_max(vf_set(-88.0f), x));
    const vf magic = vf_set(0x1.8p23f); // adding it rounds to an integer
    const vf n = bounded * 1.44269504f + magic - magic;
    const vf r = bounded - n * 0.693359375f + (n * 2.12194440e-4f + low);
    vf p = vf_set(0.00019899275503121316f);
    p = p * r + 0.0013933643931522965f;
    p = p * r + 0.0083332983776927f;
    p = p * r + 0.04166646674275398f;
    p = p * r + 0.1666666716337204f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return vf_exp_scale(p, n, x);
}

VF_INLINE vf vf_exp(vf x)
{
    return vf_exp_sum(x, vf_set(0));
}

/* The standard normal distribution function of x, and e^(-x^2/2). With a = |x| / sqrt 2,
 * erfc(a) = e^(-a^2) t R(t), t = 1 / (1 + 0.4 a), R by a Chebyshev fit of relative error 6e-8. */
VF_INLINE vf vf_normal_cdf(vf x, vf *gauss)
{
    const vf a = vf_abs(x) * 0.70710678f;
    const vf t = 1.0f / (a * 0.4f + 1.0f);
    vf r = vf_set(0x1.4575dap-5f);
    r = r * t - 0x1.0fd48ap-3f;
    r = r * t + 0x1.1611b4p-4f;
    r = r * t + 0x1.b5ee98p-4f;
    r = r * t + 0x1.0f5a1cp-4f;
    r = r * t + 0x1.9842f4p-3f;
    r = r * t + 0x1.9a3ad8p-3f;
    r = r * t + 0x1.d03a2cp-3f;
    r = r * t + 0x1.ce11eep-3f;
    // x^2 = high^2 + rest, high^2 exact: its rounding would be an error of e^(-x^2/2). Past 15 all
    // is 0, and infinity minus infinity must not come in.
    const vf near = vf_min(vf_abs(x), vf_set(15.0f));
    const vf high = vf_bits((vu)near & 0xfffff000u);
    *gauss = vf_exp_sum(high * high * -0.5f, (near - high) * (near + high) * -0.5f);
    const vf tail = 0.5f * r * t * *gauss;
    return vf_select(x > 0.0f, 1.0f - tail, tail);
}

#endif
