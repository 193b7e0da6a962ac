#include "model/model_shape.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

status model_shape_check(const model_shape *shape)
{
    if (shape->n_layers == 0 || shape->hidden == 0 || shape->n_heads == 0 || shape->ffn == 0)
        return fail(STATUS_ERR_CONFIG,
                    "model of %zu layers, hidden %zu, %zu heads, MLP width %zu; all must be > 0",
                    shape->n_layers, shape->hidden, shape->n_heads, shape->ffn);
    if (shape->hidden % shape->n_heads != 0)
        return fail(STATUS_ERR_CONFIG,
                    "hidden-size %zu is not a multiple of num-attention-heads %zu", shape->hidden,
                    shape->n_heads);
    if (shape->vocab == 0 || shape->vocab > INT32_MAX)
        return fail(STATUS_ERR_CONFIG, "vocabulary of %zu tokens; must be 1 to %d", shape->vocab,
                    INT32_MAX);
    size_t head_dim = shape->hidden / shape->n_heads;
    if (shape->position == POSITION_ROTARY &&
        (shape->rotary_dims == 0 || shape->rotary_dims % 2 != 0 || shape->rotary_dims > head_dim))
        return fail(STATUS_ERR_CONFIG,
                    "rotary-pct gives %zu rotated dimensions of %zu a head; must be even and > 0",
                    shape->rotary_dims, head_dim);
    return STATUS_OK;
}

static float init_scale(init_method method, const model_shape *shape, double std, size_t rows,
                        size_t cols)
{
    double layers = (double)shape->n_layers;
    double hidden = (double)shape->hidden;
    switch (method) {
    case INIT_NORMAL:
        return (float)std;
    case INIT_SCALED_NORMAL:
        return (float)(std / sqrt(2 * layers));
    case INIT_SINGLE_RESIDUAL_SCALED:
        return (float)(std / sqrt(layers));
    case INIT_SMALL:
        return (float)sqrt(2 / (5 * hidden));
    case INIT_WANG:
        return (float)(2 / (layers * sqrt(hidden)));
    case INIT_XAVIER_UNIFORM:
        return (float)sqrt(6.0 / (double)(rows + cols));
    case INIT_XAVIER_NORMAL:
        return (float)sqrt(2.0 / (double)(rows + cols));
    }
    return 0;
}

// What the additions below share.
typedef struct table_builder {
    const model_shape *shape;
    const model_init_options *init;
    tensor_table *table;
    char prefix[32]; // "layers.N." inside a layer
} table_builder;

static status add_matrix(table_builder *b, const char *name, size_t rows, size_t cols,
                         init_method method, int split_axis)
{
    tensor_info info = {.rows = rows,
                        .cols = cols,
                        .decay = true,
                        .split_axis = split_axis,
                        .init = method == INIT_XAVIER_UNIFORM ? TENSOR_INIT_UNIFORM
                                                              : TENSOR_INIT_NORMAL,
                        .init_scale = init_scale(method, b->shape, b->init->std, rows, cols)};
    snprintf(info.name, sizeof info.name, "%s%s", b->prefix, name);
    return tensor_table_add(b->table, &info, NULL);
}

// A vector that starts as zeros, or as ones where it is the gain of a norm; never decayed.
static status add_vector(table_builder *b, const char *name, size_t cols, tensor_init init,
                         int split_axis)
{
    tensor_info info = {
        .rows = 1, .cols = cols, .vector = true, .split_axis = split_axis, .init = init};
    snprintf(info.name, sizeof info.name, "%s%s", b->prefix, name);
    return tensor_table_add(b->table, &info, NULL);
}

static status add_norm(table_builder *b, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(add_vector(b, full, b->shape->hidden, TENSOR_INIT_ONE, -1));
    if (b->shape->norm == NORM_RMSNORM)
        return STATUS_OK;
    snprintf(full, sizeof full, "%s.bias", name);
    return add_vector(b, full, b->shape->hidden, TENSOR_INIT_ZERO, -1);
}

// Vectors stand before matrices, so that the undecayed part of a layer is one range.
static status add_layer(table_builder *b, size_t layer)
{
    size_t c = b->shape->hidden;
    size_t f = b->shape->ffn;
    snprintf(b->prefix, sizeof b->prefix, "layers.%zu.", layer);
    TRY(add_norm(b, "input_layernorm"));
    TRY(add_norm(b, "post_attention_layernorm"));
    if (b->shape->attention_bias) {
        TRY(add_vector(b, "attention.query_key_value.bias", 3 * c, TENSOR_INIT_ZERO, 0));
        TRY(add_vector(b, "attention.dense.bias", c, TENSOR_INIT_ZERO, -1));
    }
    if (b->shape->mlp_bias) {
        TRY(add_vector(b, "mlp.linear1.bias", f, TENSOR_INIT_ZERO, 0));
        TRY(add_vector(b, "mlp.linear2.bias", c, TENSOR_INIT_ZERO, -1));
    }
    TRY(add_matrix(b, "attention.query_key_value.weight", 3 * c, c, b->init->weights, 0));
    TRY(add_matrix(b, "attention.dense.weight", c, c, b->init->output, 1));
    TRY(add_matrix(b, "mlp.linear1.weight", f, c, b->init->weights, 0));
    return add_matrix(b, "mlp.linear2.weight", c, f, b->init->output, 1);
}

status model_shape_tensors(const model_shape *shape, const model_init_options *init,
                           tensor_table *table)
{
    TRY(model_shape_check(shape));
    table_builder b = {.shape = shape, .init = init, .table = table};
    TRY(add_matrix(&b, "word_embeddings.weight", shape->vocab, shape->hidden, init->weights, 0));
    if (shape->position == POSITION_LEARNED)
        TRY(add_matrix(&b, "position_embeddings.weight", shape->max_positions, shape->hidden,
                       init->weights, -1));
    for (size_t layer = 0; layer < shape->n_layers; layer++)
        TRY(add_layer(&b, layer));
    b.prefix[0] = '\0';
    TRY(add_norm(&b, "norm"));
    if (shape->tied)
        return STATUS_OK;
    return add_matrix(&b, "final_linear.weight", shape->vocab, shape->hidden, init->weights, 0);
}

double model_shape_flops(const model_shape *shape, size_t samples, size_t tokens,
                         size_t padded_vocab, bool recompute)
{
    double layers = (double)shape->n_layers;
    double hidden = (double)shape->hidden;
    double length = (double)tokens;
    double factor = recompute ? 4 : 3;
    return 24 * factor * (double)samples * length * layers * hidden * hidden *
           (1 + length / (6 * hidden) + (double)padded_vocab / (16 * layers * hidden));
}
