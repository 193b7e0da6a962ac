/* AdamW over the flat parameter buffer, with fp32 master weights.
 *
 * Owns the parameters of the run: the fp32 master copy, the two moments, and, where the model's
 * type is not fp32, the model's copy, which every update writes too. Layout: the tensor table. */
#ifndef TRIFOLD_ZERO_OPTIMIZER_H
#define TRIFOLD_ZERO_OPTIMIZER_H

#include <stdint.h>

#include "device/device.h"
#include "parallel/tensor_table.h"

typedef struct optimizer optimizer;

typedef struct optimizer_options {
    float beta1, beta2, epsilon;
    float weight_decay; /* decoupled; of tensors whose table entry says so */
    dtype type;         /* of the model's copy */
} optimizer_options;

/* `table` and `d` must outlive it. All values are zero. */
status optimizer_create(device *d, const tensor_table *table, const optimizer_options *options,
                        optimizer **out);
void optimizer_destroy(optimizer *o);

/* Lent flat buffers of table->elements values: the model's copy (the master where fp32), the fp32
 * master, the first and second moments. */
void *optimizer_params(const optimizer *o);
float *optimizer_master(const optimizer *o);
float *optimizer_exp_avg(const optimizer *o);
float *optimizer_exp_avg_sq(const optimizer *o);

/* Make the model's copy from the master, after the master was filled from outside. */
status optimizer_publish(optimizer *o, device_stream *s);

/* The L2 norm of the gradients, not finite exactly where some gradient is not. Blocks. */
status optimizer_gradient_norm(const optimizer *o, device_stream *s, const float *grads,
                               double *norm);

/* One update with the gradients times `grad_scale`; `step` is 1 at the first. */
status optimizer_step(optimizer *o, device_stream *s, const float *grads, float lr,
                      float grad_scale, int64_t step);

#endif
