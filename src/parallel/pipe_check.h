/* Proof of a pipeline's schedules before they run, and what they cost. */
#ifndef TRIFOLD_PARALLEL_PIPE_CHECK_H
#define TRIFOLD_PARALLEL_PIPE_CHECK_H

#include "parallel/pipe_schedule.h"

/* Times of one part's passes over a micro-batch, and of a message, in any unit. A whole backward
 * pass takes both its halves. */
typedef struct pipe_costs {
    double forward;
    double backward_input;
    double backward_weights;
    double message;
} pipe_costs;

typedef struct pipe_report {
    double makespan; /* from the first forward to the last backward pass */
    double bubble;   /* share of the stages' time without a computation */
} pipe_report;

/* Play the lists of all stages of one pipeline, stages[0 ..], against each other. They are in order
 * exactly if
 *  - each part computes each micro-batch once forward and once backward, in order;
 *  - a set of activations serves one micro-batch at a time;
 *  - what one stage sends is what the other receives, in the same order on every channel (a pair of
 *    stages in one direction, for activations or for gradients);
 *  - nobody waits for ever, where a pass waits for what it receives, and a buffer is used again
 *    when what was sent from it has been received.
 * Else STATUS_ERR_CONFIG with one line that names stage, instruction and micro-batch. */
status pipe_check(const pipe_schedule *stages, const pipe_costs *costs, pipe_report *report);

#endif
