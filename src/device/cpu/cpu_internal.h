/* Inside the CPU backend: its device and stream. */
#ifndef TRIFOLD_DEVICE_CPU_INTERNAL_H
#define TRIFOLD_DEVICE_CPU_INTERNAL_H

#include <pthread.h>

#include "device/device_internal.h"

typedef struct cpu_device {
    device base;
    int threads;
    char text[128]; /* device_describe() */
    pthread_mutex_t lock;
    size_t in_use, peak; /* bytes */
} cpu_device;

/* Scratch grows to the largest request of any operation, in its first run, and stays. */
typedef struct cpu_stream {
    device_stream base;
    cpu_device *device;
    void *scratch;
    size_t scratch_bytes;
} cpu_stream;

static inline cpu_device *cpu_device_of(const device *d)
{
    return (cpu_device *)(uintptr_t)d;
}

static inline cpu_stream *cpu_stream_of(device_stream *s)
{
    return (cpu_stream *)s;
}

static inline int cpu_stream_threads(device_stream *s)
{
    return cpu_stream_of(s)->device->threads;
}

/* `bytes` of memory, aligned to 64, for the running operation only; contents undefined. */
status cpu_stream_scratch(device_stream *s, size_t bytes, void **out);

/* Memory, not counted in the device's use. */
status cpu_memory_map(size_t bytes, const char *what, void **out);
void cpu_memory_unmap(void *pointer);
size_t cpu_memory_bytes(const void *pointer);

/* The instruction set variants of the kernels that this program carries, best last, each a whole
 * table; `usable` asks the processor. */
typedef struct cpu_variant {
    const char *name;
    const device_ops *ops;
    bool (*usable)(void);
} cpu_variant;

/* The best usable variant, or the one called `name`; NULL where it is unknown or not usable. */
const cpu_variant *cpu_variant_find(const char *name);

/* Shared by all variants (cpu_device.c, cpu_matmul.c). */
void cpu_destroy(device *d);
const char *cpu_describe(const device *d);
int cpu_threads(const device *d);
status cpu_malloc(device *d, size_t bytes, const char *what, void **out);
void cpu_free(device *d, void *pointer);
void cpu_memory(const device *d, size_t *in_use, size_t *peak);
status cpu_stream_create(device *d, device_stream **out);
void cpu_stream_destroy(device_stream *s);
status cpu_stream_synchronize(device_stream *s);
status cpu_copy(device_stream *s, void *dst, const void *src, size_t bytes);
status cpu_zero(device_stream *s, void *dst, size_t bytes);
status cpu_matmul_create(device *d, const matmul_spec *spec, matmul **out);
void cpu_matmul_destroy(matmul *plan);
status cpu_matmul(device_stream *s, const matmul *plan, const matmul_args *args);

/* "oneDNN 2.6.3". */
const char *cpu_dnnl_version(void);

#endif
