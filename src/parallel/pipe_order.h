/* The order in which a stage computes, by kind of schedule; inside pipe_schedule. */
#ifndef TRIFOLD_PARALLEL_PIPE_ORDER_H
#define TRIFOLD_PARALLEL_PIPE_ORDER_H

#include "parallel/pipe_schedule.h"

/* Computations only, without slots. */
typedef struct pipe_order {
    pipe_instruction *items;
    size_t count;
} pipe_order;

status pipe_order_create(const pipe_shape *shape, int stage, pipe_order *out);
void pipe_order_destroy(pipe_order *order);

#endif
