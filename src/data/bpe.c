#include "data/bpe.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "base/sizes.h"

enum {
    CACHED_WORD_MAX = 64,  // bytes; longer words are rarely seen twice
    CACHE_SLOTS = 1 << 16, // a full slot is simply taken over
    CACHED_IDS_MAX = 12,   // of a word
    ID_MAX = 1 << 24,      // a vocabulary beyond it is a damaged file
    SHORT_WORD = 32,       // tokens up to which the best merge is looked for one by one
};

typedef struct token {
    char *bytes;
    size_t length;
} token;

// Open addressing on pairs of ids.
typedef struct merge_slot {
    uint64_t pair; // left << 32 | right
    int32_t rank;  // -1: free
    int32_t id;    // of the merged token
} merge_slot;

struct bpe {
    token *tokens; // by id
    size_t size, capacity;
    int32_t *by_bytes; // open addressing on bytes, ids; -1: free
    size_t slots, used;
    merge_slot *merges;
    size_t merge_slots, merge_count;
    int32_t of_byte[256];
    bool ignore_merges;
};

status bpe_create(bpe **out)
{
    bpe *b = calloc(1, sizeof *b);
    if (!b)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    memset(b->of_byte, 0xff, sizeof b->of_byte);
    *out = b;
    return STATUS_OK;
}

void bpe_destroy(bpe *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->size; i++)
        free(b->tokens[i].bytes);
    free(b->tokens);
    free(b->by_bytes);
    free(b->merges);
    free(b);
}

static size_t find_slot(const bpe *b, const void *bytes, size_t length)
{
    size_t i = (size_t)XXH3_64bits(bytes, length) & (b->slots - 1);
    while (b->by_bytes[i] >= 0) {
        const token *t = &b->tokens[b->by_bytes[i]];
        if (t->length == length && !memcmp(t->bytes, bytes, length))
            break;
        i = (i + 1) & (b->slots - 1);
    }
    return i;
}

static status grow_index(bpe *b)
{
    if (2 * (b->used + 1) <= b->slots)
        return STATUS_OK;
    const size_t slots = b->slots ? 2 * b->slots : 1024;
    int32_t *index = malloc(slots * sizeof *index);
    if (!index)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for %zu tokens", slots);
    memset(index, 0xff, slots * sizeof *index);
    free(b->by_bytes);
    b->by_bytes = index;
    b->slots = slots;
    for (size_t id = 0; id < b->size; id++)
        if (b->tokens[id].bytes)
            index[find_slot(b, b->tokens[id].bytes, b->tokens[id].length)] = (int32_t)id;
    return STATUS_OK;
}

static status grow_tokens(bpe *b, size_t size)
{
    if (size > b->capacity) {
        const size_t capacity = size_max(size, 2 * b->capacity);
        token *tokens = realloc(b->tokens, capacity * sizeof *tokens);
        if (!tokens)
            return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for %zu tokens", capacity);
        memset(tokens + b->capacity, 0, (capacity - b->capacity) * sizeof *tokens);
        b->tokens = tokens;
        b->capacity = capacity;
    }
    b->size = size_max(b->size, size);
    return STATUS_OK;
}

status bpe_add_token(bpe *b, const void *bytes, size_t length, int32_t id)
{
    if (id < 0 || id >= ID_MAX)
        return fail(STATUS_ERR_FORMAT, "id %d is out of range; ids are 0 to %d", id, ID_MAX - 1);
    TRY(grow_index(b));
    const size_t slot = find_slot(b, bytes, length);
    const bool taken = (size_t)id < b->size && b->tokens[id].bytes;
    if (b->by_bytes[slot] >= 0 || taken)
        return fail(STATUS_ERR_FORMAT, "id %d is given twice, or to a token that has id %d", id,
                    b->by_bytes[slot] >= 0 ? b->by_bytes[slot] : id);
    TRY(grow_tokens(b, (size_t)id + 1));
    char *copy = malloc(length + 1);
    if (!copy)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    b->tokens[id] = (token){copy, length};
    b->by_bytes[slot] = id;
    b->used++;
    if (length == 1)
        b->of_byte[*(const unsigned char *)bytes] = id;
    return STATUS_OK;
}

int32_t bpe_find(const bpe *b, const void *bytes, size_t length)
{
    return b->slots > 0 ? b->by_bytes[find_slot(b, bytes, length)] : -1;
}

const char *bpe_bytes(const bpe *b, int32_t id, size_t *length)
{
    if (id < 0 || (size_t)id >= b->size)
        return NULL;
    *length = b->tokens[id].length;
    return b->tokens[id].bytes;
}

size_t bpe_size(const bpe *b)
{
    return b->size;
}

void bpe_set_ignore_merges(bpe *b, bool ignore)
{
    b->ignore_merges = ignore;
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static merge_slot *merge_at(const bpe *b, uint64_t pair)
{
    size_t i = (size_t)((pair * 0x9e3779b97f4a7c15u) >> 32) & (b->merge_slots - 1);
    while (b->merges[i].rank >= 0 && b->merges[i].pair != pair)
        i = (i + 1) & (b->merge_slots - 1);
    return &b->merges[i];
}

static status grow_merges(bpe *b)
{
    if (2 * (b->merge_count + 1) <= b->merge_slots)
        return STATUS_OK;
    merge_slot *old = b->merges;
    const size_t old_slots = b->merge_slots;
    const size_t slots = old_slots ? 2 * old_slots : 1024;
    b->merges = malloc(slots * sizeof *b->merges);
    if (!b->merges) {
        b->merges = old;
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for %zu merges", slots);
    }
    b->merge_slots = slots;
    for (size_t i = 0; i < slots; i++)
        b->merges[i].rank = -1;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].rank >= 0)
            *merge_at(b, old[i].pair) = old[i];
    free(old);
    return STATUS_OK;
}

status bpe_add_merge(bpe *b, const void *left, size_t left_length, const void *right,
                     size_t right_length)
{
    const int32_t first = bpe_find(b, left, left_length);
    const int32_t second = bpe_find(b, right, right_length);
    char *both = malloc(left_length + right_length + 1);
    if (!both)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    memcpy(both, left, left_length);
    memcpy(both + left_length, right, right_length);
    const int32_t merged = bpe_find(b, both, left_length + right_length);
    free(both);
    if (first < 0 || second < 0 || merged < 0)
        return fail(STATUS_ERR_FORMAT, "a part or the whole of it is not in the vocabulary");
    TRY(grow_merges(b));
    merge_slot *slot = merge_at(b, pair_key(first, second));
    if (slot->rank < 0)
        *slot = (merge_slot){pair_key(first, second), (int32_t)b->merge_count, merged};
    b->merge_count++;
    return STATUS_OK;
}

// ---- Encoding ----

// The tokens of a word so far, as a linked list over its bytes.
typedef struct symbol {
    int32_t id;
    int32_t prev, next; // -1: none
} symbol;

typedef struct candidate {
    int32_t rank, left;        // the merge of symbol `left` with the next one
    int32_t id;                // of the merged token
    int32_t left_id, right_id; // still valid only while the symbols have these ids
} candidate;

typedef struct cached_word {
    uint8_t length, count;
    char word[CACHED_WORD_MAX];
    int32_t ids[CACHED_IDS_MAX];
} cached_word;

struct bpe_cache {
    cached_word *slots;
    symbol *symbols;
    size_t symbol_capacity;
    candidate *heap;
    size_t heap_count, heap_capacity;
};

status bpe_cache_create(bpe_cache **out)
{
    bpe_cache *c = calloc(1, sizeof *c);
    if (c)
        c->slots = calloc(CACHE_SLOTS, sizeof *c->slots);
    if (!c || !c->slots) {
        bpe_cache_destroy(c);
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    }
    *out = c;
    return STATUS_OK;
}

void bpe_cache_destroy(bpe_cache *c)
{
    if (!c)
        return;
    free(c->slots);
    free(c->symbols);
    free(c->heap);
    free(c);
}

static status reserve_symbols(bpe_cache *c, size_t count)
{
    if (count <= c->symbol_capacity)
        return STATUS_OK;
    if (count > INT32_MAX / 4)
        return fail(STATUS_ERR_UNSUPPORTED, "a word of %zu bytes is too long", count);
    symbol *symbols = realloc(c->symbols, 2 * count * sizeof *symbols);
    candidate *heap = realloc(c->heap, 6 * count * sizeof *heap);
    c->symbols = symbols ? symbols : c->symbols;
    c->heap = heap ? heap : c->heap;
    if (!symbols || !heap)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for a word of %zu bytes", count);
    c->symbol_capacity = 2 * count;
    c->heap_capacity = 6 * count;
    return STATUS_OK;
}

static size_t split_bytes(const bpe *b, bpe_cache *c, const char *word, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        const int32_t id = b->of_byte[(unsigned char)word[i]];
        if (id < 0)
            continue;
        c->symbols[n] = (symbol){id, (int32_t)n - 1, (int32_t)n + 1};
        n++;
    }
    if (n > 0)
        c->symbols[n - 1].next = -1;
    return n;
}

static const merge_slot *merge_of(const bpe *b, int32_t left, int32_t right)
{
    if (b->merge_slots == 0)
        return NULL;
    const merge_slot *slot = merge_at(b, pair_key(left, right));
    return slot->rank >= 0 ? slot : NULL;
}

// Merge symbol `i` with the next one into `id`.
static void join(symbol *s, int32_t i, int32_t id)
{
    const int32_t gone = s[i].next;
    s[i].id = id;
    s[i].next = s[gone].next;
    s[gone].id = -1;
    if (s[i].next >= 0)
        s[s[i].next].prev = i;
}

// The lowest rank first, of equal ones the leftmost, until none is left. Good for short words.
static void merge_short(const bpe *b, symbol *s)
{
    for (;;) {
        const merge_slot *best = NULL;
        int32_t at = -1;
        for (int32_t i = 0; s[i].next >= 0; i = s[i].next) {
            const merge_slot *m = merge_of(b, s[i].id, s[s[i].next].id);
            if (m && (!best || m->rank < best->rank)) {
                best = m;
                at = i;
            }
        }
        if (!best)
            return;
        join(s, at, best->id);
    }
}

static bool is_before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(bpe_cache *c, candidate x)
{
    size_t i = c->heap_count++;
    while (i > 0 && is_before(&x, &c->heap[(i - 1) / 2])) {
        c->heap[i] = c->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    c->heap[i] = x;
}

static candidate heap_pop(bpe_cache *c)
{
    const candidate top = c->heap[0];
    const candidate x = c->heap[--c->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= c->heap_count)
            break;
        if (child + 1 < c->heap_count && is_before(&c->heap[child + 1], &c->heap[child]))
            child++;
        if (!is_before(&c->heap[child], &x))
            break;
        c->heap[i] = c->heap[child];
        i = child;
    }
    c->heap[i] = x;
    return top;
}

static void consider(const bpe *b, bpe_cache *c, int32_t left)
{
    const symbol *s = c->symbols;
    if (left < 0 || s[left].next < 0)
        return;
    const int32_t right_id = s[s[left].next].id;
    const merge_slot *m = merge_of(b, s[left].id, right_id);
    if (m)
        heap_push(c, (candidate){m->rank, left, m->id, s[left].id, right_id});
}

// The same with a heap: n log n for words of any length. Each merge adds two candidates at most, so
// there are never more than three for each symbol.
static void merge_long(const bpe *b, bpe_cache *c, size_t n)
{
    symbol *s = c->symbols;
    c->heap_count = 0;
    for (size_t i = 0; i + 1 < n; i++)
        consider(b, c, (int32_t)i);
    while (c->heap_count > 0) {
        const candidate best = heap_pop(c);
        const bool valid = s[best.left].id == best.left_id && s[best.left].next >= 0 &&
                           s[s[best.left].next].id == best.right_id;
        if (!valid)
            continue;
        join(s, best.left, best.id);
        consider(b, c, s[best.left].prev);
        consider(b, c, best.left);
    }
}

static status encode_word(const bpe *b, bpe_cache *c, const char *word, size_t length,
                          token_list *out)
{
    if (b->ignore_merges) {
        const int32_t whole = bpe_find(b, word, length);
        if (whole >= 0)
            return token_list_push(out, whole);
    }
    TRY(reserve_symbols(c, length));
    const size_t n = split_bytes(b, c, word, length);
    if (n == 0)
        return STATUS_OK;
    if (n <= SHORT_WORD)
        merge_short(b, c->symbols);
    else
        merge_long(b, c, n);
    for (int32_t i = 0; i >= 0; i = c->symbols[i].next)
        TRY(token_list_push(out, c->symbols[i].id));
    return STATUS_OK;
}

static void remember(cached_word *slot, const char *word, size_t length, const int32_t *ids,
                     size_t count)
{
    if (count > CACHED_IDS_MAX)
        return;
    slot->length = (uint8_t)length;
    slot->count = (uint8_t)count;
    memcpy(slot->word, word, length);
    memcpy(slot->ids, ids, count * sizeof *ids);
}

status bpe_encode(const bpe *b, bpe_cache *c, const char *word, size_t length, token_list *out)
{
    if (length == 0 || length > CACHED_WORD_MAX)
        return encode_word(b, c, word, length, out);
    cached_word *slot = &c->slots[(size_t)XXH3_64bits(word, length) & (CACHE_SLOTS - 1)];
    if (slot->length == length && !memcmp(slot->word, word, length)) {
        for (size_t i = 0; i < slot->count; i++)
            TRY(token_list_push(out, slot->ids[i]));
        return STATUS_OK;
    }
    const size_t before = out->count;
    TRY(encode_word(b, c, word, length, out));
    remember(slot, word, length, out->ids + before, out->count - before);
    return STATUS_OK;
}
