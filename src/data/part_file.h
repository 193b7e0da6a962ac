/* Inside the module: a file that is written aside, front to back, and then moved into place. */
#ifndef TRIFOLD_DATA_PART_FILE_H
#define TRIFOLD_DATA_PART_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* {.fd = -1} before part_open(). */
typedef struct part_file {
    char *path;
    int fd;
    uint8_t *buffer;
    size_t used; /* bytes in the buffer */
} part_file;

/* Create PREFIX + extension, or empty what an earlier run left there, and lock it: a second writer
 * is refused. On failure part_discard() is still needed. */
status part_open(const char *prefix, const char *extension, part_file *part);

/* Append. Part of it may stay in the buffer until part_flush(). */
status part_write(part_file *part, const void *data, size_t bytes);
status part_flush(part_file *part);

/* Write over the first `bytes` bytes, which must be flushed. */
status part_rewrite(part_file *part, const void *data, size_t bytes);

/* Read back what is flushed. */
status part_read(const part_file *part, void *out, size_t bytes, uint64_t offset);

/* Flush, and wait until the disk has it. */
status part_sync(part_file *part);

/* Rename to `path` and close. */
status part_place(part_file *part, const char *path);

/* Wait until the disk has the names in the folder of `path`. */
status part_sync_folder(const char *path);

/* Release; a file that was not placed is removed. */
void part_discard(part_file *part);

#endif
