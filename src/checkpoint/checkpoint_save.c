// Writing a checkpoint: aside, synced, then renamed.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/hashed_file.h"
#include "checkpoint/safetensors.h"

#define TEMPORARY_PREFIX ".tmp-"
#define REPLACED_PREFIX ".old-"

status checkpoint_path(char path[CHECKPOINT_PATH_MAX], const char *folder, const char *name)
{
    const int length = snprintf(path, CHECKPOINT_PATH_MAX, "%s/%s", folder, name);
    if (length < 0 || length >= CHECKPOINT_PATH_MAX)
        return fail(STATUS_ERR_CONFIG, "%s/%s: the path has more than %d bytes", folder, name,
                    CHECKPOINT_PATH_MAX - 1);
    return STATUS_OK;
}

int64_t checkpoint_step_of(const char *name)
{
    const char prefix[] = "global_step";
    const char *digits = name + sizeof prefix - 1;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || digits[0] < '0' || digits[0] > '9')
        return -1;
    char *end;
    errno = 0;
    const long long step = strtoll(digits, &end, 10);
    return *end == '\0' && errno == 0 ? step : -1;
}

void checkpoint_tensor_name(char name[2 * TENSOR_NAME_MAX], checkpoint_part part,
                            const char *tensor)
{
    const char *const prefixes[] = {[CHECKPOINT_PARAM] = "",
                                    [CHECKPOINT_EXP_AVG] = "exp_avg.",
                                    [CHECKPOINT_EXP_AVG_SQ] = "exp_avg_sq."};
    snprintf(name, (size_t)2 * TENSOR_NAME_MAX, "%s%s", prefixes[part], tensor);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

// One listed tensor: where it comes from, and what the file says of it.
typedef struct tensor_source {
    checkpoint_part part;
    size_t index;
} tensor_source;

typedef struct file_plan {
    safetensors_entry *entries;
    tensor_source *sources;
    char (*names)[2 * TENSOR_NAME_MAX];
    size_t count;
    size_t largest; // values of the largest tensor
} file_plan;

static void file_plan_fini(file_plan *plan)
{
    memory_free(plan->entries);
    memory_free(plan->sources);
    memory_free(plan->names);
}

static void list_part(file_plan *plan, const tensor_table *table, checkpoint_part part)
{
    for (size_t i = 0; i < table->count; i++) {
        const tensor_info *info = &table->tensors[i];
        const size_t n = plan->count++;
        checkpoint_tensor_name(plan->names[n], part, info->name);
        plan->sources[n] = (tensor_source){part, i};
        plan->entries[n] = (safetensors_entry){
            .name = plan->names[n],
            .type = SAFETENSORS_F32,
            .n_dims = info->vector ? 1 : 2,
            .dims = {info->vector ? info->cols : info->rows, info->vector ? 0 : info->cols},
            .count = tensor_elements(info)};
        plan->largest = size_max(plan->largest, tensor_elements(info));
    }
}

static status file_plan_init(file_plan *plan, const tensor_table *table, bool optimizer)
{
    const size_t most = table->count * (optimizer ? 2 : 1);
    void *memory;
    *plan = (file_plan){0};
    TRY(memory_alloc(most, sizeof *plan->entries, "checkpoint", &memory));
    plan->entries = memory;
    TRY(memory_alloc(most, sizeof *plan->sources, "checkpoint", &memory));
    plan->sources = memory;
    TRY(memory_alloc(most, sizeof *plan->names, "checkpoint", &memory));
    plan->names = memory;
    list_part(plan, table, optimizer ? CHECKPOINT_EXP_AVG : CHECKPOINT_PARAM);
    if (optimizer)
        list_part(plan, table, CHECKPOINT_EXP_AVG_SQ);
    return STATUS_OK;
}

static status put_tensors(safetensors_writer *w, const file_plan *plan,
                          const checkpoint_tensors *tensors)
{
    void *values;
    TRY(memory_alloc(plan->largest, sizeof(float), "checkpoint", &values));
    status result = STATUS_OK;
    for (size_t i = 0; i < plan->count && result == STATUS_OK; i++) {
        result =
            tensors->read(tensors->context, plan->sources[i].part, plan->sources[i].index, values);
        if (result == STATUS_OK)
            result = safetensors_writer_put(w, values, plan->entries[i].count);
    }
    memory_free(values);
    return result;
}

// Add {"name": {"bytes": n, "xxh3": "hex"}} to the manifest.
static void manifest_add(json_t *manifest, const char *name, uint64_t bytes, uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    json_object_set_new(manifest, name,
                        json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "xxh3", text));
}

static status write_tensors(const char *folder, const char *name, bool optimizer,
                            const checkpoint_tensors *tensors, json_t *manifest)
{
    char path[CHECKPOINT_PATH_MAX];
    file_plan plan;
    safetensors_writer *w = NULL;
    uint64_t bytes, hash;
    TRY(checkpoint_path(path, folder, name));
    status result = file_plan_init(&plan, tensors->table, optimizer);
    if (result == STATUS_OK)
        result = safetensors_writer_create(path, plan.entries, plan.count, &w);
    if (result == STATUS_OK)
        result = put_tensors(w, &plan, tensors);
    if (result == STATUS_OK)
        result = safetensors_writer_finish(w, &bytes, &hash);
    if (result == STATUS_OK)
        manifest_add(manifest, name, bytes, hash);
    safetensors_writer_destroy(w);
    file_plan_fini(&plan);
    return result;
}

static status write_state(const char *folder, const checkpoint_state *state, json_t *manifest)
{
    char path[CHECKPOINT_PATH_MAX];
    char *text;
    uint64_t bytes, hash;
    TRY(checkpoint_path(path, folder, CHECKPOINT_STATE));
    TRY(checkpoint_state_format(state, &text));
    const status result = hashed_file_put(path, text, &bytes, &hash);
    free(text);
    if (result == STATUS_OK)
        manifest_add(manifest, CHECKPOINT_STATE, bytes, hash);
    return result;
}

static status write_manifest(const char *folder, const json_t *manifest)
{
    char path[CHECKPOINT_PATH_MAX];
    uint64_t bytes, hash;
    TRY(checkpoint_path(path, folder, CHECKPOINT_MANIFEST));
    char *text = json_dumps(manifest, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    if (!text)
        return fail(STATUS_ERR_MEMORY, "manifest: out of memory");
    const status result = hashed_file_put(path, text, &bytes, &hash);
    free(text);
    return result;
}

static status write_files(const char *folder, const checkpoint_state *state,
                          const checkpoint_tensors *tensors)
{
    json_t *manifest = json_object();
    status result = write_tensors(folder, CHECKPOINT_MODEL, false, tensors, manifest);
    if (result == STATUS_OK && state->has_optimizer)
        result = write_tensors(folder, CHECKPOINT_OPTIMIZER, true, tensors, manifest);
    if (result == STATUS_OK)
        result = write_state(folder, state, manifest);
    if (result == STATUS_OK)
        result = write_manifest(folder, manifest);
    json_decref(manifest);
    return result == STATUS_OK ? hashed_file_sync_folder(folder) : result;
}

// Make the folder and those above it.
static status make_folders(const char *path)
{
    char part[CHECKPOINT_PATH_MAX];
    const size_t length = strlen(path);
    if (length >= sizeof part)
        return fail(STATUS_ERR_CONFIG, "%s: the path is too long", path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return fail_errno(STATUS_ERR_IO, "%s: cannot be made", part);
    }
    return STATUS_OK;
}

// What writers that died have left: they are gone, since only one run saves into a folder.
static void remove_leftovers(const char *save_dir)
{
    char path[CHECKPOINT_PATH_MAX];
    DIR *dir = opendir(save_dir);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        const bool ours = !strncmp(e->d_name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) ||
                          !strncmp(e->d_name, REPLACED_PREFIX, strlen(REPLACED_PREFIX));
        if (ours && checkpoint_path(path, save_dir, e->d_name) == STATUS_OK)
            remove_folder(path);
    }
    closedir(dir);
}

// Move the finished folder to its name. One that is there changes places with it in one step; where
// the file system cannot do that, it steps aside first.
static status place_folder(const char *temporary, const char *final, const char *replaced)
{
    if (rename(temporary, final) == 0)
        return STATUS_OK;
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
        remove_folder(temporary);
        return STATUS_OK;
    }
    if (rename(final, replaced) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be moved aside", final);
    if (rename(temporary, final) != 0) {
        const status result = fail_errno(STATUS_ERR_IO, "%s: cannot be renamed", temporary);
        rename(replaced, final);
        return result;
    }
    remove_folder(replaced);
    return STATUS_OK;
}

static status write_latest(const char *save_dir, const char *name)
{
    char temporary[CHECKPOINT_PATH_MAX], final[CHECKPOINT_PATH_MAX];
    uint64_t bytes, hash;
    TRY(checkpoint_path(temporary, save_dir, TEMPORARY_PREFIX "latest"));
    TRY(checkpoint_path(final, save_dir, "latest"));
    TRY(hashed_file_put(temporary, name, &bytes, &hash));
    if (rename(temporary, final) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be renamed", temporary);
    return hashed_file_sync_folder(save_dir);
}

static int compare_steps(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_kept(int64_t step, const int64_t *keep_steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (keep_steps[i] == step)
            return true;
    return false;
}

enum {
    STEPS_MAX = 4096, // checkpoints in a folder that pruning looks at
};

static bool is_complete(const char *save_dir, const char *name)
{
    char path[CHECKPOINT_PATH_MAX];
    return checkpoint_path(path, save_dir, name) == STATUS_OK && checkpoint_is_complete(path);
}

// Remove the oldest complete checkpoints but `keep_last`, of which the one just saved is one even
// where a run went on from an earlier step; those that cannot be removed stay.
static void prune(const char *save_dir, int64_t saved, int64_t keep_last, const int64_t *keep_steps,
                  size_t n)
{
    int64_t steps[STEPS_MAX];
    size_t count = 0;
    DIR *dir = opendir(save_dir);
    if (!dir)
        return;
    for (struct dirent *e = readdir(dir); e && count < STEPS_MAX; e = readdir(dir)) {
        const int64_t step = checkpoint_step_of(e->d_name);
        if (step >= 0 && step != saved && !is_kept(step, keep_steps, n) &&
            is_complete(save_dir, e->d_name))
            steps[count++] = step;
    }
    closedir(dir);
    qsort(steps, count, sizeof steps[0], compare_steps);
    const size_t others = (size_t)keep_last - (is_kept(saved, keep_steps, n) ? 0 : 1);
    for (size_t i = 0; i + others < count; i++) {
        char name[64], path[CHECKPOINT_PATH_MAX], manifest[CHECKPOINT_PATH_MAX];
        snprintf(name, sizeof name, "global_step%lld", (long long)steps[i]);
        const bool ours = checkpoint_path(path, save_dir, name) == STATUS_OK &&
                          checkpoint_path(manifest, path, CHECKPOINT_MANIFEST) == STATUS_OK &&
                          unlink(manifest) == 0; // from here on it is no checkpoint
        if (ours)
            remove_folder(path);
    }
}

status checkpoint_save(const char *save_dir, const checkpoint_state *state,
                       const checkpoint_tensors *tensors, int64_t keep_last,
                       const int64_t *keep_steps, size_t n_keep_steps)
{
    char name[64], hidden[96], temporary[CHECKPOINT_PATH_MAX], final[CHECKPOINT_PATH_MAX];
    char replaced[CHECKPOINT_PATH_MAX];
    snprintf(name, sizeof name, "global_step%lld", (long long)state->iteration);
    snprintf(hidden, sizeof hidden, TEMPORARY_PREFIX "%s", name);
    TRY(checkpoint_path(temporary, save_dir, hidden));
    TRY(checkpoint_path(final, save_dir, name));
    snprintf(hidden, sizeof hidden, REPLACED_PREFIX "%s", name);
    TRY(checkpoint_path(replaced, save_dir, hidden));
    TRY(make_folders(save_dir));
    remove_leftovers(save_dir);
    if (mkdir(temporary, 0777) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be made", temporary);
    status result = write_files(temporary, state, tensors);
    if (result == STATUS_OK)
        result = place_folder(temporary, final, replaced);
    if (result != STATUS_OK) {
        remove_folder(temporary);
        return result;
    }
    TRY(hashed_file_sync_folder(save_dir));
    TRY(write_latest(save_dir, name));
    if (keep_last > 0)
        prune(save_dir, state->iteration, keep_last, keep_steps, n_keep_steps);
    return STATUS_OK;
}
