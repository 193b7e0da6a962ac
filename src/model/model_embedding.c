// The embedding: rows of the vocabulary, learned positions, dropout.
//
// With several tensor ranks each gives the rows of the tokens that it has, the first one also the
// positions, and the sum over the ranks is the embedding.
#include <stdint.h>

#include "model/model_internal.h"

static status dropout(const model_pass *p, void *rows)
{
    const model *m = p->m;
    const dropout_spec mask = model_dropout(p, DROPOUT_EMBEDDING, 0);
    if (mask.probability == 0)
        return STATUS_OK;
    return device_dropout(p->stream, &(dropout_args){.y = rows,
                                                     .a = rows,
                                                     .count = m->rows * m->options.shape.hidden,
                                                     .type = m->options.type,
                                                     .dropout = mask});
}

// A mask is the same on all ranks, so the masked parts add up to the masked sum.
status model_embedding_forward(const model_pass *p)
{
    const model *m = p->m;
    const model_options *o = &m->options;
    const bool alone = m->region.ranks == 1;
    void *rows = alone ? p->set->inputs[0] : m->work.sum2;
    const size_t positions = m->region.rank == 0 ? m->tensors.positions : SIZE_MAX;
    TRY(device_embedding_forward(
        p->stream, &(embedding_forward_args){.y = rows,
                                             .tokens = p->batch->tokens,
                                             .weight = model_param(p, m->tensors.embedding),
                                             .positions = model_param(p, positions),
                                             .first_token = m->first_token,
                                             .vocab = m->vocab,
                                             .batch = o->batch,
                                             .tokens_per_sample = o->tokens,
                                             .cols = o->shape.hidden,
                                             .type = o->type}));
    TRY(dropout(p, rows));
    return alone ? STATUS_OK : model_leave(p, p->set->inputs[0], NULL, rows, COMM_EMBEDDINGS);
}

// Rows that no token names keep a zero gradient; the head of a tied model, where it is this rank's
// too, has written its share.
static status clear_gradients(const model_pass *p)
{
    const model *m = p->m;
    if (p->gradients->accumulate)
        return STATUS_OK;
    const bool written = m->options.shape.tied && m->options.part.head;
    const size_t cleared[] = {written ? SIZE_MAX : m->tensors.embedding, m->tensors.positions};
    for (size_t i = 0; i < 2; i++)
        if (cleared[i] != SIZE_MAX)
            TRY(device_zero(p->stream, model_gradient(p, cleared[i]),
                            tensor_elements(&m->table->tensors[cleared[i]]) * sizeof(float)));
    return STATUS_OK;
}

// The gradient of all rows: those of the other ranks are fetched where each has its own.
static status gather_gradient(const model_pass *p, void **dy)
{
    const model *m = p->m;
    *dy = p->dx;
    if (!m->region.sequence)
        return STATUS_OK;
    *dy = m->work.dgathered;
    TRY(device_copy(p->stream, tensor_region_own(&m->region, *dy), p->dx,
                    model_stream_elements(m) * dtype_size(m->options.type)));
    TRY(device_stream_synchronize(p->stream));
    return tensor_region_gather(&m->region, COMM_ACTIVATION_GRADIENTS, *dy);
}

status model_embedding_backward(const model_pass *p)
{
    const model *m = p->m;
    const model_options *o = &m->options;
    void *dy;
    TRY(gather_gradient(p, &dy));
    TRY(dropout(p, dy));
    TRY(clear_gradients(p));
    TRY(device_embedding_backward(
        p->stream, &(embedding_backward_args){.dweight = model_gradient(p, m->tensors.embedding),
                                              .dpositions = model_gradient(p, m->tensors.positions),
                                              .tokens = p->batch->tokens,
                                              .dy = dy,
                                              .first_token = m->first_token,
                                              .vocab = m->vocab,
                                              .batch = o->batch,
                                              .tokens_per_sample = o->tokens,
                                              .cols = o->shape.hidden,
                                              .type = o->type}));
    TRY(model_gradient_ready(p, m->tensors.positions));
    return model_gradient_ready(p, m->tensors.embedding);
}
