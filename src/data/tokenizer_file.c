#include "data/tokenizer_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 30 };

static status read_stream(FILE *stream, const char *path, byte_buffer *b)
{
    enum { STEP = 1 << 16 };
    size_t got = STEP;
    while (got == STEP) {
        TRY(byte_buffer_reserve(b, STEP + 1));
        got = fread(b->data + b->count, 1, STEP, stream);
        b->count += got;
        if (b->count > FILE_MAX)
            return fail(STATUS_ERR_FORMAT,
                        "%s: larger than 1 GiB; a tokenizer's file would be right", path);
    }
    if (ferror(stream))
        return fail_errno(STATUS_ERR_IO, "cannot read %s", path);
    b->data[b->count] = '\0';
    return STATUS_OK;
}

status token_file_read(const char *path, char **text, size_t *bytes)
{
    byte_buffer b = {0};
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return fail_errno(STATUS_ERR_CONFIG, "cannot open %s", path);
    const status result = read_stream(stream, path, &b);
    fclose(stream);
    if (result != STATUS_OK) {
        free(b.data);
        return result;
    }
    *text = (char *)b.data;
    *bytes = b.count;
    return STATUS_OK;
}

status token_file_parse(const char *path, const char *text, size_t bytes, json_t **out)
{
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root)
        return fail(STATUS_ERR_FORMAT, "%s:%d:%d: not JSON: %s", path, error.line, error.column,
                    error.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return fail(STATUS_ERR_FORMAT, "%s: not a JSON object, as a tokenizer's file is", path);
    }
    *out = root;
    return STATUS_OK;
}

static bool in_list(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; length > 0 && (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

status token_file_check_keys(const token_file *f, const char *where, const json_t *object,
                             const char *keys)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return fail(STATUS_ERR_FORMAT,
                    "%s: %s is not an object; one with a \"type\" would be right", f->path, where);
    json_object_foreach((json_t *)object, key, value)
    {
        if (!json_is_null(value) && !in_list(keys, key))
            return fail(STATUS_ERR_UNSUPPORTED,
                        "%s: %s: key \"%s\" is not supported; supported: %s", f->path, where, key,
                        keys);
    }
    return STATUS_OK;
}

status token_file_bool(const token_file *f, const char *where, const json_t *object,
                       const char *key, bool otherwise, bool *out)
{
    const json_t *value = json_object_get(object, key);
    *out = otherwise;
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_boolean(value))
        return fail(STATUS_ERR_FORMAT, "%s: %s: \"%s\" is neither true nor false", f->path, where,
                    key);
    *out = json_is_true(value);
    return STATUS_OK;
}

status token_file_string(const token_file *f, const char *where, const json_t *object,
                         const char *key, const char **text, size_t *bytes)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        return fail(STATUS_ERR_FORMAT, "%s: %s: \"%s\" is not a text", f->path, where, key);
    *text = json_string_value(value);
    *bytes = json_string_length(value);
    return STATUS_OK;
}

status token_file_kind(const token_file *f, const char *where, const json_t *object,
                       const char **kind)
{
    size_t bytes;
    if (!json_is_object(object))
        return fail(STATUS_ERR_FORMAT,
                    "%s: %s is not an object; one with a \"type\" would be right", f->path, where);
    return token_file_string(f, where, object, "type", kind, &bytes);
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

// Ids far above the count would make the model that large.
static status check_ids(const token_file *f, const char *where, int32_t *ids, size_t count)
{
    qsort(ids, count, sizeof *ids, compare_ids);
    for (size_t i = 1; i < count; i++)
        if (ids[i] == ids[i - 1])
            return fail(STATUS_ERR_FORMAT, "%s: %s: two tokens have the id %d", f->path, where,
                        ids[i]);
    if (count > 0 && (size_t)ids[count - 1] >= 2 * count + 65536)
        return fail(STATUS_ERR_FORMAT, "%s: %s: %zu tokens but an id of %d; less would be right",
                    f->path, where, count, ids[count - 1]);
    return STATUS_OK;
}

status token_file_vocabulary(const token_file *f, const char *where, const json_t *object)
{
    const char *key;
    json_t *value;
    token_list ids = {0};
    status result = STATUS_OK;
    if (!json_is_object(object) || json_object_size(object) == 0)
        return fail(STATUS_ERR_FORMAT, "%s: %s is not an object of tokens and their ids", f->path,
                    where);
    json_object_foreach((json_t *)object, key, value)
    {
        const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= INT32_MAX)
            TRY_OUT(result, fail(STATUS_ERR_FORMAT,
                                 "%s: %s: the id of \"%s\" is not a whole number from 0 on",
                                 f->path, where, key));
        TRY_OUT(result, token_list_push(&ids, (int32_t)id));
        TRY_OUT(result, token_map_add(&f->t->model.vocab, key, strlen(key), (int32_t)id));
    }
    result = check_ids(f, where, ids.ids, ids.count);
out:
    token_list_fini(&ids);
    return result;
}
