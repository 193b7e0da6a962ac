// The lines at start: what runs where, how many parameters, how much memory.
#include <stdio.h>

#include "base/log.h"
#include "train/train_internal.h"

static double mib(size_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0);
}

static const char *size_text(char *text, size_t bytes, size_t parameters)
{
    const double millions = (double)parameters * 1e-6;
    if (millions >= 1000)
        snprintf(text, bytes, "%.2f billion", millions * 1e-3);
    else
        snprintf(text, bytes, "%.2f million", millions);
    return text;
}

static void describe_model(const train_state *t)
{
    const model_shape *s = &t->plan.model.shape;
    char text[64];
    log_info("model: %zu layers, hidden %zu, %zu heads, MLP %zu, vocabulary %zu, %s %s residual, "
             "%s parameters",
             s->n_layers, s->hidden, s->n_heads, s->ffn, s->vocab, dtype_str(t->plan.model.type),
             s->parallel_residual ? "parallel" : "sequential",
             size_text(text, sizeof text, tensor_table_parameters(&t->whole)));
}

static void describe_batch(const train_state *t)
{
    log_info("batch: %lld samples of %zu tokens: %zu a micro-batch x %lld micro-batches x %lld "
             "data ranks",
             (long long)t->plan.global_batch, t->plan.model.tokens, t->plan.model.batch,
             (long long)t->plan.accumulation, (long long)t->plan.data_ranks);
}

// What this rank, the first, will take.
static status describe_memory(const train_state *t)
{
    const size_t elements = t->table.elements;
    const size_t copy =
        t->plan.model.type == DTYPE_F32 ? 0 : elements * dtype_size(t->plan.model.type);
    const size_t weights = elements * sizeof(float) + copy;
    const size_t gradients = elements * sizeof(float);
    const size_t states = 2 * elements * sizeof(float);
    size_t activations = 0;
    for (int c = 0; c < t->plan.pipe.chunks; c++) {
        size_t bytes;
        TRY(model_activation_bytes(t->device, &t->chunks[c], &bytes));
        activations += bytes;
    }
    log_info("memory of rank 0: %.0f MiB (parameters %.0f, gradients %.0f, optimizer %.0f, "
             "activations and workspace %.0f)",
             mib(weights + gradients + states + activations), mib(weights), mib(gradients),
             mib(states), mib(activations));
    return STATUS_OK;
}

// Each rank of the data group sends its gradients once: a ring or an exchange moves 2 (n-1)/n of
// them.
static void describe_traffic(const train_state *t)
{
    const config *c = t->config;
    const double ranks = (double)t->plan.data_ranks;
    const double split = (double)(c->pipe_parallel_size * c->model_parallel_size);
    const double raw = (double)t->table.elements * sizeof(float) / split * 2 * (ranks - 1) / ranks;
    log_info("traffic a rank and iteration: data %.1f MiB of gradients raw, %.1f MiB folded "
             "(scheme none)",
             raw / (1024 * 1024), raw / (1024 * 1024));
}

status train_describe(const train_state *t, const train_options *options)
{
    char grid_text[2048];
    log_info("device: %s", device_describe(t->device));
    grid_describe(&t->plan.grid, grid_text, sizeof grid_text);
    log_info("%s", grid_text);
    log_info("zero stage: %lld", (long long)t->config->zero_optimization.stage);
    describe_model(t);
    describe_batch(t);
    TRY(describe_memory(t));
    if (options->dry_run || t->plan.data_ranks > 1)
        describe_traffic(t);
    return STATUS_OK;
}
