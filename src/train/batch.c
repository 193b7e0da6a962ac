// The micro-batches of an iteration: from the dataset to the device, and their losses back.
#include <string.h>

#include "base/memory.h"
#include "train/train_internal.h"

static size_t rows_of(const train_state *t)
{
    return t->plan.model.batch * t->plan.model.tokens;
}

static status device_buffer(train_state *t, size_t count, const char *what, void **out)
{
    return device_malloc(t->device, count * sizeof(int32_t), what, out);
}

status batch_create(train_state *t)
{
    batch_buffers *b = &t->batch;
    const size_t rows = rows_of(t);
    const size_t blocks = (size_t)t->plan.accumulation;
    void *p;
    TRY(memory_alloc(blocks * (rows + t->plan.model.batch), sizeof(int32_t), "samples", &p));
    b->samples = p;
    TRY(memory_alloc(blocks * rows, sizeof(uint8_t), "loss mask", &p));
    b->mask = p;
    TRY(memory_alloc(rows, sizeof(int32_t), "micro-batch", &p));
    b->rows = p;
    TRY(memory_alloc(rows, sizeof(float), "loss weights", &p));
    b->scale = p;
    TRY(memory_alloc(blocks * rows, sizeof(float), "losses", &p));
    b->losses = p;
    TRY(device_buffer(t, rows, "input tokens", &p));
    b->d_tokens = p;
    TRY(device_buffer(t, rows, "label tokens", &p));
    b->d_labels = p;
    TRY(device_buffer(t, rows, "loss weights", &p));
    b->d_scale = p;
    TRY(device_buffer(t, blocks * rows, "losses", &p));
    b->d_losses = p;
    return STATUS_OK;
}

void batch_destroy(train_state *t)
{
    batch_buffers *b = &t->batch;
    void *host[] = {b->samples, b->mask, b->rows, b->scale, b->losses};
    void *on_device[] = {b->d_tokens, b->d_labels, b->d_scale, b->d_losses};
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++)
        memory_free(host[i]);
    for (size_t i = 0; i < sizeof on_device / sizeof on_device[0]; i++)
        if (on_device[i])
            device_free(t->device, on_device[i]);
    *b = (batch_buffers){0};
}
