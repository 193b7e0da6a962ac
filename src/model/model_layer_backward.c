// One transformer layer, backward.
//
// For each matrix there are two products: the gradient of its input, which the rest of the backward
// pass waits for, and its own gradient, which nothing waits for. The sum over the tensor ranks of
// the one travels while the other is computed. A pipeline may also put the second kind off until
// its stage has nothing better to do; then the gradients that they are made of are kept.
#include <stdint.h>

#include "model/model_internal.h"

// The gradient of the layer's output, of all rows.
static status gather_output_gradient(const model_pass *p, const void **dy)
{
    const model *m = p->m;
    *dy = p->dx;
    if (!m->region.sequence)
        return STATUS_OK;
    TRY(device_copy(p->stream, tensor_region_own(&m->region, m->work.dgathered), p->dx,
                    model_stream_elements(m) * dtype_size(m->options.type)));
    TRY(device_stream_synchronize(p->stream));
    *dy = m->work.dgathered;
    return tensor_region_gather(&m->region, COMM_ACTIVATION_GRADIENTS, m->work.dgathered);
}

// The gradient of a branch's output before its dropout, in `branch`, which is NULL where dy itself
// may serve.
static status branch_gradient(const model_pass *p, dropout_place place, size_t layer, void *branch,
                              const void **dy)
{
    const model *m = p->m;
    const dropout_spec mask = model_dropout(p, place, layer);
    const size_t count = m->rows * m->options.shape.hidden;
    if (!branch)
        return STATUS_OK;
    const void *from = *dy;
    *dy = branch;
    if (mask.probability == 0)
        return device_copy(p->stream, branch, from, count * dtype_size(m->options.type));
    return device_dropout(
        p->stream,
        &(dropout_args){
            .y = branch, .a = from, .count = count, .type = m->options.type, .dropout = mask});
}

// From dy, the gradient of the MLP's output, to that of linear1's output, and to this rank's part
// of work.dnorm2, which begins to be summed.
static status mlp_backward_input(const model_pass *p, const layer_tensors *t,
                                 const layer_activations *a, const layer_gradients *g,
                                 const void *dy, bool weights, comm_request *request)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    TRY(linear_backward_input(p->stream, m->linear2, g->dmlp, dy,
                              model_param(p, t->linear2_weight)));
    TRY(device_gelu_backward(p->stream,
                             &(gelu_backward_args){.dx = g->dmlp,
                                                   .y = weights ? w->gelu : NULL,
                                                   .dbias = model_gradient(p, t->linear1_bias),
                                                   .dy = g->dmlp,
                                                   .x = a->mlp,
                                                   .rows = m->rows,
                                                   .cols = m->ffn,
                                                   .kind = m->options.shape.gelu,
                                                   .type = m->options.type,
                                                   .accumulate = p->gradients->accumulate}));
    TRY(linear_backward_input(p->stream, m->linear1, w->dnorm2, g->dmlp,
                              model_param(p, t->linear1_weight)));
    TRY(device_stream_synchronize(p->stream));
    return tensor_region_reduce_begin(&m->region, COMM_ACTIVATION_GRADIENTS, w->dnorm2, request);
}

// The gradients of linear2 and linear1; work.gelu holds the MLP's activations again.
static status mlp_backward_weights(const model_pass *p, const layer_tensors *t,
                                   const layer_activations *a, const layer_gradients *g,
                                   const void *dy)
{
    const model *m = p->m;
    const bool accumulate = p->gradients->accumulate;
    comm_request request = {0};
    const void *x;
    TRY(model_enter_begin(p, a->norm2, &x, &request));
    TRY(linear_backward_weight(
        p->stream, m->linear2,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->linear2_weight),
                                       .dbias = model_gradient(p, t->linear2_bias),
                                       .dy = dy,
                                       .x = m->work.gelu,
                                       .accumulate = accumulate}));
    TRY(model_gradient_ready(p, t->linear2_weight));
    TRY(comm_wait(&request));
    TRY(linear_backward_weight(
        p->stream, m->linear1,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->linear1_weight),
                                       .dy = g->dmlp,
                                       .x = x,
                                       .accumulate = accumulate}));
    return model_gradient_ready(p, t->linear1_weight);
}

// From dy, the gradient of dense's output, to that of q, k and v, and to this rank's part of
// work.dnorm1, which begins to be summed.
static status attention_backward_input(const model_pass *p, size_t layer, const layer_tensors *t,
                                       const layer_activations *a, const layer_gradients *g,
                                       const void *dy, comm_request *request)
{
    const model *m = p->m;
    const model_workspace *w = &m->work;
    TRY(linear_backward_input(p->stream, m->dense, w->dattention, dy,
                              model_param(p, t->dense_weight)));
    TRY(device_attention_backward(
        p->stream,
        &(attention_backward_args){.dqkv = g->dqkv,
                                   .dout = w->dattention,
                                   .out = a->attention,
                                   .lse = a->lse,
                                   .qkv = a->qkv,
                                   .workspace = w->attention,
                                   .batch = m->options.batch,
                                   .tokens = m->options.tokens,
                                   .heads = m->heads,
                                   .head_dim = m->head_dim,
                                   .whole_heads = m->options.shape.n_heads,
                                   .first_head = m->region.rank * m->heads,
                                   .type = m->options.type,
                                   .dropout = model_dropout(p, DROPOUT_PROBABILITIES, layer)}));
    TRY(model_rotate(p, g->dqkv, true));
    TRY(linear_backward_input(p->stream, m->qkv, w->dnorm1, g->dqkv,
                              model_param(p, t->qkv_weight)));
    TRY(device_stream_synchronize(p->stream));
    return tensor_region_reduce_begin(&m->region, COMM_ACTIVATION_GRADIENTS, w->dnorm1, request);
}

// The gradients of dense and query_key_value.
static status attention_backward_weights(const model_pass *p, const layer_tensors *t,
                                         const layer_activations *a, const layer_gradients *g,
                                         const void *dy)
{
    const model *m = p->m;
    const bool accumulate = p->gradients->accumulate;
    comm_request request = {0};
    const void *x;
    TRY(model_enter_begin(p, a->norm1, &x, &request));
    TRY(linear_backward_weight(
        p->stream, m->dense,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->dense_weight),
                                       .dbias = model_gradient(p, t->dense_bias),
                                       .dy = dy,
                                       .x = a->attention,
                                       .accumulate = accumulate}));
    TRY(model_gradient_ready(p, t->dense_weight));
    TRY(comm_wait(&request));
    TRY(linear_backward_weight(
        p->stream, m->qkv,
        &(linear_backward_weight_args){.dweight = model_gradient(p, t->qkv_weight),
                                       .dbias = model_gradient(p, t->qkv_bias),
                                       .dy = g->dqkv,
                                       .x = x,
                                       .accumulate = accumulate}));
    return model_gradient_ready(p, t->qkv_weight);
}

// dx += the gradient through norm 1, or through both norms of the parallel block.
static status input_norm_backward(const model_pass *p, const layer_tensors *t,
                                  const layer_activations *a, const void *x)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    norm_backward_args args = {.dx = p->dx,
                               .dweight = model_gradient(p, t->norm1_weight),
                               .dbias = model_gradient(p, t->norm1_bias),
                               .dresidual = p->dx,
                               .dy = tensor_region_own(&m->region, m->work.dnorm1),
                               .x = x,
                               .mean = a->mean1,
                               .rstd = a->rstd1,
                               .weight = model_param(p, t->norm1_weight),
                               .rows = m->region.own_rows,
                               .cols = shape->hidden,
                               .kind = shape->norm,
                               .type = m->options.type,
                               .accumulate = p->gradients->accumulate};
    if (shape->parallel_residual) {
        args.dweight2 = model_gradient(p, t->norm2_weight);
        args.dbias2 = model_gradient(p, t->norm2_bias);
        args.dy2 = tensor_region_own(&m->region, m->work.dnorm2);
        args.weight2 = model_param(p, t->norm2_weight);
    }
    return device_norm_backward(p->stream, &args);
}

// dx += the gradient through norm 2 of the sequential block.
static status middle_norm_backward(const model_pass *p, const layer_tensors *t,
                                   const layer_activations *a)
{
    const model *m = p->m;
    const model_shape *shape = &m->options.shape;
    return device_norm_backward(
        p->stream, &(norm_backward_args){.dx = p->dx,
                                         .dweight = model_gradient(p, t->norm2_weight),
                                         .dbias = model_gradient(p, t->norm2_bias),
                                         .dresidual = p->dx,
                                         .dy = tensor_region_own(&m->region, m->work.dnorm2),
                                         .x = a->middle,
                                         .mean = a->mean2,
                                         .rstd = a->rstd2,
                                         .weight = model_param(p, t->norm2_weight),
                                         .rows = m->region.own_rows,
                                         .cols = shape->hidden,
                                         .kind = shape->norm,
                                         .type = m->options.type,
                                         .accumulate = p->gradients->accumulate});
}

// The vectors of a layer are final when the whole layer is.
static status vectors_ready(const model_pass *p, const layer_tensors *t)
{
    const size_t biases[] = {t->linear2_bias, t->linear1_bias, t->dense_bias, t->qkv_bias};
    const size_t norms[] = {t->norm2_bias, t->norm2_weight, t->norm1_bias, t->norm1_weight};
    for (size_t i = 0; i < sizeof biases / sizeof biases[0]; i++)
        TRY(model_gradient_ready(p, biases[i]));
    return model_row_gradients_ready(p, norms, sizeof norms / sizeof norms[0]);
}

status model_layer_backward(const model_pass *p, size_t layer, const void *x, bool weights)
{
    const model *m = p->m;
    const layer_tensors *t = &m->tensors.layers[layer];
    const layer_activations *a = &p->set->layers[layer];
    const layer_gradients *g = &p->set->gradients[layer];
    const bool parallel = m->options.shape.parallel_residual;
    const bool one = parallel && m->options.hidden_dropout == 0; // both branches have one gradient
    comm_request of_mlp = {0}, of_attention = {0};
    const void *dy, *dy1, *dy2;

    TRY(gather_output_gradient(p, &dy));
    dy2 = dy;
    TRY(branch_gradient(p, DROPOUT_MLP, layer, g->dbranch2, &dy2));
    TRY(mlp_backward_input(p, t, a, g, dy2, weights, &of_mlp));
    if (weights)
        TRY(mlp_backward_weights(p, t, a, g, dy2));
    if (!parallel) {
        TRY(comm_wait(&of_mlp));
        TRY(middle_norm_backward(p, t, a));
        TRY(gather_output_gradient(p, &dy));
    }
    dy1 = one ? dy2 : dy;
    if (!one)
        TRY(branch_gradient(p, DROPOUT_ATTENTION, layer, g->dbranch1, &dy1));
    TRY(attention_backward_input(p, layer, t, a, g, dy1, &of_attention));
    if (weights)
        TRY(attention_backward_weights(p, t, a, g, dy1));
    TRY(comm_wait(&of_mlp));
    TRY(comm_wait(&of_attention));
    TRY(input_norm_backward(p, t, a, x));
    return weights ? vectors_ready(p, t) : STATUS_OK;
}

status model_layer_backward_weights(const model_pass *p, size_t layer)
{
    const model *m = p->m;
    const layer_tensors *t = &m->tensors.layers[layer];
    const layer_activations *a = &p->set->layers[layer];
    const layer_gradients *g = &p->set->gradients[layer];
    TRY(device_gelu_forward(p->stream, &(gelu_forward_args){.y = m->work.gelu,
                                                            .x = a->mlp,
                                                            .count = m->rows * m->ffn,
                                                            .kind = m->options.shape.gelu,
                                                            .type = m->options.type}));
    TRY(mlp_backward_weights(p, t, a, g, g->dbranch2));
    TRY(attention_backward_weights(p, t, a, g, g->dbranch1));
    return vectors_ready(p, t);
}
