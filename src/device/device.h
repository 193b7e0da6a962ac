/* The device: memory, streams and every tensor operation of the trainer.
 *
 * A `device` is one backend with its settings; the CPU backend (src/device/cpu) is the
 * specification that others must meet. A `device_stream` is an ordered queue of operations; on the
 * CPU an operation is complete when its call returns. Operations take the stream and a struct of
 * arguments: outputs, inputs, sizes, types. They read and write device memory, allocate nothing,
 * and accept any size >= 0, also odd ones. Pointers must be aligned to their element.
 *
 * Letters: B samples, T tokens of a sample, R = B*T rows, C width, H heads, D head width, V
 * vocabulary. (R, C) is row-major, C fastest. `type` is the model's type: fp32, bf16 or fp16.
 * Sums and statistics are taken in fp32 or better; gradients of parameters are always fp32 and are
 * added to what is there where `accumulate` is set, else overwritten. A result does not depend on
 * the run (fixed order of sums for a given number of threads). */
#ifndef TRIFOLD_DEVICE_DEVICE_H
#define TRIFOLD_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

typedef struct device device;
typedef struct device_stream device_stream;

/* ---- Devices, memory, streams ------------------------------------------------------------- */

typedef struct device_options {
    const char *backend; /* "cpu" */
    int threads;         /* CPU threads of this process; 0 = cores available / ranks on the host */
    int local_ranks;     /* ranks that share this host, >= 1 */
    const char *isa;     /* instruction set of the CPU kernels; NULL = the best there is */
} device_options;

status device_create(const device_options *options, device **out);
void device_destroy(device *d);

/* For the start report: "cpu, 2 threads, avx512-bf16, oneDNN 2.6.3". */
const char *device_describe(const device *d);

int device_threads(const device *d);

/* Zeroed device memory of `bytes`, aligned to 64; large blocks use huge pages. `what` names the
 * purpose in the error. */
status device_malloc(device *d, size_t bytes, const char *what, void **out);
void device_free(device *d, void *pointer);

/* Bytes in use by device_malloc() now and at most so far. */
void device_memory(const device *d, size_t *in_use, size_t *peak);

status device_stream_create(device *d, device_stream **out);
void device_stream_destroy(device_stream *s);

/* Block until all operations of the stream are complete. */
status device_stream_synchronize(device_stream *s);

/* Copies; `_host` pointers are ordinary memory. Blocking for the host side. */
status device_upload(device_stream *s, void *dst, const void *src_host, size_t bytes);
status device_download(device_stream *s, void *dst_host, const void *src, size_t bytes);
status device_copy(device_stream *s, void *dst, const void *src, size_t bytes);
status device_zero(device_stream *s, void *dst, size_t bytes);

/* ---- Matrix product ----------------------------------------------------------------------- */

/* C = op(A) op(B) [+ bias] [+ residual]; op(A) is (m, k), op(B) is (k, n), C is (m, n), all > 0. A
 * plan is made once for its shape and may be run from the stream's thread any number of times. */
typedef struct matmul_spec {
    size_t m, n, k;
    bool transpose_a; /* A is stored (k, m) */
    bool transpose_b; /* B is stored (n, k) */
    dtype in;         /* of A, B, bias */
    dtype out;        /* of C and residual: `in` or fp32 */
    bool bias;        /* a row of n values is added */
    bool residual;    /* a matrix (m, n) is added */
} matmul_spec;

typedef struct matmul matmul;

status device_matmul_create(device *d, const matmul_spec *spec, matmul **out);
void device_matmul_destroy(matmul *plan);

typedef struct matmul_args {
    void *c;
    const void *a;
    const void *b;
    const void *bias;     /* (n), with spec.bias */
    const void *residual; /* (m, n), with spec.residual; may not overlap c */
    bool accumulate;      /* C += instead of C =; not together with bias or residual */
} matmul_args;

status device_matmul(device_stream *s, const matmul *plan, const matmul_args *args);

/* ---- Normalisation ------------------------------------------------------------------------ */

typedef enum norm_kind {
    NORM_LAYERNORM, /* (x - mean) * rstd * weight + bias */
    NORM_RMSNORM,   /* x * rstd * weight, rstd = 1/sqrt(mean(x^2) + eps) */
} norm_kind;

/* One or two norms of the same x (the parallel residual takes two): y2 != NULL asks for both. */
typedef struct norm_forward_args {
    void *y;                   /* (R, C) */
    void *y2;                  /* (R, C) or NULL */
    float *mean;               /* (R); NULL for RMSNorm */
    float *rstd;               /* (R) */
    const void *x;             /* (R, C) */
    const void *weight, *bias; /* (C); bias NULL for RMSNorm */
    const void *weight2, *bias2;
    size_t rows, cols;
    float epsilon;
    norm_kind kind;
    dtype type;
} norm_forward_args;

status device_norm_forward(device_stream *s, const norm_forward_args *args);

/* dx = dresidual + gradient through the norm(s); dweight and dbias over all rows. */
typedef struct norm_backward_args {
    void *dx;               /* (R, C); may be dresidual */
    float *dweight, *dbias; /* (C) */
    float *dweight2, *dbias2;
    const void *dresidual; /* (R, C) or NULL */
    const void *dy, *dy2;  /* (R, C); dy2 with two norms */
    const void *x;         /* (R, C) */
    const float *mean, *rstd;
    const void *weight, *weight2;
    size_t rows, cols;
    norm_kind kind;
    dtype type;
    bool accumulate;
} norm_backward_args;

status device_norm_backward(device_stream *s, const norm_backward_args *args);

/* ---- Rotary position embedding ------------------------------------------------------------- */

/* Rotate the first `rotary_dims` values of each q and k head in place, half-rotate layout: with
 * x1, x2 the halves, (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin). `backward` turns the other
 * way, which is the gradient. */
typedef struct rotary_args {
    void *qkv;              /* (B, T, H, 3, D): q, k, v of a head together, as GPT-NeoX */
    const float *cos, *sin; /* (T, rotary_dims/2) */
    size_t batch, tokens, heads, head_dim, rotary_dims;
    dtype type;
    bool backward;
} rotary_args;

status device_rotary(device_stream *s, const rotary_args *args);

/* ---- Causal self-attention ------------------------------------------------------------------ */

/* Dropout of this run: which numbers are drawn. An element with index i is kept where
 * philox_uniform(seed, stream, i) >= probability and then scaled by 1/(1 - probability); the same
 * call in the backward pass sees the same mask. Off where probability is 0. */
typedef struct dropout_spec {
    float probability;
    uint64_t seed;   /* of the run */
    uint64_t stream; /* of the (iteration, layer, place) */
    uint64_t offset; /* index of the first element: global, so that masks do not depend on grid */
} dropout_spec;

/* out = softmax(q k^T / sqrt(D), causal) v for each sample and head. No T x T matrix is held and
 * nothing above the diagonal is computed. Dropout, where on, is of the probabilities; its element
 * index is ((b*whole_heads + first_head + h)*T + i)*T + j: where heads are split over ranks each
 * draws its own. */
typedef struct attention_forward_args {
    void *out;       /* (B, T, H, D) */
    float *lse;      /* (B, H, T): log sum exp of the scaled scores of a row */
    const void *qkv; /* (B, T, H, 3, D), rotated */
    size_t batch, tokens, heads, head_dim;
    size_t whole_heads, first_head; /* of all ranks; read with dropout only */
    dtype type;
    dropout_spec dropout;
} attention_forward_args;

status device_attention_forward(device_stream *s, const attention_forward_args *args);

typedef struct attention_backward_args {
    void *dqkv;             /* (B, T, H, 3, D) */
    const void *dout, *out; /* (B, T, H, D) */
    const float *lse;
    const void *qkv;
    void *workspace; /* device_attention_workspace() bytes */
    size_t batch, tokens, heads, head_dim;
    size_t whole_heads, first_head;
    dtype type;
    dropout_spec dropout;
} attention_backward_args;

size_t device_attention_workspace(const device *d, size_t batch, size_t tokens, size_t heads,
                                  size_t head_dim, dtype type);
status device_attention_backward(device_stream *s, const attention_backward_args *args);

/* ---- Elementwise ----------------------------------------------------------------------------- */

typedef enum gelu_kind {
    GELU_ERF,  /* x/2 (1 + erf(x/sqrt 2)) */
    GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
} gelu_kind;

typedef struct gelu_forward_args {
    void *y;
    const void *x;
    size_t count;
    gelu_kind kind;
    dtype type;
} gelu_forward_args;

status device_gelu_forward(device_stream *s, const gelu_forward_args *args);

/* dx = dy * gelu'(x); y, where asked, is gelu(x) again, so that the forward pass need not keep it.
 * dbias, where asked, is the sum of dx over the rows. */
typedef struct gelu_backward_args {
    void *dx;       /* (R, C); may be dy */
    void *y;        /* (R, C) or NULL; may not overlap the others */
    float *dbias;   /* (C) or NULL */
    const void *dy; /* (R, C) */
    const void *x;  /* (R, C) */
    size_t rows, cols;
    gelu_kind kind;
    dtype type;
    bool accumulate; /* of dbias */
} gelu_backward_args;

status device_gelu_backward(device_stream *s, const gelu_backward_args *args);

/* dbias = sum of dy over the rows. */
typedef struct bias_backward_args {
    float *dbias;   /* (C) */
    const void *dy; /* (R, C) */
    size_t rows, cols;
    dtype type;
    bool accumulate;
} bias_backward_args;

status device_bias_backward(device_stream *s, const bias_backward_args *args);

/* y = x + dropout(a); x NULL means 0. */
typedef struct dropout_args {
    void *y;
    const void *x; /* NULL, or as y; may be y */
    const void *a; /* may be y */
    size_t count;
    dtype type;
    dropout_spec dropout;
} dropout_args;

status device_dropout(device_stream *s, const dropout_args *args);

/* y = x + a. */
typedef struct add_args {
    void *y;
    const void *x, *a;
    size_t count;
    dtype type;
} add_args;

status device_add(device_stream *s, const add_args *args);

/* Convert between fp32, bf16 and fp16, rounding to nearest even. */
typedef struct cast_args {
    void *dst;
    const void *src;
    size_t count;
    dtype dst_type, src_type;
} cast_args;

status device_cast(device_stream *s, const cast_args *args);

/* ---- Embedding --------------------------------------------------------------------------------
 */

/* Rows [first_token, first_token + vocab) of the vocabulary are here; a token of another rank's
 * rows gives zeros, so that the sum over the ranks is the embedding, and has no gradient here. */
typedef struct embedding_forward_args {
    void *y;               /* (B, T, C) */
    const int32_t *tokens; /* (B, T), each in the vocabulary: checked by the data module */
    const void *weight;    /* (vocab, C) */
    const void *positions; /* (>= T, C) learned positions, or NULL */
    size_t first_token, vocab;
    size_t batch, tokens_per_sample, cols;
    dtype type;
} embedding_forward_args;

status device_embedding_forward(device_stream *s, const embedding_forward_args *args);

typedef struct embedding_backward_args {
    float *dweight;    /* (vocab, C); always added to (the head of a tied model writes it first) */
    float *dpositions; /* (>= T, C) or NULL; always added to */
    const int32_t *tokens;
    const void *dy; /* (B, T, C) */
    size_t first_token, vocab;
    size_t batch, tokens_per_sample, cols;
    dtype type;
} embedding_backward_args;

status device_embedding_backward(device_stream *s, const embedding_backward_args *args);

/* ---- Loss ---------------------------------------------------------------------------------------
 */

/* Cross entropy of rows of logits against labels: losses[r] = log sum exp(logits[r]) -
 * logits[r][labels[r]], and, where dlogits is given, dlogits[r] = (softmax(logits[r]) -
 * onehot(labels[r])) * scale[r]. Called for a block of rows at a time, so that the logits of a
 * whole batch never exist. dlogits may be the memory of logits where type is fp32. */
typedef struct cross_entropy_args {
    float *losses;         /* (R) */
    void *dlogits;         /* (R, V) or NULL */
    const float *logits;   /* (R, V) */
    const int32_t *labels; /* (R) */
    const float *scale;    /* (R): loss weight of the row times the loss scale */
    size_t rows, vocab;
    dtype type; /* of dlogits */
} cross_entropy_args;

status device_cross_entropy(device_stream *s, const cross_entropy_args *args);

/* The same where the columns of the logits are split over ranks, each with `vocab` of them from
 * `first` on. First every rank takes the statistics of its columns; with those of all ranks it then
 * has the losses, and the gradient of its own columns. */
enum { CROSS_ENTROPY_STATS = 3 };

typedef struct cross_entropy_stats_args {
    float *stats; /* (R, 3): the largest logit, the sum of exp(logit - largest), the label's logit
                     or 0 where it is another rank's */
    const float *logits;   /* (R, V) */
    const int32_t *labels; /* (R), over the whole vocabulary */
    size_t rows, vocab, first;
} cross_entropy_stats_args;

status device_cross_entropy_stats(device_stream *s, const cross_entropy_stats_args *args);

typedef struct cross_entropy_merge_args {
    float *losses;         /* (R) */
    void *dlogits;         /* (R, V) or NULL; may be the memory of logits where type is fp32 */
    const float *logits;   /* (R, V) */
    const float *stats;    /* (ranks, R, 3) */
    const int32_t *labels; /* (R) */
    const float *scale;    /* (R) */
    size_t ranks, rows, vocab, first;
    dtype type; /* of dlogits */
} cross_entropy_merge_args;

status device_cross_entropy_merge(device_stream *s, const cross_entropy_merge_args *args);

/* ---- Optimizer
 * ------------------------------------------------------------------------------------ */

/* Sum of squares in double precision, to host memory; not finite exactly where some value is not
 * (fp32 squares are taken in double and cannot overflow). */
status device_sum_squares(device_stream *s, double *sum_host, const float *x, size_t count);

/* One AdamW step over `count` values (the formula of DeepSpeed's FusedAdam in AdamW mode):
 * g = grad * grad_scale; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
 * p -= lr * ((m / c1) / (sqrt(v / c2) + eps) + decay * p), c = 1 - b^step. */
typedef struct adamw_args {
    float *param;      /* fp32 master */
    float *exp_avg;    /* m */
    float *exp_avg_sq; /* v */
    void *param_out;   /* the model's copy in `out_type`, or NULL where the master serves */
    const float *grad;
    size_t count;
    float lr, beta1, beta2, epsilon, weight_decay;
    float grad_scale;
    int64_t step; /* 1 at the first update */
    dtype out_type;
} adamw_args;

status device_adamw(device_stream *s, const adamw_args *args);

#endif
