#include "data/random_state.h"

#include "base/sizes.h"

enum { SHIFT = 397, DRAWS_AHEAD = 32 };

void random_state_seed(random_state *rng, uint32_t seed)
{
    for (uint32_t i = 0; i < RANDOM_STATE_WORDS; i++) {
        rng->words[i] = seed;
        seed = 1812433253u * (seed ^ (seed >> 30)) + i + 1;
    }
    rng->next = RANDOM_STATE_WORDS;
}

static void twist(random_state *rng)
{
    uint32_t *w = rng->words;
    for (int i = 0; i < RANDOM_STATE_WORDS; i++) {
        uint32_t bits = (w[i] & 0x80000000u) | (w[(i + 1) % RANDOM_STATE_WORDS] & 0x7fffffffu);
        uint32_t odd = bits & 1u ? 0x9908b0dfu : 0;
        w[i] = w[(i + SHIFT) % RANDOM_STATE_WORDS] ^ (bits >> 1) ^ odd;
    }
    rng->next = 0;
}

uint32_t random_state_u32(random_state *rng)
{
    if (rng->next == RANDOM_STATE_WORDS)
        twist(rng);
    uint32_t y = rng->words[rng->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static uint64_t draw_u64(random_state *rng)
{
    uint64_t high = random_state_u32(rng);
    return high << 32 | random_state_u32(rng);
}

uint64_t random_state_interval(random_state *rng, uint64_t max)
{
    if (max == 0)
        return 0;
    uint64_t mask = UINT64_MAX >> __builtin_clzll(max);
    uint64_t value;
    do {
        value = (max <= UINT32_MAX ? random_state_u32(rng) : draw_u64(rng)) & mask;
    } while (value > max);
    return value;
}

// Item i, from the last to the second, changes places with one of 0..i. The draws do not depend on
// the items, so some are made ahead: large arrays would wait for memory at every swap otherwise.
#define DEFINE_SHUFFLE(name, type)                                        \
    void name(random_state *rng, type *items, size_t count)               \
    {                                                                     \
        size_t drawn[DRAWS_AHEAD];                                        \
        for (size_t i = count; i > 1;) {                                  \
            size_t draws = size_min(i - 1, DRAWS_AHEAD);                  \
            for (size_t k = 0; k < draws; k++) {                          \
                drawn[k] = (size_t)random_state_interval(rng, i - 1 - k); \
                __builtin_prefetch(&items[drawn[k]], 1);                  \
            }                                                             \
            for (size_t k = 0; k < draws; k++) {                          \
                i--;                                                      \
                type item = items[i];                                     \
                items[i] = items[drawn[k]];                               \
                items[drawn[k]] = item;                                   \
            }                                                             \
        }                                                                 \
    }

DEFINE_SHUFFLE(random_state_shuffle_i32, int32_t)
DEFINE_SHUFFLE(random_state_shuffle_u32, uint32_t)
DEFINE_SHUFFLE(random_state_shuffle_i64, int64_t)
