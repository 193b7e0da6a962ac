/* Inside the module: the .idx as bytes, shared by the reader, the writer and their tests. */
#ifndef TRIFOLD_DATA_INDEXED_FORMAT_H
#define TRIFOLD_DATA_INDEXED_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "data/indexed_dataset.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the indexed data set is read in place: a little-endian machine is needed"
#endif

enum {
    INDEXED_MAGIC_BYTES = 9,
    INDEXED_VERSION = 1,
    INDEXED_HEADER_BYTES = 34,
};

extern const char indexed_magic[INDEXED_MAGIC_BYTES + 1];

/* Bytes of a token, 0 for a code that is not a token type. */
size_t indexed_dtype_bytes(int code);
const char *indexed_dtype_str(int code);

/* PREFIX + extension; the caller frees it. *out stays as it is on failure. */
status indexed_path(const char *prefix, const char *extension, char **out);

/* A checked .idx, pointing into the bytes that were given. The arrays are not aligned: use the
 * getters. */
typedef struct indexed_index {
    indexed_dtype dtype;
    size_t item_bytes;
    uint64_t sequences; /* S */
    uint64_t doc_count; /* D */
    const uint8_t *sizes;
    const uint8_t *pointers;
    const uint8_t *doc_index;
    uint64_t tokens; /* sum of the sizes */
} indexed_index;

static inline int32_t indexed_index_size(const indexed_index *index, uint64_t i)
{
    int32_t value;
    memcpy(&value, index->sizes + 4 * i, sizeof value);
    return value;
}

static inline int64_t indexed_index_pointer(const indexed_index *index, uint64_t i)
{
    int64_t value;
    memcpy(&value, index->pointers + 8 * i, sizeof value);
    return value;
}

static inline int64_t indexed_index_doc(const indexed_index *index, uint64_t i)
{
    int64_t value;
    memcpy(&value, index->doc_index + 8 * i, sizeof value);
    return value;
}

/* Check the `bytes` bytes of a .idx against a .bin of `bin_bytes`. `name` is the file's, for
 * errors. `data` must outlive *out. */
status indexed_index_parse(const char *name, const void *data, size_t bytes, uint64_t bin_bytes,
                           indexed_index *out);

/* What a merge copies: the checked index of an open set, and the bytes of a sequence. */
const indexed_index *indexed_dataset_index(const indexed_dataset *ds);
const uint8_t *indexed_dataset_bytes(const indexed_dataset *ds, uint64_t sequence);

#endif
