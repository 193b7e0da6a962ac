/* Inside the module: a hash table from texts to ids. */
#ifndef TRIFOLD_DATA_TOKEN_MAP_H
#define TRIFOLD_DATA_TOKEN_MAP_H

#include <stdint.h>

#include "base/memory.h"
#include "base/status.h"

typedef struct token_entry {
    const char *text;
    uint32_t bytes;
    int32_t id;
} token_entry;

/* {0} is empty. Entries stay in the order in which they came. */
typedef struct token_map {
    arena *texts;
    token_entry *entries;
    size_t count;
    size_t capacity;
    uint32_t *slots; /* index of an entry + 1; 0: free */
    size_t slot_count;
} token_map;

/* Copies the text. A text that is there already keeps its id. */
status token_map_add(token_map *m, const char *text, size_t bytes, int32_t id);

/* -1 where the text is not there. */
int32_t token_map_find(const token_map *m, const char *text, size_t bytes);

void token_map_fini(token_map *m);

#endif
