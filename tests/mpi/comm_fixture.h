/* What the tests of src/comm share: the world, sample values that every rank can compute for any
 * other, and assertions that all ranks take together. */
#ifndef TRIFOLD_TESTS_COMM_FIXTURE_H
#define TRIFOLD_TESTS_COMM_FIXTURE_H

#include "check.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "comm/comm.h"

enum {
    RANKS_MAX = 8,
};

static comm *world;
static comm_group *group; /* all ranks */
static int rank, size;

/* Every rank joins in the verdict, so that none is left waiting in a collective. */
#define assert_on_all(ok, ...) \
    assert_ok(comm_agree(world, (ok) ? STATUS_OK : fail(STATUS_CHECK_FAILED, __VA_ARGS__)))

/* What rank `r` contributes at `i`: magnitudes over many powers of two, so that order shows. */
static inline float sample(int r, size_t i, unsigned salt)
{
    uint32_t h = (uint32_t)i * 2654435761u ^ (uint32_t)(r + 1) * 0x9e3779b9u ^ salt * 0x85ebca6bu;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    h ^= h >> 12;
    return ldexpf((float)(int32_t)h * 0x1p-31f, (int)(h % 13u) - 6);
}

static inline void fill(float *x, size_t count, int r, unsigned salt)
{
    for (size_t i = 0; i < count; i++)
        x[i] = sample(r, i, salt);
}

/* The sum over all ranks in rank order, in fp32: the bits that the interface promises. */
static inline float expected_sum(size_t i, unsigned salt)
{
    float sum = sample(0, i, salt);
    for (int r = 1; r < size; r++)
        sum += sample(r, i, salt);
    return sum;
}

static inline bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* The first element of `x` that is not its sum; `count` if none. */
static inline size_t first_wrong_sum(const float *x, size_t count, unsigned salt)
{
    for (size_t i = 0; i < count; i++)
        if (!same_bits(x[i], expected_sum(i, salt)))
            return i;
    return count;
}

static inline float *buffer_of(size_t count)
{
    void *x;
    assert_ok(memory_alloc(count, sizeof(float), "test", &x));
    return x;
}

/* Start the world. The program's first argument, where given, is the limit of chunks in bytes, or
 * "check" to have all calls checked. */
static inline bool world_begin(int argc, char **argv)
{
    comm_options options = comm_options_defaults();
    options.watchdog_s = 60;
    options.check_calls = argc > 1 && strcmp(argv[1], "check") == 0;
    if (argc > 1 && !options.check_calls)
        options.chunk_bytes = (size_t)strtoul(argv[1], NULL, 10);
    if (comm_create(&options, &world) != STATUS_OK) {
        fprintf(stderr, "%s\n", error_message());
        return false;
    }
    group = comm_world(world);
    rank = comm_world_rank(world);
    size = comm_world_size(world);
    log_init(rank, size);
    return true;
}

#endif
