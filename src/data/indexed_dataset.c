#include "data/indexed_dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/indexed_format.h"

typedef struct mapped_file {
    const uint8_t *data; /* NULL where the file is empty */
    size_t bytes;
} mapped_file;

struct indexed_dataset {
    char *prefix;
    uint64_t id_limit; /* ids are below it */
    indexed_index index;
    mapped_file idx, bin;
};

static status open_failed(const char *path, const char *extension)
{
    // What a user can mend is a wrong path; anything else is the system's refusal.
    status code = errno == ENOENT || errno == ENOTDIR ? STATUS_ERR_CONFIG : STATUS_ERR_IO;
    return fail_errno(code, "%s: cannot open it; a data path is given without %s", path, extension);
}

static status map_file(const char *prefix, const char *extension, mapped_file *out)
{
    char *path = NULL;
    struct stat info;
    status result = STATUS_OK;
    int fd = -1;
    TRY(indexed_path(prefix, extension, &path));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        result = open_failed(path, extension);
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        result = fail(STATUS_ERR_CONFIG, "%s: not a file; a regular file would be right", path);
        goto out;
    }
    out->bytes = (size_t)info.st_size;
    if (out->bytes > 0) {
        void *data = mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED)
            result = fail_errno(STATUS_ERR_IO, "%s: cannot map %zu bytes", path, out->bytes);
        else
            out->data = data;
    }
out:
    if (fd >= 0)
        close(fd);
    free(path);
    return result;
}

static void unmap_file(mapped_file *file)
{
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->bytes);
}

static status open_files(indexed_dataset *ds)
{
    char *name = NULL;
    TRY(map_file(ds->prefix, ".idx", &ds->idx));
    TRY(map_file(ds->prefix, ".bin", &ds->bin));
    TRY(indexed_path(ds->prefix, ".idx", &name));
    status result =
        indexed_index_parse(name, ds->idx.data, ds->idx.bytes, ds->bin.bytes, &ds->index);
    free(name);
    return result;
}

status indexed_dataset_open(const char *prefix, int64_t vocab, indexed_dataset **out)
{
    void *memory = NULL;
    TRY(memory_alloc(1, sizeof(indexed_dataset), "data set", &memory));
    indexed_dataset *ds = memory;
    status result = STATUS_OK;
    ds->id_limit = vocab > 0 && vocab <= INT32_MAX ? (uint64_t)vocab : (uint64_t)INT32_MAX + 1;
    ds->prefix = strdup(prefix);
    if (!ds->prefix)
        result = fail(STATUS_ERR_MEMORY, "%s: cannot allocate its name", prefix);
    else
        result = open_files(ds);
    if (result != STATUS_OK) {
        indexed_dataset_close(ds);
        return result;
    }
    *out = ds;
    return STATUS_OK;
}

void indexed_dataset_close(indexed_dataset *ds)
{
    if (!ds)
        return;
    unmap_file(&ds->bin);
    unmap_file(&ds->idx);
    free(ds->prefix);
    memory_free(ds);
}

int64_t indexed_dataset_documents(const indexed_dataset *ds)
{
    return (int64_t)ds->index.sequences;
}

int64_t indexed_dataset_tokens(const indexed_dataset *ds)
{
    return (int64_t)ds->index.tokens;
}

indexed_dtype indexed_dataset_dtype(const indexed_dataset *ds)
{
    return ds->index.dtype;
}

int64_t indexed_dataset_size(const indexed_dataset *ds, int64_t document)
{
    return indexed_index_size(&ds->index, (uint64_t)document);
}

int64_t indexed_dataset_tokens_in(const indexed_dataset *ds, int64_t first, int64_t end)
{
    int64_t tokens = 0;
    for (int64_t d = first; d < end; d++)
        tokens += indexed_dataset_size(ds, d);
    return tokens;
}

uint64_t indexed_dataset_unused_bytes(const indexed_dataset *ds)
{
    return ds->bin.bytes - ds->index.tokens * ds->index.item_bytes;
}

const indexed_index *indexed_dataset_index(const indexed_dataset *ds)
{
    return &ds->index;
}

const uint8_t *indexed_dataset_bytes(const indexed_dataset *ds, uint64_t sequence)
{
    return ds->bin.data + indexed_index_pointer(&ds->index, sequence);
}

// One token as a 64-bit number; what is negative becomes huge, and so fails the limit.
static uint64_t load_token(indexed_dtype dtype, const uint8_t *bytes)
{
    int16_t i16;
    int32_t i32;
    uint16_t u16;
    uint64_t u64;
    switch (dtype) {
    case INDEXED_U8:
        return *bytes;
    case INDEXED_I8:
        return (uint64_t)(int64_t)(int8_t)*bytes;
    case INDEXED_I16:
        memcpy(&i16, bytes, sizeof i16);
        return (uint64_t)(int64_t)i16;
    case INDEXED_I32:
        memcpy(&i32, bytes, sizeof i32);
        return (uint64_t)(int64_t)i32;
    case INDEXED_I64:
        memcpy(&u64, bytes, sizeof u64);
        return u64;
    case INDEXED_U16:
        memcpy(&u16, bytes, sizeof u16);
        return u16;
    }
    return UINT64_MAX;
}

status indexed_dataset_read(const indexed_dataset *ds, int64_t document, int64_t offset,
                            int64_t count, int32_t *out)
{
    const indexed_index *index = &ds->index;
    if (document < 0 || (uint64_t)document >= index->sequences)
        return fail(STATUS_ERR_CONFIG, "%s: no document %" PRId64 "; it has %" PRIu64, ds->prefix,
                    document, index->sequences);
    int64_t size = indexed_dataset_size(ds, document);
    if (offset < 0 || count < 0 || offset > size || count > size - offset)
        return fail(STATUS_ERR_CONFIG,
                    "%s: document %" PRId64 " has no %" PRId64 " tokens from %" PRId64
                    "; it has %" PRId64,
                    ds->prefix, document, count, offset, size);
    if (count == 0)
        return STATUS_OK;
    size_t step = index->item_bytes;
    const uint8_t *bytes = indexed_dataset_bytes(ds, (uint64_t)document) + (size_t)offset * step;
    for (int64_t i = 0; i < count; i++, bytes += step) {
        uint64_t token = load_token(index->dtype, bytes);
        if (token >= ds->id_limit)
            return fail(STATUS_ERR_FORMAT,
                        "%s.bin: token %" PRId64 " of document %" PRId64 " is %" PRId64
                        "; ids lie in 0 to %" PRIu64 ", was it prepared with another vocabulary?",
                        ds->prefix, offset + i, document, (int64_t)token, ds->id_limit - 1);
        out[i] = (int32_t)token;
    }
    return STATUS_OK;
}
