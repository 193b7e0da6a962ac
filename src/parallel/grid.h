/* The process grid: which part of the work each rank has, and whom it speaks to for it.
 *
 * The ranks of a run form a box of pipe stages x data replicas x tensor ranks, numbered as in
 * GPT-NeoX with the tensor rank fastest and the stage slowest:
 *
 *     rank = (pipe * shape.data + data) * shape.tensor + tensor
 *
 * so that the ranks of a tensor group, which exchange most, are neighbours on a host. Along each
 * axis a rank has a group of the ranks that differ from it in that coordinate only, in the order of
 * the coordinate: a rank's place in the group is its coordinate. */
#ifndef TRIFOLD_PARALLEL_GRID_H
#define TRIFOLD_PARALLEL_GRID_H

#include <stddef.h>

#include "base/status.h"
#include "comm/comm.h"

/* The number of ranks along each axis, each >= 1. */
typedef struct grid_shape {
    int pipe;
    int data;
    int tensor;
} grid_shape;

/* The coordinates of a rank, from 0. */
typedef struct grid_place {
    int pipe;
    int data;
    int tensor;
} grid_place;

typedef struct parallel_grid {
    grid_shape shape;
    grid_place place;      /* of the caller */
    comm_group *pipe;      /* for activations */
    comm_group *pipe_back; /* the same ranks, for the gradients of activations */
    comm_group *ends;      /* the first and the last stage; the caller alone between them */
    comm_group *data;
    comm_group *tensor;
    comm_group *zero; /* the ranks of `data`, for what ZeRO exchanges: counted and folded apart */
} parallel_grid;

/* STATUS_ERR_CONFIG unless every axis is at least 1 and their product is `world_size`; the message
 * shows the product. */
status grid_check(const grid_shape *shape, int world_size);

int grid_rank(const grid_shape *shape, grid_place place);
grid_place grid_place_of(const grid_shape *shape, int world_rank);

/* Create the groups of the caller's place. Collective over the world of `c`, which must outlive the
 * grid. On failure nothing is left. */
status grid_create(comm *c, const grid_shape *shape, parallel_grid *out);

/* Destroy the groups. Collective over the world. A zeroed grid is allowed. */
void grid_destroy(parallel_grid *grid);

/* Draw the grid into `text` of `size` bytes for the start report: a row a stage, a column a
 * replica, in each cell its tensor ranks; what does not fit on a screen is left out as "...".
 * Returns `text`. */
char *grid_describe(const grid_shape *shape, char *text, size_t size);

#endif
