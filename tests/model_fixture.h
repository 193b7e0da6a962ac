/* A model with its parameters, gradients and device, for tests. */
#ifndef TRIFOLD_TESTS_MODEL_FIXTURE_H
#define TRIFOLD_TESTS_MODEL_FIXTURE_H

#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "model/model_init.h"
#include "zero/optimizer.h"

typedef struct model_fixture {
    device *device;
    device_stream *stream;
    tensor_table table;
    optimizer *optimizer; /* owner of the parameters */
    model *model;
    float *grads;
    void **params, **gradients; /* places of the tensors */
    model_storage storage;
    size_t rows;
} model_fixture;

static inline void model_fixture_place(model_fixture *f, dtype type)
{
    f->params = calloc(f->table.count, sizeof(void *));
    f->gradients = calloc(f->table.count, sizeof(void *));
    tensor_table_places(&f->table, optimizer_params(f->optimizer), dtype_size(type), f->params);
    tensor_table_places(&f->table, f->grads, sizeof(float), f->gradients);
    f->storage = (model_storage){.params = (const void *const *)f->params,
                                 .gradients = (float *const *)f->gradients};
}

/* A whole model, whatever part the options name. */
static inline void model_fixture_init(model_fixture *f, const model_options *whole_or_part)
{
    model_options whole = *whole_or_part;
    const model_options *options = &whole;
    whole.part = model_part_whole(&whole.shape);
    whole.sets = 1;
    const model_init_options init = {.weights = INIT_SMALL, .output = INIT_WANG, .std = 0.02};
    const device_options d = {.backend = "cpu", .threads = 2, .local_ranks = 1};
    const optimizer_options o = {
        .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .type = options->type};
    void *memory;
    *f = (model_fixture){.rows = options->batch * options->tokens};
    tensor_table_init(&f->table);
    assert_ok(model_shape_tensors(&options->shape, &init, &options->part, &f->table));
    assert_ok(device_create(&d, &f->device));
    assert_ok(device_stream_create(f->device, &f->stream));
    assert_ok(optimizer_create(f->device, &f->table, &o, &f->optimizer));
    assert_ok(model_create(f->device, options, &f->table, NULL, &f->model));
    assert_ok(device_malloc(f->device, f->table.elements * sizeof(float), "gradients", &memory));
    f->grads = memory;
    for (size_t i = 0; i < f->table.count; i++)
        model_init_tensor(&f->table.tensors[i], 7,
                          optimizer_master(f->optimizer) + f->table.tensors[i].offset);
    assert_ok(optimizer_publish(f->optimizer, f->stream));
    model_fixture_place(f, options->type);
}

/* Forward and backward of one micro-batch. */
static inline void model_fixture_train(model_fixture *f, const model_batch *batch,
                                       const model_gradients *gradients)
{
    assert_ok(model_forward(f->model, f->stream, &f->storage, batch, 0));
    assert_ok(model_backward(f->model, f->stream, &f->storage, batch, 0, NULL, gradients));
}

static inline void model_fixture_fini(model_fixture *f)
{
    free(f->params);
    free(f->gradients);
    device_free(f->device, f->grads);
    model_destroy(f->model);
    optimizer_destroy(f->optimizer);
    device_stream_destroy(f->stream);
    device_destroy(f->device);
    tensor_table_fini(&f->table);
}

#endif
