/* A linear layer, y = x W^T + b: its three matrix products as plans.
 *
 * One `linear` serves every layer of the same shape; it holds no parameters. W is (out, in) as in
 * PyTorch. The two halves of the backward pass are separate calls: the gradient of the input is
 * what others wait for, the gradient of the weight is not. */
#ifndef TRIFOLD_PARALLEL_LINEAR_H
#define TRIFOLD_PARALLEL_LINEAR_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

typedef struct linear linear;

typedef struct linear_options {
    size_t rows;    /* R: rows of x and y in a call */
    size_t in, out; /* widths */
    dtype type;     /* of x, W, b and the gradients of x and y */
    dtype y_type;   /* of y: `type`, or fp32 */
    bool bias;
    bool residual; /* y = x W^T + b + residual */
    bool training; /* plans of the backward pass too */
} linear_options;

status linear_create(device *d, const linear_options *options, linear **out);
void linear_destroy(linear *l);

typedef struct linear_forward_args {
    void *y;              /* (R, out) */
    const void *x;        /* (R, in) */
    const void *weight;   /* (out, in) */
    const void *bias;     /* (out), with options.bias */
    const void *residual; /* (R, out), with options.residual; may not be y */
} linear_forward_args;

status linear_forward(device_stream *s, const linear *l, const linear_forward_args *args);

/* dx = dy W. */
status linear_backward_input(device_stream *s, const linear *l, void *dx, const void *dy,
                             const void *weight);

typedef struct linear_backward_weight_args {
    float *dweight;  /* (out, in) */
    float *dbias;    /* (out), or NULL where the layer has none or it is summed elsewhere */
    const void *dy;  /* (R, out) */
    const void *x;   /* (R, in) */
    bool accumulate; /* add to dweight and dbias instead of writing them */
} linear_backward_weight_args;

/* dweight = dy^T x, dbias = column sums of dy. */
status linear_backward_weight(device_stream *s, const linear *l,
                              const linear_backward_weight_args *args);

#endif
