#include "model/model_shape.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "base/sizes.h"

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

model_part model_part_whole(const model_shape *shape)
{
    return (model_part){
        .tensor_size = 1, .end_layer = shape->n_layers, .embedding = true, .head = true};
}

status model_part_check(const model_shape *shape, const model_part *part)
{
    const size_t ranks = part->tensor_size;
    if (shape->n_heads % ranks != 0)
        return fail(STATUS_ERR_CONFIG,
                    "num-attention-heads %zu is not a multiple of model-parallel-size %zu",
                    shape->n_heads, ranks);
    if (shape->ffn % ranks != 0)
        return fail(STATUS_ERR_CONFIG,
                    "the MLP's width %zu is not a multiple of model-parallel-size %zu", shape->ffn,
                    ranks);
    if (shape->vocab < ranks)
        return fail(STATUS_ERR_CONFIG, "a vocabulary of %zu tokens for model-parallel-size %zu",
                    shape->vocab, ranks);
    if (part->first_layer >= part->end_layer || part->end_layer > shape->n_layers)
        return fail(STATUS_ERR_CONFIG,
                    "a pipeline stage of layers %zu to %zu of %zu; each needs one at least",
                    part->first_layer, part->end_layer, shape->n_layers);
    return STATUS_OK;
}

size_t model_part_units(const model_part *part)
{
    return (size_t)part->embedding + (part->end_layer - part->first_layer) + (size_t)part->head;
}

// How a tensor lies over the tensor ranks.
typedef enum tensor_split {
    SPLIT_NONE,
    SPLIT_ROWS,
    SPLIT_COLS,
} tensor_split;

// What the additions below share.
typedef struct table_builder {
    const model_shape *shape;
    const model_init_options *init;
    const model_part *part;
    tensor_table *table;
    size_t unit;
    char prefix[32]; // "layers.N." inside a layer
} table_builder;

// Cut the rank's part out of a tensor described as a whole.
static void take_part(const model_part *part, tensor_split split, tensor_info *info)
{
    size_t begin, end;
    info->whole_rows = info->rows;
    info->whole_cols = info->cols;
    info->counted = split != SPLIT_NONE || part->tensor_rank == 0;
    if (split == SPLIT_ROWS && !info->vector) {
        size_split(info->rows, part->tensor_size, part->tensor_rank, &begin, &end);
        info->first_row = begin;
        info->rows = end - begin;
    } else if (split != SPLIT_NONE) {
        size_split(info->cols, part->tensor_size, part->tensor_rank, &begin, &end);
        info->first_col = begin;
        info->cols = end - begin;
    }
}

static status add_matrix(table_builder *b, const char *name, size_t rows, size_t cols,
                         init_method method, tensor_split split)
{
    tensor_info info = {.rows = rows,
                        .cols = cols,
                        .unit = b->unit,
                        .decay = true,
                        .init = method == INIT_XAVIER_UNIFORM ? TENSOR_INIT_UNIFORM
                                                              : TENSOR_INIT_NORMAL,
                        .init_scale = init_scale(method, b->shape, b->init->std, rows, cols)};
    snprintf(info.name, sizeof info.name, "%s%s", b->prefix, name);
    take_part(b->part, split, &info);
    return tensor_table_add(b->table, &info, NULL);
}

// A vector that starts as zeros, or as ones where it is the gain of a norm; never decayed.
static status add_vector(table_builder *b, const char *name, size_t cols, tensor_init init,
                         tensor_split split)
{
    tensor_info info = {.rows = 1, .cols = cols, .unit = b->unit, .vector = true, .init = init};
    snprintf(info.name, sizeof info.name, "%s%s", b->prefix, name);
    take_part(b->part, split, &info);
    return tensor_table_add(b->table, &info, NULL);
}

static status add_norm(table_builder *b, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(add_vector(b, full, b->shape->hidden, TENSOR_INIT_ONE, SPLIT_NONE));
    if (b->shape->norm == NORM_RMSNORM)
        return STATUS_OK;
    snprintf(full, sizeof full, "%s.bias", name);
    return add_vector(b, full, b->shape->hidden, TENSOR_INIT_ZERO, SPLIT_NONE);
}

static status add_embedding(table_builder *b)
{
    const model_shape *shape = b->shape;
    TRY(add_matrix(b, "word_embeddings.weight", shape->vocab, shape->hidden, b->init->weights,
                   SPLIT_ROWS));
    if (shape->position == POSITION_LEARNED)
        TRY(add_matrix(b, "position_embeddings.weight", shape->max_positions, shape->hidden,
                       b->init->weights, SPLIT_NONE));
    return STATUS_OK;
}

// Vectors stand before matrices, so that the undecayed part of a layer is one range, and those of
// the norms first, which are summed over tensor ranks together.
static status add_layer(table_builder *b, size_t layer)
{
    size_t c = b->shape->hidden;
    size_t f = b->shape->ffn;
    snprintf(b->prefix, sizeof b->prefix, "layers.%zu.", layer);
    TRY(add_norm(b, "input_layernorm"));
    TRY(add_norm(b, "post_attention_layernorm"));
    if (b->shape->attention_bias) {
        TRY(add_vector(b, "attention.query_key_value.bias", 3 * c, TENSOR_INIT_ZERO, SPLIT_ROWS));
        TRY(add_vector(b, "attention.dense.bias", c, TENSOR_INIT_ZERO, SPLIT_NONE));
    }
    if (b->shape->mlp_bias) {
        TRY(add_vector(b, "mlp.linear1.bias", f, TENSOR_INIT_ZERO, SPLIT_ROWS));
        TRY(add_vector(b, "mlp.linear2.bias", c, TENSOR_INIT_ZERO, SPLIT_NONE));
    }
    TRY(add_matrix(b, "attention.query_key_value.weight", 3 * c, c, b->init->weights, SPLIT_ROWS));
    TRY(add_matrix(b, "attention.dense.weight", c, c, b->init->output, SPLIT_COLS));
    TRY(add_matrix(b, "mlp.linear1.weight", f, c, b->init->weights, SPLIT_ROWS));
    return add_matrix(b, "mlp.linear2.weight", c, f, b->init->output, SPLIT_COLS);
}

// Tied weights are the first stage's; a last stage of its own has a copy that does not count.
static status add_head(table_builder *b)
{
    const model_shape *shape = b->shape;
    b->prefix[0] = '\0';
    TRY(add_norm(b, "norm"));
    if (!shape->tied)
        return add_matrix(b, "final_linear.weight", shape->vocab, shape->hidden, b->init->weights,
                          SPLIT_ROWS);
    if (b->part->embedding)
        return STATUS_OK;
    TRY(add_matrix(b, "word_embeddings.weight", shape->vocab, shape->hidden, b->init->weights,
                   SPLIT_ROWS));
    b->table->tensors[b->table->count - 1].counted = false;
    return STATUS_OK;
}

status model_shape_tensors(const model_shape *shape, const model_init_options *init,
                           const model_part *part, tensor_table *table)
{
    TRY(model_shape_check(shape));
    TRY(model_part_check(shape, part));
    table_builder b = {
        .shape = shape, .init = init, .part = part, .table = table, .unit = part->first_unit};
    if (part->embedding) {
        TRY(add_embedding(&b));
        b.unit++;
    }
    for (size_t layer = part->first_layer; layer < part->end_layer; layer++, b.unit++)
        TRY(add_layer(&b, layer));
    return part->head ? add_head(&b) : STATUS_OK;
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
