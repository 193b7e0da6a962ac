/* Inside the model: what its parts share. Letters as in device.h; F is the MLP's width. */
#ifndef TRIFOLD_MODEL_MODEL_INTERNAL_H
#define TRIFOLD_MODEL_MODEL_INTERNAL_H

#include "model/model.h"
#include "parallel/linear.h"

/* Places of a layer's tensors in the table; SIZE_MAX where the shape has none. */
typedef struct layer_tensors {
    size_t norm1_weight, norm1_bias; /* input_layernorm */
    size_t norm2_weight, norm2_bias; /* post_attention_layernorm */
    size_t qkv_weight, qkv_bias;
    size_t dense_weight, dense_bias;
    size_t linear1_weight, linear1_bias;
    size_t linear2_weight, linear2_bias;
} layer_tensors;

typedef struct model_tensors {
    layer_tensors *layers;
    size_t embedding, positions;
    size_t norm_weight, norm_bias;
    size_t head; /* the embedding where tied */
} model_tensors;

/* What the backward pass of one layer reads. */
typedef struct layer_activations {
    float *mean1, *rstd1; /* (R) */
    float *mean2, *rstd2; /* (R); in the parallel block the statistics of norm 1 serve both */
    void *norm1, *norm2;  /* (R, C): outputs of the norms */
    void *qkv;            /* (R, 3C), rotated */
    float *lse;           /* (B, H, T) */
    void *attention;      /* (R, C), before dense */
    void *middle;         /* (R, C): the residual after attention, sequential block only */
    void *mlp;            /* (R, F), before GELU */
} layer_activations;

/* Buffers that live within one layer's forward or backward. */
typedef struct model_workspace {
    void *gelu;       /* (R, F) */
    void *branch;     /* (R, C): output of a branch before its dropout, gradient after it */
    void *dx;         /* (R, C): the gradient of the residual stream */
    void *dnorm1;     /* (R, C); in the forward pass, the sum after the first branch */
    void *dnorm2;     /* (R, C) */
    void *dattention; /* (R, C) */
    void *dqkv;       /* (R, 3C) */
    void *dmlp;       /* (R, F) */
    void *attention;  /* device_attention_workspace() */
    void *norm;       /* (R, C): output of the final norm */
    void *dnorm;      /* (R, C): its gradient */
    float *mean, *rstd;
    float *logits; /* (head_rows, V) */
    void *dlogits; /* (head_rows, V) in the model's type; the logits where that is fp32 */
} model_workspace;

struct model {
    device *device;
    model_options options;
    const tensor_table *table;
    model_tensors tensors;
    size_t rows;      /* R */
    size_t head_dim;  /* D */
    float *cos, *sin; /* (T, rotary_dims/2) */
    linear *qkv, *dense, *linear1, *linear2;
    size_t head_rows;         /* rows of logits at a time */
    linear *head, *head_rest; /* head_rest: the last, shorter block; NULL where none */
    void **inputs;            /* inputs[i] is what layer i reads, inputs[L] the final norm */
    size_t n_slots;
    layer_activations *slots; /* layer i uses slot i % n_slots */
    model_workspace work;
    void **owned; /* all device memory of the model */
    size_t n_owned;
};

/* One micro-batch on its way: what every step of it needs. */
typedef struct model_pass {
    model *m;
    device_stream *stream;
    const void *params;
    const model_batch *batch;
    const model_gradients *gradients; /* NULL: forward only */
    bool dropout;
} model_pass;

/* The parameter tensor `index` in the model's type; NULL for SIZE_MAX. */
const void *model_param(const model_pass *p, size_t index);

/* The gradient of tensor `index`; NULL for SIZE_MAX. */
float *model_gradient(const model_pass *p, size_t index);

/* Tell the sink, if any, that the gradient of `index` is final; SIZE_MAX is ignored. */
status model_gradient_ready(const model_pass *p, size_t index);

/* Where in a layer a dropout mask is drawn. */
typedef enum dropout_place {
    DROPOUT_EMBEDDING,
    DROPOUT_PROBABILITIES,
    DROPOUT_ATTENTION,
    DROPOUT_MLP,
} dropout_place;

dropout_spec model_dropout(const model_pass *p, dropout_place place, size_t layer);

/* y = layer(x), filling `a`. y NULL: only fill `a`, for recomputation before a backward pass. Uses
 * work.gelu, work.branch and work.dnorm1. */
status model_layer_forward(const model_pass *p, size_t layer, void *y, const void *x,
                           const layer_activations *a);

/* work.dx holds the gradient of the layer's output and then that of its input `x`. */
status model_layer_backward(const model_pass *p, size_t layer, const void *x,
                            const layer_activations *a);

/* Final norm, head and loss of all rows of `x`, block after block; with gradients, also backward:
 * work.dx is then the gradient of `x`. */
status model_head_loss(const model_pass *p, const void *x);

/* Forward only, the logits of all rows to host memory. */
status model_head_logits(const model_pass *p, const void *x, float *logits_host);

#endif
