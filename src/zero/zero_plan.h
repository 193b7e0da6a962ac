/* How the tensors of a table are dealt out over the ranks of a ZeRO group.
 *
 * The table is cut into buckets of whole tensors, and every bucket into one part a rank:
 *
 *     table     | t0 t1 . | t2 ..... | t3 t4 t5 . |     in forward order, padding included
 *     bucket    |    0    |    1     |      2     |
 *     part      | 0 | 1 |2| 0 | 1 |2 | 0  | 1 | 2 |     of each rank, multiples of TENSOR_ALIGN
 *
 * A message moves one bucket, so every rank sends and adds its share of each. A rank's parts lie
 * one after the other in its *shard*: bucket 0's, bucket 1's, ...; with one rank the shard has the
 * layout of the table.
 *
 * Where units are used apart (`by_unit`) no bucket crosses from one to the next, and the buckets of
 * a unit form a *block*: what is gathered, used and given up together. Blocks share a *space* that
 * holds any two neighbours at a time: the even ones begin at its start, the odd ones end at its
 * end. A tied tensor, which two units use, is a bucket of its own and a block of its own, behind
 * the others.
 *
 * Host memory only; no message is sent. */
#ifndef TRIFOLD_ZERO_ZERO_PLAN_H
#define TRIFOLD_ZERO_ZERO_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "parallel/tensor_table.h"

typedef struct zero_plan_options {
    size_t ranks, rank; /* of those that share */
    size_t
        bucket_elements; /* a bucket closes before it would pass this, but holds a tensor; >= 1 */
    bool by_unit;
    size_t tied;      /* the tensor that gets a bucket of its own; SIZE_MAX: none */
    size_t tied_unit; /* the unit that uses it beside its own; SIZE_MAX: none here */
} zero_plan_options;

typedef struct zero_bucket {
    size_t begin, end; /* elements of the table */
    size_t first_tensor, end_tensor;
    size_t own_begin, own_end; /* this rank's part, elements of the table */
    size_t shard;              /* where the part begins in the shard */
    size_t block;              /* by_unit only, as is: */
    size_t space;              /* where the bucket begins in the space of blocks */
} zero_bucket;

typedef struct zero_block {
    size_t first_bucket, end_bucket; /* its buckets are those of the range that name it */
    size_t begin, end;               /* elements of the space; equal where it has no tensor */
} zero_block;

typedef struct zero_plan {
    const tensor_table *table;
    zero_plan_options options;
    zero_bucket *buckets;
    size_t n_buckets;
    size_t *counts;         /* (n_buckets, ranks): elements of each part, as messages take them */
    size_t *bucket_of;      /* a tensor each */
    size_t *needed_buckets; /* a unit each: all its tensors lie in buckets before this one */
    size_t n_units;
    zero_block *blocks; /* a unit each and, last, the tied tensor's; by_unit only */
    size_t n_blocks;
    size_t shard_elements; /* of this rank */
    size_t space_elements; /* by_unit only */
} zero_plan;

/* `table` is lent; its units ascend. All ranks give the same table and options but for `rank`. */
status zero_plan_create(const tensor_table *table, const zero_plan_options *options,
                        zero_plan *out);

/* A zeroed plan is allowed. */
void zero_plan_destroy(zero_plan *plan);

/* The part of a rank of a bucket, elements of the table. */
void zero_plan_part(const zero_plan *plan, size_t bucket, size_t rank, size_t *begin, size_t *end);

/* What a rank has of a tensor with its padding, elements of the table; begin == end for nothing. */
void zero_plan_piece(const zero_plan *plan, size_t tensor, size_t rank, size_t *begin, size_t *end);

/* The blocks that a unit uses: its own and, where it is one of its two, the tied tensor's. Returns
 * how many. */
enum { ZERO_UNIT_BLOCKS = 2 };
size_t zero_plan_unit_blocks(const zero_plan *plan, size_t unit, size_t blocks[ZERO_UNIT_BLOCKS]);

/* Whether two blocks cannot be in the space together. */
static inline bool zero_plan_overlap(const zero_plan *plan, size_t a, size_t b)
{
    const zero_block *blocks = plan->blocks;
    return blocks[a].begin < blocks[b].end && blocks[b].begin < blocks[a].end;
}

/* The next bucket of a block from `bucket` on; plan->blocks[block].end_bucket after the last. */
size_t zero_plan_next(const zero_plan *plan, size_t block, size_t bucket);

#endif
