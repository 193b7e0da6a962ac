/* NumPy's RandomState, as far as the order of samples needs it: the Mersenne Twister MT19937
 * (Matsumoto and Nishimura, ACM TOMACS 8(1), 1998), bounded integers by masking and rejection, and
 * the shuffle of an array. The numbers equal NumPy's for the same seed, bit for bit. */
#ifndef TRIFOLD_DATA_RANDOM_STATE_H
#define TRIFOLD_DATA_RANDOM_STATE_H

#include <stddef.h>
#include <stdint.h>

enum { RANDOM_STATE_WORDS = 624 };

typedef struct random_state {
    uint32_t words[RANDOM_STATE_WORDS];
    int next; /* words[next] is given out next; RANDOM_STATE_WORDS: make new ones first */
} random_state;

/* As numpy.random.RandomState(seed). */
void random_state_seed(random_state *rng, uint32_t seed);

/* The next 32 bits. */
uint32_t random_state_u32(random_state *rng);

/* A number in [0, max], each as likely. Draws 32 bits at a time where max fits them, else 64, the
 * first draw being the high half; none where max is 0. */
uint64_t random_state_interval(random_state *rng, uint64_t max);

/* Shuffle an array in place. The permutation depends on the count alone, not on the type. */
void random_state_shuffle_i32(random_state *rng, int32_t *items, size_t count);
void random_state_shuffle_u32(random_state *rng, uint32_t *items, size_t count);
void random_state_shuffle_i64(random_state *rng, int64_t *items, size_t count);

#endif
