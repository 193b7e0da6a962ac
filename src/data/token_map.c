#include "data/token_map.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "data/tokenizer_text.h"

enum { FIRST_SLOTS = 64 };

// The slot of the text, or the free one where it would go.
static size_t find_slot(const token_map *m, const char *text, size_t bytes)
{
    const size_t mask = m->slot_count - 1;
    size_t slot = (size_t)XXH3_64bits(text, bytes) & mask;
    for (; m->slots[slot]; slot = (slot + 1) & mask) {
        const token_entry *e = &m->entries[m->slots[slot] - 1];
        if (e->bytes == bytes && (bytes == 0 || !memcmp(e->text, text, bytes)))
            break;
    }
    return slot;
}

static status double_slots(token_map *m)
{
    void *slots;
    const size_t count = m->slot_count ? 2 * m->slot_count : FIRST_SLOTS;
    TRY(memory_alloc(count, sizeof *m->slots, "a table of tokens", &slots));
    memory_free(m->slots);
    m->slots = slots;
    m->slot_count = count;
    for (size_t i = 0; i < m->count; i++)
        m->slots[find_slot(m, m->entries[i].text, m->entries[i].bytes)] = (uint32_t)(i + 1);
    return STATUS_OK;
}

status token_map_add(token_map *m, const char *text, size_t bytes, int32_t id)
{
    char *copy;
    if (bytes > INT32_MAX || m->count >= INT32_MAX)
        return fail(STATUS_ERR_FORMAT, "a token of %zu bytes; less than 2^31 would be right",
                    bytes);
    if (!m->texts)
        TRY(arena_create(&m->texts));
    if (2 * (m->count + 1) > m->slot_count)
        TRY(double_slots(m));
    const size_t slot = find_slot(m, text, bytes);
    if (m->slots[slot])
        return STATUS_OK;
    if (m->count == m->capacity) {
        void *entries = m->entries;
        TRY(buffer_grow(&entries, &m->capacity, m->count, 1, sizeof *m->entries));
        m->entries = entries;
    }
    TRY(arena_strndup(m->texts, text, bytes, &copy));
    m->entries[m->count++] = (token_entry){copy, (uint32_t)bytes, id};
    m->slots[slot] = (uint32_t)m->count;
    return STATUS_OK;
}

int32_t token_map_find(const token_map *m, const char *text, size_t bytes)
{
    if (m->count == 0)
        return -1;
    const size_t slot = find_slot(m, text, bytes);
    return m->slots[slot] ? m->entries[m->slots[slot] - 1].id : -1;
}

void token_map_fini(token_map *m)
{
    arena_destroy(m->texts);
    free(m->entries);
    memory_free(m->slots);
    *m = (token_map){0};
}
