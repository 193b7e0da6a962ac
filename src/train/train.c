// The loop of a run: iterate, evaluate, save, stop.
#include "train/train.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "train/signals.h"
#include "train/train_internal.h"

// GPT-NeoX's rule: every checkpoint-factor iterations, or at int(factor^k), or where asked for.
static bool is_save_iteration(const config *c, int64_t iteration)
{
    for (size_t i = 0; i < c->extra_save_iters.count; i++)
        if (c->extra_save_iters.items[i] == iteration)
            return true;
    if (!config_is_set(c, "checkpoint_factor"))
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

// Failures of one rank in its own work end all; those of set-up were agreed on already.
static status run(train_state *t, const train_options *options)
{
    TRY(comm_agree(t->comm, train_setup(t, options)));
    if (options->dry_run)
        return STATUS_OK;
    signals_install();
    return loop(t);
}

status train_run(const config *c, comm *cm, const train_options *options)
{
    train_state t = {.config = c, .comm = cm, .eod = -1};
    tensor_table_init(&t.table);
    for (int i = 0; i < DATASET_PARTS; i++)
        t.eval_loss[i] = NAN;
    const status result = run(&t, options);
    train_teardown(&t);
    return result;
}
