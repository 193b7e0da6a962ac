// Finding a checkpoint and reading it back, verified.
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/hashed_file.h"
#include "checkpoint/safetensors.h"

bool checkpoint_is_complete(const char *folder)
{
    char manifest[CHECKPOINT_PATH_MAX];
    return checkpoint_path(manifest, folder, CHECKPOINT_MANIFEST) == STATUS_OK &&
           access(manifest, R_OK) == 0;
}

// The largest complete step under `dir`, or -1; incomplete ones are named.
static int64_t newest_step(const char *dir, DIR *open_dir)
{
    int64_t newest = -1;
    for (struct dirent *e = readdir(open_dir); e; e = readdir(open_dir)) {
        char path[CHECKPOINT_PATH_MAX];
        const int64_t step = checkpoint_step_of(e->d_name);
        if (step < 0 || checkpoint_path(path, dir, e->d_name) != STATUS_OK)
            continue;
        if (!checkpoint_is_complete(path))
            log_info("warning: %s has no %s: not a complete checkpoint, skipped", path,
                     CHECKPOINT_MANIFEST);
        else if (step > newest)
            newest = step;
    }
    return newest;
}

static status give_path(const char *text, char **path)
{
    *path = strdup(text);
    return *path ? STATUS_OK : fail(STATUS_ERR_MEMORY, "%s: out of memory", text);
}

status checkpoint_find(const char *dir, char **path)
{
    char name[64], found[CHECKPOINT_PATH_MAX];
    if (checkpoint_is_complete(dir))
        return give_path(dir, path);
    DIR *open_dir = opendir(dir);
    if (!open_dir)
        return fail_errno(STATUS_ERR_CONFIG, "load: %s cannot be opened", dir);
    const int64_t step = newest_step(dir, open_dir);
    closedir(open_dir);
    if (step < 0)
        return fail(STATUS_ERR_CONFIG,
                    "load: no complete checkpoint in %s; it would be a folder "
                    "global_stepN with a manifest.json",
                    dir);
    snprintf(name, sizeof name, "global_step%lld", (long long)step);
    TRY(checkpoint_path(found, dir, name));
    return give_path(found, path);
}

// One file against its line in the manifest.
static status verify_file(const char *folder, const char *name, const json_t *line)
{
    char path[CHECKPOINT_PATH_MAX], hex[17];
    uint64_t bytes, hash;
    const json_int_t expected_bytes = json_integer_value(json_object_get(line, "bytes"));
    const char *expected = json_string_value(json_object_get(line, "xxh3"));
    TRY(checkpoint_path(path, folder, name));
    if (!expected)
        return fail(STATUS_ERR_FORMAT, "%s/%s: has no line for %s", folder, CHECKPOINT_MANIFEST,
                    name);
    TRY(hashed_file_check(path, &bytes, &hash));
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    if (bytes != (uint64_t)expected_bytes || strcmp(hex, expected) != 0)
        return fail(STATUS_ERR_FORMAT,
                    "%s: is damaged: %llu bytes with hash %s, %s says %lld and %s", path,
                    (unsigned long long)bytes, hex, CHECKPOINT_MANIFEST, (long long)expected_bytes,
                    expected);
    return STATUS_OK;
}

static status read_manifest(const char *folder, json_t **manifest)
{
    char path[CHECKPOINT_PATH_MAX];
    json_error_t error;
    TRY(checkpoint_path(path, folder, CHECKPOINT_MANIFEST));
    *manifest = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(*manifest)) {
        json_decref(*manifest);
        return fail(STATUS_ERR_FORMAT, "%s:%d: %s; the file is damaged", path, error.line,
                    error.text);
    }
    return STATUS_OK;
}

static status verify(const char *folder, const char *name)
{
    json_t *manifest;
    TRY(read_manifest(folder, &manifest));
    const status result = verify_file(folder, name, json_object_get(manifest, name));
    json_decref(manifest);
    return result;
}

status checkpoint_load_state(const char *path, checkpoint_state *state)
{
    char file[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_path(file, path, CHECKPOINT_STATE));
    TRY(verify(path, CHECKPOINT_STATE));
    return checkpoint_state_parse(file, state);
}

static bool same_shape(const safetensors_entry *e, const tensor_info *info)
{
    if (info->vector)
        return e->n_dims == 1 && e->dims[0] == info->cols;
    return e->n_dims == 2 && e->dims[0] == info->rows && e->dims[1] == info->cols;
}

static status load_tensor(const safetensors *st, const char *file, checkpoint_part part,
                          size_t index, const checkpoint_tensors *tensors, float *values)
{
    char name[2 * TENSOR_NAME_MAX];
    const tensor_info *info = &tensors->table->tensors[index];
    checkpoint_tensor_name(name, part, info->name);
    const safetensors_entry *e = safetensors_find(st, name);
    if (!e)
        return fail(STATUS_ERR_FORMAT, "%s: tensor \"%s\" is missing", file, name);
    if (!same_shape(e, info))
        return fail(STATUS_ERR_FORMAT,
                    "%s: tensor \"%s\" has %zu values in %d dimensions; the "
                    "model needs %zu x %zu",
                    file, name, e->count, e->n_dims, info->rows, info->cols);
    TRY(safetensors_read(st, e, 0, e->count, values));
    return tensors->write(tensors->context, part, index, values);
}

static size_t largest_tensor(const tensor_table *table)
{
    size_t most = 1;
    for (size_t i = 0; i < table->count; i++)
        if (tensor_elements(&table->tensors[i]) > most)
            most = tensor_elements(&table->tensors[i]);
    return most;
}

static status load_parts(const safetensors *st, const char *file, const checkpoint_part *parts,
                         size_t n_parts, const checkpoint_tensors *tensors)
{
    const tensor_table *table = tensors->table;
    void *values;
    if (safetensors_count(st) != n_parts * table->count)
        return fail(STATUS_ERR_FORMAT, "%s: has %zu tensors; the model has %zu", file,
                    safetensors_count(st), n_parts * table->count);
    TRY(memory_alloc(largest_tensor(table), sizeof(float), "checkpoint", &values));
    status result = STATUS_OK;
    for (size_t p = 0; p < n_parts; p++)
        for (size_t i = 0; i < table->count && result == STATUS_OK; i++)
            result = load_tensor(st, file, parts[p], i, tensors, values);
    memory_free(values);
    return result;
}

static status load_file(const char *folder, const char *name, const checkpoint_part *parts,
                        size_t n_parts, const checkpoint_tensors *tensors)
{
    char path[CHECKPOINT_PATH_MAX];
    safetensors *st;
    TRY(checkpoint_path(path, folder, name));
    TRY(verify(folder, name));
    TRY(safetensors_open(path, &st));
    const status result = load_parts(st, path, parts, n_parts, tensors);
    safetensors_close(st);
    return result;
}

status checkpoint_load_tensors(const char *path, const checkpoint_tensors *tensors,
                               bool with_optimizer)
{
    const checkpoint_part param = CHECKPOINT_PARAM;
    const checkpoint_part states[] = {CHECKPOINT_EXP_AVG, CHECKPOINT_EXP_AVG_SQ};
    TRY(load_file(path, CHECKPOINT_MODEL, &param, 1, tensors));
    return with_optimizer ? load_file(path, CHECKPOINT_OPTIMIZER, states, 2, tensors) : STATUS_OK;
}
