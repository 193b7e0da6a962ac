// GPT-2's expression by hand: several times faster than any engine for expressions.
#include <string.h>

#include "data/tokenizer_internal.h"

// Bytes of an English ending at an apostrophe, or 0.
static size_t contraction(const uint8_t *text, size_t bytes)
{
    if (bytes < 2)
        return 0;
    switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
        return bytes > 2 && text[2] == 'e' ? 3 : 0;
    case 'l':
        return bytes > 2 && text[2] == 'l' ? 3 : 0;
    default:
        return 0;
    }
}

// The end of the characters of one class that go on at `at`.
static size_t end_of_class(const uint8_t *text, size_t bytes, size_t at, char_class class)
{
    while (at < bytes) {
        int32_t code = text[at];
        size_t length = 1;
        if (code >= 0x80)
            length = utf8_next(text + at, bytes - at, &code);
        if (char_class_of(code) != class)
            break;
        at += length;
    }
    return at;
}

// White space, the last of it left to a word that follows, unless it is all.
static size_t space_word(const uint8_t *text, size_t bytes)
{
    const size_t end = end_of_class(text, bytes, 0, CHAR_SPACE);
    if (end == bytes)
        return end;
    int32_t code;
    const size_t last = utf8_last(text, end, &code);
    return end > last ? end - last : end;
}

size_t gpt2_word(const uint8_t *text, size_t bytes)
{
    int32_t code;
    size_t at = 0;
    if (text[0] == '\'') {
        const size_t length = contraction(text, bytes);
        if (length > 0)
            return length;
    }
    if (text[0] == ' ' && bytes > 1)
        at = 1;
    const size_t length = utf8_next(text + at, bytes - at, &code);
    const char_class class = char_class_of(code);
    if (class == CHAR_SPACE)
        return space_word(text, bytes);
    return end_of_class(text, bytes, at + length, class);
}
