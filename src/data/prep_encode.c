// A worker's part: the pieces of a chunk to ids.
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/prep_internal.h"

// Keep the error of a line for the writer: workers are not in the order of the input.
__attribute__((format(printf, 3, 4))) static void fail_chunk(prep_chunk *c, size_t line,
                                                             const char *format, ...)
{
    va_list arguments;
    int used = snprintf(c->error, sizeof c->error, "%s:%zu:", c->path, line);
    if (used < 0 || used >= PREP_ERROR_BYTES)
        used = 0;
    va_start(arguments, format);
    vsnprintf(c->error + used, sizeof c->error - (size_t)used, format, arguments);
    va_end(arguments);
    c->result = STATUS_ERR_FORMAT;
}

static status encode_text(prep_chunk *c, size_t piece, size_t key, tokenizer_encoder *e,
                          const prep_options *o, const char *text, size_t bytes)
{
    const size_t before = c->ids.count;
    c->text_bytes[key] += (int64_t)bytes;
    if (bytes > 0)
        TRY(tokenizer_encode(e, text, bytes, o->parse_special, &c->ids));
    c->id_counts[piece * o->key_count + key] = c->ids.count - before;
    return STATUS_OK;
}

static status encode_line(prep_chunk *c, size_t piece, tokenizer_encoder *e, const prep_options *o)
{
    const prep_piece *p = &c->pieces[piece];
    json_error_t error;
    status result = STATUS_OK;
    json_t *object =
        json_loadb((const char *)c->text.data + p->start, p->bytes, JSON_ALLOW_NUL, &error);
    if (!object) {
        fail_chunk(c, p->line, "%d: not JSON: %s", error.column, error.text);
        return STATUS_OK;
    }
    for (size_t key = 0; result == STATUS_OK && key < o->key_count; key++) {
        const json_t *text = json_object_get(object, o->keys[key]);
        if (!json_is_string(text)) {
            fail_chunk(c, p->line, "1: %s \"%s\"; an object with a text under it would be right",
                       text ? "no text under the key" : "no key", o->keys[key]);
            break;
        }
        result =
            encode_text(c, piece, key, e, o, json_string_value(text), json_string_length(text));
    }
    json_decref(object);
    return result;
}

static status encode_pieces(prep_chunk *c, tokenizer_encoder *e, const prep_options *o)
{
    const size_t counts = c->count * o->key_count;
    if (counts > c->id_capacity) {
        void *id_counts = c->id_counts;
        TRY(buffer_grow(&id_counts, &c->id_capacity, 0, counts, sizeof *c->id_counts));
        c->id_counts = id_counts;
    }
    memset(c->id_counts, 0, counts * sizeof *c->id_counts);
    for (size_t i = 0; c->result == STATUS_OK && i < c->count; i++) {
        const prep_piece *p = &c->pieces[i];
        if (c->json)
            TRY(encode_line(c, i, e, o));
        else
            TRY(encode_text(c, i, 0, e, o, (const char *)c->text.data + p->start, p->bytes));
    }
    return STATUS_OK;
}

void prep_chunk_encode(prep_chunk *c, tokenizer_encoder *e, const prep_options *o)
{
    c->ids.count = 0;
    c->result = STATUS_OK;
    c->error[0] = '\0';
    memset(c->text_bytes, 0, sizeof c->text_bytes);
    const status result = encode_pieces(c, e, o);
    if (result != STATUS_OK)
        c->result = result; // recorded where it was found
}
