// The program's entry: finds the sub-command, runs it, prints the error and gives the exit status.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cmd.h"
#include "cmd_job.h"

typedef struct command {
    const char *name;
    const char *help; // one line for --help
    status (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    {"train", "train a model from YAML; under mpirun on several ranks", cmd_train},
    {"prep", "text files to a set of tokens", cmd_prep},
    {"convert", "Hugging Face GPTNeoX to a checkpoint and back", cmd_convert},
    {"eval", "loss and perplexity of a checkpoint", cmd_eval},
    {NULL, NULL, NULL},
};

static void print_help(void)
{
    puts("usage: trifold SUBCOMMAND ...\n");
    for (const command *c = commands; c->name; c++)
        printf("  %-10s %s\n", c->name, c->help);
    puts("\ntrifold SUBCOMMAND --help tells more; trifold --version tells the build options.");
}

static status run_command(int argc, char **argv)
{
    if (argc < 2)
        return fail(STATUS_ERR_CONFIG, "no sub-command; trifold --help lists them");
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_help();
        return STATUS_OK;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("trifold " TRIFOLD_VERSION "\n" TRIFOLD_BUILD_OPTIONS);
        return STATUS_OK;
    }
    for (const command *c = commands; c->name; c++)
        if (!strcmp(argv[1], c->name))
            return c->run(argc - 1, argv + 1);
    return fail(STATUS_ERR_CONFIG, "unknown sub-command \"%s\"; trifold --help lists them",
                argv[1]);
}

// Threads of a parallel region that wait for the others spin a while, then sleep. The default of
// GCC's library is to spin for milliseconds, which starves the other ranks and the communication
// thread wherever there are more of them than cores. It reads its settings before main(), so they
// are set for a second start of the same program.
static void limit_spinning(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (setenv("GOMP_SPINCOUNT", "2000", 1) == 0)
        execv("/proc/self/exe", argv); // where it fails, the program is only slower
}

int main(int argc, char **argv)
{
    limit_spinning(argv);
    signal(SIGXFSZ, SIG_IGN); // a file-size limit is then a write error with a name
    status result = run_command(argc, argv);
    cmd_job_report(result);
    return status_exit_code(result);
}
