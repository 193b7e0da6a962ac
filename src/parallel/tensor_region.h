/* The rows of activations that a tensor group shares, and how they meet between column- and
 * row-parallel layers.
 *
 * A micro-batch has R rows of C values. Between the norms and the products every rank works on all
 * rows and a part of the columns. Outside (norms, dropout, residuals) it works on all rows too, the
 * same on every rank, or, with sequence parallelism, on its own rows only: a run of consecutive
 * ones, by size_split().
 *
 *                         without                        with sequence parallelism
 *   into the products     nothing                        all-gather of the rows
 *   out of the products   all-reduce                     reduce-scatter of the rows
 *
 * and the backward pass goes the other way with the same two calls: Korthikanti et al., "Reducing
 * Activation Recomputation in Large Transformer Models", 2022. A matrix that travels has all R
 * rows, and a rank's own rows stand in their place in it. With one rank nothing is sent. All calls
 * are collective over the group. */
#ifndef TRIFOLD_PARALLEL_TENSOR_REGION_H
#define TRIFOLD_PARALLEL_TENSOR_REGION_H

#include <stdbool.h>
#include <stddef.h>

#include "comm/comm.h"

typedef struct tensor_region {
    comm_group *group; /* lent; of `ranks` ranks */
    size_t rank, ranks;
    bool sequence;              /* sequence parallelism; never with one rank */
    size_t rows, cols;          /* R, C */
    size_t first_row, own_rows; /* all rows without sequence parallelism */
    dtype type;
    size_t *counts; /* elements of each rank's rows */
} tensor_region;

/* The region of rank `rank` of `ranks`. The group is set by the owner before anything is sent. */
status tensor_region_init(size_t rank, size_t ranks, bool sequence, size_t rows, size_t cols,
                          dtype type, tensor_region *out);
void tensor_region_fini(tensor_region *region);

/* The rank's own rows of a matrix (R, cols). */
void *tensor_region_own(const tensor_region *region, void *matrix);

/* Bring the rows of all ranks into `matrix`, where the own ones stand. Only with sequence
 * parallelism anything is to do. */
status tensor_region_gather_begin(const tensor_region *region, comm_kind kind, void *matrix,
                                  comm_request *request);

/* Sum `matrix` over the ranks: its own rows, which are all rows without sequence parallelism, are
 * then complete and the same bits on all ranks. */
status tensor_region_reduce_begin(const tensor_region *region, comm_kind kind, void *matrix,
                                  comm_request *request);

/* The same, blocking. */
status tensor_region_gather(const tensor_region *region, comm_kind kind, void *matrix);
status tensor_region_reduce(const tensor_region *region, comm_kind kind, void *matrix);

#endif
