/* Inside the module: growing buffers, UTF-8 that may be damaged, and classes of characters. */
#ifndef TRIFOLD_DATA_TOKENIZER_TEXT_H
#define TRIFOLD_DATA_TOKENIZER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/tokenizer.h"

/* {0} is empty. */
typedef struct byte_buffer {
    uint8_t *data;
    size_t count;
    size_t capacity;
} byte_buffer;

/* Make room for `count` more elements of `size` bytes behind `used`; at least doubles. */
status buffer_grow(void **data, size_t *capacity, size_t used, size_t count, size_t size);

static inline status byte_buffer_reserve(byte_buffer *b, size_t count)
{
    if (b->capacity - b->count >= count)
        return STATUS_OK;
    void *data = b->data;
    TRY(buffer_grow(&data, &b->capacity, b->count, count, 1));
    b->data = data;
    return STATUS_OK;
}

status byte_buffer_append(byte_buffer *b, const void *data, size_t bytes);

static inline status token_list_reserve(token_list *list, size_t count)
{
    if (list->capacity - list->count >= count)
        return STATUS_OK;
    void *ids = list->ids;
    TRY(buffer_grow(&ids, &list->capacity, list->count, count, sizeof *list->ids));
    list->ids = ids;
    return STATUS_OK;
}

static inline status token_list_push(token_list *list, int32_t id)
{
    TRY(token_list_reserve(list, 1));
    list->ids[list->count++] = id;
    return STATUS_OK;
}

status token_list_append(token_list *list, const int32_t *ids, size_t count);

/* Code point of the character at text[0], bytes > 0, and how many bytes it takes. A byte that
 * starts no whole, shortest, non-surrogate character is -1 and takes one byte. */
size_t utf8_next(const uint8_t *text, size_t bytes, int32_t *code);

/* Bytes of the character that ends at text[bytes - 1], bytes > 0. */
size_t utf8_last(const uint8_t *text, size_t bytes, int32_t *code);

/* Bytes from text[0] on that are sound UTF-8. */
size_t utf8_valid_prefix(const uint8_t *text, size_t bytes);

/* Bytes from text[0] on that belong to no character. */
size_t utf8_damaged_prefix(const uint8_t *text, size_t bytes);

/* Write a code point; returns its 1 to 4 bytes. */
size_t utf8_put(int32_t code, uint8_t out[4]);

typedef enum char_class {
    CHAR_OTHER,
    CHAR_LETTER, /* general category L */
    CHAR_NUMBER, /* general category N */
    CHAR_SPACE,  /* White_Space */
} char_class;

extern const uint8_t char_ascii_class[128];
char_class char_class_wide(int32_t code);

/* `code` may be -1: CHAR_OTHER. */
static inline char_class char_class_of(int32_t code)
{
    if (code >= 0 && code < 128)
        return (char_class)char_ascii_class[code];
    return char_class_wide(code);
}

/* \w of Unicode regular expressions: alphabetic, marks, decimal digits, connectors, joiners. */
bool char_is_word(int32_t code);

#endif
