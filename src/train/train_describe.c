// The lines at start: what runs where, how many parameters, how much memory.
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "parallel/pipe_check.h"
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

// Bytes of one stage's first tensor rank, which has no less than the others.
typedef struct stage_memory {
    size_t parameters; // counted, of all the stage's tensor ranks
    size_t weights, gradients, states, activations;
} stage_memory;

static status measure_stage(const train_state *t, int stage, model_options *parts, stage_memory *m)
{
    const grid_place place = {.pipe = stage};
    const dtype type = t->plan.model.type;
    tensor_table table;
    *m = (stage_memory){0};
    status result = run_plan_table(&t->plan, place, &table);
    const size_t elements = table.elements;
    m->parameters = tensor_table_parameters(&table);
    tensor_table_fini(&table);
    m->weights = elements * (sizeof(float) + (type == DTYPE_F32 ? 0 : dtype_size(type)));
    m->gradients = elements * sizeof(float);
    m->states = 2 * elements * sizeof(float);
    if (result == STATUS_OK)
        result = run_plan_parts(&t->plan, place, parts);
    for (int c = 0; c < t->plan.pipe.chunks && result == STATUS_OK; c++) {
        size_t bytes = 0;
        result = model_activation_bytes(t->device, &parts[c], &bytes);
        m->activations += bytes;
    }
    return result;
}

static void describe_layers(const train_state *t, const model_options *parts, char *text,
                            size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int c = 0; c < t->plan.pipe.chunks && used < size; c++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu-%zu", c > 0 ? ", " : "",
                                 parts[c].part.first_layer, parts[c].part.end_layer - 1);
}

static status describe_memory(const train_state *t)
{
    void *memory;
    TRY(memory_alloc((size_t)t->plan.pipe.chunks, sizeof(model_options), "model", &memory));
    model_options *parts = memory;
    status result = STATUS_OK;
    for (int stage = 0; stage < t->plan.pipe.stages && result == STATUS_OK; stage++) {
        stage_memory m;
        char layers[128], count[64], name[32] = "";
        result = measure_stage(t, stage, parts, &m);
        if (result != STATUS_OK)
            break;
        describe_layers(t, parts, layers, sizeof layers);
        if (t->plan.pipe.stages > 1)
            snprintf(name, sizeof name, " of stage %d", stage);
        log_info("memory a rank%s: %.0f MiB (parameters %.0f, gradients %.0f, optimizer %.0f, "
                 "activations and workspace %.0f); layers %s, %s parameters",
                 name, mib(m.weights + m.gradients + m.states + m.activations), mib(m.weights),
                 mib(m.gradients), mib(m.states), mib(m.activations), layers,
                 size_text(count, sizeof count, m.parameters));
    }
    memory_free(parts);
    return result;
}

// Prove the schedule, and say what part of the time it leaves idle where a backward pass takes
// twice a forward pass and messages cost nothing.
static status describe_pipeline(const train_state *t)
{
    const pipe_costs costs = {.forward = 1, .backward_input = 1, .backward_weights = 1};
    const pipe_shape *shape = &t->plan.pipe;
    pipe_report report = {0};
    void *memory;
    if (shape->stages == 1)
        return STATUS_OK;
    TRY(memory_alloc((size_t)shape->stages, sizeof(pipe_schedule), "pipeline", &memory));
    pipe_schedule *stages = memory;
    status result = STATUS_OK;
    for (int s = 0; s < shape->stages && result == STATUS_OK; s++)
        result = pipe_schedule_create(shape, s, &stages[s]);
    if (result == STATUS_OK)
        result = pipe_check(stages, &costs, &report);
    for (int s = 0; s < shape->stages; s++)
        pipe_schedule_destroy(&stages[s]);
    memory_free(stages);
    TRY(result);
    log_info("pipeline: %s, %d stages x %d part%s, %d micro-batches, bubble %.1f%%",
             pipe_kind_str(shape->kind), shape->stages, shape->chunks,
             shape->chunks == 1 ? "" : "s", shape->micro_batches, report.bubble * 100);
    return STATUS_OK;
}

// Each rank of the data group sends its gradients once: a ring or an exchange moves 2 (n-1)/n of
// them.
static void describe_traffic(const train_state *t)
{
    const double ranks = (double)t->plan.data_ranks;
    const double raw = (double)t->table.elements * sizeof(float) * 2 * (ranks - 1) / ranks;
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
    TRY(describe_pipeline(t));
    TRY(describe_memory(t));
    if (options->dry_run || t->plan.data_ranks > 1)
        describe_traffic(t);
    return STATUS_OK;
}
