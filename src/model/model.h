/* A GPT-NeoX model on one device: forward and backward over micro-batches.
 *
 * The model computes; it owns activations and plans, not parameters. Its caller gives it the flat
 * parameter buffer in the model's type and the flat fp32 gradient buffer, both laid out by the
 * tensor table of the shape (model_shape.h). Everything is allocated by model_create(). One thread
 * drives a model. */
#ifndef TRIFOLD_MODEL_MODEL_H
#define TRIFOLD_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "model/model_shape.h"

typedef struct model model;

typedef struct model_options {
    model_shape shape;
    size_t batch;  /* B: samples of a micro-batch */
    size_t tokens; /* T: tokens of a sample */
    dtype type;    /* of parameters and activations */
    float hidden_dropout;
    float attention_dropout;
    uint64_t seed;            /* of the dropout masks */
    size_t checkpoint_layers; /* layers a recomputed chunk; 0 keeps all activations */
    bool training;            /* false: forward only, activations of one layer */
} model_options;

/* `table` must be the shape's (model_shape_tensors) and outlive the model, as must `d`. */
status model_create(device *d, const model_options *options, const tensor_table *table,
                    model **out);
void model_destroy(model *m);

/* Device bytes that model_create() takes with these options: activations and workspace. */
status model_activation_bytes(device *d, const model_options *options, size_t *bytes);

typedef struct model_batch {
    const int32_t *tokens; /* (B, T) */
    const int32_t *labels; /* (B, T) */
    const float *scale;    /* (R): what a row's loss is multiplied by in the gradient */
    float *losses;         /* (R): out, unscaled losses of the rows */
    int64_t iteration;     /* with first_sample and the layer it names the dropout masks */
    int64_t first_sample;  /* index of the first sample in the global batch */
} model_batch;

/* Told during the backward pass, from the end of the table to its start, that the gradient of
 * tensor `index` is final. */
typedef struct model_gradient_sink {
    void *context;
    status (*ready)(void *context, size_t index);
} model_gradient_sink;

typedef struct model_gradients {
    float *buffer;                   /* flat, by the table */
    bool accumulate;                 /* add to what is there; the first micro-batch overwrites */
    const model_gradient_sink *sink; /* on the last micro-batch, else NULL */
} model_gradients;

/* Forward and backward of one micro-batch. */
status model_train(model *m, device_stream *s, const void *params, const model_batch *batch,
                   const model_gradients *gradients);

/* Forward only, without dropout: fills batch->losses; scale is not read. */
status model_evaluate(model *m, device_stream *s, const void *params, const model_batch *batch);

/* Forward only: the logits (R, V) in fp32, for tests and small models. */
status model_logits(model *m, device_stream *s, const void *params, const model_batch *batch,
                    float *logits_host);

#endif
