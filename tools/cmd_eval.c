// trifold eval: the loss of a checkpoint on a part of the data.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "cmd_config.h"
#include "cmd_job.h"
#include "train/train.h"

static void print_help(void)
{
    puts("usage: [mpirun -n N] trifold eval FILE.yml... --load DIR [options]\n\n"
         "  --load DIR        a checkpoint, or a folder of them: the newest\n"
         "  --split PART      train, valid or test; valid where it is not given\n"
         "  --set KEY=VALUE   as in trifold train; eval-iters says how many batches\n"
         "  --override        later files may set keys that earlier ones set\n"
         "  --device cpu      where to compute\n\n"
         "Prints the loss, the perplexity and the number of tokens.");
}

static status parse_part(const char *name, dataset_part *part)
{
    for (int p = 0; p < DATASET_PARTS; p++) {
        if (!strcmp(name, dataset_part_str((dataset_part)p))) {
            *part = (dataset_part)p;
            return STATUS_OK;
        }
    }
    return fail(STATUS_ERR_CONFIG, "--split \"%s\"; it is train, valid or test", name);
}

static status evaluate_on(comm *cm, const cmd_config *cc, dataset_part part)
{
    config *c = NULL;
    status result;
    const train_options options = {.device = cc->device};
    double loss = 0;
    TRY_OUT(result, comm_agree(cm, cmd_config_read(cc, comm_world_size(cm), &c)));
    TRY_OUT(result, train_evaluate_checkpoint(c, cm, &options, part, &loss));
    if (comm_world_rank(cm) == 0)
        printf("%s loss %.6f perplexity %.4f tokens %lld\n", dataset_part_str(part), loss,
               exp(loss), (long long)(c->eval_iters * c->train_batch_size * c->seq_length));
out:
    config_destroy(c);
    return result;
}

status cmd_eval(int argc, char **argv)
{
    cmd_config cc = {.device = "cpu"};
    dataset_part part = DATASET_VALID;
    char load[4096] = "";
    for (int i = 1; i < argc;) {
        bool taken;
        const char *value;
        if (!strcmp(argv[i], "--help")) {
            print_help();
            return STATUS_OK;
        }
        if (!strcmp(argv[i], "--load")) {
            TRY(cmd_option_value(argc, argv, &i, &value));
            snprintf(load, sizeof load, "load=\"%s\"", value);
            continue;
        }
        if (!strcmp(argv[i], "--split")) {
            TRY(cmd_option_value(argc, argv, &i, &value));
            TRY(parse_part(value, &part));
            continue;
        }
        TRY(cmd_config_take(&cc, argc, argv, &i, &taken));
        if (!taken)
            return fail(STATUS_ERR_CONFIG, "unknown option \"%s\"; trifold eval --help lists them",
                        argv[i]);
    }
    if (!load[0])
        return fail(STATUS_ERR_CONFIG, "no checkpoint; name its folder with --load");
    if (cc.n_sets == CMD_SETS_MAX)
        return fail(STATUS_ERR_CONFIG, "more than %d --set options", CMD_SETS_MAX - 1);
    cc.sets[cc.n_sets++] = load;
    comm *cm;
    TRY(cmd_job_begin(&cm));
    return cmd_job_end(cm, evaluate_on(cm, &cc, part));
}
