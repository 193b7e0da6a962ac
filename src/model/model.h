/* A rank's part of a GPT-NeoX model on its device: forward and backward over micro-batches.
 *
 * The model computes; it owns activations and plans, not parameters. Its caller gives it the places
 * of parameters and gradients, by the tensor table of the part (model_shape.h). Everything is
 * allocated by model_create(). One thread drives a model. Where the part has several tensor ranks
 * every forward and backward call is collective over their group.
 *
 * Several micro-batches may be on their way through a pipeline at once: each uses a *set* of
 * activations, from its forward to its backward pass. */
#ifndef TRIFOLD_MODEL_MODEL_H
#define TRIFOLD_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"
#include "device/device.h"
#include "model/model_shape.h"

typedef struct model model;

typedef struct model_options {
    model_shape shape;
    model_part part;
    size_t batch;  /* B: samples of a micro-batch */
    size_t tokens; /* T: tokens of a sample */
    dtype type;    /* of parameters and activations */
    float hidden_dropout;
    float attention_dropout;
    uint64_t seed;            /* of the dropout masks */
    size_t checkpoint_layers; /* layers a recomputed chunk; 0 keeps all activations */
    size_t sets;              /* of activations, >= 1 */
    bool sequence_parallel;   /* see tensor_region.h */
    bool split_backward;      /* model_backward_input() and _weights() in place of one call; not
                                 together with checkpoint_layers */
    bool training;            /* false: forward only, activations of one layer */
} model_options;

/* `table` must hold the part's tensors (model_shape_tensors) and outlive the model, as must `d` and
 * `tensor`, the group of the part's tensor ranks; NULL with one. */
status model_create(device *d, const model_options *options, const tensor_table *table,
                    comm_group *tensor, model **out);
void model_destroy(model *m);

/* Device bytes that model_create() takes with these options: activations and workspace. */
status model_activation_bytes(device *d, const model_options *options, size_t *bytes);

/* Where parameters and gradients are, an entry a tensor of the table. The tensors of a unit may
 * move between its calls of acquire(): places are read after it. A hook that is NULL has nothing to
 * do. */
typedef struct model_storage {
    const void *const *params; /* in the model's type */
    float *const *gradients;
    void *context;
    /* Before the tensors of a unit are touched, and after; in the forward pass units come in
     * ascending order, in the backward pass descending. */
    status (*acquire)(void *context, device_stream *s, size_t unit, bool backward);
    status (*release)(void *context, device_stream *s, size_t unit, bool backward);
    /* The gradient of tensor `index` is final for this micro-batch; only where announced. */
    status (*ready)(void *context, device_stream *s, size_t index);
} model_storage;

typedef struct model_batch {
    const int32_t *tokens; /* (B, T); read by the part with the embedding */
    const int32_t *labels; /* (B, T); read by the part with the head, as are the next two */
    const float *scale;    /* (R): what a row's loss is multiplied by in the gradient */
    float *losses;         /* (R): out, unscaled losses of the rows */
    int64_t iteration;     /* with first_sample and the layer it names the dropout masks */
    int64_t first_sample;  /* index of the first sample in the global batch */
} model_batch;

/* How a backward pass leaves gradients. */
typedef struct model_gradients {
    bool accumulate; /* add to what is there, else overwrite */
    bool announce;   /* call ready() as they become final: from the last unit to the first */
} model_gradients;

/* Values of the residual stream that this rank holds and passes between pipeline stages: R x C, or
 * its own rows of them. */
size_t model_stream_elements(const model *m);

/* Of a set: where the input of a part without embedding goes, before its forward pass, and where
 * the output of a part without head lies after it, until the set's next forward pass. */
void *model_input(model *m, size_t set);
const void *model_output(const model *m, size_t set);

/* Forward pass of a micro-batch in a set. The loss is taken by the backward pass. */
status model_forward(model *m, device_stream *s, const model_storage *storage,
                     const model_batch *batch, size_t set);

/* Backward pass of the set's micro-batch, with its losses where the part has the head. `dx` holds
 * the gradient of the output, unless the part has the head, and then that of the input, unless it
 * has the embedding; NULL where it has both. */
status model_backward(model *m, device_stream *s, const model_storage *storage,
                      const model_batch *batch, size_t set, void *dx,
                      const model_gradients *gradients);

/* The same in two halves: what the stage before waits for, and what can come later: the gradients
 * of the layers' matrices. The set is in use until then. */
status model_backward_input(model *m, device_stream *s, const model_storage *storage,
                            const model_batch *batch, size_t set, void *dx,
                            const model_gradients *gradients);
status model_backward_weights(model *m, device_stream *s, const model_storage *storage, size_t set,
                              const model_gradients *gradients);

/* Forward only, without dropout, in a set: fills batch->losses where the part has the head; scale
 * is not read. */
status model_evaluate(model *m, device_stream *s, const model_storage *storage,
                      const model_batch *batch, size_t set);

/* Of a whole model on one rank, forward only: the logits (R, V) in fp32, for tests. */
status model_logits(model *m, device_stream *s, const model_storage *storage,
                    const model_batch *batch, float *logits_host);

#endif
