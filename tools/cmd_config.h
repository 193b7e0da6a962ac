/* The part of a command line that train and eval share: YAML files, --set, --override. */
#ifndef TRIFOLD_TOOLS_CMD_CONFIG_H
#define TRIFOLD_TOOLS_CMD_CONFIG_H

#include <stdbool.h>

#include "config/config.h"

enum {
    CMD_FILES_MAX = 32,
    CMD_SETS_MAX = 128,
};

typedef struct cmd_config {
    const char *files[CMD_FILES_MAX];
    int n_files;
    const char *sets[CMD_SETS_MAX];
    int n_sets;
    bool override;
    const char *device;
} cmd_config;

/* Take argv[*index] if it belongs here, with its value, and move *index past it; *taken tells. */
status cmd_config_take(cmd_config *cc, int argc, char **argv, int *index, bool *taken);

/* The value of option argv[*index], which is moved past. */
status cmd_option_value(int argc, char **argv, int *index, const char **value);

/* Read the files and settings in order, and resolve for `world_size` ranks; 0: for the least that
 * the grid of the configuration needs. The caller owns *out. */
status cmd_config_read(const cmd_config *cc, int world_size, config **out);

#endif
