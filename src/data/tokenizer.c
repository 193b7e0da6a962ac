#include "data/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "data/tokenizer_internal.h"

enum { CHAR_LEVEL_IDS = 512 };

static const char eod_text[] = "<|endoftext|>";

status tokenizer_kind_parse(const char *name, tokenizer_kind *kind)
{
    static const char *const names[] = {"GPT2BPETokenizer", "HFTokenizer", "CharLevelTokenizer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(name, names[i])) {
            *kind = (tokenizer_kind)i;
            return STATUS_OK;
        }
    return fail(STATUS_ERR_CONFIG, "there is no tokenizer \"%s\"; %s, %s and %s are", name,
                names[0], names[1], names[2]);
}

static status read_files(tokenizer *t, const tokenizer_options *o)
{
    if (o->kind == TOKENIZER_CHAR_LEVEL)
        return STATUS_OK;
    if (!o->vocab_file)
        return fail(STATUS_ERR_CONFIG, "the tokenizer has no vocabulary file; %s would be right",
                    o->kind == TOKENIZER_HF ? "a tokenizer.json" : "a vocab.json");
    if (o->kind == TOKENIZER_HF)
        return tokenizer_read_json(t, o->vocab_file);
    if (!o->merges_file)
        return fail(STATUS_ERR_CONFIG,
                    "GPT2BPETokenizer has no file of merges; a merges.txt would be right");
    return tokenizer_read_gpt2(t, o->vocab_file, o->merges_file);
}

static size_t count_ids(const tokenizer *t)
{
    const token_map *maps[] = {&t->model.vocab, &t->added.names};
    size_t count = 0;
    for (size_t m = 0; m < 2; m++)
        for (size_t i = 0; i < maps[m]->count; i++)
            count = size_max(count, (size_t)maps[m]->entries[i].id + 1);
    return count;
}

// The entry of each id, added tokens over those of the model.
static const token_entry **entries_by_id(const tokenizer *t)
{
    const token_map *maps[] = {&t->model.vocab, &t->added.names};
    const token_entry **entries = calloc(t->vocab_size + 1, sizeof *entries);
    for (size_t m = 0; entries && m < 2; m++)
        for (size_t i = 0; i < maps[m]->count; i++)
            entries[maps[m]->entries[i].id] = &maps[m]->entries[i];
    return entries;
}

static status write_pieces(tokenizer *t, const token_entry *const *entries)
{
    for (size_t id = 0; id < t->vocab_size; id++) {
        const token_entry *e = entries[id];
        t->piece_starts[id] = t->pieces.count;
        if (t->kind == TOKENIZER_CHAR_LEVEL && id < 256)
            TRY(byte_buffer_append(&t->pieces, &(uint8_t){(uint8_t)id}, 1));
        if (!e)
            continue;
        if (token_map_find(&t->added.names, e->text, e->bytes) == (int32_t)id)
            TRY(byte_buffer_append(&t->pieces, e->text, e->bytes));
        else
            TRY(byte_level_decode(e->text, e->bytes, &t->pieces));
    }
    t->piece_starts[t->vocab_size] = t->pieces.count;
    return STATUS_OK;
}

static status check_template(const tokenizer *t, const token_list *ids, const char *path)
{
    for (size_t i = 0; i < ids->count; i++)
        if ((size_t)ids->ids[i] >= t->vocab_size)
            return fail(STATUS_ERR_FORMAT,
                        "%s: post_processor: id %d is not in the vocabulary of %zu", path,
                        ids->ids[i], t->vocab_size);
    return STATUS_OK;
}

static status finish(tokenizer *t, const char *path)
{
    void *starts;
    if (t->kind == TOKENIZER_CHAR_LEVEL) {
        t->vocab_size = CHAR_LEVEL_IDS;
        t->eod = 0;
    } else {
        bpe_finish(&t->model);
        t->vocab_size = count_ids(t);
        t->eod = tokenizer_find_token(t, eod_text, strlen(eod_text));
    }
    TRY(check_template(t, &t->before, path));
    TRY(check_template(t, &t->after, path));
    TRY(memory_alloc(t->vocab_size + 1, sizeof *t->piece_starts, "the tokens", &starts));
    t->piece_starts = starts;
    const token_entry **entries = entries_by_id(t);
    if (!entries)
        return fail(STATUS_ERR_MEMORY, "no memory for %zu tokens", t->vocab_size);
    const status result = write_pieces(t, entries);
    free(entries);
    return result;
}

status tokenizer_open(const tokenizer_options *options, tokenizer **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(tokenizer), "a tokenizer", &memory));
    tokenizer *t = memory;
    t->kind = options->kind;
    status result = read_files(t, options);
    if (result == STATUS_OK)
        result = finish(t, options->vocab_file);
    if (result == STATUS_OK)
        *out = t;
    else
        tokenizer_close(t);
    return result;
}

void tokenizer_close(tokenizer *t)
{
    if (!t)
        return;
    bpe_fini(&t->model);
    added_tokens_fini(&t->added);
    for (size_t i = 0; i < STAGES_MAX; i++) {
        text_pattern_fini(&t->normal[i].pattern);
        free(t->normal[i].content);
        text_pattern_fini(&t->stages[i].pattern);
    }
    token_list_fini(&t->before);
    token_list_fini(&t->after);
    free(t->pieces.data);
    memory_free(t->piece_starts);
    memory_free(t);
}

size_t tokenizer_vocab_size(const tokenizer *t)
{
    return t->vocab_size;
}

int32_t tokenizer_eod(const tokenizer *t)
{
    return t->eod;
}

int32_t tokenizer_find_token(const tokenizer *t, const char *text, size_t bytes)
{
    const int32_t id = token_map_find(&t->added.names, text, bytes);
    return id >= 0 ? id : token_map_find(&t->model.vocab, text, bytes);
}

status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, char **text,
                        size_t *bytes)
{
    byte_buffer b = {0};
    status result = STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= t->vocab_size)
            continue;
        const size_t start = t->piece_starts[ids[i]], end = t->piece_starts[ids[i] + 1];
        TRY_OUT(result, byte_buffer_append(&b, t->pieces.data + start, end - start));
    }
    TRY_OUT(result, byte_buffer_append(&b, "", 1));
    *text = (char *)b.data;
    *bytes = b.count - 1;
    return STATUS_OK;
out:
    free(b.data);
    return result;
}
