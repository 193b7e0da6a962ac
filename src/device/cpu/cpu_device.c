// The CPU backend: threads, memory, streams. Operations run where they are called.
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "device/cpu/cpu_internal.h"
#include "device/cpu/kernels/cpu_split.h"

// Each mapping keeps its size in a page of its own before the memory it gives.
enum {
    MAP_HEADER = 4096,
    HUGE_PAGE = 2 << 20,
};

status cpu_memory_map(size_t bytes, const char *what, void **out)
{
    size_t whole;
    if (!size_add(bytes, MAP_HEADER, &whole) || whole > SIZE_MAX / 2)
        return fail(STATUS_ERR_MEMORY, "%s: %zu bytes exceed the address space", what, bytes);
    void *mapping = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return fail(STATUS_ERR_MEMORY, "%s: cannot allocate %zu bytes", what, bytes);
    if (whole >= HUGE_PAGE)
        madvise(mapping, whole, MADV_HUGEPAGE); // a hint; without it only slower
    *(size_t *)mapping = bytes;
    *out = (unsigned char *)mapping + MAP_HEADER;
    return STATUS_OK;
}

size_t cpu_memory_bytes(const void *pointer)
{
    return *(const size_t *)((const unsigned char *)pointer - MAP_HEADER);
}

void cpu_memory_unmap(void *pointer)
{
    if (pointer)
        munmap((unsigned char *)pointer - MAP_HEADER, cpu_memory_bytes(pointer) + MAP_HEADER);
}

// Cores that this process may use: its affinity, and the share a cgroup grants.
static int cores_available(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file)
        return cores;
    long long quota, period;
    if (fscanf(file, "%lld %lld", &quota, &period) == 2 && period > 0) {
        const long long granted = (quota + period - 1) / period;
        if (granted >= 1 && granted < cores)
            cores = (int)granted;
    }
    fclose(file);
    return cores;
}

static int choose_threads(const device_options *o)
{
    if (o->threads > 0)
        return o->threads;
    const int share = cores_available() / (o->local_ranks > 0 ? o->local_ranks : 1);
    return share > 0 ? share : 1;
}

status cpu_device_create(const device_options *options, device **out)
{
    const cpu_variant *variant = cpu_variant_find(options->isa);
    if (!variant)
        return fail(STATUS_ERR_CONFIG,
                    "instruction set \"%s\" is not in this program or not in this processor",
                    options->isa);
    void *memory;
    TRY(memory_alloc(1, sizeof(cpu_device), "device", &memory));
    cpu_device *d = memory;
    d->base.ops = variant->ops;
    d->threads = choose_threads(options);
    pthread_mutex_init(&d->lock, NULL);
    omp_set_dynamic(0);
    omp_set_num_threads(d->threads);
    snprintf(d->text, sizeof d->text, "cpu, %d thread%s, %s kernels, %s", d->threads,
             d->threads == 1 ? "" : "s", variant->name, cpu_dnnl_version());
    *out = &d->base;
    return STATUS_OK;
}

void cpu_destroy(device *d)
{
    pthread_mutex_destroy(&cpu_device_of(d)->lock);
    memory_free(d);
}

const char *cpu_describe(const device *d)
{
    return cpu_device_of(d)->text;
}

int cpu_threads(const device *d)
{
    return cpu_device_of(d)->threads;
}

status cpu_malloc(device *d, size_t bytes, const char *what, void **out)
{
    cpu_device *cpu = cpu_device_of(d);
    TRY(cpu_memory_map(bytes, what, out));
    pthread_mutex_lock(&cpu->lock);
    cpu->in_use += bytes;
    cpu->peak = size_max(cpu->peak, cpu->in_use);
    pthread_mutex_unlock(&cpu->lock);
    return STATUS_OK;
}

void cpu_free(device *d, void *pointer)
{
    cpu_device *cpu = cpu_device_of(d);
    pthread_mutex_lock(&cpu->lock);
    cpu->in_use -= cpu_memory_bytes(pointer);
    pthread_mutex_unlock(&cpu->lock);
    cpu_memory_unmap(pointer);
}

void cpu_memory(const device *d, size_t *in_use, size_t *peak)
{
    cpu_device *cpu = cpu_device_of(d);
    pthread_mutex_lock(&cpu->lock);
    *in_use = cpu->in_use;
    *peak = cpu->peak;
    pthread_mutex_unlock(&cpu->lock);
}

status cpu_stream_create(device *d, device_stream **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(cpu_stream), "stream", &memory));
    cpu_stream *s = memory;
    s->base.ops = d->ops;
    s->device = cpu_device_of(d);
    *out = &s->base;
    return STATUS_OK;
}

void cpu_stream_destroy(device_stream *s)
{
    cpu_memory_unmap(cpu_stream_of(s)->scratch);
    memory_free(s);
}

status cpu_stream_synchronize(device_stream *s)
{
    (void)s; // every operation is complete when its call returns
    return STATUS_OK;
}

status cpu_stream_scratch(device_stream *s, size_t bytes, void **out)
{
    cpu_stream *stream = cpu_stream_of(s);
    if (stream->scratch_bytes < bytes) {
        cpu_memory_unmap(stream->scratch);
        stream->scratch = NULL;
        stream->scratch_bytes = 0;
        TRY(cpu_memory_map(bytes, "scratch memory", &stream->scratch));
        stream->scratch_bytes = bytes;
    }
    *out = stream->scratch;
    return STATUS_OK;
}

// A part of a copy or of zeros for each thread.
static int memory_threads(device_stream *s, size_t bytes)
{
    return cpu_split_threads(s, bytes / sizeof(float), bytes);
}

status cpu_copy(device_stream *s, void *dst, const void *src, size_t bytes)
{
#pragma omp parallel num_threads(memory_threads(s, bytes))
    {
        size_t begin, end;
        cpu_split_columns(bytes, &begin, &end);
        memcpy((unsigned char *)dst + begin, (const unsigned char *)src + begin, end - begin);
    }
    return STATUS_OK;
}

status cpu_zero(device_stream *s, void *dst, size_t bytes)
{
#pragma omp parallel num_threads(memory_threads(s, bytes))
    {
        size_t begin, end;
        cpu_split_columns(bytes, &begin, &end);
        memset((unsigned char *)dst + begin, 0, end - begin);
    }
    return STATUS_OK;
}
