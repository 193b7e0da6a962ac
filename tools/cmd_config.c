#include "cmd_config.h"

#include <string.h>

status cmd_option_value(int argc, char **argv, int *index, const char **value)
{
    if (*index + 1 >= argc)
        return fail(STATUS_ERR_CONFIG, "%s needs a value", argv[*index]);
    *value = argv[*index + 1];
    *index += 2;
    return STATUS_OK;
}

static status add(const char **list, int *count, int most, const char *value, const char *what)
{
    if (*count == most)
        return fail(STATUS_ERR_CONFIG, "more than %d %s", most, what);
    list[(*count)++] = value;
    return STATUS_OK;
}

status cmd_config_take(cmd_config *cc, int argc, char **argv, int *index, bool *taken)
{
    const char *arg = argv[*index];
    const char *value = NULL;
    *taken = true;
    if (!strcmp(arg, "--set")) {
        TRY(cmd_option_value(argc, argv, index, &value));
        return add(cc->sets, &cc->n_sets, CMD_SETS_MAX, value, "--set options");
    }
    if (!strcmp(arg, "--device"))
        return cmd_option_value(argc, argv, index, &cc->device);
    if (!strcmp(arg, "--override")) {
        cc->override = true;
        (*index)++;
        return STATUS_OK;
    }
    if (arg[0] != '-') {
        (*index)++;
        return add(cc->files, &cc->n_files, CMD_FILES_MAX, arg, "configuration files");
    }
    *taken = false;
    return STATUS_OK;
}

static status load(const cmd_config *cc, int world_size, config *c)
{
    for (int i = 0; i < cc->n_files; i++)
        TRY(config_load_file(c, cc->files[i], cc->override));
    for (int i = 0; i < cc->n_sets; i++)
        TRY(config_set(c, cc->sets[i]));
    if (world_size > 0)
        return config_resolve(c, world_size);
    const int64_t stages = c->pipe_parallel_size > 1 ? c->pipe_parallel_size : 1;
    const int64_t least = stages * c->model_parallel_size;
    return config_resolve(c, least > 0 && least < 1 << 20 ? (int)least : 1);
}

status cmd_config_read(const cmd_config *cc, int world_size, config **out)
{
    if (cc->n_files == 0)
        return fail(STATUS_ERR_CONFIG, "no configuration; name at least one YAML file");
    config *c;
    TRY(config_create(&c));
    const status result = load(cc, world_size, c);
    if (result == STATUS_OK)
        *out = c;
    else
        config_destroy(c);
    return result;
}
