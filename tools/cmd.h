/* The sub-commands of the program, one file cmd_NAME.c each.
 *
 * A sub-command gets its own arguments (argv[0] is its name), prints results on standard output and
 * returns a status; the error record, if any, is printed once: see cmd_job.h. */
#ifndef TRIFOLD_TOOLS_CMD_H
#define TRIFOLD_TOOLS_CMD_H

#include "base/status.h"

status cmd_train(int argc, char **argv);
status cmd_prep(int argc, char **argv);
status cmd_convert(int argc, char **argv);
status cmd_eval(int argc, char **argv);

#endif
