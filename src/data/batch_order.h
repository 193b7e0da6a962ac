/* Which samples a rank reads in which step: a pure function of the iteration, so that a resumed run
 * needs no more than its number.
 *
 * Samples are taken in sequence. A global batch is `accumulation` blocks of
 * micro_batch * data_parallel samples; micro-step k of iteration t (both from 0) is block
 * t * accumulation + k, and rank r of the data-parallel group takes the slice
 * [r * micro_batch, (r + 1) * micro_batch) of it. So an iteration reads the same samples on every
 * grid. Past the last whole global batch the order starts again at sample 0, on all ranks in the
 * same step, and what does not fill a batch is left out.
 *
 * This is GPT-NeoX's order, but for one thing: it leaves out what does not fill a block, so that
 * there the end of a pass depends on the grid. */
#ifndef TRIFOLD_DATA_BATCH_ORDER_H
#define TRIFOLD_DATA_BATCH_ORDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct batch_order {
    int64_t samples;       /* dataset_count() */
    int64_t micro_batch;   /* samples a rank and micro-step */
    int64_t accumulation;  /* micro-steps an iteration */
    int64_t data_parallel; /* ranks */
} batch_order;

/* Samples of a global batch. */
int64_t batch_order_batch(const batch_order *order);

/* Global batches before the order starts again, at least 1: a set of fewer samples than a batch is
 * read over its end, which wraps (dataset_sample). */
int64_t batch_order_batches(const batch_order *order);

/* The index of sample `item`, 0 .. micro_batch - 1, of a rank's micro-batch. */
int64_t batch_order_sample(const batch_order *order, int64_t iteration, int64_t micro_step,
                           int64_t rank, int64_t item);

/* The batch with which an evaluation starts, in the order of the validation part; it takes
 * eval_iters batches from there, exactly eval_iters * batch samples on any grid. Evaluations are
 * made after each multiple of eval_interval finished iterations, and once more at the end
 * (`at_end`); each goes on where the one before it ended, as in an uninterrupted GPT-NeoX run. So
 * the start follows from the finished iterations alone: (iteration / eval_interval - 1) *
 * eval_iters, and without the - 1 at the end. The test part is always read from batch 0. */
int64_t batch_order_eval_start(int64_t iteration, int64_t eval_interval, int64_t eval_iters,
                               bool at_end);

#endif
