/* How kernels spread over threads: one parallel region an operation, each thread a contiguous part
 * (size_split). Small work stays on one thread. */
#ifndef TRIFOLD_DEVICE_CPU_SPLIT_H
#define TRIFOLD_DEVICE_CPU_SPLIT_H

#include <omp.h>

#include "base/sizes.h"
#include "device/cpu/cpu_internal.h"

enum {
    CPU_SPLIT_MIN = 8192, /* elements under which a second thread costs more than it saves */
};

/* Threads for `elements` of work that splits into at most `parts`. */
static inline int cpu_split_threads(device_stream *s, size_t elements, size_t parts)
{
    const size_t most = size_min(parts, (size_t)cpu_stream_threads(s));
    return elements < CPU_SPLIT_MIN || most < 1 ? 1 : (int)most;
}

/* This thread's part of `count`, inside a parallel region. */
static inline void cpu_split_own(size_t count, size_t *begin, size_t *end)
{
    size_split(count, (size_t)omp_get_num_threads(), (size_t)omp_get_thread_num(), begin, end);
}

/* The same for columns, in whole cache lines. */
static inline void cpu_split_columns(size_t cols, size_t *begin, size_t *end)
{
    const size_t line = 32; // elements: a line of the 16-bit types, two of fp32
    cpu_split_own((cols + line - 1) / line, begin, end);
    *begin = size_min(*begin * line, cols);
    *end = size_min(*end * line, cols);
}

#endif
