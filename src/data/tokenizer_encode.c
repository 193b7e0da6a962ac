// From a text to ids: the steps of tokenizer_internal.h in their order.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/tokenizer_internal.h"

struct tokenizer_encoder {
    const tokenizer *t;
    bpe_worker *model; // none at the character level
    text_worker text;
    token_list *ids; // of the call that is at work
};

status tokenizer_encoder_create(const tokenizer *t, tokenizer_encoder **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(tokenizer_encoder), "an encoder", &memory));
    tokenizer_encoder *e = memory;
    status result = STATUS_OK;
    e->t = t;
    if (t->kind != TOKENIZER_CHAR_LEVEL)
        TRY_OUT(result, bpe_worker_create(&t->model, &e->model));
    TRY_OUT(result, regex_worker_create(&e->text.regex));
    *out = e;
    return STATUS_OK;
out:
    tokenizer_encoder_destroy(e);
    return result;
}

void tokenizer_encoder_destroy(tokenizer_encoder *e)
{
    if (!e)
        return;
    bpe_worker_destroy(e->model);
    regex_worker_destroy(e->text.regex);
    free(e->text.normal[0].data);
    free(e->text.normal[1].data);
    free(e->text.prefixed.data);
    memory_free(e);
}

static status encode_word(void *context, const uint8_t *word, size_t bytes)
{
    tokenizer_encoder *e = context;
    return bpe_encode(e->model, word, bytes, e->ids);
}

// A piece without added tokens that are looked for in the text as it is.
static status encode_plain(tokenizer_encoder *e, const uint8_t *text, size_t bytes, bool special)
{
    int32_t id;
    if (bytes == 0)
        return STATUS_OK;
    added_search search = {
        .added = &e->t->added, .trie = &e->t->added.normalized, .special = special};
    TRY(text_normalize(e->t, &e->text, text, bytes, &search.text, &search.bytes));
    do {
        size_t start, end;
        id = added_search_next(&search, &start, &end);
        TRY(text_split(e->t, &e->text, search.text + start, end - start, encode_word, e));
        if (id >= 0)
            TRY(token_list_push(e->ids, id));
    } while (id >= 0);
    return STATUS_OK;
}

static status encode_pieces(tokenizer_encoder *e, const uint8_t *text, size_t bytes, bool special)
{
    int32_t id;
    added_search search = {.added = &e->t->added,
                           .trie = &e->t->added.raw,
                           .text = text,
                           .bytes = bytes,
                           .special = special};
    do {
        size_t start, end;
        id = added_search_next(&search, &start, &end);
        TRY(encode_plain(e, text + start, end - start, special));
        if (id >= 0)
            TRY(token_list_push(e->ids, id));
    } while (id >= 0);
    return STATUS_OK;
}

static status encode_bytes(token_list *out, const uint8_t *text, size_t bytes)
{
    TRY(token_list_reserve(out, bytes));
    for (size_t i = 0; i < bytes; i++)
        out->ids[out->count++] = text[i];
    return STATUS_OK;
}

status tokenizer_encode(tokenizer_encoder *e, const char *text, size_t bytes, bool parse_special,
                        token_list *out)
{
    const uint8_t *data = (const uint8_t *)text;
    if (e->t->kind == TOKENIZER_CHAR_LEVEL)
        return encode_bytes(out, data, bytes);
    e->ids = out;
    TRY(token_list_append(out, e->t->before.ids, e->t->before.count));
    TRY(encode_pieces(e, data, bytes, parse_special));
    return token_list_append(out, e->t->after.ids, e->t->after.count);
}

// GPT-2's expression begins a word there, normal forms do not look over it, and an added token must
// neither contain the newline nor take white space.
bool tokenizer_can_cut(const tokenizer *t)
{
    if (t->kind == TOKENIZER_CHAR_LEVEL)
        return true;
    if (t->stage_count != 1 || t->stages[0].kind != SPLIT_GPT2 ||
        t->before.count + t->after.count > 0)
        return false;
    for (size_t i = 0; i < t->normal_count; i++)
        if (t->normal[i].kind > NORMAL_NFKD)
            return false;
    for (size_t i = 0; i < t->added.count; i++) {
        const token_entry *name = &t->added.names.entries[i];
        if (t->added.tokens[i].lstrip || t->added.tokens[i].rstrip ||
            memchr(name->text, '\n', name->bytes))
            return false;
    }
    return true;
}
