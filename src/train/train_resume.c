// From a run to a checkpoint and back.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "model/model_init.h"
#include "train/train_internal.h"

static checkpoint_state state_of(const train_state *t)
{
    checkpoint_state s = {.shape = t->plan.model.shape,
                          .iteration = t->iteration,
                          .updates = t->updates,
                          .seed = t->config->seed,
                          .loss_scale = t->scaler.scale,
                          .scale_good = t->scaler.good,
                          .scale_credit = t->scaler.credit,
                          .skipped = t->skipped,
                          .has_optimizer = !t->config->no_save_optim,
                          .lr = t->plan.schedule.lr,
                          .min_lr = t->plan.schedule.min_lr,
                          .warmup = t->plan.schedule.warmup,
                          .decay_iters = t->plan.schedule.decay_iters,
                          .global_batch = t->plan.global_batch};
    strncpy(s.decay_style, lr_style_str(t->plan.schedule.style), sizeof s.decay_style - 1);
    return s;
}

status train_save(train_state *t)
{
    const config *c = t->config;
    const checkpoint_state state = state_of(t);
    const status result = comm_agree(t->comm, train_save_shards(t, &state));
    if (result != STATUS_OK) {
        t->agreed_failure = true;
        return result;
    }
    log_info("saved %s/global_step%lld", c->save, (long long)t->iteration);
    return STATUS_OK;
}

// The first weights, tensor by tensor.
static status draw_weights(train_state *t)
{
    size_t most = 0;
    for (size_t i = 0; i < t->table.count; i++)
        most = size_max(most, tensor_elements(&t->table.tensors[i]));
    void *memory;
    TRY(memory_alloc(most, sizeof(float), "initial weights", &memory));
    status result = STATUS_OK;
    for (size_t i = 0; i < t->table.count && result == STATUS_OK; i++) {
        const tensor_info *info = &t->table.tensors[i];
        model_init_tensor(info, (uint64_t)t->config->seed, memory);
        result = device_upload(t->stream, optimizer_master(t->optimizer) + info->offset, memory,
                               tensor_elements(info) * sizeof(float));
    }
    memory_free(memory);
    return result;
}

// The schedule of the checkpoint against the configured one: equal, or a key must say which counts.
static status settle_schedule(train_state *t, const checkpoint_state *s)
{
    const config *c = t->config;
    lr_schedule *mine = &t->plan.schedule;
    const bool same = s->lr == mine->lr && s->min_lr == mine->min_lr && s->warmup == mine->warmup &&
                      s->decay_iters == mine->decay_iters &&
                      !strcmp(s->decay_style, lr_style_str(mine->style));
    if (same || c->override_lr_scheduler)
        return STATUS_OK;
    if (!c->use_checkpoint_lr_scheduler)
        return fail(STATUS_ERR_CONFIG,
                    "the checkpoint was trained with %s decay from %g to %g over %lld iterations "
                    "and warmup %g, the configuration says %s, %g to %g, %lld, %g; set "
                    "override-lr-scheduler or use-checkpoint-lr-scheduler",
                    s->decay_style, s->lr, s->min_lr, (long long)s->decay_iters, s->warmup,
                    lr_style_str(mine->style), mine->lr, mine->min_lr, (long long)mine->decay_iters,
                    mine->warmup);
    *mine = (lr_schedule){.style = mine->style,
                          .lr = s->lr,
                          .min_lr = s->min_lr,
                          .warmup = s->warmup,
                          .decay_iters = s->decay_iters};
    for (int style = LR_CONSTANT; style <= LR_EXPONENTIAL; style++)
        if (!strcmp(s->decay_style, lr_style_str((lr_style)style)))
            mine->style = (lr_style)style;
    return STATUS_OK;
}

static status settle_position(train_state *t, const checkpoint_state *s)
{
    if (s->iteration > 0 && s->global_batch != t->plan.global_batch)
        return fail(STATUS_ERR_CONFIG,
                    "the checkpoint was trained with %lld samples an iteration, the configuration "
                    "says %lld, which would repeat or skip data; finetune: true starts anew",
                    (long long)s->global_batch, (long long)t->plan.global_batch);
    if (s->iteration > t->train_iters)
        return fail(STATUS_ERR_CONFIG,
                    "the checkpoint is at iteration %lld, train-iters is %lld; it must be no less",
                    (long long)s->iteration, (long long)t->train_iters);
    if (s->iteration > 0 && s->seed != t->config->seed)
        log_info("note: the checkpoint was trained with seed %lld, the order of data is now that "
                 "of seed %lld",
                 (long long)s->seed, (long long)t->config->seed);
    t->iteration = s->iteration;
    t->updates = s->updates;
    t->skipped = s->skipped;
    if (t->scaler.dynamic && s->iteration > 0) {
        t->scaler.scale = s->loss_scale;
        t->scaler.good = s->scale_good;
        t->scaler.credit = s->scale_credit;
    }
    return STATUS_OK;
}

static status load_from(train_state *t, const char *path)
{
    const config *c = t->config;
    const checkpoint_tensors tensors = train_load_target(t);
    checkpoint_state s;
    TRY(checkpoint_load_state(path, &s));
    TRY(checkpoint_shape_check(&s.shape, &t->plan.model.shape, path));
    const bool resume = !c->finetune && s.iteration > 0;
    const bool fresh_optimizer = c->no_load_optim || t->evaluating;
    const bool with_optimizer = resume && s.has_optimizer && !fresh_optimizer;
    if (resume && !s.has_optimizer && !fresh_optimizer)
        return fail(STATUS_ERR_CONFIG,
                    "%s: has no optimizer state; no-load-optim: true goes on with a fresh one, "
                    "finetune: true starts at iteration 0",
                    path);
    TRY(checkpoint_load_tensors(path, &tensors, with_optimizer));
    if (resume && !t->evaluating) {
        TRY(settle_schedule(t, &s));
        TRY(settle_position(t, &s));
    }
    log_info("loaded %s%s", path, resume || t->evaluating ? "" : ", starting at iteration 0");
    return STATUS_OK;
}

status train_load(train_state *t)
{
    const config *c = t->config;
    char *path = NULL;
    status result = STATUS_OK;
    if (c->load) {
        result = checkpoint_find(c->load, &path);
        if (result == STATUS_ERR_CONFIG && c->load_if_present) {
            log_info("load-if-present: %s, starting anew", error_message());
            error_clear();
            result = STATUS_OK;
        }
    }
    if (result == STATUS_OK)
        result = path ? load_from(t, path) : draw_weights(t);
    free(path);
    TRY(result);
    return optimizer_publish(t->optimizer, t->stream);
}
