// One transformer layer, forward.
//
// Parallel block (gpt-j-residual):           Sequential block:
//   n1 = norm1(x), n2 = norm2(x)               n1 = norm1(x)
//   t  = x + dense(attention(qkv(n1)))         a  = x + dense(attention(qkv(n1)))
//   y  = t + linear2(gelu(linear1(n2)))        y  = a + linear2(gelu(linear1(norm2(a))))
//
// On one rank and without hidden dropout the residual is added by the matrix product itself. With
// several tensor ranks a branch's output is a sum over them: the parallel block sums both branches
// at once, the first rank's products add the biases, and the residual comes after the sum, so that
// only what the branches add travels.
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
                                                               .rows = m->region.own_rows,
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
                                                    .rows = m->region.own_rows,
                                                    .cols = shape->hidden,
                                                    .epsilon = shape->norm_epsilon,
                                                    .kind = shape->norm,
                                                    .type = m->options.type});
}

// The output projection of a branch: y = residual + dropout(x W^T + b); residual NULL means 0.
static status branch_output(const model_pass *p, const linear *l, void *y, const void *x,
                            size_t weight, size_t bias, const void *residual,
                            const dropout_spec *dropout)
{
    const model *m = p->m;
    const bool fused = m->options.hidden_dropout == 0;
    TRY(linear_forward(
        p->stream, l,
        &(linear_forward_args){.y = fused ? y : m->work.branch,
                               .x = x,
                               .weight = model_param(p, weight),
                               .bias = model_param(p, m->region.rank == 0 ? bias : SIZE_MAX),
                               .residual = fused ? residual : NULL}));
    if (fused)
        return STATUS_OK;
    return device_dropout(p->stream, &(dropout_args){.y = y,
                                                     .x = residual,
                                                     .a = m->work.branch,
                                                     .count = m->rows * m->options.shape.hidden,
                                                     .type = m->options.type,
                                                     .dropout = *dropout});
}

status model_rotate(const model_pass *p, void *qkv, bool backward)
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
                                                   .heads = m->heads,
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
    const void *x;
    TRY(model_enter(p, a->norm1, &x));
    TRY(linear_forward(p->stream, m->qkv,
                       &(linear_forward_args){.y = a->qkv,
                                              .x = x,
                                              .weight = model_param(p, t->qkv_weight),
                                              .bias = model_param(p, t->qkv_bias)}));
    TRY(model_rotate(p, a->qkv, false));
    return device_attention_forward(
        p->stream,
        &(attention_forward_args){.out = a->attention,
                                  .lse = a->lse,
                                  .qkv = a->qkv,
                                  .batch = m->options.batch,
                                  .tokens = m->options.tokens,
                                  .heads = m->heads,
                                  .head_dim = m->head_dim,
                                  .whole_heads = m->options.shape.n_heads,
                                  .first_head = m->region.rank * m->heads,
                                  .type = m->options.type,
                                  .dropout = model_dropout(p, DROPOUT_PROBABILITIES, layer)});
}

// a->norm2 to a->mlp.
static status mlp_forward(const model_pass *p, const layer_tensors *t, const layer_activations *a)
{
    const void *x;
    TRY(model_enter(p, a->norm2, &x));
    return linear_forward(p->stream, p->m->linear1,
                          &(linear_forward_args){.y = a->mlp,
                                                 .x = x,
                                                 .weight = model_param(p, t->linear1_weight),
                                                 .bias = model_param(p, t->linear1_bias)});
}

// The output of the first branch: with the residual where one rank is alone, or its part of a sum.
static status attention_output(const model_pass *p, size_t layer, const layer_tensors *t,
                               const layer_activations *a, void *y, const void *residual)
{
    const dropout_spec mask = model_dropout(p, DROPOUT_ATTENTION, layer);
    return branch_output(p, p->m->dense, y, a->attention, t->dense_weight, t->dense_bias, residual,
                         &mask);
}

static status mlp_output(const model_pass *p, size_t layer, const layer_tensors *t,
                         const layer_activations *a, void *y, const void *residual)
{
    const model *m = p->m;
    const dropout_spec mask = model_dropout(p, DROPOUT_MLP, layer);
    TRY(device_gelu_forward(p->stream, &(gelu_forward_args){.y = m->work.gelu,
                                                            .x = a->mlp,
                                                            .count = m->rows * m->ffn,
                                                            .kind = m->options.shape.gelu,
                                                            .type = m->options.type}));
    return branch_output(p, m->linear2, y, m->work.gelu, t->linear2_weight, t->linear2_bias,
                         residual, &mask);
}

// Both branches of the parallel block.
static status parallel_block(const model_pass *p, size_t layer, void *y, const void *x,
                             const layer_activations *a)
{
    const model *m = p->m;
    const layer_tensors *t = &m->tensors.layers[layer];
    const bool alone = m->region.ranks == 1;
    void *first = alone ? m->work.dnorm1 : m->work.sum1;
    void *second = alone ? y : m->work.sum2;
    TRY(norm_forward_pair(p, t, a, x));
    TRY(attention_forward(p, layer, t, a));
    if (y)
        TRY(attention_output(p, layer, t, a, first, alone ? x : NULL));
    TRY(mlp_forward(p, t, a));
    if (!y)
        return STATUS_OK;
    TRY(mlp_output(p, layer, t, a, second, first));
    return alone ? STATUS_OK : model_leave(p, y, x, second, COMM_ACTIVATIONS);
}

// One branch after the other. The sum after the first is kept.
static status sequential_block(const model_pass *p, size_t layer, void *y, const void *x,
                               const layer_activations *a)
{
    const model *m = p->m;
    const layer_tensors *t = &m->tensors.layers[layer];
    const bool alone = m->region.ranks == 1;
    TRY(norm_forward(p, a->norm1, a->mean1, a->rstd1, x, t->norm1_weight, t->norm1_bias));
    TRY(attention_forward(p, layer, t, a));
    if (alone) {
        TRY(attention_output(p, layer, t, a, a->middle, x));
    } else {
        TRY(attention_output(p, layer, t, a, m->work.sum1, NULL));
        TRY(model_leave(p, a->middle, x, m->work.sum1, COMM_ACTIVATIONS));
    }
    TRY(norm_forward(p, a->norm2, a->mean2, a->rstd2, a->middle, t->norm2_weight, t->norm2_bias));
    TRY(mlp_forward(p, t, a));
    if (!y)
        return STATUS_OK;
    if (alone)
        return mlp_output(p, layer, t, a, y, a->middle);
    TRY(mlp_output(p, layer, t, a, m->work.sum2, NULL));
    return model_leave(p, y, a->middle, m->work.sum2, COMM_ACTIVATIONS);
}

status model_layer_forward(const model_pass *p, size_t layer, void *y, const void *x,
                           const layer_activations *a)
{
    return p->m->options.shape.parallel_residual ? parallel_block(p, layer, y, x, a)
                                                 : sequential_block(p, layer, y, x, a);
}
