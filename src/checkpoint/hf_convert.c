#include "checkpoint/hf_convert.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/hashed_file.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/safetensors.h"

enum {
    SHARDS_MAX = 256,
};

// A tensor with a row a token, whose padding rows come and go.
static bool is_by_token(const tensor_info *info)
{
    return !strcmp(info->name, "word_embeddings.weight") ||
           !strcmp(info->name, "final_linear.weight");
}

// ---- Import ----

typedef struct hf_source {
    safetensors *shards[SHARDS_MAX];
    char names[SHARDS_MAX][256];
    size_t count;
    const char *dir;
    tensor_table table; // of the shape to be written
} hf_source;

static status open_shard(hf_source *src, const char *name)
{
    char path[CHECKPOINT_PATH_MAX];
    for (size_t i = 0; i < src->count; i++)
        if (!strcmp(src->names[i], name))
            return STATUS_OK;
    if (src->count == SHARDS_MAX || strlen(name) >= sizeof src->names[0] || strchr(name, '/'))
        return fail(STATUS_ERR_FORMAT, "%s: more than %d shards, or a shard with the name \"%s\"",
                    src->dir, SHARDS_MAX, name);
    TRY(checkpoint_path(path, src->dir, name));
    TRY(safetensors_open(path, &src->shards[src->count]));
    memcpy(src->names[src->count], name, strlen(name) + 1);
    src->count++;
    return STATUS_OK;
}

static status open_index(hf_source *src, const char *path)
{
    json_error_t error;
    const char *tensor;
    json_t *shard;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail(STATUS_ERR_FORMAT, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    json_t *map = json_object_get(root, "weight_map");
    status result = json_is_object(map)
                        ? STATUS_OK
                        : fail(STATUS_ERR_FORMAT, "%s: has no \"weight_map\"", path);
    json_object_foreach(map, tensor, shard)
    {
        if (result != STATUS_OK)
            break;
        result = json_is_string(shard)
                     ? open_shard(src, json_string_value(shard))
                     : fail(STATUS_ERR_FORMAT, "%s: \"%s\" names no file", path, tensor);
    }
    json_decref(root);
    return result;
}

static status open_shards(hf_source *src)
{
    char path[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_path(path, src->dir, "model.safetensors.index.json"));
    return access(path, F_OK) == 0 ? open_index(src, path) : open_shard(src, "model.safetensors");
}

static const safetensors_entry *find_in_shards(const hf_source *src, const char *name,
                                               const safetensors **shard)
{
    for (size_t i = 0; i < src->count; i++) {
        const safetensors_entry *e = safetensors_find(src->shards[i], name);
        *shard = src->shards[i];
        if (e)
            return e;
    }
    return NULL;
}

// The first `rows` of a tensor that may have more, where it is a row a token.
static status read_hf(void *context, checkpoint_part part, size_t index, float *host)
{
    const hf_source *src = context;
    const tensor_info *info = &src->table.tensors[index];
    const bool by_token = is_by_token(info);
    char name[HF_NAME_MAX];
    const safetensors *shard;
    (void)part; // only parameters are imported
    hf_tensor_name(name, info->name);
    const safetensors_entry *e = find_in_shards(src, name, &shard);
    if (!e && !strcmp(name, "embed_out.weight"))
        e = find_in_shards(src, "lm_head.weight", &shard); // its name in newer versions
    if (!e)
        return fail(STATUS_ERR_FORMAT, "%s: tensor \"%s\" is missing", src->dir, name);
    const bool fits = info->vector
                          ? e->n_dims == 1 && e->dims[0] == info->cols
                          : e->n_dims == 2 && e->dims[1] == info->cols &&
                                (by_token ? e->dims[0] >= info->rows : e->dims[0] == info->rows);
    if (!fits)
        return fail(STATUS_ERR_FORMAT,
                    "%s: tensor \"%s\" has %zu values; config.json asks for %zu x %zu", src->dir,
                    name, e->count, info->rows, info->cols);
    return safetensors_read(shard, e, 0, tensor_elements(info), host);
}

static status import_into(hf_source *src, const char *save_dir, const hf_import_options *options)
{
    char path[CHECKPOINT_PATH_MAX];
    checkpoint_state state = {.loss_scale = 1, .decay_style = "constant"};
    const model_init_options init = {0};
    TRY(checkpoint_path(path, src->dir, "config.json"));
    TRY(hf_config_read(path, &state.shape));
    if (options->vocab > state.shape.vocab)
        return fail(STATUS_ERR_CONFIG, "--vocab-size %zu exceeds the %zu rows of the model",
                    options->vocab, state.shape.vocab);
    if (options->vocab > 0)
        state.shape.vocab = options->vocab;
    const model_part whole = model_part_whole(&state.shape);
    TRY(model_shape_tensors(&state.shape, &init, &whole, &src->table));
    TRY(open_shards(src));
    const checkpoint_tensors tensors = {.table = &src->table, .context = src, .read = read_hf};
    return checkpoint_save(save_dir, &state, &tensors, 0, NULL, 0);
}

status hf_import(const char *hf_dir, const char *save_dir, const hf_import_options *options)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(hf_source), "conversion", &memory));
    hf_source *src = memory;
    src->dir = hf_dir;
    tensor_table_init(&src->table);
    const status result = import_into(src, save_dir, options);
    for (size_t i = 0; i < src->count; i++)
        safetensors_close(src->shards[i]);
    tensor_table_fini(&src->table);
    memory_free(src);
    return result;
}

// ---- Export ----

typedef struct hf_target {
    const hf_export_options *options;
    tensor_table table;
    size_t vocab; // rows written
    safetensors_entry *entries;
    char (*names)[HF_NAME_MAX];
    safetensors_writer *writer;
} hf_target;

static safetensors_type file_type(dtype type)
{
    switch (type) {
    case DTYPE_BF16:
        return SAFETENSORS_BF16;
    case DTYPE_F16:
        return SAFETENSORS_F16;
    default:
        return SAFETENSORS_F32;
    }
}

static status list_tensors(hf_target *t)
{
    void *memory;
    TRY(memory_alloc(t->table.count, sizeof *t->entries, "conversion", &memory));
    t->entries = memory;
    TRY(memory_alloc(t->table.count, sizeof *t->names, "conversion", &memory));
    t->names = memory;
    for (size_t i = 0; i < t->table.count; i++) {
        const tensor_info *info = &t->table.tensors[i];
        const size_t rows = is_by_token(info) ? t->vocab : info->rows;
        hf_tensor_name(t->names[i], info->name);
        t->entries[i] = (safetensors_entry){
            .name = t->names[i],
            .type = file_type(t->options->type),
            .n_dims = info->vector ? 1 : 2,
            .dims = {info->vector ? info->cols : rows, info->vector ? 0 : info->cols},
            .count = rows * info->cols};
    }
    return STATUS_OK;
}

// checkpoint_load_tensors() gives the tensors in the order of the table, which is the file's.
static status write_hf(void *context, checkpoint_part part, size_t index, const float *host)
{
    hf_target *t = context;
    const tensor_info *info = &t->table.tensors[index];
    (void)part;
    TRY(safetensors_writer_put(t->writer, host, tensor_elements(info)));
    const float zeros[256] = {0};
    size_t rest = t->entries[index].count - tensor_elements(info);
    while (rest > 0) {
        const size_t n = size_min(rest, sizeof zeros / sizeof zeros[0]);
        TRY(safetensors_writer_put(t->writer, zeros, n));
        rest -= n;
    }
    return STATUS_OK;
}

static status export_files(hf_target *t, const char *checkpoint, const char *hf_dir,
                           const model_shape *shape)
{
    char path[CHECKPOINT_PATH_MAX];
    char *text;
    uint64_t bytes, hash;
    TRY(hf_config_format(shape, t->vocab, t->options->type, &text));
    status result = checkpoint_path(path, hf_dir, "config.json");
    if (result == STATUS_OK)
        result = hashed_file_put(path, text, &bytes, &hash);
    free(text);
    TRY(result);
    TRY(list_tensors(t));
    TRY(checkpoint_path(path, hf_dir, "model.safetensors"));
    TRY(safetensors_writer_create(path, t->entries, t->table.count, &t->writer));
    const checkpoint_tensors tensors = {.table = &t->table, .context = t, .write = write_hf};
    TRY(checkpoint_load_tensors(checkpoint, &tensors, false));
    return safetensors_writer_finish(t->writer, &bytes, &hash);
}

static status export_from(const char *checkpoint, const char *hf_dir,
                          const hf_export_options *options)
{
    checkpoint_state state;
    const model_init_options init = {0};
    hf_target t = {.options = options};
    tensor_table_init(&t.table);
    TRY(checkpoint_load_state(checkpoint, &state));
    t.vocab = size_round_up(state.shape.vocab, size_max(options->vocab_multiple, 1));
    if (mkdir(hf_dir, 0777) != 0 && errno != EEXIST)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be made", hf_dir);
    const model_part whole = model_part_whole(&state.shape);
    status result = model_shape_tensors(&state.shape, &init, &whole, &t.table);
    if (result == STATUS_OK)
        result = export_files(&t, checkpoint, hf_dir, &state.shape);
    safetensors_writer_destroy(t.writer);
    memory_free(t.entries);
    memory_free(t.names);
    tensor_table_fini(&t.table);
    return result;
}

status hf_export(const char *load, const char *hf_dir, const hf_export_options *options)
{
    char *checkpoint;
    TRY(checkpoint_find(load, &checkpoint));
    const status result = export_from(checkpoint, hf_dir, options);
    free(checkpoint);
    return result;
}
