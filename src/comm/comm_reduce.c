#include "comm/comm_internal.h"

#include <assert.h>
#include <string.h>

#include "base/sizes.h"

// A block of the result is folded in an accumulator that stays in the first-level cache while the
// inputs stream past. The loops are plain so that the compiler makes vector code of them; the
// 16-bit conversions are written without branches for the same reason and give the bits of
// base/dtype.h.
enum {
    BLOCK = 1024, /* elements: at most 8 KiB */
};

typedef struct reduction {
    void (*load)(void *acc, const void *in, size_t n);   /* acc = in, in the accumulator's type */
    void (*fold)(void *acc, const void *in, size_t n);   /* acc = acc op in */
    void (*store)(void *out, const void *acc, size_t n); /* rounded to the element's type */
} reduction;

// The conversions want wide vectors: on x86 each loop is compiled for AVX2 too and chosen at load
// time. Sums are the same on all: no fused operations (-ffp-contract=off), one element a lane.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTOR_LOOP __attribute__((target_clones("default", "avx2")))
#else
#define VECTOR_LOOP
#endif

static inline float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// All bits of the answer set or none: chooses without a branch.
static inline uint32_t mask_if(int condition)
{
    return (uint32_t)-condition;
}

static inline uint32_t choose(uint32_t mask, uint32_t yes, uint32_t no)
{
    return (yes & mask) | (no & ~mask);
}

static inline float widen_f32(float value)
{
    return value;
}

static inline float widen_bf16(bf16 value)
{
    return from_bits((uint32_t)value << 16);
}

static inline float widen_f16(f16 value)
{
    uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    uint32_t magnitude = value & 0x7fffu;
    uint32_t normal = (magnitude << 13) + 0x38000000u;
    uint32_t subnormal = to_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t nan = mask_if(magnitude > 0x7c00u);
    uint32_t special = (magnitude << 13) | 0x7f800000u | (nan & 0x400000u);
    uint32_t bits = choose(mask_if(magnitude < 0x400u), subnormal, normal);
    return from_bits(sign | choose(mask_if(magnitude >= 0x7c00u), special, bits));
}

static inline float narrow_f32(float value)
{
    return value;
}

static inline bf16 narrow_bf16(float value)
{
    uint32_t bits = to_bits(value);
    uint32_t nan = mask_if((bits & 0x7fffffffu) > 0x7f800000u);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (bf16)choose(nan, (bits >> 16) | 0x40u, rounded);
}

static inline f16 narrow_f16(float value)
{
    uint32_t bits = to_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t nan = mask_if(magnitude > 0x7f800000u);
    uint32_t special = 0x7c00u | (nan & (0x200u | ((magnitude >> 13) & 0x3ffu)));
    uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
    // Adding one half brings the last place of a subnormal half to the last bit.
    uint32_t subnormal = to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t rounded = choose(mask_if(magnitude < 0x38800000u), subnormal, normal);
    return (f16)(sign | choose(mask_if(magnitude >= 0x477ff000u), special, rounded));
}

#define SUM(a, b) ((a) + (b))
// A NaN on either side stays: no comparison with it is true.
#define MAX_FLOAT(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define MAX_INTEGER(a, b) ((a) > (b) ? (a) : (b))

#define DEFINE_LOAD(name, element, accumulator, widen)                \
    VECTOR_LOOP static void name(void *acc, const void *in, size_t n) \
    {                                                                 \
        accumulator *restrict a = acc;                                \
        const element *restrict x = in;                               \
        for (size_t i = 0; i < n; i++)                                \
            a[i] = widen(x[i]);                                       \
    }
#define DEFINE_FOLD(name, element, accumulator, widen, op)            \
    VECTOR_LOOP static void name(void *acc, const void *in, size_t n) \
    {                                                                 \
        accumulator *restrict a = acc;                                \
        const element *restrict x = in;                               \
        for (size_t i = 0; i < n; i++) {                              \
            accumulator value = widen(x[i]);                          \
            a[i] = (accumulator)op(a[i], value);                      \
        }                                                             \
    }
#define DEFINE_STORE(name, element, accumulator, narrow)               \
    VECTOR_LOOP static void name(void *out, const void *acc, size_t n) \
    {                                                                  \
        const accumulator *restrict a = acc;                           \
        element *restrict y = out;                                     \
        for (size_t i = 0; i < n; i++)                                 \
            y[i] = narrow(a[i]);                                       \
    }

#define DEFINE_FLOAT(suffix, element)                                    \
    DEFINE_LOAD(load_##suffix, element, float, widen_##suffix)           \
    DEFINE_FOLD(sum_##suffix, element, float, widen_##suffix, SUM)       \
    DEFINE_FOLD(max_##suffix, element, float, widen_##suffix, MAX_FLOAT) \
    DEFINE_STORE(store_##suffix, element, float, narrow_##suffix)

// Sums of signed integers go through `wrapping`, whose overflow is defined.
#define DEFINE_INTEGER(suffix, element, wrapping)              \
    DEFINE_LOAD(load_##suffix, element, element, )             \
    DEFINE_FOLD(sum_##suffix, wrapping, wrapping, , SUM)       \
    DEFINE_FOLD(max_##suffix, element, element, , MAX_INTEGER) \
    DEFINE_STORE(store_##suffix, element, element, )

DEFINE_FLOAT(f32, float)
DEFINE_FLOAT(bf16, bf16)
DEFINE_FLOAT(f16, f16)
DEFINE_INTEGER(i32, int32_t, uint32_t)
DEFINE_INTEGER(i64, int64_t, uint64_t)
DEFINE_INTEGER(u8, uint8_t, uint8_t)

#define ROW(suffix)                                                 \
    {                                                               \
        [COMM_SUM] = {load_##suffix, sum_##suffix, store_##suffix}, \
        [COMM_MAX] = {load_##suffix, max_##suffix, store_##suffix}, \
    }

static const reduction reductions[][2] = {
    [DTYPE_F32] = ROW(f32), [DTYPE_BF16] = ROW(bf16), [DTYPE_F16] = ROW(f16),
    [DTYPE_I32] = ROW(i32), [DTYPE_I64] = ROW(i64),   [DTYPE_U8] = ROW(u8),
};

void comm_reduce(comm_op op, dtype type, size_t n, const void *const *inputs, void *out,
                 size_t count)
{
    assert(n > 0);
    union {
        float f32[BLOCK];
        int32_t i32[BLOCK];
        int64_t i64[BLOCK];
        uint8_t u8[BLOCK];
    } accumulator;
    const reduction *r = &reductions[type][op];
    size_t size = dtype_size(type);
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t length = size_min(BLOCK, count - begin);
        r->load(&accumulator, (const unsigned char *)inputs[0] + begin * size, length);
        for (size_t k = 1; k < n; k++)
            r->fold(&accumulator, (const unsigned char *)inputs[k] + begin * size, length);
        r->store((unsigned char *)out + begin * size, &accumulator, length);
    }
}
