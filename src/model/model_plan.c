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
    tensor_region region; // its geometry
    size_t rows, hidden;
    size_t own_hidden, ffn, heads, vocab, first_token; // of this rank
    size_t head_rows, rotary_half;
    size_t layers;   // of the part
    size_t n_layers; // of them whose activations are held in a set
    size_t n_slots;  // sets that hold activations of layers of their own
    size_t element;
} plan_sizes;

// Rows of logits a block: whole micro-batches where they fit, else equal blocks.
static size_t head_block_rows(size_t rows, size_t vocab)
{
    size_t limit = size_max(HEAD_BLOCK_BYTES / (vocab * sizeof(float)), HEAD_BLOCK_ROWS_MIN);
    size_t blocks = (rows + limit - 1) / limit;
    return (rows + blocks - 1) / blocks;
}

static status sizes_of(const model_options *o, plan_sizes *z)
{
    const model_shape *shape = &o->shape;
    const model_part *part = &o->part;
    const size_t ranks = part->tensor_size;
    size_t end;
    *z = (plan_sizes){.rows = o->batch * o->tokens,
                      .hidden = shape->hidden,
                      .own_hidden = shape->hidden / ranks,
                      .ffn = shape->ffn / ranks,
                      .heads = shape->n_heads / ranks,
                      .rotary_half = shape->rotary_dims / 2,
                      .layers = part->end_layer - part->first_layer,
                      .element = dtype_size(o->type)};
    size_split(shape->vocab, ranks, part->tensor_rank, &z->first_token, &end);
    z->vocab = end - z->first_token;
    z->head_rows = head_block_rows(z->rows, z->vocab);
    z->n_layers = z->layers;
    z->n_slots = o->sets;
    if (!o->training)
        z->n_layers = z->n_slots = 1;
    if (o->training && o->checkpoint_layers > 0) {
        z->n_layers = size_min(o->checkpoint_layers, z->layers);
        z->n_slots = 1;
    }
    return tensor_region_init(part->tensor_rank, ranks, o->sequence_parallel, z->rows,
                              shape->hidden, o->type, &z->region);
}

static void visit_layer(buffer_visitor *v, const model_options *o, const plan_sizes *z,
                        layer_activations *a)
{
    const size_t rows = z->rows, own = z->region.own_rows;
    visit(v, (void **)&a->mean1, own, sizeof(float), "norm statistics");
    visit(v, (void **)&a->rstd1, own, sizeof(float), "norm statistics");
    visit(v, &a->norm1, own * z->hidden, z->element, "norm output");
    visit(v, &a->norm2, own * z->hidden, z->element, "norm output");
    visit(v, &a->qkv, rows * z->own_hidden * 3, z->element, "queries, keys and values");
    visit(v, (void **)&a->lse, rows * z->heads, sizeof(float), "attention statistics");
    visit(v, &a->attention, rows * z->own_hidden, z->element, "attention output");
    visit(v, &a->mlp, rows * z->ffn, z->element, "MLP activations");
    if (o->shape.parallel_residual)
        return;
    visit(v, (void **)&a->mean2, own, sizeof(float), "norm statistics");
    visit(v, (void **)&a->rstd2, own, sizeof(float), "norm statistics");
    visit(v, &a->middle, own * z->hidden, z->element, "residual stream");
}

// What the matrices' gradients of a layer are made of. `keep`: until another call asks for them.
static void visit_layer_gradients(buffer_visitor *v, const model_options *o, const plan_sizes *z,
                                  bool keep, layer_gradients *g)
{
    const size_t hidden = z->rows * z->hidden;
    const bool dropout = o->hidden_dropout > 0;
    visit(v, &g->dqkv, z->rows * z->own_hidden * 3, z->element, "workspace");
    visit(v, &g->dmlp, z->rows * z->ffn, z->element, "workspace");
    g->dbranch1 = g->dbranch2 = NULL;
    if (keep || dropout) {
        visit(v, &g->dbranch2, hidden, z->element, "workspace");
        g->dbranch1 = g->dbranch2;
    }
    if (keep && (dropout || !o->shape.parallel_residual))
        visit(v, &g->dbranch1, hidden, z->element, "workspace");
}

static void visit_head(buffer_visitor *v, const model_options *o, const plan_sizes *z,
                       model_workspace *w)
{
    const size_t hidden = z->rows * z->hidden;
    const size_t ranks = o->part.tensor_size;
    visit(v, &w->norm, hidden, z->element, "final norm");
    visit(v, (void **)&w->mean, z->rows, sizeof(float), "norm statistics");
    visit(v, (void **)&w->rstd, z->rows, sizeof(float), "norm statistics");
    visit(v, (void **)&w->logits, z->head_rows * z->vocab, sizeof(float), "logits");
    if (ranks > 1)
        visit(v, (void **)&w->stats, ranks * z->head_rows * CROSS_ENTROPY_STATS, sizeof(float),
              "statistics of the logits");
    if (!o->training)
        return;
    visit(v, &w->dnorm, hidden, z->element, "workspace");
    if (o->type != DTYPE_F32)
        visit(v, &w->dlogits, z->head_rows * z->vocab, z->element, "gradient of the logits");
}

static void visit_workspace(buffer_visitor *v, const model_options *o, const plan_sizes *z,
                            size_t attention_bytes, model_workspace *w)
{
    const size_t hidden = z->rows * z->hidden;
    visit(v, &w->gelu, z->rows * z->ffn, z->element, "GELU output");
    visit(v, &w->dnorm1, hidden, z->element, "workspace");
    if (o->part.tensor_size > 1) {
        visit(v, &w->sum1, hidden, z->element, "workspace");
        visit(v, &w->sum2, hidden, z->element, "workspace");
    }
    if (z->region.sequence)
        visit(v, &w->gathered, hidden, z->element, "gathered rows");
    if (o->hidden_dropout > 0)
        visit(v, &w->branch, hidden, z->element, "workspace");
    if (o->part.head)
        visit_head(v, o, z, w);
    if (!o->training)
        return;
    if (o->part.head && o->part.embedding)
        visit(v, &w->dx, z->region.own_rows * z->hidden, z->element,
              "gradient of the residual stream");
    if (z->region.sequence)
        visit(v, &w->dgathered, hidden, z->element, "gathered gradients");
    visit(v, &w->dnorm2, hidden, z->element, "workspace");
    visit(v, &w->dattention, z->rows * z->own_hidden, z->element, "workspace");
    visit(v, &w->attention, attention_bytes, 1, "attention workspace");
}

// The residual stream of a set: chunk starts are kept for the backward pass, what lies between is
// shared by chunks, and by the sets; forward alone needs two in turn. The output is each set's own.
static void visit_inputs(buffer_visitor *v, const model_options *o, const plan_sizes *z, size_t set,
                         void **first_set, void **inputs)
{
    const size_t period = o->training ? z->n_layers : 2;
    for (size_t i = 0; i <= z->layers; i++) {
        const bool kept = (o->training && i % period == 0) || i == z->layers || i == 0;
        void *unused = NULL;
        if (kept || (i < period && (set == 0 || period == z->layers)))
            visit(v, inputs ? &inputs[i] : &unused, z->region.own_rows * z->hidden, z->element,
                  "residual stream");
        else if (inputs)
            inputs[i] = (period == z->layers || i % period == 0 ? inputs : first_set)[i % period];
    }
}

// The layers' activations of a set, or those of the first set again.
static void visit_set(buffer_visitor *v, const model_options *o, const plan_sizes *z, size_t set)
{
    model *m = v->m;
    layer_activations unused;
    layer_gradients unused_gradients;
    visit_inputs(v, o, z, set, m ? m->sets[0].inputs : NULL, m ? m->sets[set].inputs : NULL);
    for (size_t i = 0; i < z->layers; i++) {
        if (set < z->n_slots && i < z->n_layers)
            visit_layer(v, o, z, m ? &m->sets[set].layers[i] : &unused);
        else if (m)
            m->sets[set].layers[i] = m->sets[set < z->n_slots ? set : 0].layers[i % z->n_layers];
        if (!o->training)
            continue;
        if (o->split_backward || (set == 0 && i == 0))
            visit_layer_gradients(v, o, z, o->split_backward,
                                  m ? &m->sets[set].gradients[i] : &unused_gradients);
        else if (m)
            m->sets[set].gradients[i] = m->sets[0].gradients[0];
    }
}

// Every buffer of the model, in one order.
static void visit_all(buffer_visitor *v, device *d, const model_options *o, const plan_sizes *z)
{
    const model_shape *shape = &o->shape;
    const size_t attention = device_attention_workspace(d, o->batch, o->tokens, z->heads,
                                                        shape->hidden / shape->n_heads, o->type);
    model *m = v->m;
    model_workspace unused_work;
    void *unused = NULL;
    for (size_t set = 0; set < o->sets; set++)
        visit_set(v, o, z, set);
    visit_workspace(v, o, z, attention, m ? &m->work : &unused_work);
    if (shape->position == POSITION_ROTARY) {
        visit(v, m ? (void **)&m->cos : &unused, o->tokens * z->rotary_half, sizeof(float),
              "rotary table");
        visit(v, m ? (void **)&m->sin : &unused, o->tokens * z->rotary_half, sizeof(float),
              "rotary table");
    }
}

status model_activation_bytes(device *d, const model_options *options, size_t *bytes)
{
    plan_sizes z;
    buffer_visitor v = {0};
    TRY(sizes_of(options, &z));
    visit_all(&v, d, options, &z);
    tensor_region_fini(&z.region);
    *bytes = v.bytes;
    return v.result;
}

static status allocate_set(activation_set *set, size_t layers)
{
    void *memory;
    TRY(memory_alloc(layers + 1, sizeof(void *), "model plan", &memory));
    set->inputs = memory;
    TRY(memory_alloc(layers, sizeof(layer_activations), "model plan", &memory));
    set->layers = memory;
    TRY(memory_alloc(layers, sizeof(layer_gradients), "model plan", &memory));
    set->gradients = memory;
    return STATUS_OK;
}

static status allocate_host(model *m)
{
    const size_t a_layer = 16,
                 others = 32; // buffers at most: of a layer in a set, and all the rest
    const size_t sets = m->options.sets;
    void *memory;
    TRY(memory_alloc(sets, sizeof(activation_set), "model plan", &memory));
    m->sets = memory;
    for (size_t i = 0; i < sets; i++)
        TRY(allocate_set(&m->sets[i], m->layers));
    TRY(memory_alloc(m->region.ranks, sizeof(size_t), "model plan", &memory));
    m->stats_counts = memory;
    TRY(memory_alloc(sets * (m->layers + 1) * a_layer + others, sizeof(void *), "model plan",
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
                                    .out = m->vocab,
                                    .type = m->options.type,
                                    .y_type = DTYPE_F32,
                                    .training = m->options.training};
    return linear_create(m->device, &options, plan);
}

// The sums of row-parallel products get their bias from the first rank. The second branch of the
// parallel block is added to the first by its product.
static status plan_products(model *m)
{
    const model_shape *shape = &m->options.shape;
    const size_t c = shape->hidden;
    const bool alone = m->region.ranks == 1, first = m->region.rank == 0;
    const bool fused = m->options.hidden_dropout == 0;
    const bool attention_bias = shape->attention_bias;
    TRY(plan_linear(m, m->rows, c, 3 * m->own_hidden, attention_bias, false, &m->qkv));
    TRY(plan_linear(m, m->rows, m->own_hidden, c, attention_bias && first, fused && alone,
                    &m->dense));
    TRY(plan_linear(m, m->rows, c, m->ffn, shape->mlp_bias, false, &m->linear1));
    TRY(plan_linear(m, m->rows, m->ffn, c, shape->mlp_bias && first,
                    fused && (alone || shape->parallel_residual), &m->linear2));
    if (!m->options.part.head)
        return STATUS_OK;
    TRY(plan_head(m, m->head_rows, &m->head));
    const size_t rest = m->rows % m->head_rows;
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
    const model_part *part = &m->options.part;
    const tensor_table *table = m->table;
    const bool tied = m->options.shape.tied;
    void *memory;
    TRY(memory_alloc(m->layers, sizeof(layer_tensors), "model plan", &memory));
    m->tensors.layers = memory;
    for (size_t i = 0; i < m->layers; i++)
        m->tensors.layers[i] = find_layer(table, part->first_layer + i);
    m->tensors.embedding = tensor_table_find(table, "word_embeddings.weight");
    m->tensors.positions = tensor_table_find(table, "position_embeddings.weight");
    m->tensors.norm_weight = tensor_table_find(table, "norm.weight");
    m->tensors.norm_bias = tensor_table_find(table, "norm.bias");
    m->tensors.head = tied ? m->tensors.embedding : tensor_table_find(table, "final_linear.weight");
    return STATUS_OK;
}

static status check_options(const model_options *o)
{
    TRY(model_shape_check(&o->shape));
    TRY(model_part_check(&o->shape, &o->part));
    if (o->split_backward && o->checkpoint_layers > 0)
        return fail(STATUS_ERR_CONFIG, "a split backward pass keeps what checkpoint-activations "
                                       "would recompute; one of the two must be off");
    if (o->batch == 0 || o->tokens == 0)
        return fail(STATUS_ERR_CONFIG, "micro-batch of %zu samples of %zu tokens; both must be > 0",
                    o->batch, o->tokens);
    if (o->shape.position == POSITION_LEARNED && o->tokens > o->shape.max_positions)
        return fail(STATUS_ERR_CONFIG, "seq-length %zu exceeds max-position-embeddings %zu",
                    o->tokens, o->shape.max_positions);
    return STATUS_OK;
}

static void take_sizes(model *m, plan_sizes *z, comm_group *tensor)
{
    m->region = z->region;
    z->region.counts = NULL; // now the model's
    m->region.group = tensor;
    m->rows = z->rows;
    m->layers = z->layers;
    m->heads = z->heads;
    m->own_hidden = z->own_hidden;
    m->ffn = z->ffn;
    m->vocab = z->vocab;
    m->first_token = z->first_token;
    m->head_dim = z->hidden / m->options.shape.n_heads;
    m->head_rows = z->head_rows;
}

status model_create(device *d, const model_options *options, const tensor_table *table,
                    comm_group *tensor, model **out)
{
    TRY(check_options(options));
    void *memory;
    TRY(memory_alloc(1, sizeof(model), "model", &memory));
    model *m = memory;
    m->device = d;
    m->options = *options;
    m->table = table;
    plan_sizes z;
    buffer_visitor v = {.m = m};
    status result;
    TRY_OUT(result, sizes_of(options, &z));
    take_sizes(m, &z, tensor);
    TRY_OUT(result, find_tensors(m));
    TRY_OUT(result, allocate_host(m));
    visit_all(&v, d, options, &z);
    TRY_OUT(result, v.result);
    if (options->training && options->type == DTYPE_F32)
        m->work.dlogits = m->work.logits;
    TRY_OUT(result, fill_rotary_tables(m));
    TRY_OUT(result, plan_products(m));
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
    for (size_t i = 0; m->sets && i < m->options.sets; i++) {
        memory_free(m->sets[i].inputs);
        memory_free(m->sets[i].layers);
        memory_free(m->sets[i].gradients);
    }
    memory_free(m->owned);
    memory_free(m->sets);
    memory_free(m->stats_counts);
    memory_free(m->tensors.layers);
    tensor_region_fini(&m->region);
    memory_free(m);
}
