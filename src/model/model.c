// The part of a model as a whole: the order of its layers, forward, backward and recomputation.
#include "model/model.h"

#include <stdint.h>

#include "model/model_internal.h"

const void *model_param(const model_pass *p, size_t index)
{
    return index == SIZE_MAX ? NULL : p->storage->params[index];
}

float *model_gradient(const model_pass *p, size_t index)
{
    return index == SIZE_MAX ? NULL : p->storage->gradients[index];
}

status model_gradient_ready(const model_pass *p, size_t index)
{
    const model_storage *w = p->storage;
    if (!p->gradients->announce || !w->ready || index == SIZE_MAX)
        return STATUS_OK;
    return w->ready(w->context, p->stream, index);
}

status model_row_gradients_ready(const model_pass *p, const size_t *indices, size_t count)
{
    const tensor_region *region = &p->m->region;
    if (!p->gradients->announce)
        return STATUS_OK;
    for (size_t i = 0; i < count && region->sequence; i++)
        if (indices[i] != SIZE_MAX)
            TRY(comm_allreduce(region->group, COMM_GRADIENTS, COMM_SUM,
                               model_gradient(p, indices[i]),
                               tensor_elements(&p->m->table->tensors[indices[i]]), DTYPE_F32));
    for (size_t i = 0; i < count; i++)
        TRY(model_gradient_ready(p, indices[i]));
    return STATUS_OK;
}

// Masks are named by the iteration, the layer and the place, and their elements by the position in
// the global batch: every grid and every split of the batch draws the same ones.
dropout_spec model_dropout(const model_pass *p, dropout_place place, size_t layer)
{
    const model_options *o = &p->m->options;
    const bool probabilities = place == DROPOUT_PROBABILITIES;
    const size_t row = probabilities ? o->shape.n_heads * o->tokens : o->shape.hidden;
    const size_t whole_layer = place == DROPOUT_EMBEDDING ? 0 : o->part.first_layer + layer;
    const float probability = probabilities ? o->attention_dropout : o->hidden_dropout;
    return (dropout_spec){
        .probability = p->dropout ? probability : 0,
        .seed = o->seed,
        .stream =
            ((uint64_t)p->batch->iteration << 24) | ((uint64_t)whole_layer << 4) | (uint64_t)place,
        .offset = (uint64_t)p->batch->first_sample * o->tokens * row,
    };
}

static size_t own_bytes(const model *m)
{
    return model_stream_elements(m) * dtype_size(m->options.type);
}

status model_enter_begin(const model_pass *p, const void *own, const void **full,
                         comm_request *request)
{
    const model *m = p->m;
    *full = own;
    if (!m->region.sequence)
        return STATUS_OK;
    TRY(device_copy(p->stream, tensor_region_own(&m->region, m->work.gathered), own, own_bytes(m)));
    TRY(device_stream_synchronize(p->stream));
    *full = m->work.gathered;
    return tensor_region_gather_begin(&m->region, COMM_ACTIVATIONS, m->work.gathered, request);
}

status model_enter(const model_pass *p, const void *own, const void **full)
{
    comm_request request = {0};
    TRY(model_enter_begin(p, own, full, &request));
    return comm_wait(&request);
}

status model_leave(const model_pass *p, void *y, const void *residual, void *partial,
                   comm_kind kind)
{
    const model *m = p->m;
    TRY(device_stream_synchronize(p->stream));
    TRY(tensor_region_reduce(&m->region, kind, partial));
    const void *own = tensor_region_own(&m->region, partial);
    if (!residual)
        return device_copy(p->stream, y, own, own_bytes(m));
    return device_add(p->stream, &(add_args){.y = y,
                                             .x = residual,
                                             .a = own,
                                             .count = model_stream_elements(m),
                                             .type = m->options.type});
}

size_t model_stream_elements(const model *m)
{
    return m->region.own_rows * m->region.cols;
}

void *model_input(model *m, size_t set)
{
    return m->sets[set].inputs[0];
}

const void *model_output(const model *m, size_t set)
{
    return m->sets[set].inputs[m->layers];
}

// ---- Units: the embedding, the layers, the head ----

static size_t unit_of_layer(const model *m, size_t layer)
{
    const model_part *part = &m->options.part;
    return part->first_unit + (size_t)part->embedding + layer;
}

static status acquire(const model_pass *p, size_t unit, bool backward)
{
    const model_storage *w = p->storage;
    return w->acquire ? w->acquire(w->context, p->stream, unit, backward) : STATUS_OK;
}

static status release(const model_pass *p, size_t unit, bool backward)
{
    const model_storage *w = p->storage;
    return w->release ? w->release(w->context, p->stream, unit, backward) : STATUS_OK;
}

static status embedding_forward(const model_pass *p)
{
    const size_t unit = p->m->options.part.first_unit;
    TRY(acquire(p, unit, false));
    TRY(model_embedding_forward(p));
    return release(p, unit, false);
}

static status layer_forward(const model_pass *p, size_t layer)
{
    const activation_set *set = p->set;
    const size_t unit = unit_of_layer(p->m, layer);
    TRY(acquire(p, unit, false));
    TRY(model_layer_forward(p, layer, set->inputs[layer + 1], set->inputs[layer],
                            &set->layers[layer]));
    return release(p, unit, false);
}

// Embedding and all layers.
static status layers_forward(const model_pass *p)
{
    if (p->m->options.part.embedding)
        TRY(embedding_forward(p));
    for (size_t i = 0; i < p->m->layers; i++)
        TRY(layer_forward(p, i));
    return STATUS_OK;
}

static status head(const model_pass *p)
{
    const model *m = p->m;
    const bool backward = p->gradients != NULL;
    const size_t unit = unit_of_layer(m, m->layers);
    TRY(acquire(p, unit, backward));
    TRY(model_head_loss(p, p->set->inputs[m->layers]));
    return release(p, unit, backward);
}

// Layers [first, end) again from their kept input, as far as the backward pass reads them. A layer
// is acquired for its backward pass already.
static status recompute(const model_pass *p, size_t first, size_t end)
{
    const activation_set *set = p->set;
    for (size_t i = first; i < end; i++) {
        const size_t unit = unit_of_layer(p->m, i);
        void *y = i + 1 < end ? set->inputs[i + 1] : NULL;
        TRY(acquire(p, unit, false));
        TRY(model_layer_forward(p, i, y, set->inputs[i], &set->layers[i]));
        TRY(release(p, unit, false));
    }
    return STATUS_OK;
}

// All layers from the end, chunk by chunk where activations are recomputed.
static status layers_backward(const model_pass *p, bool weights)
{
    const model *m = p->m;
    const size_t chunk =
        m->options.checkpoint_layers > 0 ? m->options.checkpoint_layers : m->layers;
    for (size_t end = m->layers; end > 0;) {
        const size_t first = (end - 1) / chunk * chunk;
        if (m->options.checkpoint_layers > 0)
            TRY(recompute(p, first, end));
        for (size_t i = end; i-- > first;) {
            TRY(acquire(p, unit_of_layer(m, i), true));
            TRY(model_layer_backward(p, i, p->set->inputs[i], weights));
            TRY(release(p, unit_of_layer(m, i), true));
        }
        end = first;
    }
    return STATUS_OK;
}

static status embedding_backward(const model_pass *p)
{
    const size_t unit = p->m->options.part.first_unit;
    TRY(acquire(p, unit, true));
    TRY(model_embedding_backward(p));
    return release(p, unit, true);
}

static status backward(const model_pass *p, bool weights)
{
    if (p->m->options.part.head)
        TRY(head(p));
    TRY(layers_backward(p, weights));
    return p->m->options.part.embedding ? embedding_backward(p) : STATUS_OK;
}

// ---- Passes ----

static model_pass pass_of(model *m, device_stream *s, const model_storage *storage,
                          const model_batch *batch, size_t set)
{
    return (model_pass){
        .m = m, .stream = s, .storage = storage, .batch = batch, .set = &m->sets[set]};
}

status model_forward(model *m, device_stream *s, const model_storage *storage,
                     const model_batch *batch, size_t set)
{
    model_pass p = pass_of(m, s, storage, batch, set);
    p.dropout = true;
    return layers_forward(&p);
}

static status run_backward(model *m, device_stream *s, const model_storage *storage,
                           const model_batch *batch, size_t set, void *dx,
                           const model_gradients *gradients, bool weights)
{
    model_pass p = pass_of(m, s, storage, batch, set);
    p.dropout = true;
    p.gradients = gradients;
    p.dx = dx ? dx : m->work.dx;
    return backward(&p, weights);
}

status model_backward(model *m, device_stream *s, const model_storage *storage,
                      const model_batch *batch, size_t set, void *dx,
                      const model_gradients *gradients)
{
    return run_backward(m, s, storage, batch, set, dx, gradients, true);
}

status model_backward_input(model *m, device_stream *s, const model_storage *storage,
                            const model_batch *batch, size_t set, void *dx,
                            const model_gradients *gradients)
{
    return run_backward(m, s, storage, batch, set, dx, gradients, false);
}

status model_backward_weights(model *m, device_stream *s, const model_storage *storage, size_t set,
                              const model_gradients *gradients)
{
    model_pass p = pass_of(m, s, storage, NULL, set);
    p.gradients = gradients;
    for (size_t i = m->layers; i-- > 0;)
        TRY(model_layer_backward_weights(&p, i));
    return STATUS_OK;
}

status model_evaluate(model *m, device_stream *s, const model_storage *storage,
                      const model_batch *batch, size_t set)
{
    const model_pass p = pass_of(m, s, storage, batch, set);
    TRY(layers_forward(&p));
    return m->options.part.head ? head(&p) : STATUS_OK;
}

status model_logits(model *m, device_stream *s, const model_storage *storage,
                    const model_batch *batch, float *logits_host)
{
    const model_pass p = pass_of(m, s, storage, batch, 0);
    TRY(layers_forward(&p));
    TRY(acquire(&p, unit_of_layer(m, m->layers), false));
    TRY(model_head_logits(&p, p.set->inputs[m->layers], logits_host));
    return release(&p, unit_of_layer(m, m->layers), false);
}
