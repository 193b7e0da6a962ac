/* Inside the model: what its parts share. Letters as in device.h; F is the MLP's width, and with t
 * tensor ranks Cl = C / t, Fl = F / t and Vl are a rank's share. Rl are its own rows of the
 * residual stream: R without sequence parallelism. */
#ifndef TRIFOLD_MODEL_MODEL_INTERNAL_H
#define TRIFOLD_MODEL_MODEL_INTERNAL_H

#include "model/model.h"
#include "parallel/linear.h"
#include "parallel/tensor_region.h"

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
    layer_tensors *layers; /* of the part's layers */
    size_t embedding, positions;
    size_t norm_weight, norm_bias;
    size_t head; /* the embedding where tied */
} model_tensors;

/* What the backward pass of one layer reads. */
typedef struct layer_activations {
    float *mean1, *rstd1; /* (Rl) */
    float *mean2, *rstd2; /* (Rl); in the parallel block the statistics of norm 1 serve both */
    void *norm1, *norm2;  /* (Rl, C): outputs of the norms */
    void *qkv;            /* (R, 3Cl), rotated */
    float *lse;           /* (B, Hl, T) */
    void *attention;      /* (R, Cl), before dense */
    void *middle;         /* (Rl, C): the residual after attention, sequential block only */
    void *mlp;            /* (R, Fl), before GELU */
} layer_activations;

/* Gradients inside a layer: what its matrices' gradients are made of. Of one layer at a time, or
 * kept for each where the backward pass is split. */
typedef struct layer_gradients {
    void *dbranch1; /* (R, C): of dense's output; only where it is not the residual stream's */
    void *dbranch2; /* (R, C): of linear2's output; dbranch1 where they are the same */
    void *dqkv;     /* (R, 3Cl) */
    void *dmlp;     /* (R, Fl) */
} layer_gradients;

/* The activations of one micro-batch. */
typedef struct activation_set {
    void **inputs;             /* inputs[i] is what the part's layer i reads, then its output */
    layer_activations *layers; /* of each layer; recomputed ones share memory */
    layer_gradients *gradients;
} activation_set;

/* Buffers that live within one layer's forward or backward. */
typedef struct model_workspace {
    void *gelu;       /* (R, Fl) */
    void *branch;     /* (R, C): output of a branch before its dropout */
    void *sum1;       /* (R, C): sums over the tensor ranks on their way, of the first branch */
    void *sum2;       /* (R, C): and of the second; what embedding and head give */
    void *gathered;   /* (R, C): rows of all ranks, sequence parallelism only */
    void *dgathered;  /* (R, C): the same of gradients */
    void *dx;         /* (Rl, C): the gradient of the residual stream, where no caller has it */
    void *dnorm1;     /* (R, C); in the forward pass of one rank, the sum after the first branch */
    void *dnorm2;     /* (R, C) */
    void *dattention; /* (R, Cl) */
    void *attention;  /* device_attention_workspace() */
    void *norm;       /* (R, C): output of the final norm */
    void *dnorm;      /* (R, C): its gradient */
    float *mean, *rstd;
    float *logits; /* (head_rows, Vl) */
    void *dlogits; /* (head_rows, Vl) in the model's type; the logits where that is fp32 */
    float *stats;  /* (t, head_rows, CROSS_ENTROPY_STATS), several tensor ranks only */
} model_workspace;

struct model {
    device *device;
    model_options options;
    const tensor_table *table;
    model_tensors tensors;
    tensor_region region;
    size_t rows;                   /* R */
    size_t layers;                 /* of the part */
    size_t head_dim;               /* D */
    size_t heads, own_hidden, ffn; /* Hl, Cl, Fl */
    size_t vocab, first_token;     /* Vl, and the first of them */
    float *cos, *sin;              /* (T, rotary_dims/2) */
    linear *qkv, *dense, *linear1, *linear2;
    size_t head_rows;         /* rows of logits at a time */
    linear *head, *head_rest; /* head_rest: the last, shorter block; NULL where none */
    size_t *stats_counts;     /* of a block's statistics, a rank each */
    activation_set *sets;
    model_workspace work;
    void **owned; /* all device memory of the model */
    size_t n_owned;
};

/* One micro-batch on its way: what every step of it needs. */
typedef struct model_pass {
    model *m;
    device_stream *stream;
    const model_storage *storage;
    const model_batch *batch;
    const activation_set *set;
    const model_gradients *gradients; /* NULL: forward only */
    void *dx;                         /* (Rl, C): gradient of the residual stream */
    bool dropout;
} model_pass;

/* The parameter tensor `index` in the model's type; NULL for SIZE_MAX. */
const void *model_param(const model_pass *p, size_t index);

/* The gradient of tensor `index`; NULL for SIZE_MAX. */
float *model_gradient(const model_pass *p, size_t index);

/* Announce, where asked, that the gradient of `index` is final; SIZE_MAX is ignored. */
status model_gradient_ready(const model_pass *p, size_t index);

/* The same for tensors that act on the rank's own rows: with sequence parallelism their gradients
 * are sums over the tensor ranks still to be made. */
status model_row_gradients_ready(const model_pass *p, const size_t *indices, size_t count);

/* Where in a layer a dropout mask is drawn. */
typedef enum dropout_place {
    DROPOUT_EMBEDDING,
    DROPOUT_PROBABILITIES,
    DROPOUT_ATTENTION,
    DROPOUT_MLP,
} dropout_place;

/* The mask of a layer of the part. */
dropout_spec model_dropout(const model_pass *p, dropout_place place, size_t layer);

/* All rows of a matrix of own rows, in work.gathered: *full. The matrix itself where the rank has
 * all. */
status model_enter_begin(const model_pass *p, const void *own, const void **full,
                         comm_request *request);

status model_enter(const model_pass *p, const void *own, const void **full);

/* y = residual + the sum of `partial` (R, C) over the tensor ranks, of own rows; residual NULL
 * means 0. */
status model_leave(const model_pass *p, void *y, const void *residual, void *partial,
                   comm_kind kind);

/* Turn q and k by their positions, or back. */
status model_rotate(const model_pass *p, void *qkv, bool backward);

/* y = layer(x), filling `a`. y NULL: only fill `a`, for recomputation before a backward pass.
 * Layers are counted within the part. */
status model_layer_forward(const model_pass *p, size_t layer, void *y, const void *x,
                           const layer_activations *a);

/* p->dx holds the gradient of the layer's output and then that of its input `x`. Without `weights`
 * the gradients of the matrices are left to model_layer_backward_weights(). */
status model_layer_backward(const model_pass *p, size_t layer, const void *x, bool weights);
status model_layer_backward_weights(const model_pass *p, size_t layer);

/* Embedding to the part's first input, and from p->dx to the gradient of its rows. */
status model_embedding_forward(const model_pass *p);
status model_embedding_backward(const model_pass *p);

/* Final norm, head and loss of all rows of `x`, block after block; with gradients, also backward:
 * p->dx is then the gradient of `x`. */
status model_head_loss(const model_pass *p, const void *x);

/* Forward only, the logits of all rows to host memory. */
status model_head_logits(const model_pass *p, const void *x, float *logits_host);

#endif
