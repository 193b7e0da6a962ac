#include "zero/optimizer.h"

#include <math.h>

#include "base/memory.h"

// Neighbouring tensors with the same decay, padding included.
typedef struct decay_range {
    size_t begin, end;
    bool decay;
} decay_range;

struct optimizer {
    device *device;
    optimizer_options options;
    size_t elements;
    float *master;
    float *exp_avg;
    float *exp_avg_sq;
    void *params; // master where the model's type is fp32
    decay_range *ranges;
    size_t n_ranges;
};

static status build_ranges(optimizer *o, const tensor_table *table)
{
    void *memory;
    TRY(memory_alloc(table->count, sizeof(decay_range), "optimizer", &memory));
    o->ranges = memory;
    for (size_t i = 0; i < table->count; i++) {
        const size_t end = i + 1 < table->count ? table->tensors[i + 1].offset : table->elements;
        if (o->n_ranges > 0 && o->ranges[o->n_ranges - 1].decay == table->tensors[i].decay) {
            o->ranges[o->n_ranges - 1].end = end;
            continue;
        }
        o->ranges[o->n_ranges++] = (decay_range){
            .begin = table->tensors[i].offset, .end = end, .decay = table->tensors[i].decay};
    }
    return STATUS_OK;
}

static status allocate(optimizer *o)
{
    const size_t bytes = o->elements * sizeof(float);
    void *memory;
    TRY(device_malloc(o->device, bytes, "parameters", &memory));
    o->master = memory;
    TRY(device_malloc(o->device, bytes, "optimizer state", &memory));
    o->exp_avg = memory;
    TRY(device_malloc(o->device, bytes, "optimizer state", &memory));
    o->exp_avg_sq = memory;
    if (o->options.type == DTYPE_F32) {
        o->params = o->master;
        return STATUS_OK;
    }
    return device_malloc(o->device, o->elements * dtype_size(o->options.type), "parameters",
                         &o->params);
}

status optimizer_create(device *d, const tensor_table *table, const optimizer_options *options,
                        optimizer **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(optimizer), "optimizer", &memory));
    optimizer *o = memory;
    o->device = d;
    o->options = *options;
    o->elements = table->elements;
    status result;
    TRY_OUT(result, build_ranges(o, table));
    TRY_OUT(result, allocate(o));
    *out = o;
    o = NULL;
out:
    optimizer_destroy(o);
    return result;
}

void optimizer_destroy(optimizer *o)
{
    if (!o)
        return;
    if (o->params != o->master)
        device_free(o->device, o->params);
    device_free(o->device, o->exp_avg_sq);
    device_free(o->device, o->exp_avg);
    device_free(o->device, o->master);
    memory_free(o->ranges);
    memory_free(o);
}

void *optimizer_params(const optimizer *o)
{
    return o->params;
}

float *optimizer_master(const optimizer *o)
{
    return o->master;
}

float *optimizer_exp_avg(const optimizer *o)
{
    return o->exp_avg;
}

float *optimizer_exp_avg_sq(const optimizer *o)
{
    return o->exp_avg_sq;
}

status optimizer_publish(optimizer *o, device_stream *s)
{
    if (o->params == o->master)
        return STATUS_OK;
    return device_cast(s, &(cast_args){.dst = o->params,
                                       .src = o->master,
                                       .count = o->elements,
                                       .dst_type = o->options.type,
                                       .src_type = DTYPE_F32});
}

status optimizer_gradient_norm(const optimizer *o, device_stream *s, const float *grads,
                               double *norm)
{
    double sum;
    TRY(device_sum_squares(s, &sum, grads, o->elements));
    *norm = sqrt(sum);
    return STATUS_OK;
}

status optimizer_step(optimizer *o, device_stream *s, const float *grads, float lr,
                      float grad_scale, int64_t step)
{
    const optimizer_options *options = &o->options;
    const bool copy = o->params != o->master;
    const size_t size = dtype_size(options->type);
    for (size_t i = 0; i < o->n_ranges; i++) {
        const decay_range *range = &o->ranges[i];
        unsigned char *params = (unsigned char *)o->params + range->begin * size;
        const adamw_args args = {.param = o->master + range->begin,
                                 .exp_avg = o->exp_avg + range->begin,
                                 .exp_avg_sq = o->exp_avg_sq + range->begin,
                                 .param_out = copy ? params : NULL,
                                 .grad = grads + range->begin,
                                 .count = range->end - range->begin,
                                 .lr = lr,
                                 .beta1 = options->beta1,
                                 .beta2 = options->beta2,
                                 .epsilon = options->epsilon,
                                 .weight_decay = range->decay ? options->weight_decay : 0,
                                 .grad_scale = grad_scale,
                                 .step = step,
                                 .out_type = options->type};
        TRY(device_adamw(s, &args));
    }
    return STATUS_OK;
}
