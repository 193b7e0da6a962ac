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
    TRY(device_buffer(t, blocks * rows, "input tokens", &p));
    b->d_tokens = p;
    TRY(device_buffer(t, blocks * rows, "label tokens", &p));
    b->d_labels = p;
    TRY(device_buffer(t, blocks * rows, "loss weights", &p));
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

// Where micro-batch `k` begins in (g, B, T+1).
static int32_t *samples_of(const train_state *t, int64_t k)
{
    return t->batch.samples + (size_t)k * t->plan.model.batch * (t->plan.model.tokens + 1);
}

// A loss counts everywhere, or, with eod-mask-loss, where the input is not the end of a document.
static int64_t mark_counted(const train_state *t, int64_t k)
{
    const size_t tokens = t->plan.model.tokens;
    uint8_t *mask = t->batch.mask + (size_t)k * rows_of(t);
    int64_t counted = 0;
    for (size_t r = 0; r < rows_of(t); r++) {
        const int32_t input = samples_of(t, k)[r / tokens * (tokens + 1) + r % tokens];
        mask[r] = !t->config->eod_mask_loss || input != t->eod;
        counted += mask[r];
    }
    return counted;
}

static void clear_samples(train_state *t)
{
    const size_t blocks = (size_t)t->plan.accumulation;
    memset(t->batch.samples, 0, blocks * (rows_of(t) + t->plan.model.batch) * sizeof(int32_t));
    memset(t->batch.mask, 0, blocks * rows_of(t));
}

status batch_read(train_state *t, dataset_part part, int64_t number, int64_t *counted)
{
    const batch_order order = {.samples = dataset_count(t->parts[part]),
                               .micro_batch = (int64_t)t->plan.model.batch,
                               .accumulation = t->plan.accumulation,
                               .data_parallel = t->plan.data_ranks};
    const int64_t rank = t->grid.place.data;
    *counted = 0;
    for (int64_t k = 0; k < t->plan.accumulation; k++) {
        const status result =
            dataset_batch(t->parts[part], &order, number, k, rank, samples_of(t, k));
        if (result != STATUS_OK) {
            clear_samples(t);
            *counted = 0;
            return result;
        }
        *counted += mark_counted(t, k);
    }
    return STATUS_OK;
}

// Column `shift` .. `shift` + T - 1 of each sample: inputs (0) or labels (1).
static status upload_tokens(train_state *t, int64_t k, size_t shift, int32_t *to)
{
    const size_t tokens = t->plan.model.tokens;
    for (size_t b = 0; b < t->plan.model.batch; b++)
        memcpy(t->batch.rows + b * tokens, samples_of(t, k) + b * (tokens + 1) + shift,
               tokens * sizeof(int32_t));
    return device_upload(t->stream, to, t->batch.rows, rows_of(t) * sizeof(int32_t));
}

static status upload_micro_batch(train_state *t, int64_t k, float scale)
{
    const size_t rows = rows_of(t), first = (size_t)k * rows;
    const uint8_t *mask = t->batch.mask + first;
    TRY(upload_tokens(t, k, 0, t->batch.d_tokens + first));
    TRY(upload_tokens(t, k, 1, t->batch.d_labels + first));
    for (size_t r = 0; r < rows; r++)
        t->batch.scale[r] = mask[r] ? scale : 0;
    return device_upload(t->stream, t->batch.d_scale + first, t->batch.scale, rows * sizeof(float));
}

status batch_upload(train_state *t, float scale)
{
    for (int64_t k = 0; k < t->plan.accumulation; k++)
        TRY(upload_micro_batch(t, k, scale));
    return STATUS_OK;
}

static model_batch batch_view(void *context, int k)
{
    const train_state *t = context;
    const int64_t micro_batch = (int64_t)t->plan.model.batch;
    const size_t first = (size_t)k * rows_of(t);
    return (model_batch){
        .tokens = t->batch.d_tokens + first,
        .labels = t->batch.d_labels + first,
        .scale = t->batch.d_scale + first,
        .losses = t->batch.d_losses + first,
        .iteration = t->iteration,
        .first_sample = (k * t->plan.data_ranks + t->grid.place.data) * micro_batch,
    };
}

pipeline_batches batch_views(train_state *t)
{
    return (pipeline_batches){.context = t, .view = batch_view};
}

status batch_loss_sum(train_state *t, double *sum)
{
    const size_t count = (size_t)t->plan.accumulation * rows_of(t);
    TRY(device_download(t->stream, t->batch.losses, t->batch.d_losses, count * sizeof(float)));
    *sum = 0;
    for (size_t i = 0; i < count; i++)
        if (t->batch.mask[i])
            *sum += (double)t->batch.losses[i];
    return STATUS_OK;
}
