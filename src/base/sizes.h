/* Size arithmetic that cannot wrap. Counts from files and configuration go through these before
 * they size or index anything. Each returns false on overflow and leaves *result undefined. */
#ifndef TRIFOLD_BASE_SIZES_H
#define TRIFOLD_BASE_SIZES_H

#include <stdbool.h>
#include <stddef.h>

static inline bool size_mul(size_t a, size_t b, size_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}

static inline bool size_add(size_t a, size_t b, size_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

static inline size_t size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The least multiple of `unit` that is >= `value`. `unit` > 0; the result must fit. */
static inline size_t size_round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Part `index` of `parts` contiguous parts of `count` elements, sizes differing by at most one:
 * elements [begin, end). The one rule by which work is split over threads and ranks. */
static inline void size_split(size_t count, size_t parts, size_t index, size_t *begin, size_t *end)
{
    size_t base = count / parts;
    size_t extra = count % parts;
    *begin = index * base + size_min(index, extra);
    *end = *begin + base + (index < extra ? 1 : 0);
}

#endif
