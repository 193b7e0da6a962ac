// One optimizer step over the global batch, and evaluation.
#include <math.h>
#include <time.h>

#include "base/log.h"
#include "train/signals.h"
#include "train/train_internal.h"

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

status reports_combine(train_state *t, const rank_report *mine, rank_report *all)
{
    const int ranks = comm_world_size(t->comm);
    comm_request request = {0};
    t->reports[comm_world_rank(t->comm)] = *mine;
    TRY(comm_allgather_begin(comm_world(t->comm), COMM_CONTROL, t->reports, t->report_counts,
                             DTYPE_U8, &request));
    TRY(comm_wait(&request));
    *all = (rank_report){0};
    for (int r = 0; r < ranks; r++) {
        all->loss_sum += t->reports[r].loss_sum;
        all->counted += t->reports[r].counted;
        all->failed += t->reports[r].failed;
        if (all->signal == 0)
            all->signal = t->reports[r].signal;
    }
    return STATUS_OK;
}

status reports_agree(train_state *t, const rank_report *all, status reading)
{
    if (all->failed == 0)
        return STATUS_OK;
    t->agreed_failure = true;
    return comm_agree(t->comm, reading);
}

// Whether this rank's losses stand for its samples: those of one of the ranks that share them.
static bool reports_loss(const train_state *t)
{
    return t->grid.place.pipe + 1 == t->grid.shape.pipe && t->grid.place.tensor == 0;
}

// The tokens of the global batch whose loss counts. Only masks need the other ranks' numbers.
static status count_all(train_state *t, int64_t counted, int64_t *all)
{
    *all = t->plan.tokens_per_iteration;
    if (!t->config->eod_mask_loss)
        return STATUS_OK;
    const rank_report mine = {.counted = reports_loss(t) ? counted : 0};
    rank_report sum;
    TRY(reports_combine(t, &mine, &sum));
    *all = sum.counted > 0 ? sum.counted : 1;
    return STATUS_OK;
}

// The first and the last stage each have a copy of tied weights, and a part of their gradient.
static status sum_tied_gradients(train_state *t)
{
    if (!t->plan.model.shape.tied || comm_group_size(t->grid.ends) == 1)
        return STATUS_OK;
    const size_t index = tensor_table_find(&t->table, "word_embeddings.weight");
    return comm_allreduce(t->grid.ends, COMM_EMBEDDINGS, COMM_SUM, t->gradients[index],
                          tensor_elements(&t->table.tensors[index]), DTYPE_F32);
}

// Forward and backward of all micro-batches; the last one sends gradients as they become final.
static status accumulate_gradients(train_state *t, int64_t counted)
{
    const float scale = (float)(t->scaler.scale / (double)counted);
    const pipeline_batches batches = batch_views(t);
    TRY(batch_upload(t, scale));
    TRY(pipeline_train(t->pipeline, t->stream, &t->storage, &batches));
    TRY(grad_buckets_finish(t->buckets));
    return sum_tied_gradients(t);
}

// Clip and update, or skip. The norm is of the reduced gradients, which have the same bits on every
// rank, so all ranks take the same branch.
static status update(train_state *t, step_record *record)
{
    double scaled_norm;
    TRY(train_gradient_norm(t, &scaled_norm));
    const double norm = scaled_norm / t->scaler.scale;
    const bool overflow = !isfinite(scaled_norm);
    record->lr = lr_schedule_at(&t->plan.schedule, t->updates);
    record->grad_norm = norm;
    record->loss_scale = t->scaler.scale;
    if (overflow) {
        t->skipped++;
    } else {
        const double shrink = t->plan.clip > 0 ? fmin(1, t->plan.clip / (norm + 1e-6)) : 1;
        TRY(optimizer_step(t->optimizer, t->stream, t->grads, (float)record->lr,
                           (float)(shrink / t->scaler.scale), t->updates + 1));
        t->updates++;
    }
    record->skipped = t->skipped;
    return loss_scaler_update(&t->scaler, overflow);
}

static void fill_speed(train_state *t, double ms, step_record *record)
{
    const run_plan *plan = &t->plan;
    const double flops =
        model_shape_flops(&plan->model.shape, (size_t)plan->global_batch, plan->model.tokens,
                          plan->padded_vocab, plan->model.checkpoint_layers > 0);
    size_t in_use, peak;
    device_memory(t->device, &in_use, &peak);
    comm_traffic_take(t->comm, record->traffic);
    double exposed = 0;
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++)
        exposed += record->traffic[d].exposed_ms;
    record->iteration_ms = ms;
    record->comm_ms = exposed;
    record->compute_ms = ms - exposed;
    record->samples_per_sec = (double)plan->global_batch / ms * 1e3;
    record->tokens_per_sec = (double)plan->tokens_per_iteration / ms * 1e3;
    record->tflops = flops / (ms * 1e-3) / (double)comm_world_size(t->comm) * 1e-12;
    record->mem_peak_mb = (double)peak / (1024.0 * 1024.0);
}

status train_iteration(train_state *t, int *signal)
{
    const double begin = now_ms();
    step_record record = {.iteration = t->iteration + 1, .train_iters = t->train_iters};
    int64_t counted, all_counted;
    rank_report mine = {0}, all;
    const status reading = batch_read(t, DATASET_TRAIN, t->iteration, &counted);
    TRY(count_all(t, counted, &all_counted));
    TRY(accumulate_gradients(t, all_counted));
    TRY(update(t, &record));
    if (reports_loss(t))
        TRY(batch_loss_sum(t, &mine.loss_sum));
    mine.signal = signals_stop_requested();
    mine.failed = reading != STATUS_OK;
    TRY(reports_combine(t, &mine, &all));
    TRY(reports_agree(t, &all, reading));
    t->iteration++;
    record.loss = all.loss_sum / (double)all_counted;
    *signal = (int)all.signal;
    fill_speed(t, now_ms() - begin, &record);
    return t->metrics ? metrics_step(t->metrics, &record) : STATUS_OK;
}

status train_evaluate(train_state *t, dataset_part part, bool at_end)
{
    if (!t->parts[part] || t->config->eval_iters == 0)
        return STATUS_OK;
    const int64_t batches = t->config->eval_iters;
    const int64_t first =
        part == DATASET_TEST
            ? 0
            : batch_order_eval_start(t->iteration, t->config->eval_interval, batches, at_end);
    const pipeline_batches views = batch_views(t);
    rank_report mine = {0}, all;
    status reading = STATUS_OK;
    for (int64_t i = 0; i < batches && reading == STATUS_OK; i++) {
        int64_t counted;
        double sum;
        reading = batch_read(t, part, first + i, &counted);
        TRY(batch_upload(t, 0));
        TRY(pipeline_evaluate(t->pipeline, t->stream, &t->storage, &views));
        if (!reports_loss(t))
            continue;
        TRY(batch_loss_sum(t, &sum));
        mine.loss_sum += sum;
        mine.counted += counted;
    }
    mine.failed = reading != STATUS_OK;
    TRY(reports_combine(t, &mine, &all));
    TRY(reports_agree(t, &all, reading));
    const double loss = all.loss_sum / (double)(all.counted > 0 ? all.counted : 1);
    t->eval_loss[part] = loss;
    return t->metrics ? metrics_eval(t->metrics, t->iteration, dataset_part_str(part), loss)
                      : STATUS_OK;
}
