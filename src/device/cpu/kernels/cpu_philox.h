/* Philox (base/philox.h) for kernels: VF_LANES / 2 blocks at a time, one in each 64-bit lane. */
#ifndef TRIFOLD_DEVICE_CPU_PHILOX_H
#define TRIFOLD_DEVICE_CPU_PHILOX_H

#include "device/cpu/kernels/cpu_simd.h"

enum {
    PHILOX_LANES = VF_LANES / 2,
    PHILOX_RUN = 256, /* words that one call of philox_run() gives at most */
};

/* The 2 VF_LANES words of the blocks from `block` on, in order. */
VF_INLINE void philox_blocks(uint64_t seed, uint64_t stream, uint64_t block, uint32_t *words)
{
    vd c0, c1, c2 = (vd){0} + (stream & 0xffffffffu), c3 = (vd){0} + (stream >> 32);
    for (int i = 0; i < PHILOX_LANES; i++)
        c0[i] = block + (uint64_t)i;
    c1 = c0 >> 32;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) { // the upper halves of lanes hold what no one reads
        const vd p0 = vd_multiply_low(c0, 0xD2511F53u);
        const vd p1 = vd_multiply_low(c2, 0xCD9E8D57u);
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c1 = p1;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c3 = p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const vd first = (c0 & 0xffffffffu) | (c1 << 32); // words 0 and 1 of each block
    const vd second = (c2 & 0xffffffffu) | (c3 << 32);
    const vd low = VD_ZIP_LOW(first, second), high = VD_ZIP_HIGH(first, second);
    memcpy(words, &low, sizeof low);
    memcpy(words + VF_LANES, &high, sizeof high);
}

/* Words [index, index + count) of the stream, count <= PHILOX_RUN: where they begin in `buffer`. */
VF_INLINE const uint32_t *philox_run(uint64_t seed, uint64_t stream, uint64_t index, size_t count,
                                     uint32_t buffer[PHILOX_RUN + 4 * VF_LANES])
{
    const size_t skipped = index % 4;
    for (size_t i = 0; i < count + skipped; i += 2 * VF_LANES)
        philox_blocks(seed, stream, index / 4 + i / 4, buffer + i);
    return buffer + skipped;
}

#endif
