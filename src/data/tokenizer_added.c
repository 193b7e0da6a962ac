#include "data/tokenizer_added.h"

#include <stdlib.h>
#include <string.h>

status added_tokens_add(added_tokens *a, const char *content, size_t bytes,
                        const added_token *token)
{
    if (a->count == a->capacity) {
        void *tokens = a->tokens;
        TRY(buffer_grow(&tokens, &a->capacity, a->count, 1, sizeof *a->tokens));
        a->tokens = tokens;
    }
    TRY(token_map_add(&a->names, content, bytes, token->id));
    a->tokens[a->count++] = *token;
    return STATUS_OK;
}

void added_tokens_fini(added_tokens *a)
{
    token_map_fini(&a->names);
    free(a->tokens);
    free(a->raw.nodes);
    free(a->normalized.nodes);
    *a = (added_tokens){0};
}

static status add_node(added_trie *trie, uint8_t byte, uint32_t sibling)
{
    if (trie->count == UINT32_MAX)
        return fail(STATUS_ERR_FORMAT, "added tokens of more than 2^32 bytes");
    if (trie->count == trie->capacity) {
        void *nodes = trie->nodes;
        TRY(buffer_grow(&nodes, &trie->capacity, trie->count, 1, sizeof *trie->nodes));
        trie->nodes = nodes;
    }
    trie->nodes[trie->count++] = (added_node){.sibling = sibling, .token = -1, .byte = byte};
    return STATUS_OK;
}

static uint32_t find_child(const added_trie *trie, uint32_t node, uint8_t byte)
{
    uint32_t child = trie->nodes[node].child;
    while (child && trie->nodes[child].byte != byte)
        child = trie->nodes[child].sibling;
    return child;
}

status added_trie_insert(added_trie *trie, const uint8_t *text, size_t bytes, size_t token)
{
    uint32_t node = 0;
    if (trie->count == 0)
        TRY(add_node(trie, 0, 0));
    for (size_t i = 0; i < bytes; i++) {
        uint32_t child = find_child(trie, node, text[i]);
        if (!child) {
            child = (uint32_t)trie->count;
            TRY(add_node(trie, text[i], trie->nodes[node].child));
            trie->nodes[node].child = child;
        }
        node = child;
    }
    if (trie->nodes[node].token < 0)
        trie->nodes[node].token = (int32_t)token;
    trie->starts[text[0]] = true;
    return STATUS_OK;
}

// The longest token at the start of the text: its index, or -1.
static int32_t longest_at(const added_trie *trie, const uint8_t *text, size_t bytes, size_t *length)
{
    int32_t token = -1;
    uint32_t node = 0;
    for (size_t i = 0; i < bytes; i++) {
        node = find_child(trie, node, text[i]);
        if (!node)
            break;
        if (trie->nodes[node].token >= 0) {
            token = trie->nodes[node].token;
            *length = i + 1;
        }
    }
    return token;
}

static bool touches_word(const added_search *s, size_t start, size_t end)
{
    int32_t code = -1;
    if (start > 0) {
        utf8_last(s->text, start, &code);
        if (char_is_word(code))
            return true;
    }
    if (end == s->bytes)
        return false;
    utf8_next(s->text + end, s->bytes - end, &code);
    return char_is_word(code);
}

static size_t strip_left(const added_search *s, size_t start)
{
    while (start > s->done) {
        int32_t code;
        const size_t length = utf8_last(s->text, start, &code);
        if (char_class_of(code) != CHAR_SPACE)
            break;
        start -= length;
    }
    // A match may lie in space that the token before it took.
    return start > s->done ? start : s->done;
}

static size_t strip_right(const added_search *s, size_t end)
{
    while (end < s->bytes) {
        int32_t code;
        const size_t length = utf8_next(s->text + end, s->bytes - end, &code);
        if (char_class_of(code) != CHAR_SPACE)
            break;
        end += length;
    }
    return end;
}

int32_t added_search_next(added_search *s, size_t *start, size_t *end)
{
    while (s->trie->count > 0 && s->at < s->bytes) {
        size_t length = 0;
        if (!s->trie->starts[s->text[s->at]]) {
            s->at++;
            continue;
        }
        const int32_t index = longest_at(s->trie, s->text + s->at, s->bytes - s->at, &length);
        if (index < 0) {
            s->at++;
            continue;
        }
        const added_token *token = &s->added->tokens[index];
        size_t from = s->at, to = s->at + length;
        s->at = to;
        if ((token->special && !s->special) || (token->single_word && touches_word(s, from, to)))
            continue;
        if (token->lstrip)
            from = strip_left(s, from);
        if (token->rstrip)
            to = strip_right(s, to);
        *start = s->done;
        *end = from > s->done ? from : s->done;
        s->done = to;
        return token->id;
    }
    *start = s->done;
    *end = s->bytes;
    s->done = s->bytes;
    return -1;
}
