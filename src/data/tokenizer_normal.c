// The normalizer: the steps of a tokenizer.json, one after another, on one piece of text.
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "data/tokenizer_internal.h"

static status put_form(const uint8_t *text, size_t bytes, utf8proc_option_t options,
                       byte_buffer *out)
{
    utf8proc_int32_t fixed[64];
    utf8proc_int32_t *codes = fixed;
    utf8proc_ssize_t room = sizeof fixed / sizeof *fixed;
    utf8proc_ssize_t count =
        utf8proc_decompose(text, (utf8proc_ssize_t)bytes, codes, room, options);
    if (count > room) {
        room = count;
        codes = malloc((size_t)room * sizeof *codes + 4);
        if (!codes)
            return fail(STATUS_ERR_MEMORY, "no memory to normalize %zu bytes", bytes);
        count = utf8proc_decompose(text, (utf8proc_ssize_t)bytes, codes, room, options);
    }
    if (count >= 0 && (options & UTF8PROC_COMPOSE))
        count = utf8proc_normalize_utf32(codes, count, options);
    status result = count < 0 ? fail(STATUS_ERR_FORMAT, "cannot normalize %zu bytes: %s", bytes,
                                     utf8proc_errmsg(count))
                              : byte_buffer_reserve(out, 4 * (size_t)count);
    for (utf8proc_ssize_t i = 0; result == STATUS_OK && i < count; i++)
        out->count += utf8_put(codes[i], out->data + out->count);
    if (codes != fixed)
        free(codes);
    return result;
}

// Bytes of the run at the start of the text; *simple where it stays as it is. Nothing joins or
// moves over a boundary before a character below U+0300, as those are starters that join with
// nothing before them. Below `limit` a character is in the form already, unless one from U+0300 on
// follows.
static size_t next_run(const uint8_t *text, size_t bytes, int32_t limit, bool *simple)
{
    int32_t code;
    size_t at = 0, previous = 0;
    *simple = true;
    while (at < bytes) {
        const size_t length = utf8_next(text + at, bytes - at, &code);
        if (code < 0 || code >= limit)
            break;
        previous = at;
        at += length;
    }
    if (at == bytes || code < 0)
        return at > 0 ? at : 1;
    if (code >= 0x300)
        at = previous; // it goes with the character before it
    if (at > 0)
        return at;
    *simple = false;
    at = utf8_next(text, bytes, &code);
    while (at < bytes) {
        const size_t length = utf8_next(text + at, bytes - at, &code);
        if (code < 0x300)
            break;
        at += length;
    }
    return at;
}

static status put_normal_form(normal_kind kind, const uint8_t *text, size_t bytes, byte_buffer *out)
{
    const bool composed = kind == NORMAL_NFC || kind == NORMAL_NFKC;
    const bool compatible = kind == NORMAL_NFKC || kind == NORMAL_NFKD;
    const unsigned options = UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                             (compatible ? UTF8PROC_COMPAT : 0);
    const int32_t limit = kind == NORMAL_NFC ? 0x300 : 0x80;
    while (bytes > 0) {
        bool simple;
        const size_t run = next_run(text, bytes, limit, &simple);
        if (simple)
            TRY(byte_buffer_append(out, text, run));
        else
            TRY(put_form(text, run, (utf8proc_option_t)options, out));
        text += run;
        bytes -= run;
    }
    return STATUS_OK;
}

// Of one character at a time, so without the final sigma of Greek.
static status put_lowercase(const uint8_t *text, size_t bytes, byte_buffer *out)
{
    TRY(byte_buffer_reserve(out, bytes));
    for (size_t at = 0; at < bytes;) {
        int32_t code;
        const size_t length = utf8_next(text + at, bytes - at, &code);
        TRY(byte_buffer_reserve(out, 8));
        if (code < 0) {
            out->data[out->count++] = text[at];
        } else if (code == 0x130) { // the one that becomes two: i and a dot above
            out->count += utf8_put('i', out->data + out->count);
            out->count += utf8_put(0x307, out->data + out->count);
        } else {
            out->count += utf8_put(utf8proc_tolower(code), out->data + out->count);
        }
        at += length;
    }
    return STATUS_OK;
}

static status put_stripped(const normal_step *step, const uint8_t *text, size_t bytes,
                           byte_buffer *out)
{
    size_t start = 0;
    int32_t code;
    while (step->strip_left && start < bytes) {
        const size_t length = utf8_next(text + start, bytes - start, &code);
        if (char_class_of(code) != CHAR_SPACE)
            break;
        start += length;
    }
    while (step->strip_right && bytes > start) {
        const size_t length = utf8_last(text + start, bytes - start, &code);
        if (char_class_of(code) != CHAR_SPACE)
            break;
        bytes -= length;
    }
    return byte_buffer_append(out, text + start, bytes - start);
}

// In a text that is sound UTF-8.
static status replace_sound(const normal_step *step, regex_worker *w, const uint8_t *text,
                            size_t bytes, byte_buffer *out)
{
    size_t done = 0, last_end = SIZE_MAX;
    for (;;) {
        size_t start, end;
        TRY(text_pattern_find(&step->pattern, w, text, bytes, done, last_end, &start, &end));
        if (start > bytes)
            break;
        TRY(byte_buffer_append(out, text + done, start - done));
        TRY(byte_buffer_append(out, step->content, step->content_bytes));
        done = last_end = end;
    }
    return byte_buffer_append(out, text + done, bytes - done);
}

static status put_replaced(const normal_step *step, regex_worker *w, const uint8_t *text,
                           size_t bytes, byte_buffer *out)
{
    while (bytes > 0) {
        const size_t sound = utf8_valid_prefix(text, bytes);
        if (sound > 0)
            TRY(replace_sound(step, w, text, sound, out));
        const size_t damaged = utf8_damaged_prefix(text + sound, bytes - sound);
        TRY(byte_buffer_append(out, text + sound, damaged));
        text += sound + damaged;
        bytes -= sound + damaged;
    }
    return STATUS_OK;
}

static status put_step(const normal_step *step, regex_worker *w, const uint8_t *text, size_t bytes,
                       byte_buffer *out)
{
    switch (step->kind) {
    case NORMAL_NFC:
    case NORMAL_NFD:
    case NORMAL_NFKC:
    case NORMAL_NFKD:
        return put_normal_form(step->kind, text, bytes, out);
    case NORMAL_LOWERCASE:
        return put_lowercase(text, bytes, out);
    case NORMAL_STRIP:
        return put_stripped(step, text, bytes, out);
    case NORMAL_PREPEND:
        if (bytes > 0)
            TRY(byte_buffer_append(out, step->content, step->content_bytes));
        return byte_buffer_append(out, text, bytes);
    case NORMAL_REPLACE:
        return put_replaced(step, w, text, bytes, out);
    }
    return STATUS_OK;
}

static bool is_ascii(const uint8_t *text, size_t bytes)
{
    size_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
        uint64_t word;
        memcpy(&word, text + at, sizeof word);
        if (word & 0x8080808080808080u)
            return false;
    }
    for (; at < bytes; at++)
        if (text[at] & 0x80)
            return false;
    return true;
}

status text_normalize(const tokenizer *t, text_worker *w, const uint8_t *text, size_t bytes,
                      const uint8_t **out, size_t *out_bytes)
{
    for (size_t i = 0; i < t->normal_count; i++) {
        byte_buffer *to = &w->normal[i % 2];
        if (t->normal[i].kind <= NORMAL_NFKD && is_ascii(text, bytes))
            continue;
        to->count = 0;
        TRY(byte_buffer_reserve(to, bytes));
        TRY(put_step(&t->normal[i], w->regex, text, bytes, to));
        text = to->data;
        bytes = to->count;
    }
    *out = text;
    *out_bytes = bytes;
    return STATUS_OK;
}
