// One transformer layer, forward and backward.
//
// Parallel block (gpt-j-residual):           Sequential block:
//   n1 = norm1(x), n2 = norm2(x)               n1 = norm1(x)
//   t  = x + dense(attention(qkv(n1)))         a  = x + dense(attention(qkv(n1)))
//   y  = t + linear2(gelu(linear1(n2)))        y  = a + linear2(gelu(linear1(norm2(a))))
//
// Without hidden dropout the residual is added by the matrix product itself.
#include "model/model_internal.h"

static status norm_forward(const model_pass *p, void *y, float *mean, float *rstd, const void *x,
                           size_t weight, size_t bias)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    return device_norm_forward(p->stream, &(norm_forward_args){.y = y,
                                                               .mean = mean,
                                                               .rstd = rstd,
                                                               .x = x,
                                                               .weight = model_param(p, weight),
                                                               .bias = model_param(p, bias),
                                                               .rows = m->rows,
                                                               .cols = shape->hidden,
                                                               .epsilon = shape->norm_epsilon,
                                                               .kind = shape->norm,
                                                               .type = m->options.type});
}

// Both norms of the parallel block in one pass over x.
static status norm_forward_pair(const model_pass *p, const layer_tensors *t,
                                const layer_activations *a, const void *x)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    return device_norm_forward(p->stream,
                               &(norm_forward_args){.y = a->norm1,
                                                    .y2 = a->norm2,
                                                    .mean = a->mean1,
                                                    .rstd = a->rstd1,
                                                    .x = x,
                                                    .weight = model_param(p, t->norm1_weight),
                                                    .bias = model_param(p, t->norm1_bias),
                                                    .weight2 = model_param(p, t->norm2_weight),
                                                    .bias2 = model_param(p, t->norm2_bias),
                                                    .rows = m->rows,
                                                    .cols = shape->hidden,
                                                    .epsilon = shape->norm_epsilon,
                                                    .kind = shape->norm,
                                                    .type = m->options.type});
}

// The output projection of a branch: y = residual + dropout(x W^T + b).
static status branch_output(const model_pass *p, const linear *l, void *y, const void *x,
                            size_t weight, size_t bias, const void *residual,
                            const dropout_spec *dropout)
{
    const model *m = p->m;
    if (m->options.hidden_dropout == 0)
        return linear_forward(p->stream, l,
                              &(linear_forward_args){.y = y,
                                                     .x = x,
                                                     .weight = model_param(p, weight),
                                                     .bias = model_param(p, bias),
                                                     .residual = residual});
    TRY(linear_forward(p->stream, l,
                       &(linear_forward_args){.y = m->work.branch,
                                              .x = x,
                                              .weight = model_param(p, weight),
                                              .bias = model_param(p, bias)}));
    return device_dropout(p->stream, &(dropout_args){.y = y,
                                                     .x = residual,
                                                     .a = m->work.branch,
                                                     .count = m->rows * m->options.shape.hidden,
                                                     .type = m->options.type,
                                                     .dropout = *dropout});
}

static status rotate(const model_pass *p, void *qkv, bool backward)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    if (shape->position != POSITION_ROTARY)
        return STATUS_OK;
    return device_rotary(p->stream, &(rotary_args){.qkv = qkv,
                                                   .cos = m->cos,
                                                   .sin = m->sin,
                                                   .batch = m->options.batch,
                                                   .tokens = m->options.tokens,
                                                   .heads = shape->n_heads,
                                                   .head_dim = m->head_dim,
                                                   .rotary_dims = shape->rotary_dims,
                                                   .type = m->options.type,
                                                   .backward = backward});
}

// a->norm1 to a->attention.
static status attention_forward(const model_pass *p, size_t layer, const layer_tensors *t,
                                const layer_activations *a)
{
    const model *m = p->m;
    TRY(linear_forward(p->stream, m->qkv,
                       &(linear_forward_args){.y = a->qkv,
                                              .x = a->norm1,
                                              .weight = model_param(p, t->qkv_weight),
                                              .bias = model_param(p, t->qkv_bias)}));
    TRY(rotate(p, a->qkv, false));
    return device_attention_forward(
        p->stream,
        &(attention_forward_args){.out = a->attention,
                                  .lse = a->lse,
                                  .qkv = a->qkv,
                                  .batch = m->options.batch,
                                  .tokens = m->options.tokens,
                                  .heads = m->options.shape.n_heads,
                                  .head_dim = m->head_dim,
                                  .type = m->options.type,
                                  .dropout = model_dropout(p, DROPOUT_PROBABILITIES, layer)});
}

// a->norm2 to a->mlp.
static status mlp_forward(const model_pass *p, const layer_tensors *t, const layer_activations *a)
{
    return linear_forward(p->stream, p->m->linear1,
                          &(linear_forward_args){.y = a->mlp,
                                                 .x = a->norm2,
                                                 .weight = model_param(p, t->linear1_weight),
                                                 .bias = model_param(p, t->linear1_bias)});
}

status model_layer_forward(const model_pass *p, size_t layer, void *y, const void *x,
                           const layer_activations *a)
{
    const model *m = p->m;
    const layer_tensors *t = &m->tensors.layers[layer];
    const bool parallel = m->options.shape.parallel_residual;
    const dropout_spec attention_mask = model_dropout(p, DROPOUT_ATTENTION, layer);
    const dropout_spec mlp_mask = model_dropout(p, DROPOUT_MLP, layer);
    // The sum after the first branch: kept in the sequential block, which norms it.
    void *middle = parallel ? m->work.dnorm1 : a->middle;

    if (parallel)
        TRY(norm_forward_pair(p, t, a, x));
    else
        TRY(norm_forward(p, a->norm1, a->mean1, a->rstd1, x, t->norm1_weight, t->norm1_bias));
    TRY(attention_forward(p, layer, t, a));
    if (!parallel || y)
        TRY(branch_output(p, m->dense, middle, a->attention, t->dense_weight, t->dense_bias, x,
                          &attention_mask));
    if (!parallel)
        TRY(norm_forward(p, a->norm2, a->mean2, a->rstd2, middle, t->norm2_weight, t->norm2_bias));
    TRY(mlp_forward(p, t, a));
    if (!y)
        return STATUS_OK;
    TRY(device_gelu_forward(p->stream, &(gelu_forward_args){.y = m->work.gelu,
                                                            .x = a->mlp,
                                                            .count = m->rows * m->options.shape.ffn,
                                                            .kind = m->options.shape.gelu,
                                                            .type = m->options.type}));
    return branch_output(p, m->linear2, y, m->work.gelu, t->linear2_weight, t->linear2_bias, middle,
                         &mlp_mask);
}

// The gradient of a branch's output before its dropout: work.dx itself where there is none.
static status branch_gradient(const model_pass *p, const dropout_spec *dropout, const void **dy)
{
    const model *m = p->m;
    *dy = m->work.dx;
    if (dropout->probability == 0)
        return STATUS_OK;
    *dy = m->work.branch;
    return device_dropout(p->stream, &(dropout_args){.y = m->work.branch,
                                                     .a = m->work.dx,
                                                     .count = m->rows * m->options.shape.hidden,
                                                     .type = m->options.type,
                                                     .dropout = *dropout});
}

// From dy, the gradient of the MLP's output, to work.dnorm2.
static status mlp_backward(const model_pass *p, const layer_tensors *t, const layer_activations *a,
                           const void *dy)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    const bool accumulate = p->gradients->accumulate;
    TRY(linear_backward_input(p->stream, m->linear2, w->dmlp, dy,
                              model_param(p, t->linear2_weight)));
    TRY(device_gelu_backward(p->stream,
                             &(gelu_backward_args){.dx = w->dmlp,
                                                   .y = w->gelu,
                                                   .dbias = model_gradient(p, t->linear1_bias),
                                                   .dy = w->dmlp,
                                                   .x = a->mlp,
                                                   .rows = m->rows,
                                                   .cols = m->options.shape.ffn,
                                                   .kind = m->options.shape.gelu,
                                                   .type = m->options.type,
                                                   .accumulate = accumulate}));
    TRY(linear_backward_weight(
        p->stream, m->linear2,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->linear2_weight),
                                       .dbias = model_gradient(p, t->linear2_bias),
                                       .dy = dy,
                                       .x = w->gelu,
                                       .accumulate = accumulate}));
    TRY(model_gradient_ready(p, t->linear2_weight));
    TRY(linear_backward_input(p->stream, m->linear1, w->dnorm2, w->dmlp,
                              model_param(p, t->linear1_weight)));
    TRY(linear_backward_weight(
        p->stream, m->linear1,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->linear1_weight),
                                       .dy = w->dmlp,
                                       .x = a->norm2,
                                       .accumulate = accumulate}));
    return model_gradient_ready(p, t->linear1_weight);
}

// From dy, the gradient of dense's output, to work.dnorm1.
static status attention_backward(const model_pass *p, size_t layer, const layer_tensors *t,
                                 const layer_activations *a, const void *dy)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    const bool accumulate = p->gradients->accumulate;
    TRY(linear_backward_input(p->stream, m->dense, w->dattention, dy,
                              model_param(p, t->dense_weight)));
    TRY(linear_backward_weight(
        p->stream, m->dense,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->dense_weight),
                                       .dbias = model_gradient(p, t->dense_bias),
                                       .dy = dy,
                                       .x = a->attention,
                                       .accumulate = accumulate}));
    TRY(model_gradient_ready(p, t->dense_weight));
    TRY(device_attention_backward(
        p->stream,
        &(attention_backward_args){.dqkv = w->dqkv,
                                   .dout = w->dattention,
                                   .out = a->attention,
                                   .lse = a->lse,
                                   .qkv = a->qkv,
                                   .workspace = w->attention,
                                   .batch = m->options.batch,
                                   .tokens = m->options.tokens,
                                   .heads = m->options.shape.n_heads,
                                   .head_dim = m->head_dim,
                                   .type = m->options.type,
                                   .dropout = model_dropout(p, DROPOUT_PROBABILITIES, layer)}));
    TRY(rotate(p, w->dqkv, true));
    TRY(linear_backward_input(p->stream, m->qkv, w->dnorm1, w->dqkv,
                              model_param(p, t->qkv_weight)));
    TRY(linear_backward_weight(
        p->stream, m->qkv,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->qkv_weight),
                                       .dbias = model_gradient(p, t->qkv_bias),
                                       .dy = w->dqkv,
                                       .x = a->norm1,
                                       .accumulate = accumulate}));
    return model_gradient_ready(p, t->qkv_weight);
}

// work.dx += the gradient through norm 1, or through both norms of the parallel block.
static status input_norm_backward(const model_pass *p, const layer_tensors *t,
                                  const layer_activations *a, const void *x)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    norm_backward_args args = {.dx = m->work.dx,
                               .dweight = model_gradient(p, t->norm1_weight),
                               .dbias = model_gradient(p, t->norm1_bias),
                               .dresidual = m->work.dx,
                               .dy = m->work.dnorm1,
                               .x = x,
                               .mean = a->mean1,
                               .rstd = a->rstd1,
                               .weight = model_param(p, t->norm1_weight),
                               .rows = m->rows,
                               .cols = shape->hidden,
                               .kind = shape->norm,
                               .type = m->options.type,
                               .accumulate = p->gradients->accumulate};
    if (shape->parallel_residual) {
        args.dweight2 = model_gradient(p, t->norm2_weight);
        args.dbias2 = model_gradient(p, t->norm2_bias);
        args.dy2 = m->work.dnorm2;
        args.weight2 = model_param(p, t->norm2_weight);
    }
    return device_norm_backward(p->stream, &args);
}

// work.dx += the gradient through norm 2 of the sequential block.
static status middle_norm_backward(const model_pass *p, const layer_tensors *t,
                                   const layer_activations *a)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    return device_norm_backward(p->stream,
                                &(norm_backward_args){.dx = m->work.dx,
                                                      .dweight = model_gradient(p, t->norm2_weight),
                                                      .dbias = model_gradient(p, t->norm2_bias),
                                                      .dresidual = m->work.dx,
                                                      .dy = m->work.dnorm2,
                                                      .x = a->middle,
                                                      .mean = a->mean2,
                                                      .rstd = a->rstd2,
                                                      .weight = model_param(p, t->norm2_weight),
                                                      .rows = m->rows,
                                                      .cols = shape->hidden,
                                                      .kind = shape->norm,
                                                      .type = m->options.type,
                                                      .accumulate = p->gradients->accumulate});
}

// The vectors of a layer are final when the whole layer is.
static status layer_vectors_ready(const model_pass *p, const layer_tensors *t)
{
    const size_t vectors[] = {t->linear2_bias, t->linear1_bias, t->dense_bias, t->qkv_bias,
                              t->norm2_bias,   t->norm2_weight, t->norm1_bias, t->norm1_weight};
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        TRY(model_gradient_ready(p, vectors[i]));
    return STATUS_OK;
}

status model_layer_backward(const model_pass *p, size_t layer, const void *x,
                            const layer_activations *a)
{
    const model *m = p->m;
    const layer_tensors *t = &m->tensors.layers[layer];
    const dropout_spec attention_mask = model_dropout(p, DROPOUT_ATTENTION, layer);
    const dropout_spec mlp_mask = model_dropout(p, DROPOUT_MLP, layer);
    const void *dy;
    TRY(branch_gradient(p, &mlp_mask, &dy));
    TRY(mlp_backward(p, t, a, dy));
    if (!m->options.shape.parallel_residual)
        TRY(middle_norm_backward(p, t, a));
    TRY(branch_gradient(p, &attention_mask, &dy));
    TRY(attention_backward(p, layer, t, a, dy));
    TRY(input_norm_backward(p, t, a, x));
    return layer_vectors_ready(p, t);
}
