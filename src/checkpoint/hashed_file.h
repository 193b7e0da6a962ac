/* Inside the module: files written front to back with their XXH3-64, and the hash of a file. */
#ifndef TRIFOLD_CHECKPOINT_HASHED_FILE_H
#define TRIFOLD_CHECKPOINT_HASHED_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct hashed_file hashed_file;

/* Create or empty `path`. */
status hashed_file_create(const char *path, hashed_file **out);
status hashed_file_write(hashed_file *f, const void *data, size_t bytes);

/* Sync to the disk. */
status hashed_file_finish(hashed_file *f, uint64_t *bytes, uint64_t *hash);

/* Close; removes a file that was not finished. NULL is allowed. */
void hashed_file_destroy(hashed_file *f);

/* Size and hash of the file at `path`. */
status hashed_file_check(const char *path, uint64_t *bytes, uint64_t *hash);

/* A whole text file, written and synced. */
status hashed_file_put(const char *path, const char *text, uint64_t *bytes, uint64_t *hash);

/* Wait until the disk has the names in `folder`. */
status hashed_file_sync_folder(const char *folder);

#endif
