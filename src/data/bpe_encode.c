#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "data/bpe.h"
#include "data/bpe_merges.h"

enum {
    SHORT_SYMBOLS = 64, // up to here a scan for the lowest rank beats a heap
    LINE_KEY = 30,
    LINE_IDS = 8,
    CACHE_WAYS = 2,
    CACHE_LINES = 1 << 16, // 4 MiB a thread
};

// A word and its ids, in one cache line. Longer words are split anew each time.
typedef struct cache_line {
    uint8_t bytes; // 0: free
    uint8_t count;
    uint8_t key[LINE_KEY];
    int32_t ids[LINE_IDS];
} cache_line;

typedef struct symbol {
    int32_t id;
    uint32_t rank; // of the merge with the symbol after it
    uint32_t next;
    uint32_t previous;
} symbol;

// A long word: a list of symbols in an array of its length, and a heap of the merges that are open,
// the lowest rank on top, the leftmost of equals. An entry of the heap is out of date where the
// rank at its place has changed.
typedef struct long_word {
    symbol *list;
    size_t capacity;
    uint64_t *heap; // rank in the upper half, place in the lower
    size_t heap_count;
    size_t heap_capacity;
} long_word;

struct bpe_worker {
    const bpe *model;
    void *cache_memory;
    cache_line *cache;
    token_list symbols;
    byte_buffer mapped;
    long_word word;
};

status bpe_worker_create(const bpe *m, bpe_worker **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(bpe_worker), "an encoder", &memory));
    bpe_worker *w = memory;
    w->model = m;
    // From calloc, which takes pages as they are used: most texts are short.
    w->cache_memory = calloc(CACHE_LINES + 1, sizeof *w->cache);
    if (!w->cache_memory) {
        memory_free(w);
        return fail(STATUS_ERR_MEMORY, "no memory for a cache of %d words", CACHE_LINES);
    }
    const uintptr_t address = (uintptr_t)w->cache_memory;
    const size_t ahead = (sizeof *w->cache - address % sizeof *w->cache) % sizeof *w->cache;
    w->cache = (cache_line *)(void *)((char *)w->cache_memory + ahead);
    *out = w;
    return STATUS_OK;
}

void bpe_worker_destroy(bpe_worker *w)
{
    if (!w)
        return;
    free(w->cache_memory);
    token_list_fini(&w->symbols);
    free(w->mapped.data);
    free(w->word.list);
    free(w->word.heap);
    memory_free(w);
}

// The ids of the bytes; what the vocabulary lacks is left out or becomes the unknown token.
static status start_symbols(bpe_worker *w, const uint8_t *word, size_t bytes)
{
    const bpe *m = w->model;
    bool after_unknown = false;
    w->symbols.count = 0;
    TRY(token_list_reserve(&w->symbols, bytes));
    for (size_t i = 0; i < bytes; i++) {
        const int32_t id = m->byte_ids[word[i]];
        if (id >= 0)
            w->symbols.ids[w->symbols.count++] = id;
        else if (m->unknown_id >= 0 && !(after_unknown && m->fuse_unknown))
            w->symbols.ids[w->symbols.count++] = m->unknown_id;
        after_unknown = id < 0;
    }
    return STATUS_OK;
}

static size_t merge_short(const bpe *m, int32_t *ids, size_t count)
{
    uint32_t ranks[SHORT_SYMBOLS];
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = bpe_merge_find(m, ids[i], ids[i + 1])->rank;
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == BPE_NO_RANK)
            break;
        ids[best] = bpe_merge_find(m, ids[best], ids[best + 1])->id;
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (count - best) * sizeof *ranks);
        if (best + 1 < count)
            ranks[best] = bpe_merge_find(m, ids[best], ids[best + 1])->rank;
        if (best > 0)
            ranks[best - 1] = bpe_merge_find(m, ids[best - 1], ids[best])->rank;
    }
    return count;
}

static status heap_push(long_word *l, uint32_t rank, uint32_t place)
{
    if (l->heap_count == l->heap_capacity) {
        void *heap = l->heap;
        TRY(buffer_grow(&heap, &l->heap_capacity, l->heap_count, 1, sizeof *l->heap));
        l->heap = heap;
    }
    const uint64_t item = (uint64_t)rank << 32 | place;
    size_t at = l->heap_count++;
    for (; at > 0 && l->heap[(at - 1) / 2] > item; at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = item;
    return STATUS_OK;
}

static uint64_t heap_pop(long_word *l)
{
    const uint64_t top = l->heap[0];
    const uint64_t item = l->heap[--l->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= l->heap_count)
            break;
        if (child + 1 < l->heap_count && l->heap[child + 1] < l->heap[child])
            child++;
        if (l->heap[child] >= item)
            break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    l->heap[at] = item;
    return top;
}

// Set the rank of the symbol at `place` with the one after it.
static status renew_rank(const bpe *m, long_word *l, uint32_t place, size_t count)
{
    symbol *at = &l->list[place];
    at->rank = BPE_NO_RANK;
    if (at->next >= count)
        return STATUS_OK;
    at->rank = bpe_merge_find(m, at->id, l->list[at->next].id)->rank;
    return at->rank == BPE_NO_RANK ? STATUS_OK : heap_push(l, at->rank, place);
}

static status start_long(const bpe *m, long_word *l, const int32_t *ids, size_t count)
{
    if (count > l->capacity) {
        void *list = l->list;
        TRY(buffer_grow(&list, &l->capacity, 0, count, sizeof *l->list));
        l->list = list;
    }
    l->heap_count = 0;
    for (size_t i = 0; i < count; i++)
        l->list[i] = (symbol){ids[i], BPE_NO_RANK, (uint32_t)(i + 1),
                              i > 0 ? (uint32_t)(i - 1) : UINT32_MAX};
    for (size_t i = 0; i < count; i++)
        TRY(renew_rank(m, l, (uint32_t)i, count));
    return STATUS_OK;
}

static status merge_long(const bpe *m, long_word *l, int32_t *ids, size_t *id_count)
{
    const size_t count = *id_count;
    TRY(start_long(m, l, ids, count));
    while (l->heap_count > 0) {
        const uint64_t top = heap_pop(l);
        const uint32_t place = (uint32_t)top;
        symbol *left = &l->list[place];
        if (left->rank != top >> 32)
            continue;
        symbol *right = &l->list[left->next];
        left->id = bpe_merge_find(m, left->id, right->id)->id;
        right->rank = BPE_NO_RANK;
        left->next = right->next;
        if (left->next < count)
            l->list[left->next].previous = place;
        TRY(renew_rank(m, l, place, count));
        if (left->previous != UINT32_MAX)
            TRY(renew_rank(m, l, left->previous, count));
    }
    *id_count = 0;
    for (size_t i = 0; i < count; i = l->list[i].next)
        ids[(*id_count)++] = l->list[i].id;
    return STATUS_OK;
}

// The id of a whole word, or -1.
static status find_word(bpe_worker *w, const uint8_t *word, size_t bytes, int32_t *id)
{
    w->mapped.count = 0;
    TRY(byte_buffer_reserve(&w->mapped, 4 * bytes));
    for (size_t i = 0; i < bytes; i++)
        w->mapped.count += utf8_put(byte_level_char(word[i]), w->mapped.data + w->mapped.count);
    *id = token_map_find(&w->model->vocab, (const char *)w->mapped.data, w->mapped.count);
    return STATUS_OK;
}

static status encode_word(bpe_worker *w, const uint8_t *word, size_t bytes, token_list *out)
{
    if (w->model->ignore_merges) {
        int32_t id;
        TRY(find_word(w, word, bytes, &id));
        if (id >= 0)
            return token_list_push(out, id);
    }
    TRY(start_symbols(w, word, bytes));
    size_t count = w->symbols.count;
    if (count <= SHORT_SYMBOLS)
        count = merge_short(w->model, w->symbols.ids, count);
    else
        TRY(merge_long(w->model, &w->word, w->symbols.ids, &count));
    return token_list_append(out, w->symbols.ids, count);
}

static bool line_holds(const cache_line *line, const uint8_t *word, size_t bytes)
{
    return line->bytes == bytes && !memcmp(line->key, word, bytes);
}

static status append_line(const cache_line *line, token_list *out)
{
    // Whole lines are copied: a copy of fixed size needs no call.
    TRY(token_list_reserve(out, LINE_IDS));
    memcpy(out->ids + out->count, line->ids, sizeof line->ids);
    out->count += line->count;
    return STATUS_OK;
}

status bpe_encode(bpe_worker *w, const uint8_t *word, size_t bytes, token_list *out)
{
    if (bytes > INT32_MAX)
        return fail(STATUS_ERR_UNSUPPORTED,
                    "a text has %zu bytes without a place to split; less than 2^31 would be right",
                    bytes);
    if (bytes > LINE_KEY)
        return encode_word(w, word, bytes, out);
    const uint64_t hash = XXH3_64bits(word, bytes);
    cache_line *set = &w->cache[hash % (CACHE_LINES / CACHE_WAYS) * CACHE_WAYS];
    if (line_holds(&set[0], word, bytes))
        return append_line(&set[0], out);
    if (line_holds(&set[1], word, bytes)) {
        const cache_line newer = set[1];
        set[1] = set[0];
        set[0] = newer;
        return append_line(&newer, out);
    }
    const size_t before = out->count;
    TRY(encode_word(w, word, bytes, out));
    const size_t count = out->count - before;
    if (count > LINE_IDS)
        return STATUS_OK;
    set[1] = set[0];
    set[0] = (cache_line){.bytes = (uint8_t)bytes, .count = (uint8_t)count};
    memcpy(set[0].key, word, bytes);
    if (count > 0)
        memcpy(set[0].ids, out->ids + before, count * sizeof *out->ids);
    return STATUS_OK;
}
