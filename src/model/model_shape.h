/* The shape of a GPT-NeoX model: all that fixes its parameters and its mathematics, and nothing of
 * how it is trained or split. Two models with equal shapes exchange checkpoints. */
#ifndef TRIFOLD_MODEL_MODEL_SHAPE_H
#define TRIFOLD_MODEL_MODEL_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"
#include "parallel/tensor_table.h"

typedef enum position_kind {
    POSITION_ROTARY,
    POSITION_LEARNED,
    POSITION_NONE,
} position_kind;

/* Initial weights; L layers, h hidden, b rows, a columns of a matrix. */
typedef enum init_method {
    INIT_NORMAL,                 /* std */
    INIT_SCALED_NORMAL,          /* std / sqrt(2 L) */
    INIT_SINGLE_RESIDUAL_SCALED, /* std / sqrt(L) */
    INIT_SMALL,                  /* sqrt(2 / (5 h)) */
    INIT_WANG,                   /* 2 / (L sqrt(h)) */
    INIT_XAVIER_UNIFORM,         /* uniform, bound sqrt(6 / (a + b)) */
    INIT_XAVIER_NORMAL,          /* sqrt(2 / (a + b)) */
} init_method;

typedef struct model_shape {
    size_t n_layers;
    size_t hidden;        /* C */
    size_t n_heads;       /* H; C is a multiple */
    size_t ffn;           /* width of the MLP, 4 C by default */
    size_t vocab;         /* V: the true vocabulary, without padding rows */
    size_t max_positions; /* rows of learned positions; bound of the sequence length */
    position_kind position;
    size_t rotary_dims; /* of D = C / H, even; int(D * rotary_pct) */
    double rotary_base;
    norm_kind norm;
    float norm_epsilon;
    gelu_kind gelu;
    bool parallel_residual; /* gpt-j-residual: x + att(n1(x)) + mlp(n2(x)) */
    bool tied;              /* the head is the embedding */
    bool attention_bias;    /* of query_key_value and dense */
    bool mlp_bias;          /* of linear1 and linear2 */
} model_shape;

/* Which part of a model a rank has: consecutive layers of a pipeline, and of these, of the
 * embedding and of the head its share as a tensor rank. Columns and rows are dealt out so:
 *
 *   query_key_value, linear1      rows (outputs), whole heads       column-parallel
 *   dense, linear2                columns (inputs); biases whole    row-parallel
 *   word_embeddings, final_linear rows, by size_split(): the first ranks have one more
 *   norms, positions              whole on every tensor rank
 *
 * A part is made of units, numbered from first_unit in forward order: the embedding, each layer,
 * and final norm with head. The tensors of a unit are used together and stand together. */
typedef struct model_part {
    size_t tensor_rank, tensor_size;
    size_t first_layer, end_layer;
    bool embedding; /* the first stage */
    bool head;      /* the last stage; with tied weights it has the embedding too */
    size_t first_unit;
} model_part;

typedef struct model_init_options {
    init_method weights; /* embeddings, query_key_value, linear1, head */
    init_method output;  /* attention.dense, linear2 */
    double std;
} model_init_options;

/* Check the shape by itself: counts, divisibility, an even rotary width. */
status model_shape_check(const model_shape *shape);

/* The part of a run without tensor and pipeline ranks. */
model_part model_part_whole(const model_shape *shape);

/* Whether the shape can be dealt out so: heads and MLP width divide, every rank has tokens, layers
 * exist. */
status model_part_check(const model_shape *shape, const model_part *part);

/* Units of a part. */
size_t model_part_units(const model_part *part);

/* Append the parameters of a part to `table` in forward order. Names, with shapes as PyTorch's
 * (out, in):
 *
 *   word_embeddings.weight (V, C)            position_embeddings.weight (P, C), learned positions
 *   layers.N.input_layernorm.{weight,bias}   layers.N.post_attention_layernorm.{weight,bias}
 *   layers.N.attention.query_key_value.{weight (3C, C), bias}; rows are per head [q | k | v]
 *   layers.N.attention.dense.{weight (C, C), bias}
 *   layers.N.mlp.linear1.{weight (F, C), bias}   layers.N.mlp.linear2.{weight (C, F), bias}
 *   norm.{weight,bias}                       final_linear.weight (V, C), unless tied
 *
 * Norms, and every tensor named bias, are not decayed, as in GPT-NeoX. RMSNorm has no bias. */
status model_shape_tensors(const model_shape *shape, const model_init_options *init,
                           const model_part *part, tensor_table *table);

/* FLOPs of one optimizer step of `samples` samples of `tokens` tokens, forward and backward, by
 * GPT-NeoX's formula: 24 f s T L C^2 (1 + T/(6C) + V/(16 L C)), f = 3, or 4 with recomputation.
 * `padded_vocab` is V there. */
double model_shape_flops(const model_shape *shape, size_t samples, size_t tokens,
                         size_t padded_vocab, bool recompute);

#endif
