#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "checkpoint/hashed_file.h"
#include "checkpoint/safetensors.h"

enum {
    HEADER_ALIGN = 64, // the data begins at a multiple, so that it may be mapped
};

struct safetensors_writer {
    hashed_file *file;
    const safetensors_entry *entries;
    size_t count;
    size_t current; // the tensor being written
    size_t done;    // values of it
};

static const char *type_str(safetensors_type type)
{
    switch (type) {
    case SAFETENSORS_F16:
        return "F16";
    case SAFETENSORS_BF16:
        return "BF16";
    default:
        return "F32";
    }
}

static size_t type_size(safetensors_type type)
{
    return type == SAFETENSORS_F32 ? 4 : 2;
}

static json_t *describe(const safetensors_entry *e, uint64_t begin, uint64_t end)
{
    json_t *shape = json_array();
    for (int i = 0; i < e->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)e->dims[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_str(e->type), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

// Names in the order of the data, which is the caller's; "format" is what readers of PyTorch ask.
static char *build_header(const safetensors_entry *entries, size_t count)
{
    uint64_t offset = 0;
    json_t *header = json_object();
    json_object_set_new(header, "__metadata__", json_pack("{s:s}", "format", "pt"));
    for (size_t i = 0; i < count; i++) {
        const uint64_t end = offset + entries[i].count * type_size(entries[i].type);
        json_object_set_new(header, entries[i].name, describe(&entries[i], offset, end));
        offset = end;
    }
    char *text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(header);
    return text;
}

static status write_header(safetensors_writer *w)
{
    char *text = build_header(w->entries, w->count);
    if (!text)
        return fail(STATUS_ERR_MEMORY, "safetensors header: out of memory");
    const size_t length = strlen(text);
    const size_t padded = size_round_up(8 + length, HEADER_ALIGN) - 8;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    status result = hashed_file_write(w->file, prefix, sizeof prefix);
    if (result == STATUS_OK)
        result = hashed_file_write(w->file, text, length);
    free(text);
    static const char blanks[HEADER_ALIGN + 1] =
        "                                                                ";
    return result == STATUS_OK ? hashed_file_write(w->file, blanks, padded - length) : result;
}

status safetensors_writer_create(const char *path, const safetensors_entry *entries, size_t count,
                                 safetensors_writer **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(safetensors_writer), "safetensors writer", &memory));
    safetensors_writer *w = memory;
    w->entries = entries;
    w->count = count;
    status result = hashed_file_create(path, &w->file);
    if (result == STATUS_OK)
        result = write_header(w);
    if (result == STATUS_OK)
        *out = w;
    else
        safetensors_writer_destroy(w);
    return result;
}

static status put_halves(safetensors_writer *w, const float *values, size_t count,
                         safetensors_type type)
{
    uint16_t chunk[8192];
    const size_t per_chunk = sizeof chunk / sizeof chunk[0];
    for (size_t done = 0; done < count;) {
        const size_t n = size_min(per_chunk, count - done);
        for (size_t i = 0; i < n; i++)
            chunk[i] = type == SAFETENSORS_BF16 ? f32_to_bf16(values[done + i])
                                                : f32_to_f16(values[done + i]);
        TRY(hashed_file_write(w->file, chunk, n * sizeof chunk[0]));
        done += n;
    }
    return STATUS_OK;
}

status safetensors_writer_put(safetensors_writer *w, const float *values, size_t count)
{
    while (count > 0) {
        while (w->current < w->count && w->done == w->entries[w->current].count) {
            w->current++;
            w->done = 0;
        }
        if (w->current == w->count)
            return fail(STATUS_ERR_IO, "safetensors: %zu values more than the tensors hold", count);
        const safetensors_entry *e = &w->entries[w->current];
        const size_t n = size_min(count, e->count - w->done);
        if (e->type == SAFETENSORS_F32)
            TRY(hashed_file_write(w->file, values, n * sizeof *values));
        else
            TRY(put_halves(w, values, n, e->type));
        w->done += n;
        values += n;
        count -= n;
    }
    return STATUS_OK;
}

status safetensors_writer_finish(safetensors_writer *w, uint64_t *bytes, uint64_t *hash)
{
    while (w->current < w->count && w->done == w->entries[w->current].count) {
        w->current++;
        w->done = 0;
    }
    if (w->current < w->count)
        return fail(STATUS_ERR_IO, "safetensors: tensor \"%s\" lacks %zu values",
                    w->entries[w->current].name, w->entries[w->current].count - w->done);
    return hashed_file_finish(w->file, bytes, hash);
}

void safetensors_writer_destroy(safetensors_writer *w)
{
    if (!w)
        return;
    hashed_file_destroy(w->file);
    memory_free(w);
}
