/* Host memory: checked allocation, and an arena for what lives as long as its owner.
 *
 * Allocation happens while a plan is built; the step path is handed workspaces. */
#ifndef TRIFOLD_BASE_MEMORY_H
#define TRIFOLD_BASE_MEMORY_H

#include "base/status.h"

/* Zeroed memory for `count` elements of `size` bytes, 64-byte aligned; a zero count gives a valid
 * pointer. The caller owns it and releases it with memory_free(). On failure records the bytes
 * asked for and what they were for. */
status memory_alloc(size_t count, size_t size, const char *what, void **out);

/* Release memory from memory_alloc(); NULL is allowed. */
void memory_free(void *pointer);

/* A bump allocator of small objects and strings (configuration, tensor tables): blocks grow as
 * needed, everything is freed at once. Not thread-safe. */
typedef struct arena arena;

status arena_create(arena **out);
void arena_destroy(arena *a);

/* Zeroed memory, 16-byte aligned, owned by the arena. */
status arena_alloc(arena *a, size_t count, size_t size, void **out);

/* A copy of the first `length` bytes of `text` with a terminating NUL, owned by the arena. */
status arena_strndup(arena *a, const char *text, size_t length, char **out);

#endif
