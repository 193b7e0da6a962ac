/* Files of named tensors in the safetensors format: u64 length of the header, the header in JSON
 * (name -> dtype, shape, data_offsets), the data, all little endian.
 *
 * A reader checks the whole header against the size of the file before it gives out anything: every
 * tensor within the data, none overlapping, none missing between them, sizes as shape and type say.
 * A writer takes its tensors in the order of their listing and never holds one. */
#ifndef TRIFOLD_CHECKPOINT_SAFETENSORS_H
#define TRIFOLD_CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    SAFETENSORS_DIMS_MAX = 8,
};

typedef enum safetensors_type {
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_F64,
    SAFETENSORS_OTHER, /* known to the format, not readable as fp32 */
} safetensors_type;

typedef struct safetensors_entry {
    const char *name; /* owned by the reader; the caller's where writing */
    safetensors_type type;
    int n_dims;
    size_t dims[SAFETENSORS_DIMS_MAX];
    size_t count;          /* values: the product of dims */
    uint64_t begin, bytes; /* within the data; set by the reader */
} safetensors_entry;

typedef struct safetensors safetensors;

status safetensors_open(const char *path, safetensors **out);
void safetensors_close(safetensors *st);

size_t safetensors_count(const safetensors *st);
const safetensors_entry *safetensors_at(const safetensors *st, size_t index);

/* NULL where there is none. */
const safetensors_entry *safetensors_find(const safetensors *st, const char *name);

/* Values [first, first + count) of a tensor as fp32, rounding F64 to nearest. */
status safetensors_read(const safetensors *st, const safetensors_entry *entry, size_t first,
                        size_t count, float *values);

typedef struct safetensors_writer safetensors_writer;

/* Create `path` for the `count` tensors listed: types F32, F16 or BF16. The list must outlive the
 * writer. */
status safetensors_writer_create(const char *path, const safetensors_entry *entries, size_t count,
                                 safetensors_writer **out);

/* The next `count` values, which may be part of a tensor, converted to its type. */
status safetensors_writer_put(safetensors_writer *w, const float *values, size_t count);

/* All tensors must be complete. Syncs the file; *bytes and *hash (XXH3-64) describe it. */
status safetensors_writer_finish(safetensors_writer *w, uint64_t *bytes, uint64_t *hash);

/* Release; NULL is allowed. A file that was not finished is removed. */
void safetensors_writer_destroy(safetensors_writer *w);

#endif
