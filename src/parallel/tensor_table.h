/* The table of a model's parameter tensors and their places in flat buffers.
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
    size_t rows;                /* of a matrix (rows, cols), row-major; 1 for a vector */
    size_t cols;
    bool vector;    /* one dimension: cols values */
    size_t offset;  /* elements from the start of a flat buffer */
    bool decay;     /* weight decay applies */
    int split_axis; /* axis split over tensor ranks: 0 rows, 1 columns, -1 replicated */
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

/* Append a tensor; `info` gives all but the offset, which is set here. *index, where asked, is its
 * place in the table. */
status tensor_table_add(tensor_table *table, const tensor_info *info, size_t *index);

/* The index of `name`, or SIZE_MAX. */
size_t tensor_table_find(const tensor_table *table, const char *name);

/* Values of one tensor, without padding. */
static inline size_t tensor_elements(const tensor_info *info)
{
    return info->rows * info->cols;
}

/* Values of all tensors, without padding: the model's number of parameters. */
size_t tensor_table_parameters(const tensor_table *table);

#endif
