// The pre-tokenizer: a text becomes pieces, stage by stage, and at the end words. Each piece passes
// to the next stage at once.
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

typedef struct splitter {
    const tokenizer *t;
    text_worker *w;
    word_function emit;
    void *context;
} splitter;

// What a pattern leaves pending, as whether a match joins its neighbour is not known before that
// one.
typedef struct pending_piece {
    size_t start;
    size_t end;
    bool any;
    bool is_match; // of its last part
} pending_piece;

static status split_piece(const splitter *s, size_t stage, const uint8_t *text, size_t bytes);

static status pass_on(const splitter *s, size_t stage, const uint8_t *text, size_t start,
                      size_t end)
{
    return start < end ? split_piece(s, stage + 1, text + start, end - start) : STATUS_OK;
}

// Whether the part joins the pending piece.
static bool part_joins(split_behavior behavior, const pending_piece *p, bool is_match)
{
    if (!p->any)
        return false;
    switch (behavior) {
    case SPLIT_REMOVED:
    case SPLIT_ISOLATED:
        return false;
    case SPLIT_MERGED_WITH_PREVIOUS:
        return is_match && !p->is_match;
    case SPLIT_MERGED_WITH_NEXT:
        return !is_match && p->is_match;
    case SPLIT_CONTIGUOUS:
        return is_match == p->is_match;
    }
    return false;
}

static status add_part(const splitter *s, size_t stage, const uint8_t *text, pending_piece *p,
                       size_t start, size_t end, bool is_match)
{
    const split_behavior behavior = s->t->stages[stage].behavior;
    if (s->t->stages[stage].invert)
        is_match = !is_match;
    if (part_joins(behavior, p, is_match)) {
        p->end = end;
    } else {
        if (p->any)
            TRY(pass_on(s, stage, text, p->start, p->end));
        p->any = !(behavior == SPLIT_REMOVED && is_match);
        p->start = start;
        p->end = end;
    }
    p->is_match = is_match;
    return STATUS_OK;
}

// Matches and the text between them, in a text that is sound UTF-8.
static status split_sound(const splitter *s, size_t stage, const uint8_t *text, size_t bytes)
{
    const text_pattern *pattern = &s->t->stages[stage].pattern;
    pending_piece pending = {0};
    size_t done = 0, last_end = SIZE_MAX;
    for (;;) {
        size_t start, end;
        TRY(text_pattern_find(pattern, s->w->regex, text, bytes, done, last_end, &start, &end));
        if (start > bytes)
            break;
        if (start > done)
            TRY(add_part(s, stage, text, &pending, done, start, false));
        TRY(add_part(s, stage, text, &pending, start, end, true));
        done = last_end = end;
    }
    if (done < bytes)
        TRY(add_part(s, stage, text, &pending, done, bytes, false));
    return pending.any ? pass_on(s, stage, text, pending.start, pending.end) : STATUS_OK;
}

// Bytes that are not UTF-8 are pieces of their own, and end what is before them.
static status split_pattern(const splitter *s, size_t stage, const uint8_t *text, size_t bytes)
{
    while (bytes > 0) {
        const size_t sound = utf8_valid_prefix(text, bytes);
        if (sound > 0)
            TRY(split_sound(s, stage, text, sound));
        const size_t damaged = utf8_damaged_prefix(text + sound, bytes - sound);
        TRY(pass_on(s, stage, text, sound, sound + damaged));
        text += sound + damaged;
        bytes -= sound + damaged;
    }
    return STATUS_OK;
}

static status split_digits(const splitter *s, size_t stage, const uint8_t *text, size_t bytes)
{
    const bool each = s->t->stages[stage].kind == SPLIT_EACH_DIGIT;
    bool in_number = false;
    size_t start = 0;
    for (size_t at = 0; at < bytes;) {
        int32_t code;
        const size_t length = utf8_next(text + at, bytes - at, &code);
        const bool number = char_class_of(code) == CHAR_NUMBER;
        if (number != in_number || (number && each)) {
            TRY(pass_on(s, stage, text, start, at));
            start = at;
        }
        in_number = number;
        at += length;
    }
    return pass_on(s, stage, text, start, bytes);
}

static status split_gpt2(const splitter *s, size_t stage, const uint8_t *text, size_t bytes)
{
    while (bytes > 0) {
        const size_t length = gpt2_word(text, bytes);
        TRY(split_piece(s, stage + 1, text, length));
        text += length;
        bytes -= length;
    }
    return STATUS_OK;
}

static status prefix_space(const splitter *s, size_t stage, const uint8_t *text, size_t bytes)
{
    if (text[0] == ' ')
        return split_piece(s, stage + 1, text, bytes);
    byte_buffer *b = &s->w->prefixed;
    b->count = 0;
    TRY(byte_buffer_append(b, " ", 1));
    TRY(byte_buffer_append(b, text, bytes));
    return split_piece(s, stage + 1, b->data, b->count);
}

static status split_piece(const splitter *s, size_t stage, const uint8_t *text, size_t bytes)
{
    if (stage == s->t->stage_count)
        return s->emit(s->context, text, bytes);
    switch (s->t->stages[stage].kind) {
    case SPLIT_PREFIX_SPACE:
        return prefix_space(s, stage, text, bytes);
    case SPLIT_GPT2:
        return split_gpt2(s, stage, text, bytes);
    case SPLIT_PATTERN:
        return split_pattern(s, stage, text, bytes);
    case SPLIT_DIGITS:
    case SPLIT_EACH_DIGIT:
        return split_digits(s, stage, text, bytes);
    }
    return STATUS_OK;
}

status text_split(const tokenizer *t, text_worker *w, const uint8_t *text, size_t bytes,
                  word_function emit, void *context)
{
    const splitter s = {t, w, emit, context};
    return bytes > 0 ? split_piece(&s, 0, text, bytes) : STATUS_OK;
}

status text_pattern_find(const text_pattern *p, regex_worker *w, const uint8_t *text, size_t bytes,
                         size_t at, size_t last_end, size_t *start, size_t *end)
{
    if (!p->expression) {
        const uint8_t *found =
            at < bytes ? memmem(text + at, bytes - at, p->literal, p->literal_bytes) : NULL;
        *start = found ? (size_t)(found - text) : SIZE_MAX;
        *end = found ? *start + p->literal_bytes : SIZE_MAX;
        return STATUS_OK;
    }
    TRY(regex_find(p->expression, w, text, bytes, at, start, end));
    if (*start > bytes || *start != *end || *end != last_end)
        return STATUS_OK;
    *start = SIZE_MAX;
    if (at == bytes)
        return STATUS_OK;
    int32_t code;
    at += utf8_next(text + at, bytes - at, &code);
    return regex_find(p->expression, w, text, bytes, at, start, end);
}

void text_pattern_fini(text_pattern *p)
{
    regex_destroy(p->expression);
    free(p->literal);
    *p = (text_pattern){0};
}
