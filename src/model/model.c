// The model as a whole: the order of its layers, forward, backward and recomputation.
#include "model/model.h"

#include <stdint.h>

#include "model/model_internal.h"

const void *model_param(const model_pass *p, size_t index)
{
    if (index == SIZE_MAX)
        return NULL;
    const size_t offset = p->m->table->tensors[index].offset;
    return (const unsigned char *)p->params + offset * dtype_size(p->m->options.type);
}

float *model_gradient(const model_pass *p, size_t index)
{
    return index == SIZE_MAX ? NULL : p->gradients->buffer + p->m->table->tensors[index].offset;
}

status model_gradient_ready(const model_pass *p, size_t index)
{
    const model_gradient_sink *sink = p->gradients->sink;
    return sink && index != SIZE_MAX ? sink->ready(sink->context, index) : STATUS_OK;
}

// Masks are named by the iteration, the layer and the place, and their elements by the position in
// the global batch: every grid and every split of the batch draws the same ones.
dropout_spec model_dropout(const model_pass *p, dropout_place place, size_t layer)
{
    const model_options *o = &p->m->options;
    const bool probabilities = place == DROPOUT_PROBABILITIES;
    const size_t row = probabilities ? o->shape.n_heads * o->tokens : o->shape.hidden;
    const float probability = probabilities ? o->attention_dropout : o->hidden_dropout;
    return (dropout_spec){
        .probability = p->dropout ? probability : 0,
        .seed = o->seed,
        .stream = ((uint64_t)p->batch->iteration << 24) | ((uint64_t)layer << 4) | (uint64_t)place,
        .offset = (uint64_t)p->batch->first_sample * o->tokens * row,
    };
}

static status embedding_forward(const model_pass *p)
{
    const model *m = p->m;
    const model_options *o = &m->options;
    TRY(device_embedding_forward(
        p->stream, &(embedding_forward_args){.y = m->inputs[0],
                                             .tokens = p->batch->tokens,
                                             .weight = model_param(p, m->tensors.embedding),
                                             .positions = model_param(p, m->tensors.positions),
                                             .batch = o->batch,
                                             .tokens_per_sample = o->tokens,
                                             .cols = o->shape.hidden,
                                             .type = o->type}));
    const dropout_spec mask = model_dropout(p, DROPOUT_EMBEDDING, 0);
    if (mask.probability == 0)
        return STATUS_OK;
    return device_dropout(p->stream, &(dropout_args){.y = m->inputs[0],
                                                     .a = m->inputs[0],
                                                     .count = m->rows * o->shape.hidden,
                                                     .type = o->type,
                                                     .dropout = mask});
}

// Rows that no token names keep a zero gradient; the head of a tied model has written its share.
static status clear_embedding_gradient(const model_pass *p)
{
    const model *m = p->m;
    if (p->gradients->accumulate)
        return STATUS_OK;
    const size_t cleared[] = {m->options.shape.tied ? SIZE_MAX : m->tensors.embedding,
                              m->tensors.positions};
    for (size_t i = 0; i < 2; i++)
        if (cleared[i] != SIZE_MAX)
            TRY(device_zero(p->stream, model_gradient(p, cleared[i]),
                            tensor_elements(&m->table->tensors[cleared[i]]) * sizeof(float)));
    return STATUS_OK;
}

static status embedding_backward(const model_pass *p)
{
    const model *m = p->m;
    const model_options *o = &m->options;
    const dropout_spec mask = model_dropout(p, DROPOUT_EMBEDDING, 0);
    if (mask.probability > 0)
        TRY(device_dropout(p->stream, &(dropout_args){.y = m->work.dx,
                                                      .a = m->work.dx,
                                                      .count = m->rows * o->shape.hidden,
                                                      .type = o->type,
                                                      .dropout = mask}));
    TRY(clear_embedding_gradient(p));
    TRY(device_embedding_backward(
        p->stream, &(embedding_backward_args){.dweight = model_gradient(p, m->tensors.embedding),
                                              .dpositions = model_gradient(p, m->tensors.positions),
                                              .tokens = p->batch->tokens,
                                              .dy = m->work.dx,
                                              .batch = o->batch,
                                              .tokens_per_sample = o->tokens,
                                              .cols = o->shape.hidden,
                                              .type = o->type}));
    TRY(model_gradient_ready(p, m->tensors.positions));
    return model_gradient_ready(p, m->tensors.embedding);
}

// Embedding and all layers: m->inputs[L] is the input of the final norm.
static status layers_forward(const model_pass *p)
{
    const model *m = p->m;
    TRY(embedding_forward(p));
    for (size_t i = 0; i < m->options.shape.n_layers; i++)
        TRY(model_layer_forward(p, i, m->inputs[i + 1], m->inputs[i], &m->slots[i % m->n_slots]));
    return STATUS_OK;
}

// Layers [first, end) again from their kept input, as far as the backward pass reads them.
static status recompute(const model_pass *p, size_t first, size_t end)
{
    const model *m = p->m;
    for (size_t i = first; i < end; i++)
        TRY(model_layer_forward(p, i, i + 1 < end ? m->inputs[i + 1] : NULL, m->inputs[i],
                                &m->slots[i % m->n_slots]));
    return STATUS_OK;
}

// All layers from the end, chunk by chunk where activations are recomputed.
static status layers_backward(const model_pass *p)
{
    const model *m = p->m;
    const size_t layers = m->options.shape.n_layers;
    const size_t chunk = m->n_slots;
    for (size_t end = layers; end > 0;) {
        const size_t first = (end - 1) / chunk * chunk;
        if (m->options.checkpoint_layers > 0)
            TRY(recompute(p, first, end));
        for (size_t i = end; i-- > first;)
            TRY(model_layer_backward(p, i, m->inputs[i], &m->slots[i % m->n_slots]));
        end = first;
    }
    return STATUS_OK;
}

status model_train(model *m, device_stream *s, const void *params, const model_batch *batch,
                   const model_gradients *gradients)
{
    const model_pass p = {.m = m,
                          .stream = s,
                          .params = params,
                          .batch = batch,
                          .gradients = gradients,
                          .dropout = true};
    TRY(layers_forward(&p));
    TRY(model_head_loss(&p, m->inputs[m->options.shape.n_layers]));
    TRY(layers_backward(&p));
    return embedding_backward(&p);
}

status model_evaluate(model *m, device_stream *s, const void *params, const model_batch *batch)
{
    const model_pass p = {.m = m, .stream = s, .params = params, .batch = batch};
    TRY(layers_forward(&p));
    return model_head_loss(&p, m->inputs[m->options.shape.n_layers]);
}

status model_logits(model *m, device_stream *s, const void *params, const model_batch *batch,
                    float *logits_host)
{
    const model_pass p = {.m = m, .stream = s, .params = params, .batch = batch};
    TRY(layers_forward(&p));
    return model_head_logits(&p, m->inputs[m->options.shape.n_layers], logits_host);
}
