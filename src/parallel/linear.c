#include "parallel/linear.h"

#include "base/memory.h"

struct linear {
    linear_options options;
    matmul *forward;         // (R, in) (out, in)^T
    matmul *backward_input;  // (R, out) (out, in)
    matmul *backward_weight; // (R, out)^T (R, in)
};

static status create_backward(device *d, const linear_options *o, linear *l)
{
    const matmul_spec input = {
        .m = o->rows, .n = o->in, .k = o->out, .in = o->type, .out = o->type};
    TRY(device_matmul_create(d, &input, &l->backward_input));
    const matmul_spec weight = {.m = o->out,
                                .n = o->in,
                                .k = o->rows,
                                .transpose_a = true,
                                .in = o->type,
                                .out = DTYPE_F32};
    return device_matmul_create(d, &weight, &l->backward_weight);
}

status linear_create(device *d, const linear_options *options, linear **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(linear), "linear layer", &memory));
    linear *l = memory;
    l->options = *options;
    const matmul_spec forward = {.m = options->rows,
                                 .n = options->out,
                                 .k = options->in,
                                 .transpose_b = true,
                                 .in = options->type,
                                 .out = options->y_type,
                                 .bias = options->bias,
                                 .residual = options->residual};
    status result;
    TRY_OUT(result, device_matmul_create(d, &forward, &l->forward));
    if (options->training)
        TRY_OUT(result, create_backward(d, options, l));
    *out = l;
    l = NULL;
out:
    linear_destroy(l);
    return result;
}

void linear_destroy(linear *l)
{
    if (!l)
        return;
    device_matmul_destroy(l->backward_weight);
    device_matmul_destroy(l->backward_input);
    device_matmul_destroy(l->forward);
    memory_free(l);
}

status linear_forward(device_stream *s, const linear *l, const linear_forward_args *args)
{
    return device_matmul(s, l->forward,
                         &(matmul_args){.c = args->y,
                                        .a = args->x,
                                        .b = args->weight,
                                        .bias = args->bias,
                                        .residual = args->residual});
}

status linear_backward_input(device_stream *s, const linear *l, void *dx, const void *dy,
                             const void *weight)
{
    return device_matmul(s, l->backward_input, &(matmul_args){.c = dx, .a = dy, .b = weight});
}

status linear_backward_weight(device_stream *s, const linear *l,
                              const linear_backward_weight_args *args)
{
    TRY(device_matmul(
        s, l->backward_weight,
        &(matmul_args){
            .c = args->dweight, .a = args->dy, .b = args->x, .accumulate = args->accumulate}));
    if (!args->dbias)
        return STATUS_OK;
    return device_bias_backward(s, &(bias_backward_args){.dbias = args->dbias,
                                                         .dy = args->dy,
                                                         .rows = l->options.rows,
                                                         .cols = l->options.out,
                                                         .type = l->options.type,
                                                         .accumulate = args->accumulate});
}
