/* The table of the parameter tensors that a rank has, and their places in flat buffers.
 *
 * Parameters, gradients and optimizer state each live in one flat buffer with the same layout:
 * tensors stand in the order of the forward pass, each at an offset that is a multiple of
 * TENSOR_ALIGN elements; the padding between them is zero and stays so. What works on flat ranges
 * (gradient buckets, the optimizer, checkpoints) needs only this table. */
#ifndef TRIFOLD_PARALLEL_TENSOR_TABLE_H
#define TRIFOLD_PARALLEL_TENSOR_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory.h"
#include "base/status.h"

enum {
    TENSOR_ALIGN = 16,    /* elements: 64 bytes of fp32 */
    TENSOR_NAME_MAX = 96, /* bytes with the NUL */
};

typedef enum tensor_init {
    TENSOR_INIT_ZERO,
    TENSOR_INIT_ONE,
    TENSOR_INIT_NORMAL,  /* mean 0, standard deviation init_scale */
    TENSOR_INIT_UNIFORM, /* in [-init_scale, init_scale) */
} tensor_init;

typedef struct tensor_info {
    char name[TENSOR_NAME_MAX]; /* "layers.0.attention.dense.weight"; see model/model.h */
    size_t rows;                /* this rank's part of a matrix, row-major; 1 for a vector */
    size_t cols;
    size_t whole_rows, whole_cols; /* of the tensor over all ranks */
    size_t first_row, first_col;   /* where in it this rank's part begins */
    bool vector;                   /* one dimension: cols values */
    size_t offset;                 /* elements from the start of a flat buffer */
    size_t unit;                   /* what is used together: see model_part */
    bool decay;                    /* weight decay applies */
    bool counted; /* this copy stands for the tensor in sums over ranks and in checkpoints; of a
                     replicated tensor one rank's is */
    tensor_init init;
    float init_scale;
} tensor_info;

typedef struct tensor_table {
    tensor_info *tensors;
    size_t count; /* tensors */
    size_t capacity;
    size_t elements; /* of a flat buffer, padding included; a multiple of TENSOR_ALIGN */
} tensor_table;

void tensor_table_init(tensor_table *table);
void tensor_table_fini(tensor_table *table);

/* Append a tensor; `info` gives all but the offset, which is set here; whole_rows of 0 means that
 * the part is the whole. *index, where asked, is its place in the table. */
status tensor_table_add(tensor_table *table, const tensor_info *info, size_t *index);

/* The index of `name`, or SIZE_MAX. */
size_t tensor_table_find(const tensor_table *table, const char *name);

/* Values of one tensor, without padding. */
static inline size_t tensor_elements(const tensor_info *info)
{
    return info->rows * info->cols;
}

/* Values of all tensors, without padding: the number of parameters of the part. */
size_t tensor_table_parameters(const tensor_table *table);

/* Where the tensors of a flat buffer with elements of `size` bytes lie: places[i] of tensor i. */
void tensor_table_places(const tensor_table *table, void *flat, size_t size, void **places);

/* The rank's part of a whole tensor, and the other way round: `part` is (rows, cols), `whole`
 * (whole_rows, whole_cols); place() leaves the rest of `whole` alone. */
void tensor_part_take(const tensor_info *info, float *part, const float *whole);
void tensor_part_place(const tensor_info *info, float *whole, const float *part);

#endif
