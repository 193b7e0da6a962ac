#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "checkpoint/safetensors.h"

enum {
    HEADER_MAX = 100 << 20, // bytes; the limit of the reference reader
};

struct safetensors {
    char *path;
    int fd;
    json_t *header;
    safetensors_entry *entries; // by position of their data
    size_t count;
    uint64_t data_begin, data_bytes;
};

typedef struct type_name {
    const char *name;
    safetensors_type type;
    size_t size;
} type_name;

static const type_name type_names[] = {
    {"F32", SAFETENSORS_F32, 4},    {"F16", SAFETENSORS_F16, 2},   {"BF16", SAFETENSORS_BF16, 2},
    {"F64", SAFETENSORS_F64, 8},    {"I64", SAFETENSORS_OTHER, 8}, {"I32", SAFETENSORS_OTHER, 4},
    {"I16", SAFETENSORS_OTHER, 2},  {"I8", SAFETENSORS_OTHER, 1},  {"U64", SAFETENSORS_OTHER, 8},
    {"U32", SAFETENSORS_OTHER, 4},  {"U16", SAFETENSORS_OTHER, 2}, {"U8", SAFETENSORS_OTHER, 1},
    {"BOOL", SAFETENSORS_OTHER, 1},
};

static status read_at(const safetensors *st, void *to, size_t bytes, uint64_t offset)
{
    unsigned char *p = to;
    while (bytes > 0) {
        const ssize_t got = pread(st->fd, p, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(STATUS_ERR_IO, "%s: cannot be read", st->path);
        if (got == 0)
            return fail(STATUS_ERR_FORMAT, "%s: ends at byte %llu; it became shorter", st->path,
                        (unsigned long long)offset);
        p += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return STATUS_OK;
}

static const type_name *find_type(const char *name)
{
    for (size_t i = 0; name && i < sizeof type_names / sizeof type_names[0]; i++)
        if (!strcmp(name, type_names[i].name))
            return &type_names[i];
    return NULL;
}

static status parse_shape(const safetensors *st, const json_t *shape, safetensors_entry *e)
{
    const size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > SAFETENSORS_DIMS_MAX)
        return fail(STATUS_ERR_FORMAT, "%s: tensor \"%s\" has no shape of at most %d dimensions",
                    st->path, e->name, SAFETENSORS_DIMS_MAX);
    e->n_dims = (int)n;
    e->count = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        const json_int_t value = json_integer_value(dim);
        if (!json_is_integer(dim) || value < 0 || !size_mul(e->count, (size_t)value, &e->count))
            return fail(STATUS_ERR_FORMAT, "%s: tensor \"%s\" has an impossible shape", st->path,
                        e->name);
        e->dims[i] = (size_t)value;
    }
    return STATUS_OK;
}

static status parse_entry(const safetensors *st, const char *name, const json_t *value,
                          safetensors_entry *e)
{
    e->name = name;
    const char *dtype_text = json_string_value(json_object_get(value, "dtype"));
    const type_name *type = find_type(dtype_text);
    if (!type)
        return fail(STATUS_ERR_FORMAT, "%s: tensor \"%s\" has the unknown type \"%s\"", st->path,
                    name, dtype_text ? dtype_text : "");
    e->type = type->type;
    TRY(parse_shape(st, json_object_get(value, "shape"), e));
    const json_t *offsets = json_object_get(value, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    const json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    size_t bytes;
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        begin < 0 || end < begin || (uint64_t)end > st->data_bytes)
        return fail(STATUS_ERR_FORMAT,
                    "%s: tensor \"%s\" lies at bytes %lld to %lld of %llu; the file is damaged",
                    st->path, name, (long long)begin, (long long)end,
                    (unsigned long long)st->data_bytes);
    if (!size_mul(e->count, type->size, &bytes) || bytes != (uint64_t)(end - begin))
        return fail(STATUS_ERR_FORMAT,
                    "%s: tensor \"%s\" has %lld bytes of data; its shape says %zu values of %zu",
                    st->path, name, (long long)(end - begin), e->count, type->size);
    e->begin = (uint64_t)begin;
    e->bytes = bytes;
    return STATUS_OK;
}

static int compare_begin(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

// Tensors fill the data without overlaps and holes.
static status check_cover(const safetensors *st)
{
    uint64_t expected = 0;
    for (size_t i = 0; i < st->count; i++) {
        const safetensors_entry *e = &st->entries[i];
        if (e->begin != expected)
            return fail(STATUS_ERR_FORMAT,
                        "%s: tensor \"%s\" begins at byte %llu, expected %llu; the file is damaged",
                        st->path, e->name, (unsigned long long)e->begin,
                        (unsigned long long)expected);
        expected = e->begin + e->bytes;
    }
    if (expected != st->data_bytes)
        return fail(STATUS_ERR_FORMAT, "%s: has %llu bytes of data, its tensors %llu", st->path,
                    (unsigned long long)st->data_bytes, (unsigned long long)expected);
    return STATUS_OK;
}

static status parse_entries(safetensors *st)
{
    const char *name;
    json_t *value;
    void *memory;
    TRY(memory_alloc(json_object_size(st->header), sizeof(safetensors_entry), "tensor list",
                     &memory));
    st->entries = memory;
    json_object_foreach(st->header, name, value)
    {
        if (!strcmp(name, "__metadata__"))
            continue;
        if (!json_is_object(value))
            return fail(STATUS_ERR_FORMAT, "%s: tensor \"%s\" is not described by a map", st->path,
                        name);
        TRY(parse_entry(st, name, value, &st->entries[st->count]));
        st->count++;
    }
    qsort(st->entries, st->count, sizeof *st->entries, compare_begin);
    return check_cover(st);
}

static status read_header(safetensors *st)
{
    struct stat info;
    unsigned char prefix[8];
    if (fstat(st->fd, &info) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be read", st->path);
    if (!S_ISREG(info.st_mode) || info.st_size < 8)
        return fail(STATUS_ERR_FORMAT, "%s: is no safetensors file; it has %lld bytes", st->path,
                    (long long)info.st_size);
    TRY(read_at(st, prefix, sizeof prefix, 0));
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | prefix[i];
    if (length > HEADER_MAX || length > (uint64_t)info.st_size - 8)
        return fail(STATUS_ERR_FORMAT,
                    "%s: is no safetensors file, or cut short: a header of %llu bytes in a file "
                    "of %lld",
                    st->path, (unsigned long long)length, (long long)info.st_size);
    void *text;
    TRY(memory_alloc((size_t)length, 1, "safetensors header", &text));
    status result = read_at(st, text, (size_t)length, 8);
    if (result == STATUS_OK) {
        json_error_t error;
        st->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
        if (!json_is_object(st->header))
            result = fail(STATUS_ERR_FORMAT, "%s: the header is not a JSON map: %s", st->path,
                          st->header ? "another value" : error.text);
    }
    memory_free(text);
    TRY(result);
    st->data_begin = 8 + length;
    st->data_bytes = (uint64_t)info.st_size - st->data_begin;
    return parse_entries(st);
}

status safetensors_open(const char *path, safetensors **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(safetensors), "safetensors file", &memory));
    safetensors *st = memory;
    st->path = strdup(path);
    st->fd = open(path, O_RDONLY | O_CLOEXEC);
    status result;
    if (!st->path)
        result = fail(STATUS_ERR_MEMORY, "%s: out of memory", path);
    else if (st->fd < 0)
        result = fail_errno(STATUS_ERR_FORMAT, "%s: cannot be opened", path);
    else
        result = read_header(st);
    if (result == STATUS_OK)
        *out = st;
    else
        safetensors_close(st);
    return result;
}

void safetensors_close(safetensors *st)
{
    if (!st)
        return;
    if (st->fd >= 0)
        close(st->fd);
    json_decref(st->header);
    memory_free(st->entries);
    free(st->path);
    memory_free(st);
}

size_t safetensors_count(const safetensors *st)
{
    return st->count;
}

const safetensors_entry *safetensors_at(const safetensors *st, size_t index)
{
    return &st->entries[index];
}

const safetensors_entry *safetensors_find(const safetensors *st, const char *name)
{
    for (size_t i = 0; i < st->count; i++)
        if (!strcmp(st->entries[i].name, name))
            return &st->entries[i];
    return NULL;
}

static void widen(float *to, const unsigned char *from, size_t count, safetensors_type type)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        double wide;
        switch (type) {
        case SAFETENSORS_F32:
            memcpy(&to[i], from + 4 * i, 4);
            break;
        case SAFETENSORS_F64:
            memcpy(&wide, from + 8 * i, 8);
            to[i] = (float)wide;
            break;
        default:
            memcpy(&half, from + 2 * i, 2);
            to[i] = type == SAFETENSORS_F16 ? f16_to_f32(half) : bf16_to_f32(half);
        }
    }
}

status safetensors_read(const safetensors *st, const safetensors_entry *entry, size_t first,
                        size_t count, float *values)
{
    if (entry->type == SAFETENSORS_OTHER)
        return fail(STATUS_ERR_FORMAT,
                    "%s: tensor \"%s\" holds integers; F32, F16, BF16 or F64 "
                    "would be right",
                    st->path, entry->name);
    const size_t size = (size_t)(entry->count > 0 ? entry->bytes / entry->count : 1);
    const uint64_t offset = st->data_begin + entry->begin + first * size;
    if (entry->type == SAFETENSORS_F32)
        return read_at(st, values, count * size, offset);
    unsigned char chunk[16384];
    const size_t per_chunk = sizeof chunk / size;
    for (size_t done = 0; done < count;) {
        const size_t n = size_min(per_chunk, count - done);
        TRY(read_at(st, chunk, n * size, offset + done * size));
        widen(values + done, chunk, n, entry->type);
        done += n;
    }
    return STATUS_OK;
}
