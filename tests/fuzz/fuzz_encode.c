// Any bytes as text, with each of several tokenizers; the first byte of an input chooses one and
// whether special tokens are parsed. Those that change no text must give it back.
#include "fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer.h"

typedef struct subject {
    const char *name;
    bool lossless;
    tokenizer *t;
    tokenizer_encoder *e;
} subject;

static subject subjects[] = {
    {.name = "gpt2", .lossless = true},
    {.name = "next", .lossless = true},
    {.name = "empty_match", .lossless = true},
    {.name = "digits", .lossless = true},
    {.name = "gpt4"},
    {.name = "added"},
    {.name = "added_lower"},
    {.name = "normal"},
    {.name = "nfd_digits"},
    {.name = "unknown_fused"},
    {.name = "tokenizer"},
};

enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static void must(bool held)
{
    if (!held)
        abort();
}

static void close_all(void)
{
    for (int i = 0; i < SUBJECTS; i++) {
        tokenizer_encoder_destroy(subjects[i].e);
        tokenizer_close(subjects[i].t);
    }
}

static void open_all(void)
{
    for (int i = 0; i < SUBJECTS; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tokenizer/%s.json", TRIFOLD_GOLDEN, subjects[i].name);
        const tokenizer_options o = {TOKENIZER_HF, path, NULL};
        must(tokenizer_open(&o, &subjects[i].t) == STATUS_OK);
        must(tokenizer_encoder_create(subjects[i].t, &subjects[i].e) == STATUS_OK);
    }
    atexit(close_all);
}

// A fresh encoder knows no words: the cache must not change ids.
static void check_cache(const subject *s, const char *text, size_t bytes, bool special,
                        const token_list *ids)
{
    tokenizer_encoder *cold = NULL;
    token_list again = {0};
    must(tokenizer_encoder_create(s->t, &cold) == STATUS_OK);
    must(tokenizer_encode(cold, text, bytes, special, &again) == STATUS_OK);
    must(again.count == ids->count);
    must(ids->count == 0 || !memcmp(again.ids, ids->ids, ids->count * sizeof *ids->ids));
    token_list_fini(&again);
    tokenizer_encoder_destroy(cold);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned calls;
    token_list ids = {0};
    char *back = NULL;
    size_t back_bytes;
    if (size == 0)
        return 0;
    if (!subjects[0].t)
        open_all();
    const subject *s = &subjects[data[0] % SUBJECTS];
    const bool special = data[0] & 0x80;
    const char *text = (const char *)data + 1;
    must(tokenizer_encode(s->e, text, size - 1, special, &ids) == STATUS_OK);
    for (size_t i = 0; i < ids.count; i++)
        must(ids.ids[i] >= 0 && (size_t)ids.ids[i] < tokenizer_vocab_size(s->t));
    must(tokenizer_decode(s->t, ids.ids, ids.count, &back, &back_bytes) == STATUS_OK);
    if (s->lossless)
        must(back_bytes == size - 1 && !memcmp(back, text, size - 1));
    if (calls++ % 64 == 0)
        check_cache(s, text, size - 1, special, &ids);
    free(back);
    token_list_fini(&ids);
    return 0;
}
