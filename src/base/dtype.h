/* Element types of tensors and the scalar conversions that define them.
 *
 * bf16 and fp16 are held as their 16 bits. Conversions round to nearest even, keep infinities and
 * turn every NaN into a quiet NaN. The vectorised forms live in src/device. */
#ifndef TRIFOLD_BASE_DTYPE_H
#define TRIFOLD_BASE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum dtype {
    DTYPE_F32 = 0,
    DTYPE_BF16 = 1,
    DTYPE_F16 = 2,
    DTYPE_I32 = 3,
    DTYPE_I64 = 4,
    DTYPE_U8 = 5,
} dtype;

typedef uint16_t bf16;
typedef uint16_t f16;

/* Bytes of one element. */
static inline size_t dtype_size(dtype type)
{
    switch (type) {
    case DTYPE_F32:
    case DTYPE_I32:
        return 4;
    case DTYPE_BF16:
    case DTYPE_F16:
        return 2;
    case DTYPE_I64:
        return 8;
    case DTYPE_U8:
        return 1;
    }
    return 0;
}

/* "fp32", "bf16", "fp16", "int32", "int64", "uint8". */
const char *dtype_str(dtype type);

static inline float bf16_to_f32(bf16 value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static inline bf16 f32_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (bf16)((bits >> 16) | 0x40u);
    return (bf16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_f32(f16 value);
f16 f32_to_f16(float value);

#endif
