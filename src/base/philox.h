/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): random
 * numbers as a pure function of (seed, stream, index). Initial weights and dropout masks are drawn
 * from global indices, so they depend neither on the grid nor on the order of work. */
#ifndef TRIFOLD_BASE_PHILOX_H
#define TRIFOLD_BASE_PHILOX_H

#include <stdint.h>

/* The four 32-bit words of block `block`: words 4*block .. 4*block+3 of the stream. */
static inline void philox_block(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* A word as a uniform number in [0, 1): 24 bits, exact in fp32. */
static inline float philox_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* The uniform number with index `index` of the stream. */
static inline float philox_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    philox_block(seed, stream, index / 4, words);
    return philox_unit(words[index % 4]);
}

#endif
