/* Gradient buckets: the all-reduce of gradients over the data ranks, hidden behind the backward
 * pass.
 *
 * All gradients live in one flat fp32 buffer, tensors in the order of the forward pass; the
 * backward pass finishes them from the end. The buffer is cut, from its end, into buckets of whole
 * tensors. As soon as every tensor of a bucket is final its sum over the group begins, while the
 * tensors before it are still being computed:
 *
 *     forward order    t0 | t1 t2 | t3 | t4 t5 t6
 *     bucket            3     2     1       0         begun in this order on all ranks
 *
 * The result is the sum in rank order, in place; whoever wants the mean scales (the loss, or the
 * optimizer). It does not depend on the size of the buckets. With one rank nothing is sent. */
#ifndef TRIFOLD_ZERO_GRAD_BUCKETS_H
#define TRIFOLD_ZERO_GRAD_BUCKETS_H

#include <stddef.h>

#include "base/status.h"
#include "comm/comm.h"

enum {
    /* elements of a bucket where no other size is asked for: 16 MiB. Large enough that a chunk's
     * latency does not count, small enough that the last bucket, which nothing hides, is short */
    GRAD_BUCKET_ELEMENTS_DEFAULT = 4 << 20,
};

typedef struct grad_buckets grad_buckets;

/* Plan the buckets of `grads`, of `total` elements, over `group`; both are lent. Tensor i has the
 * elements from tensor_offsets[i] (strictly ascending, the first is 0) to the next tensor's offset
 * or `total`. A bucket closes before it would pass `bucket_elements` (>= 1), and holds at least one
 * tensor. All ranks of the group give the same sizes. */
status grad_buckets_create(comm_group *group, float *grads, const size_t *tensor_offsets,
                           size_t n_tensors, size_t total, size_t bucket_elements,
                           grad_buckets **out);

/* No message may be in flight: after grad_buckets_finish(). NULL is allowed. */
void grad_buckets_destroy(grad_buckets *b);

size_t grad_buckets_count(const grad_buckets *b);

/* The gradient of the tensor is final for this step: once a step for each tensor, in any order.
 * Begins whatever buckets are complete, in their order; may wait for old ones where very many are
 * in flight. The tensor belongs to its message until grad_buckets_finish(). */
status grad_buckets_ready(grad_buckets *b, size_t tensor);

/* Wait until all sums are there and get ready for the next step. Every tensor must have been
 * ready. Collective over the group. */
status grad_buckets_finish(grad_buckets *b);

#endif
