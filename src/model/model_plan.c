// Everything a model allocates: plans of the matrix products, activations, workspace, tables.
//
// The buffers are listed once, by a visitor: model_activation_bytes() sums their sizes and
// model_plan() allocates them, so the estimate cannot drift from what is taken.
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "model/model_internal.h"

enum {
    HEAD_BLOCK_BYTES = 104 << 20, // of fp32 logits at a time
    HEAD_BLOCK_ROWS_MIN = 16,
};

typedef struct buffer_visitor {
    model *m;     // NULL: only sum
    size_t bytes; // so far
    status result;
} buffer_visitor;

// One buffer of `count` elements of `size` bytes, to *slot.
static void visit(buffer_visitor *v, void **slot, size_t count, size_t size, const char *what)
{
    size_t bytes;
    if (v->result != STATUS_OK)
        return;
    if (!size_mul(count, size, &bytes) || !size_add(v->bytes, bytes, &v->bytes)) {
        v->result =
            fail(STATUS_ERR_MEMORY, "%s of %zu values does not fit into memory", what, count);
        return;
    }
    if (!v->m)
        return;
    v->result = device_malloc(v->m->device, bytes, what, slot);
    if (v->result == STATUS_OK)
        v->m->owned[v->m->n_owned++] = *slot;
}

typedef struct plan_sizes {
    size_t rows, hidden, ffn, heads, head_rows, rotary_half;
    size_t n_slots;  // layers whose activations are held
    size_t n_inputs; // distinct residual-stream buffers
    size_t element;
} plan_sizes;

// Rows of logits a block: whole micro-batches where they fit, else equal blocks.
static size_t head_block_rows(size_t rows, size_t vocab)
{
    size_t limit = size_max(HEAD_BLOCK_BYTES / (vocab * sizeof(float)), HEAD_BLOCK_ROWS_MIN);
    size_t blocks = (rows + limit - 1) / limit;
    return (rows + blocks - 1) / blocks;
}

static plan_sizes sizes_of(const model_options *o)
{
    const size_t layers = o->shape.n_layers;
    const size_t chunk = o->checkpoint_layers;
    plan_sizes sizes = {.rows = o->batch * o->tokens,
                        .hidden = o->shape.hidden,
                        .ffn = o->shape.ffn,
                        .heads = o->shape.n_heads,
                        .rotary_half = o->shape.rotary_dims / 2,
                        .element = dtype_size(o->type)};
    sizes.head_rows = head_block_rows(sizes.rows, o->shape.vocab);
    if (!o->training)
        sizes.n_slots = 1;
    else if (chunk > 0)
        sizes.n_slots = size_min(chunk, layers);
    else
        sizes.n_slots = layers;
    if (!o->training)
        sizes.n_inputs = 2;
    else if (chunk > 0)
        sizes.n_inputs = (layers + chunk - 1) / chunk + (sizes.n_slots - 1) + 1;
    else
        sizes.n_inputs = layers + 1;
    return sizes;
}

static void visit_layer(buffer_visitor *v, const model_options *o, const plan_sizes *z,
                        layer_activations *a)
{
    const size_t rows = z->rows;
    visit(v, (void **)&a->mean1, rows, sizeof(float), "norm statistics");
    visit(v, (void **)&a->rstd1, rows, sizeof(float), "norm statistics");
    visit(v, &a->norm1, rows * z->hidden, z->element, "norm output");
    visit(v, &a->norm2, rows * z->hidden, z->element, "norm output");
    visit(v, &a->qkv, rows * z->hidden * 3, z->element, "queries, keys and values");
    visit(v, (void **)&a->lse, rows * z->heads, sizeof(float), "attention statistics");
    visit(v, &a->attention, rows * z->hidden, z->element, "attention output");
    visit(v, &a->mlp, rows * z->ffn, z->element, "MLP activations");
    if (o->shape.parallel_residual)
        return;
    visit(v, (void **)&a->mean2, rows, sizeof(float), "norm statistics");
    visit(v, (void **)&a->rstd2, rows, sizeof(float), "norm statistics");
    visit(v, &a->middle, rows * z->hidden, z->element, "residual stream");
}

static void visit_workspace(buffer_visitor *v, const model_options *o, const plan_sizes *z,
                            size_t attention_bytes, model_workspace *w)
{
    const size_t hidden = z->rows * z->hidden;
    visit(v, &w->gelu, z->rows * z->ffn, z->element, "GELU output");
    visit(v, &w->dnorm1, hidden, z->element, "workspace");
    visit(v, &w->norm, hidden, z->element, "final norm");
    visit(v, (void **)&w->mean, z->rows, sizeof(float), "norm statistics");
    visit(v, (void **)&w->rstd, z->rows, sizeof(float), "norm statistics");
    visit(v, (void **)&w->logits, z->head_rows * o->shape.vocab, sizeof(float), "logits");
    if (o->hidden_dropout > 0)
        visit(v, &w->branch, hidden, z->element, "workspace");
    if (!o->training)
        return;
    visit(v, &w->dx, hidden, z->element, "gradient of the residual stream");
    visit(v, &w->dnorm2, hidden, z->element, "workspace");
    visit(v, &w->dattention, hidden, z->element, "workspace");
    visit(v, &w->dqkv, hidden * 3, z->element, "workspace");
    visit(v, &w->dmlp, z->rows * z->ffn, z->element, "workspace");
    visit(v, &w->attention, attention_bytes, 1, "attention workspace");
    visit(v, &w->dnorm, hidden, z->element, "workspace");
    if (o->type != DTYPE_F32)
        visit(v, &w->dlogits, z->head_rows * o->shape.vocab, z->element, "gradient of the logits");
}

// inputs[i]: chunk starts are kept for the backward pass, what lies between is shared by chunks;
// forward alone needs two in turn.
static void visit_inputs(buffer_visitor *v, const model_options *o, const plan_sizes *z,
                         void **inputs)
{
    const size_t layers = o->shape.n_layers;
    const size_t period = o->training ? z->n_slots : 2;
    for (size_t i = 0; i <= layers; i++) {
        const bool kept = o->training && (i % period == 0 || i == layers);
        void *unused = NULL;
        if (kept || i < period)
            visit(v, inputs ? &inputs[i] : &unused, z->rows * z->hidden, z->element,
                  "residual stream");
        else if (inputs)
            inputs[i] = inputs[i % period];
    }
}

// Every buffer of the model, in one order.
static void visit_all(buffer_visitor *v, device *d, const model_options *o)
{
    const plan_sizes z = sizes_of(o);
    const model_shape *shape = &o->shape;
    const size_t attention = device_attention_workspace(d, o->batch, o->tokens, shape->n_heads,
                                                        shape->hidden / shape->n_heads, o->type);
    model *m = v->m;
    layer_activations unused_layer;
    model_workspace unused_work;
    void *unused = NULL;
    for (size_t i = 0; i < z.n_slots; i++)
        visit_layer(v, o, &z, m ? &m->slots[i] : &unused_layer);
    visit_workspace(v, o, &z, attention, m ? &m->work : &unused_work);
    visit_inputs(v, o, &z, m ? m->inputs : NULL);
    if (shape->position == POSITION_ROTARY) {
        visit(v, m ? (void **)&m->cos : &unused, o->tokens * z.rotary_half, sizeof(float),
              "rotary table");
        visit(v, m ? (void **)&m->sin : &unused, o->tokens * z.rotary_half, sizeof(float),
              "rotary table");
    }
}

status model_activation_bytes(device *d, const model_options *options, size_t *bytes)
{
    buffer_visitor v = {0};
    visit_all(&v, d, options);
    *bytes = v.bytes;
    return v.result;
}

static status allocate_host(model *m, const plan_sizes *z)
{
    const size_t layers = m->options.shape.n_layers;
    const size_t per_layer = 11, others = 32; // buffers of visit_layer(), and all the rest
    void *memory;
    TRY(memory_alloc(z->n_slots, sizeof(layer_activations), "model plan", &memory));
    m->slots = memory;
    TRY(memory_alloc(layers + 1, sizeof(void *), "model plan", &memory));
    m->inputs = memory;
    TRY(memory_alloc(z->n_slots * per_layer + layers + others, sizeof(void *), "model plan",
                     &memory));
    m->owned = memory;
    return STATUS_OK;
}

// cos and sin of position * base^(-2i / rotary_dims), in double, rounded once.
static status fill_rotary_tables(model *m)
{
    const model_shape *shape = &m->options.shape;
    if (shape->position != POSITION_ROTARY)
        return STATUS_OK;
    const size_t half = shape->rotary_dims / 2;
    const size_t count = m->options.tokens * half;
    void *memory;
    TRY(memory_alloc(2 * count, sizeof(float), "rotary table", &memory));
    float *cosines = memory;
    float *sines = cosines + count;
    for (size_t t = 0; t < m->options.tokens; t++) {
        for (size_t i = 0; i < half; i++) {
            const double exponent = -2 * (double)i / (double)shape->rotary_dims;
            const double angle = (double)t * pow(shape->rotary_base, exponent);
            cosines[t * half + i] = (float)cos(angle);
            sines[t * half + i] = (float)sin(angle);
        }
    }
    device_stream *s = NULL;
    status result;
    TRY_OUT(result, device_stream_create(m->device, &s));
    TRY_OUT(result, device_upload(s, m->cos, cosines, count * sizeof(float)));
    TRY_OUT(result, device_upload(s, m->sin, sines, count * sizeof(float)));
out:
    device_stream_destroy(s);
    memory_free(memory);
    return result;
}

static status plan_linear(model *m, size_t rows, size_t in, size_t out, bool bias, bool residual,
                          linear **plan)
{
    const linear_options options = {.rows = rows,
                                    .in = in,
                                    .out = out,
                                    .type = m->options.type,
                                    .y_type = m->options.type,
                                    .bias = bias,
                                    .residual = residual,
                                    .training = m->options.training};
    return linear_create(m->device, &options, plan);
}

// The head's logits are fp32 whatever the model's type.
static status plan_head(model *m, size_t rows, linear **plan)
{
    const linear_options options = {.rows = rows,
                                    .in = m->options.shape.hidden,
                                    .out = m->options.shape.vocab,
                                    .type = m->options.type,
                                    .y_type = DTYPE_F32,
                                    .training = m->options.training};
    return linear_create(m->device, &options, plan);
}

static status plan_products(model *m, const plan_sizes *z)
{
    const model_shape *shape = &m->options.shape;
    const size_t c = shape->hidden;
    const bool fused_residual = m->options.hidden_dropout == 0;
    const bool attention_bias = shape->attention_bias;
    TRY(plan_linear(m, z->rows, c, 3 * c, attention_bias, false, &m->qkv));
    TRY(plan_linear(m, z->rows, c, c, attention_bias, fused_residual, &m->dense));
    TRY(plan_linear(m, z->rows, c, shape->ffn, shape->mlp_bias, false, &m->linear1));
    TRY(plan_linear(m, z->rows, shape->ffn, c, shape->mlp_bias, fused_residual, &m->linear2));
    TRY(plan_head(m, z->head_rows, &m->head));
    const size_t rest = z->rows % z->head_rows;
    return rest > 0 ? plan_head(m, rest, &m->head_rest) : STATUS_OK;
}

static size_t find_in_layer(const tensor_table *table, size_t layer, const char *name)
{
    char full[TENSOR_NAME_MAX];
    snprintf(full, sizeof full, "layers.%zu.%s", layer, name);
    return tensor_table_find(table, full);
}

static layer_tensors find_layer(const tensor_table *t, size_t layer)
{
    return (layer_tensors){
        .norm1_weight = find_in_layer(t, layer, "input_layernorm.weight"),
        .norm1_bias = find_in_layer(t, layer, "input_layernorm.bias"),
        .norm2_weight = find_in_layer(t, layer, "post_attention_layernorm.weight"),
        .norm2_bias = find_in_layer(t, layer, "post_attention_layernorm.bias"),
        .qkv_weight = find_in_layer(t, layer, "attention.query_key_value.weight"),
        .qkv_bias = find_in_layer(t, layer, "attention.query_key_value.bias"),
        .dense_weight = find_in_layer(t, layer, "attention.dense.weight"),
        .dense_bias = find_in_layer(t, layer, "attention.dense.bias"),
        .linear1_weight = find_in_layer(t, layer, "mlp.linear1.weight"),
        .linear1_bias = find_in_layer(t, layer, "mlp.linear1.bias"),
        .linear2_weight = find_in_layer(t, layer, "mlp.linear2.weight"),
        .linear2_bias = find_in_layer(t, layer, "mlp.linear2.bias"),
    };
}

static status find_tensors(model *m)
{
    const size_t layers = m->options.shape.n_layers;
    const tensor_table *table = m->table;
    void *memory;
    TRY(memory_alloc(layers, sizeof(layer_tensors), "model plan", &memory));
    m->tensors.layers = memory;
    for (size_t i = 0; i < layers; i++)
        m->tensors.layers[i] = find_layer(table, i);
    m->tensors.embedding = tensor_table_find(table, "word_embeddings.weight");
    m->tensors.positions = tensor_table_find(table, "position_embeddings.weight");
    m->tensors.norm_weight = tensor_table_find(table, "norm.weight");
    m->tensors.norm_bias = tensor_table_find(table, "norm.bias");
    m->tensors.head = m->options.shape.tied ? m->tensors.embedding
                                            : tensor_table_find(table, "final_linear.weight");
    return STATUS_OK;
}

static status check_options(const model_options *o)
{
    TRY(model_shape_check(&o->shape));
    if (o->batch == 0 || o->tokens == 0)
        return fail(STATUS_ERR_CONFIG, "micro-batch of %zu samples of %zu tokens; both must be > 0",
                    o->batch, o->tokens);
    if (o->shape.position == POSITION_LEARNED && o->tokens > o->shape.max_positions)
        return fail(STATUS_ERR_CONFIG, "seq-length %zu exceeds max-position-embeddings %zu",
                    o->tokens, o->shape.max_positions);
    return STATUS_OK;
}

status model_create(device *d, const model_options *options, const tensor_table *table, model **out)
{
    TRY(check_options(options));
    void *memory;
    TRY(memory_alloc(1, sizeof(model), "model", &memory));
    model *m = memory;
    m->device = d;
    m->options = *options;
    m->table = table;
    m->rows = options->batch * options->tokens;
    m->head_dim = options->shape.hidden / options->shape.n_heads;
    const plan_sizes z = sizes_of(options);
    m->n_slots = z.n_slots;
    m->head_rows = z.head_rows;
    status result;
    TRY_OUT(result, find_tensors(m));
    TRY_OUT(result, allocate_host(m, &z));
    buffer_visitor v = {.m = m};
    visit_all(&v, d, options);
    TRY_OUT(result, v.result);
    if (options->training && options->type == DTYPE_F32)
        m->work.dlogits = m->work.logits;
    TRY_OUT(result, fill_rotary_tables(m));
    TRY_OUT(result, plan_products(m, &z));
    *out = m;
    m = NULL;
out:
    model_destroy(m);
    return result;
}

void model_destroy(model *m)
{
    if (!m)
        return;
    linear *plans[] = {m->qkv, m->dense, m->linear1, m->linear2, m->head, m->head_rest};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        linear_destroy(plans[i]);
    for (size_t i = 0; i < m->n_owned; i++)
        device_free(m->device, m->owned[i]);
    memory_free(m->owned);
    memory_free(m->inputs);
    memory_free(m->slots);
    memory_free(m->tensors.layers);
    memory_free(m);
}
