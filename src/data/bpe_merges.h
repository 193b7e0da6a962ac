/* Inside the module: the table from pairs of ids to merges. */
#ifndef TRIFOLD_DATA_BPE_MERGES_H
#define TRIFOLD_DATA_BPE_MERGES_H

#include "data/bpe.h"

#define BPE_NO_PAIR UINT64_MAX /* ids are not negative */
#define BPE_NO_RANK UINT32_MAX

static inline uint64_t bpe_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The slot of the pair, or the free one (rank BPE_NO_RANK) where it would go. The table is at most
 * half full. Multiplicative hashing: Knuth, The Art of Computer Programming, vol. 3, 6.4. */
static inline const bpe_merge_slot *bpe_merge_find(const bpe *m, int32_t left, int32_t right)
{
    const uint64_t pair = bpe_pair(left, right);
    const size_t mask = m->merge_slots - 1;
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(hash ^ hash >> 32) & mask;
    while (m->merges[slot].pair != pair && m->merges[slot].pair != BPE_NO_PAIR)
        slot = (slot + 1) & mask;
    return &m->merges[slot];
}

#endif
