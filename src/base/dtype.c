#include "base/dtype.h"

const char *dtype_str(dtype type)
{
    switch (type) {
    case DTYPE_F32:
        return "fp32";
    case DTYPE_BF16:
        return "bf16";
    case DTYPE_F16:
        return "fp16";
    case DTYPE_I32:
        return "int32";
    case DTYPE_I64:
        return "int64";
    case DTYPE_U8:
        return "uint8";
    }
    return "unknown type";
}

float f16_to_f32(f16 value)
{
    uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    uint32_t exponent = (value >> 10) & 0x1fu;
    uint32_t mantissa = value & 0x3ffu;
    uint32_t bits;
    if (exponent == 0x1fu) {
        bits = sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u);
    } else if (exponent != 0) {
        bits = sign | ((exponent + 112u) << 23) | (mantissa << 13);
    } else {
        // Subnormal: mantissa * 2^-24 is exact in fp32.
        float magnitude = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &magnitude, sizeof bits);
        bits |= sign;
    }
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

f16 f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (f16)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) // 65520 and above round to infinity
        return (f16)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // below 2^-14: adding 0.5 aligns the subnormal's last bit
        float shifted;
        memcpy(&shifted, &magnitude, sizeof shifted);
        shifted += 0.5f;
        uint32_t rounded;
        memcpy(&rounded, &shifted, sizeof rounded);
        return (f16)(sign | (rounded - 0x3f000000u));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (f16)(sign | ((rounded - 0x38000000u) >> 13));
}
