/* Reads the lists of numbers under tests/golden/data, and hashes results as make_golden.py does. */
#ifndef TRIFOLD_TESTS_DATA_GOLDEN_H
#define TRIFOLD_TESTS_DATA_GOLDEN_H

#include <inttypes.h>
#include <stdbool.h>

#include "check.h"

static inline FILE *golden_open(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/data/%s", TRIFOLD_GOLDEN, name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("cannot open %s", path);
    return file;
}

/* The first number of a case; false at the end of the list. */
static inline bool golden_next(FILE *file, uint64_t *value)
{
    return fscanf(file, "%" SCNu64, value) == 1;
}

static inline uint64_t golden_u64(FILE *file)
{
    uint64_t value = 0;
    assert_true(golden_next(file, &value));
    return value;
}

static inline int64_t golden_i64(FILE *file)
{
    return (int64_t)golden_u64(file);
}

/* Decimal or hexadecimal. */
static inline double golden_double(FILE *file)
{
    double value = 0;
    assert_int_equal(fscanf(file, "%lf", &value), 1);
    return value;
}

#define GOLDEN_HASH_START 0xcbf29ce484222325u

static inline void golden_hash(uint64_t *hash, uint64_t value)
{
    *hash = (*hash ^ value) * 0x100000001b3u;
}

#endif
