// The loop of a run: iterate, evaluate, save, stop.
#include "train/train.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "train/signals.h"
#include "train/train_internal.h"

// GPT-NeoX's rule: where asked for (0: before the first), every checkpoint-factor iterations, or at
// int(factor^k).
static bool is_save_iteration(const config *c, int64_t iteration)
{
    for (size_t i = 0; i < c->extra_save_iters.count; i++)
        if (c->extra_save_iters.items[i] == iteration)
            return true;
    if (iteration == 0 || !config_is_set(c, "checkpoint_factor"))
        return false;
    if (c->checkpoint_scale == CONFIG_SCALE_LINEAR)
        return iteration % (int64_t)c->checkpoint_factor == 0;
    double power = c->checkpoint_factor;
    while ((int64_t)power < iteration)
        power *= c->checkpoint_factor;
    return (int64_t)power == iteration;
}

// What follows a finished iteration; *done tells that the run ends here.
static status after_iteration(train_state *t, int signal, bool *done)
{
    const config *c = t->config;
    const bool last = t->iteration >= t->train_iters;
    const bool leave = c->exit_interval > 0 && t->iteration % c->exit_interval == 0;
    *done = last || leave || signal != 0;
    if (c->eval_interval > 0 && t->iteration % c->eval_interval == 0)
        TRY(train_evaluate(t, DATASET_VALID, false));
    if (c->save && !*done && is_save_iteration(c, t->iteration))
        TRY(train_save(t));
    if (signal == 0)
        return STATUS_OK;
    log_info("stopping after iteration %lld: a rank was sent \"%s\"", (long long)t->iteration,
             strsignal(signal));
    return STATUS_OK;
}

static status evaluate_at_end(train_state *t)
{
    if (t->config->eval_interval <= 0 || t->iteration % t->config->eval_interval != 0)
        TRY(train_evaluate(t, DATASET_VALID, true));
    return train_evaluate(t, DATASET_TEST, true);
}

static status loop(train_state *t)
{
    bool done = t->iteration >= t->train_iters;
    int signal = 0;
    if (t->config->save && t->iteration == 0 && !done && is_save_iteration(t->config, 0))
        TRY(train_save(t));
    while (!done) {
        TRY(train_iteration(t, &signal));
        TRY(after_iteration(t, signal, &done));
    }
    // The last finished iteration is always saved, and before the evaluation that may follow.
    if (t->config->save)
        TRY(train_save(t));
    if (signal != 0)
        return STATUS_INTERRUPTED;
    return evaluate_at_end(t);
}

// After set-up a failure is either seen by all ranks alike, then it is returned, or it is one
// rank's own: the others wait for its messages, so the job is ended here.
static status end_all_if_alone(const train_state *t, status result)
{
    const bool shared = t->agreed_failure || result == STATUS_OK || result == STATUS_INTERRUPTED ||
                        result == STATUS_ERR_NUMERICS || comm_world_size(t->comm) == 1;
    if (shared)
        return result;
    log_error("rank %d: %s", comm_world_rank(t->comm), error_message());
    comm_abort(t->comm, status_exit_code(result));
}

static void begin(train_state *t, const config *c, comm *cm)
{
    *t = (train_state){.config = c, .comm = cm, .eod = -1};
    tensor_table_init(&t->whole);
    tensor_table_init(&t->table);
    for (int i = 0; i < DATASET_PARTS; i++)
        t->eval_loss[i] = NAN;
}

status train_run(const config *c, comm *cm, const train_options *options)
{
    train_state t;
    begin(&t, c, cm);
    status result = comm_agree(cm, train_setup(&t, options));
    if (result == STATUS_OK && !options->dry_run) {
        signals_install();
        result = end_all_if_alone(&t, loop(&t));
    }
    train_teardown(&t);
    return result;
}

status train_evaluate_checkpoint(const config *c, comm *cm, const train_options *options,
                                 dataset_part part, double *loss)
{
    train_state t;
    begin(&t, c, cm);
    t.only_part = part;
    t.evaluating = true;
    status result = comm_agree(cm, train_setup(&t, options));
    if (result == STATUS_OK)
        result = end_all_if_alone(&t, train_evaluate(&t, part, true));
    *loss = t.eval_loss[part];
    train_teardown(&t);
    return result;
}
