/* ZeRO: parameters, gradients and optimizer state of a rank, shared with its data-parallel peers.
 *
 * One object owns all three for the tensors of a table, whatever is shared (Rajbhandari et al.,
 * "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020):
 *
 *   stage   parameters   gradients   optimizer   messages of a step, for psi elements
 *     0       whole        whole       whole     all-reduce of gradients          2 psi
 *     1       whole        whole       shard     reduce-scatter, all-gather       2 psi
 *     2       whole        shard       shard     the same; a reduce-scatter every micro-batch
 *     3       shard        shard       shard     an all-gather before each use as well
 *
 * A rank's shard is its part of every bucket (zero_plan.h). Memory of a rank in bytes, with N ranks
 * that share, E bytes an element of the model's type (M = 4 where that is not fp32, else 0: the
 * fp32 master) and `space`, where it is shared, room for the largest two neighbouring units and a
 * tied tensor (ZeRO's "live" parameters):
 *
 *   stage   params           gradients              optimizer
 *     0     E psi            4 psi                  (8 + M) psi
 *     1     E psi            4 psi                  (8 + M) psi / N
 *     2     E psi            4 psi / N + 4 space    (8 + M) psi / N
 *     3     E space          4 psi / N + 4 space    12 psi / N
 *
 * The calls of a step, on all ranks that share in the same order, from one thread:
 *
 *   for each micro-batch, as the model goes through its units:
 *       zero_acquire(forward), zero_release(forward)          units ascending
 *       zero_acquire(backward), zero_gradient_ready() for its tensors, zero_release(backward)
 *   zero_finish_gradients(), zero_square_sum(), zero_step()
 *
 * In stages 0 and 1 micro-batches add up in the whole gradient buffer and the last one announces;
 * in stages 2 and 3 each overwrites and announces, and the sums add up in the shard:
 * zero_gradient_rules() tells the model. Backward passes whose units are not written within one
 * acquire and release (PIPE_ZERO_BUBBLE) go with stages 0 and 1 only.
 *
 * Sums over ranks are taken in rank order, so in fp32 all stages update to the same bits after a
 * step of one micro-batch; with several, stages 2 and 3 add in another order. Nothing is allocated
 * after zero_create(). */
#ifndef TRIFOLD_ZERO_ZERO_H
#define TRIFOLD_ZERO_ZERO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"
#include "device/device.h"
#include "parallel/tensor_table.h"
#include "zero/optimizer.h"

enum {
    /* elements of a bucket where no other size is asked for: 16 MiB of gradients. Large enough that
     * a chunk's latency does not count, small enough that the last bucket, which nothing hides, is
     * short */
    ZERO_BUCKET_ELEMENTS_DEFAULT = 4 << 20,
};

typedef struct zero zero;

typedef struct zero_options {
    int stage;              /* 0 to 3 */
    comm_group *data;       /* gradients of stage 0 */
    comm_group *zero;       /* the same ranks in the same order: all else. Both are lent */
    optimizer_options adam; /* with the model's type */
    size_t bucket_elements; /* of a message; see zero_plan.h */
    bool overlap;           /* messages travel behind computation; without it each is waited for */
    bool separate_master; /* keep fp32 masters apart from what is gathered, also where the model is
                             fp32: needed where parameters lose bits on their way */
    size_t tied;          /* a tensor that two units, here or on another rank, use: it is cut by
                             itself, so alike wherever it is; SIZE_MAX: none */
    size_t tied_unit;     /* the unit here that uses it beside its own; SIZE_MAX: none */
} zero_options;

/* Stage 0 with overlap and the default bucket; groups and adam are left to fill in. */
zero_options zero_options_defaults(void);

/* `d`, `table` and the groups must outlive it. All values are zero. */
status zero_create(device *d, const tensor_table *table, const zero_options *options, zero **out);

/* Waits for what is on its way: before the groups are destroyed. NULL is allowed. */
void zero_destroy(zero *z);

/* ---- Memory --------------------------------------------------------------------------------- */

/* Device bytes. Masters of a model that is not fp32, of stage 3, and separate ones, count as
 * optimizer. */
typedef struct zero_memory {
    size_t params, gradients, optimizer;
} zero_memory;

/* What is allocated now. */
zero_memory zero_memory_used(const zero *z);

/* What zero_create() would take with `ranks` sharing: of the first of them, which has the most. The
 * groups are not read. */
status zero_memory_plan(const tensor_table *table, const zero_options *options, size_t ranks,
                        zero_memory *out);

/* ---- What the model reads and writes -------------------------------------------------------- */

/* Places of parameters, in the model's type, and of gradients, a tensor each; they never change.
 * What is shared is there between acquire and release only: parameters in stage 3, gradients in
 * stages 2 and 3 (backward). */
const void *const *zero_params(const zero *z);
float *const *zero_gradients(const zero *z);

/* How the model leaves the gradients of a micro-batch, of `count` in the step. */
typedef struct zero_rules {
    bool accumulate; /* add to what is at their places, else overwrite */
    bool announce;   /* call zero_gradient_ready() */
} zero_rules;

zero_rules zero_gradient_rules(const zero *z, size_t micro_batch, size_t count);

/* Before the tensors of a unit are touched, and after. Waits for its parameters and, in stage 3,
 * begins to fetch the unit that is expected next: the one that followed last time, at first the
 * next in the direction. A unit may be acquired several times at once; not together with units
 * whose room it shares: every second one (STATUS_ERR_COMM). */
status zero_acquire(zero *z, device_stream *s, size_t unit, bool backward);
status zero_release(zero *z, device_stream *s, size_t unit, bool backward);

/* The gradient of tensor `index` is final for this micro-batch. Begins the messages of all buckets
 * that are complete, in the order of the table from its end (of a unit, in stages 2 and 3). The
 * tensor's gradient is not touched any more. */
status zero_gradient_ready(zero *z, device_stream *s, size_t index);

/* ---- The update ----------------------------------------------------------------------------- */

/* Wait for all sums of the step. Every tensor must have been ready. */
status zero_finish_gradients(zero *z, device_stream *s);

/* After zero_finish_gradients(), until the next backward pass: where this rank's share of the sum
 * of a tensor's gradient is, to be added to by whoever has the rest (ranks with the same coordinate
 * and a tied tensor of the same size have the same share). *count may be 0; padding is included. */
void zero_gradient_owned(const zero *z, size_t index, float **gradient, size_t *count);

/* The sum of squares of the gradients that this rank owns, of tensors that count (tensor_info);
 * in stage 0 the first rank owns all. The sum over all ranks of a run, in rank order, is that of
 * the model; it is not finite exactly where some gradient is not. Blocks. */
status zero_square_sum(zero *z, device_stream *s, double *sum);

/* AdamW on what this rank owns, with the gradients times `grad_scale`; `step` is 1 at the first.
 * Begins to gather parameters. */
status zero_step(zero *z, device_stream *s, float lr, float grad_scale, int64_t step);

/* Until the updated parameters are there; zero_acquire() waits for those of its unit by itself. */
status zero_wait_params(zero *z);

/* ---- State, tensor by tensor ---------------------------------------------------------------- */

typedef enum zero_part {
    ZERO_PARAM, /* the fp32 master */
    ZERO_EXP_AVG,
    ZERO_EXP_AVG_SQ,
} zero_part;

/* The whole tensor to host memory, on every rank. Collective over the ranks that share; blocks. */
status zero_read(zero *z, device_stream *s, zero_part part, size_t index, float *host);

/* Take what this rank owns from the whole tensor. Not collective; zero_publish() must follow before
 * parameters are used. */
status zero_write(zero *z, device_stream *s, zero_part part, size_t index, const float *host);

/* Make the model's parameters from the masters. Collective over the ranks that share; blocks. */
status zero_publish(zero *z, device_stream *s);

#endif
