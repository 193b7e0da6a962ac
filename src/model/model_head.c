// Final norm, output projection and loss.
//
// Logits are made for a block of rows at a time, turned into losses and their own gradient in
// place, and used for both products of the backward pass before the next block: no more than
// head_rows x V of them exist. With several tensor ranks each has the logits of its own tokens, and
// of those of the others only three numbers a row.
#include "base/sizes.h"
#include "model/model_internal.h"

// The norm of the rank's own rows, then of all rows in work.norm.
static status final_norm(const model_pass *p, const void *x)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    TRY(device_norm_forward(p->stream,
                            &(norm_forward_args){.y = tensor_region_own(&m->region, m->work.norm),
                                                 .mean = m->work.mean,
                                                 .rstd = m->work.rstd,
                                                 .x = x,
                                                 .weight = model_param(p, m->tensors.norm_weight),
                                                 .bias = model_param(p, m->tensors.norm_bias),
                                                 .rows = m->region.own_rows,
                                                 .cols = shape->hidden,
                                                 .epsilon = shape->norm_epsilon,
                                                 .kind = shape->norm,
                                                 .type = m->options.type}));
    TRY(device_stream_synchronize(p->stream));
    return tensor_region_gather(&m->region, COMM_ACTIVATIONS, m->work.norm);
}

static status final_norm_backward(const model_pass *p, const void *x)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    TRY(device_stream_synchronize(p->stream));
    TRY(tensor_region_reduce(&m->region, COMM_ACTIVATION_GRADIENTS, m->work.dnorm));
    TRY(device_norm_backward(
        p->stream, &(norm_backward_args){.dx = p->dx,
                                         .dweight = model_gradient(p, m->tensors.norm_weight),
                                         .dbias = model_gradient(p, m->tensors.norm_bias),
                                         .dy = tensor_region_own(&m->region, m->work.dnorm),
                                         .x = x,
                                         .mean = m->work.mean,
                                         .rstd = m->work.rstd,
                                         .weight = model_param(p, m->tensors.norm_weight),
                                         .rows = m->region.own_rows,
                                         .cols = shape->hidden,
                                         .kind = shape->norm,
                                         .type = m->options.type,
                                         .accumulate = p->gradients->accumulate}));
    const size_t norms[] = {m->tensors.norm_bias, m->tensors.norm_weight};
    return model_row_gradients_ready(p, norms, sizeof norms / sizeof norms[0]);
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

// What a row's logits are measured by, from this rank's columns and all others'.
static status merge_losses(const model_pass *p, size_t first, size_t rows)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    const size_t block = rows * CROSS_ENTROPY_STATS;
    comm_request request = {0};
    TRY(device_cross_entropy_stats(
        p->stream, &(cross_entropy_stats_args){.stats = w->stats + m->region.rank * block,
                                               .logits = w->logits,
                                               .labels = p->batch->labels + first,
                                               .rows = rows,
                                               .vocab = m->vocab,
                                               .first = m->first_token}));
    for (size_t r = 0; r < m->region.ranks; r++)
        m->stats_counts[r] = block;
    TRY(device_stream_synchronize(p->stream));
    TRY(comm_allgather_begin(m->region.group, COMM_CONTROL, w->stats, m->stats_counts, DTYPE_F32,
                             &request));
    TRY(comm_wait(&request));
    return device_cross_entropy_merge(
        p->stream, &(cross_entropy_merge_args){.losses = p->batch->losses + first,
                                               .dlogits = p->gradients ? w->dlogits : NULL,
                                               .logits = w->logits,
                                               .stats = w->stats,
                                               .labels = p->batch->labels + first,
                                               .scale = p->batch->scale + first,
                                               .ranks = m->region.ranks,
                                               .rows = rows,
                                               .vocab = m->vocab,
                                               .first = m->first_token,
                                               .type = m->options.type});
}

static status take_losses(const model_pass *p, size_t first, size_t rows)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    if (m->region.ranks > 1)
        return merge_losses(p, first, rows);
    return device_cross_entropy(
        p->stream, &(cross_entropy_args){.losses = p->batch->losses + first,
                                         .dlogits = p->gradients ? w->dlogits : NULL,
                                         .logits = w->logits,
                                         .labels = p->batch->labels + first,
                                         .scale = p->gradients ? p->batch->scale + first : NULL,
                                         .rows = rows,
                                         .vocab = m->vocab,
                                         .type = m->options.type});
}

static status block_loss(const model_pass *p, const linear *head, size_t first, size_t rows)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    const void *weight = model_param(p, m->tensors.head);
    TRY(block_logits(p, head, first));
    TRY(take_losses(p, first, rows));
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
    if (!m->options.shape.tied || !m->options.part.embedding)
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
