// Final norm, output projection and loss.
//
// Logits are made for a block of rows at a time, turned into losses and their own gradient in
// place, and used for both products of the backward pass before the next block: no more than
// head_rows x V of them exist.
#include "base/sizes.h"
#include "model/model_internal.h"

static status final_norm(const model_pass *p, const void *x)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    return device_norm_forward(
        p->stream, &(norm_forward_args){.y = m->work.norm,
                                        .mean = m->work.mean,
                                        .rstd = m->work.rstd,
                                        .x = x,
                                        .weight = model_param(p, m->tensors.norm_weight),
                                        .bias = model_param(p, m->tensors.norm_bias),
                                        .rows = m->rows,
                                        .cols = shape->hidden,
                                        .epsilon = shape->norm_epsilon,
                                        .kind = shape->norm,
                                        .type = m->options.type});
}

static status final_norm_backward(const model_pass *p, const void *x)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    TRY(device_norm_backward(
        p->stream, &(norm_backward_args){.dx = m->work.dx,
                                         .dweight = model_gradient(p, m->tensors.norm_weight),
                                         .dbias = model_gradient(p, m->tensors.norm_bias),
                                         .dy = m->work.dnorm,
                                         .x = x,
                                         .mean = m->work.mean,
                                         .rstd = m->work.rstd,
                                         .weight = model_param(p, m->tensors.norm_weight),
                                         .rows = m->rows,
                                         .cols = shape->hidden,
                                         .kind = shape->norm,
                                         .type = m->options.type,
                                         .accumulate = p->gradients->accumulate}));
    TRY(model_gradient_ready(p, m->tensors.norm_bias));
    return model_gradient_ready(p, m->tensors.norm_weight);
}

// Rows [first, first + rows) of a matrix of width C in the model's type.
static void *rows_of(const model *m, void *matrix, size_t first)
{
    return (unsigned char *)matrix + first * m->options.shape.hidden * dtype_size(m->options.type);
}

static status block_logits(const model_pass *p, const linear *head, size_t first)
{
    const model *m = p->m;
    return linear_forward(p->stream, head,
                          &(linear_forward_args){.y = m->work.logits,
                                                 .x = rows_of(m, m->work.norm, first),
                                                 .weight = model_param(p, m->tensors.head)});
}

static status block_loss(const model_pass *p, const linear *head, size_t first, size_t rows)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    const void *weight = model_param(p, m->tensors.head);
    TRY(block_logits(p, head, first));
    TRY(device_cross_entropy(
        p->stream, &(cross_entropy_args){.losses = p->batch->losses + first,
                                         .dlogits = p->gradients ? w->dlogits : NULL,
                                         .logits = w->logits,
                                         .labels = p->batch->labels + first,
                                         .scale = p->gradients ? p->batch->scale + first : NULL,
                                         .rows = rows,
                                         .vocab = m->options.shape.vocab,
                                         .type = m->options.type}));
    if (!p->gradients)
        return STATUS_OK;
    TRY(linear_backward_input(p->stream, head, rows_of(m, w->dnorm, first), w->dlogits, weight));
    return linear_backward_weight(
        p->stream, head,
        &(linear_backward_weight_args){.dweight = model_gradient(p, m->tensors.head),
                                       .dy = w->dlogits,
                                       .x = rows_of(m, w->norm, first),
                                       .accumulate = p->gradients->accumulate || first > 0});
}

// The plan for the block of rows that starts at `first`.
static const linear *block_head(const model *m, size_t first)
{
    return m->rows - first >= m->head_rows ? m->head : m->head_rest;
}

status model_head_loss(const model_pass *p, const void *x)
{
    const model *m = p->m;
    TRY(final_norm(p, x));
    for (size_t first = 0; first < m->rows; first += m->head_rows)
        TRY(block_loss(p, block_head(m, first), first, size_min(m->head_rows, m->rows - first)));
    if (!p->gradients)
        return STATUS_OK;
    if (!m->options.shape.tied)
        TRY(model_gradient_ready(p, m->tensors.head));
    return final_norm_backward(p, x);
}

status model_head_logits(const model_pass *p, const void *x, float *logits_host)
{
    const model *m = p->m;
    const size_t vocab = m->options.shape.vocab;
    TRY(final_norm(p, x));
    for (size_t first = 0; first < m->rows; first += m->head_rows) {
        const size_t rows = size_min(m->head_rows, m->rows - first);
        TRY(block_logits(p, block_head(m, first), first));
        TRY(device_download(p->stream, logits_host + first * vocab, m->work.logits,
                            rows * vocab * sizeof(float)));
    }
    return STATUS_OK;
}
