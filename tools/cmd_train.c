// trifold train: read the configuration on every rank alike, then train.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd.h"
#include "cmd_config.h"
#include "cmd_job.h"
#include "train/train.h"

static void print_help(void)
{
    puts("usage: [mpirun -n N] trifold train FILE.yml... [options]\n\n"
         "  --set KEY=VALUE   override a key, dotted where nested; the value is read as YAML\n"
         "  --override        later files may set keys that earlier ones set\n"
         "  --dry-run         check everything, describe the run, stop\n"
         "  --device cpu      where to compute\n\n"
         "Exit status: 0 done, 1 failed, 2 usage or configuration, 75 stopped by a signal after\n"
         "saving. The keys:\n");
    config_print_help(stdout);
}

// A setting that somebody chose, for the echo at start.
static void show_setting(void *context, const char *name, const char *value, const char *source)
{
    (void)context;
    if (strcmp(source, "default") != 0)
        log_info("  %s: %s  (%s)", name, value, source);
}

static status show_settings(const config *c)
{
    for (size_t i = 0; config_remark(c, i); i++)
        log_info("note: %s", config_remark(c, i));
    log_info("settings that differ from the defaults:");
    return config_list(c, show_setting, NULL);
}

// A dry run of one process describes the smallest job that the grid of the file allows.
static status read_config(const cmd_config *cc, const comm *cm, bool dry_run, config **out)
{
    const int world = comm_world_size(cm);
    return cmd_config_read(cc, dry_run && world == 1 ? 0 : world, out);
}

static status train_on(comm *cm, const cmd_config *cc, const train_options *options)
{
    config *c = NULL;
    status result;
    TRY_OUT(result, comm_agree(cm, read_config(cc, cm, options->dry_run, &c)));
    TRY_OUT(result, show_settings(c));
    TRY_OUT(result, train_run(c, cm, options));
out:
    config_destroy(c);
    return result;
}

status cmd_train(int argc, char **argv)
{
    cmd_config cc = {.device = "cpu"};
    train_options options = {0};
    for (int i = 1; i < argc;) {
        bool taken;
        if (!strcmp(argv[i], "--help")) {
            print_help();
            return STATUS_OK;
        }
        if (!strcmp(argv[i], "--dry-run")) {
            options.dry_run = true;
            i++;
            continue;
        }
        TRY(cmd_config_take(&cc, argc, argv, &i, &taken));
        if (!taken)
            return fail(STATUS_ERR_CONFIG, "unknown option \"%s\"; trifold train --help lists them",
                        argv[i]);
    }
    options.device = cc.device;
    comm *cm;
    TRY(cmd_job_begin(&cm));
    return cmd_job_end(cm, train_on(cm, &cc, &options));
}
