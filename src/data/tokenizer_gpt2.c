// vocab.json and merges.txt, as GPT-2 was published. The end-of-document token is the only one that
// has a meaning of its own, and only where special tokens are asked for.
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "data/tokenizer_file.h"

static size_t count_lines(const char *text, size_t bytes)
{
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

static status read_merge(const token_file *f, const char *path, size_t number, const char *line,
                         size_t bytes, byte_buffer *scratch)
{
    bool known;
    const char *blank = memchr(line, ' ', bytes);
    const size_t left = blank ? (size_t)(blank - line) : 0;
    if (!blank || left == 0 || left + 1 == bytes || memchr(blank + 1, ' ', bytes - left - 1))
        return fail(STATUS_ERR_FORMAT,
                    "%s:%zu:1: not a merge; two tokens with a blank between "
                    "them would be right",
                    path, number);
    TRY(bpe_add_merge(&f->t->model, line, left, blank + 1, bytes - left - 1, scratch, &known));
    if (!known)
        return fail(STATUS_ERR_FORMAT,
                    "%s:%zu:1: \"%.*s\" has a part or a result that is not in %s", path, number,
                    (int)size_min(bytes, 200), line, f->path);
    return STATUS_OK;
}

static status read_merges(const token_file *f, const char *path, const char *text, size_t bytes)
{
    byte_buffer scratch = {0};
    status result = STATUS_OK;
    size_t number = 1;
    for (size_t at = 0; result == STATUS_OK && at < bytes; number++) {
        const char *line = text + at;
        const char *end = memchr(line, '\n', bytes - at);
        size_t length = end ? (size_t)(end - line) : bytes - at;
        at += length + 1;
        if (length > 0 && line[length - 1] == '\r')
            length--;
        const bool version = number == 1 && length >= 8 && !memcmp(line, "#version", 8);
        if (length > 0 && !version)
            result = read_merge(f, path, number, line, length, &scratch);
    }
    free(scratch.data);
    return result;
}

static status add_eod(tokenizer *t)
{
    static const char text[] = "<|endoftext|>";
    const int32_t id = token_map_find(&t->model.vocab, text, strlen(text));
    if (id < 0)
        return STATUS_OK;
    const added_token token = {.id = id, .special = true};
    TRY(added_tokens_add(&t->added, text, strlen(text), &token));
    return added_trie_insert(&t->added.raw, (const uint8_t *)text, strlen(text), 0);
}

status tokenizer_read_gpt2(tokenizer *t, const char *vocab_path, const char *merges_path)
{
    const token_file f = {vocab_path, t};
    char *text = NULL, *merges = NULL;
    size_t bytes, merges_bytes;
    json_t *root = NULL;
    status result;
    TRY_OUT(result, token_file_read(vocab_path, &text, &bytes));
    TRY_OUT(result, token_file_parse(vocab_path, text, bytes, &root));
    TRY_OUT(result, token_file_vocabulary(&f, "vocabulary", root));
    TRY_OUT(result, token_file_read(merges_path, &merges, &merges_bytes));
    TRY_OUT(result, bpe_init(&t->model, count_lines(merges, merges_bytes)));
    TRY_OUT(result, read_merges(&f, merges_path, merges, merges_bytes));
    t->stages[t->stage_count++].kind = SPLIT_GPT2;
    result = add_eod(t);
out:
    free(text);
    free(merges);
    json_decref(root);
    return result;
}
