#include "data/indexed_dataset.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "data/indexed_format.h"
#include "data/part_file.h"

enum { COPY_ITEMS = 4096 };

struct indexed_writer {
    char *prefix;
    indexed_dtype dtype;
    size_t item_bytes;
    uint64_t id_limit;
    part_file bin;
    part_file idx; // header, then the sizes as they come; finish adds the rest
    part_file doc; // the document index, until the sizes are complete
    uint64_t sequences;
    uint64_t doc_count;
    uint64_t tokens;
    uint64_t open_tokens; // of the document that is being written
    bool broken;          // a write failed: what lies in the parts is of no use
};

static status create_parts(indexed_writer *w)
{
    static const uint8_t header[INDEXED_HEADER_BYTES];
    static const int64_t first;
    TRY(part_open(w->prefix, ".bin.part", &w->bin));
    TRY(part_open(w->prefix, ".idx.part", &w->idx));
    TRY(part_open(w->prefix, ".doc.part", &w->doc));
    TRY(part_write(&w->idx, header, sizeof header));
    TRY(part_write(&w->doc, &first, sizeof first));
    w->doc_count = 1;
    return STATUS_OK;
}

// Ids below it fit the type and an int32.
static uint64_t dtype_id_limit(indexed_dtype dtype)
{
    switch (dtype) {
    case INDEXED_U8:
        return (uint64_t)UINT8_MAX + 1;
    case INDEXED_I8:
        return (uint64_t)INT8_MAX + 1;
    case INDEXED_I16:
        return (uint64_t)INT16_MAX + 1;
    case INDEXED_U16:
        return (uint64_t)UINT16_MAX + 1;
    case INDEXED_I32:
    case INDEXED_I64:
        return (uint64_t)INT32_MAX + 1;
    }
    return 0;
}

status indexed_writer_create(const char *prefix, indexed_dtype dtype, indexed_writer **out)
{
    void *memory = NULL;
    size_t item_bytes = indexed_dtype_bytes((int)dtype);
    if (item_bytes == 0)
        return fail(STATUS_ERR_CONFIG,
                    "%s: unknown type code %d; 1 to 5 and 8 are types of token ids", prefix,
                    (int)dtype);
    TRY(memory_alloc(1, sizeof(indexed_writer), "writer of a data set", &memory));
    indexed_writer *w = memory;
    w->bin.fd = w->idx.fd = w->doc.fd = -1;
    w->dtype = dtype;
    w->item_bytes = item_bytes;
    w->id_limit = dtype_id_limit(dtype);
    w->prefix = strdup(prefix);
    status result = w->prefix ? create_parts(w)
                              : fail(STATUS_ERR_MEMORY, "%s: cannot allocate its name", prefix);
    if (result != STATUS_OK) {
        indexed_writer_destroy(w);
        return result;
    }
    *out = w;
    return STATUS_OK;
}

static void store_token(indexed_dtype dtype, uint8_t *out, int32_t token)
{
    int64_t wide = token;
    // Little endian: the low bytes of the number are the narrower number.
    memcpy(out, &wide, indexed_dtype_bytes((int)dtype));
}

static status add_tokens(indexed_writer *w, const int32_t *tokens, size_t count)
{
    uint8_t bytes[COPY_ITEMS * sizeof(int64_t)];
    for (size_t done = 0; done < count;) {
        size_t piece = size_min(count - done, COPY_ITEMS);
        for (size_t i = 0; i < piece; i++) {
            int32_t token = tokens[done + i];
            // What is negative becomes huge, and so fails the limit.
            if ((uint64_t)token >= w->id_limit)
                return fail(STATUS_ERR_CONFIG,
                            "%s.bin: token %" PRIu64 " of document %" PRIu64
                            " is %d; %s holds ids 0 to %" PRIu64,
                            w->prefix, w->open_tokens + done + i, w->sequences, token,
                            indexed_dtype_str((int)w->dtype), w->id_limit - 1);
            store_token(w->dtype, bytes + i * w->item_bytes, token);
        }
        TRY(part_write(&w->bin, bytes, piece * w->item_bytes));
        done += piece;
    }
    w->open_tokens += count;
    return STATUS_OK;
}

static status add_size(indexed_writer *w, uint64_t tokens)
{
    int32_t size = (int32_t)tokens;
    TRY(part_write(&w->idx, &size, sizeof size));
    w->sequences++;
    w->tokens += tokens;
    return STATUS_OK;
}

static status add_doc_entry(indexed_writer *w, uint64_t sequences)
{
    int64_t entry = (int64_t)sequences;
    TRY(part_write(&w->doc, &entry, sizeof entry));
    w->doc_count++;
    return STATUS_OK;
}

static status end_document(indexed_writer *w)
{
    if (w->open_tokens > INT32_MAX)
        return fail(STATUS_ERR_CONFIG,
                    "%s: document %" PRIu64 " has %" PRIu64 " tokens; the format holds %d at most",
                    w->prefix, w->sequences, w->open_tokens, INT32_MAX);
    TRY(add_size(w, w->open_tokens));
    TRY(add_doc_entry(w, w->sequences));
    w->open_tokens = 0;
    return STATUS_OK;
}

static status merge_open(indexed_writer *w, const char *prefix, const indexed_dataset *ds)
{
    const indexed_index *index = indexed_dataset_index(ds);
    uint64_t before = w->sequences;
    if (index->dtype != w->dtype)
        return fail(STATUS_ERR_CONFIG,
                    "%s.idx: holds %s, the output %s; prepare both with one vocabulary", prefix,
                    indexed_dtype_str((int)index->dtype), indexed_dtype_str((int)w->dtype));
    for (uint64_t i = 0; i < index->sequences; i++) {
        uint64_t size = (uint64_t)indexed_index_size(index, i);
        if (size > 0)
            TRY(part_write(&w->bin, indexed_dataset_bytes(ds, i), size * w->item_bytes));
        TRY(add_size(w, size));
    }
    for (uint64_t i = 1; i < index->doc_count; i++)
        TRY(add_doc_entry(w, before + (uint64_t)indexed_index_doc(index, i)));
    return STATUS_OK;
}

// The first failure makes the writer useless; callers that go on get it again.
static status keep(indexed_writer *w, status result)
{
    w->broken |= result != STATUS_OK;
    return result;
}

static status check_usable(const indexed_writer *w)
{
    if (w->broken)
        return fail(STATUS_ERR_IO, "%s: an earlier write of it failed; start again", w->prefix);
    return STATUS_OK;
}

status indexed_writer_add(indexed_writer *w, const int32_t *tokens, size_t count)
{
    TRY(check_usable(w));
    return keep(w, add_tokens(w, tokens, count));
}

status indexed_writer_end_document(indexed_writer *w)
{
    TRY(check_usable(w));
    return keep(w, end_document(w));
}

status indexed_writer_merge(indexed_writer *w, const char *prefix)
{
    indexed_dataset *ds = NULL;
    assert(w->open_tokens == 0);
    TRY(check_usable(w));
    TRY(indexed_dataset_open(prefix, 0, &ds));
    status result = keep(w, merge_open(w, prefix, ds));
    indexed_dataset_close(ds);
    return result;
}

int64_t indexed_writer_documents(const indexed_writer *w)
{
    return (int64_t)w->sequences;
}

int64_t indexed_writer_tokens(const indexed_writer *w)
{
    return (int64_t)w->tokens;
}

// Pointers follow from the sizes, which lie in the file already: read them back in pieces.
static status write_pointers(indexed_writer *w)
{
    int32_t sizes[COPY_ITEMS];
    int64_t pointers[COPY_ITEMS];
    uint64_t pointer = 0;
    for (uint64_t done = 0; done < w->sequences;) {
        size_t piece = size_min(w->sequences - done, COPY_ITEMS);
        TRY(part_read(&w->idx, sizes, piece * sizeof sizes[0], INDEXED_HEADER_BYTES + 4 * done));
        for (size_t i = 0; i < piece; i++) {
            pointers[i] = (int64_t)pointer;
            pointer += (uint64_t)sizes[i] * w->item_bytes;
        }
        TRY(part_write(&w->idx, pointers, piece * sizeof pointers[0]));
        done += piece;
    }
    return STATUS_OK;
}

static status write_documents(indexed_writer *w)
{
    int64_t entries[COPY_ITEMS];
    for (uint64_t done = 0; done < w->doc_count;) {
        size_t piece = size_min(w->doc_count - done, COPY_ITEMS);
        TRY(part_read(&w->doc, entries, piece * sizeof entries[0], 8 * done));
        TRY(part_write(&w->idx, entries, piece * sizeof entries[0]));
        done += piece;
    }
    return STATUS_OK;
}

static status write_header(indexed_writer *w)
{
    uint8_t header[INDEXED_HEADER_BYTES];
    uint64_t version = INDEXED_VERSION;
    memcpy(header, indexed_magic, INDEXED_MAGIC_BYTES);
    memcpy(header + 9, &version, sizeof version);
    header[17] = (uint8_t)w->dtype;
    memcpy(header + 18, &w->sequences, sizeof w->sequences);
    memcpy(header + 26, &w->doc_count, sizeof w->doc_count);
    return part_rewrite(&w->idx, header, sizeof header);
}

static status move_into_place(indexed_writer *w)
{
    char *bin = NULL, *idx = NULL;
    status result = STATUS_OK;
    TRY_OUT(result, indexed_path(w->prefix, ".bin", &bin));
    TRY_OUT(result, indexed_path(w->prefix, ".idx", &idx));
    if (unlink(idx) != 0 && errno != ENOENT) {
        result = fail_errno(STATUS_ERR_IO, "%s: cannot replace it", idx);
        goto out;
    }
    TRY_OUT(result, part_place(&w->bin, bin));
    TRY_OUT(result, part_place(&w->idx, idx));
    result = part_sync_folder(bin);
out:
    free(idx);
    free(bin);
    return result;
}

static status complete(indexed_writer *w)
{
    TRY(part_flush(&w->idx));
    TRY(part_flush(&w->doc));
    TRY(write_pointers(w));
    TRY(write_documents(w));
    TRY(part_sync(&w->bin));
    TRY(part_flush(&w->idx));
    TRY(write_header(w));
    TRY(part_sync(&w->idx));
    return move_into_place(w);
}

status indexed_writer_finish(indexed_writer *w)
{
    assert(w->open_tokens == 0);
    TRY(check_usable(w));
    return keep(w, complete(w));
}

void indexed_writer_destroy(indexed_writer *w)
{
    if (!w)
        return;
    part_discard(&w->doc);
    part_discard(&w->idx);
    part_discard(&w->bin);
    free(w->prefix);
    memory_free(w);
}
