// Which instruction sets the kernels were compiled for, and which the processor has.
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <string.h>

#include "device/cpu/cpu_internal.h"

extern const device_ops cpu_ops_base;

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
extern const device_ops cpu_ops_avx2;
extern const device_ops cpu_ops_avx512;

// clang 14's __builtin_cpu_supports() does not know f16c.
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

static const cpu_variant variants[] = {
    {"base", &cpu_ops_base, always},
#if defined(__x86_64__)
    {"avx2", &cpu_ops_avx2, has_avx2},
    {"avx512", &cpu_ops_avx512, has_avx512},
#endif
};

const cpu_variant *cpu_variant_find(const char *name)
{
    for (size_t i = sizeof variants / sizeof variants[0]; i-- > 0;)
        if ((!name || !strcmp(name, variants[i].name)) && variants[i].usable())
            return &variants[i];
    return NULL;
}
