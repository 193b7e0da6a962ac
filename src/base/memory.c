#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"

enum {
    MEMORY_ALIGN = 64,
    ARENA_ALIGN = 16,
    ARENA_BLOCK = 64 * 1024,
};

status memory_alloc(size_t count, size_t size, const char *what, void **out)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX - MEMORY_ALIGN)
        return fail(STATUS_ERR_MEMORY, "%s: %zu elements of %zu bytes exceed the address space",
                    what, count, size);
    bytes = size_round_up(size_max(bytes, 1), MEMORY_ALIGN);
    void *pointer = aligned_alloc(MEMORY_ALIGN, bytes);
    if (!pointer)
        return fail(STATUS_ERR_MEMORY, "%s: cannot allocate %zu bytes", what, bytes);
    memset(pointer, 0, bytes);
    *out = pointer;
    return STATUS_OK;
}

void memory_free(void *pointer)
{
    free(pointer);
}

typedef struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t capacity;
    _Alignas(ARENA_ALIGN) unsigned char data[];
} arena_block;

struct arena {
    arena_block *head;
};

status arena_create(arena **out)
{
    arena *a = calloc(1, sizeof *a);
    if (!a)
        return fail(STATUS_ERR_MEMORY, "arena: cannot allocate %zu bytes", sizeof *a);
    *out = a;
    return STATUS_OK;
}

void arena_destroy(arena *a)
{
    if (!a)
        return;
    for (arena_block *block = a->head; block;) {
        arena_block *next = block->next;
        free(block);
        block = next;
    }
    free(a);
}

status arena_alloc(arena *a, size_t count, size_t size, void **out)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return fail(STATUS_ERR_MEMORY, "arena: %zu elements of %zu bytes are too many", count,
                    size);
    bytes = size_round_up(size_max(bytes, 1), ARENA_ALIGN);
    if (!a->head || a->head->capacity - a->head->used < bytes) {
        size_t capacity = size_max(bytes, ARENA_BLOCK);
        arena_block *block = calloc(1, sizeof *block + capacity);
        if (!block)
            return fail(STATUS_ERR_MEMORY, "arena: cannot allocate %zu bytes", capacity);
        block->capacity = capacity;
        block->next = a->head;
        a->head = block;
    }
    *out = a->head->data + a->head->used;
    a->head->used += bytes;
    return STATUS_OK;
}

status arena_strndup(arena *a, const char *text, size_t length, char **out)
{
    void *copy = NULL;
    TRY(arena_alloc(a, length + 1, 1, &copy));
    memcpy(copy, text, length);
    *out = copy;
    return STATUS_OK;
}
