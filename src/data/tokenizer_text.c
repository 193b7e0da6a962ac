#include "data/tokenizer_text.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/sizes.h"

enum { FIRST_CAPACITY = 256 };

status buffer_grow(void **data, size_t *capacity, size_t used, size_t count, size_t size)
{
    size_t wanted, bytes;
    if (!size_add(used, count, &wanted))
        return fail(STATUS_ERR_MEMORY, "a text of more than %zu bytes does not fit", used);
    wanted = size_max(wanted, FIRST_CAPACITY);
    if (*capacity <= SIZE_MAX / 2)
        wanted = size_max(wanted, 2 * *capacity);
    if (!size_mul(wanted, size, &bytes))
        return fail(STATUS_ERR_MEMORY, "%zu elements of %zu bytes do not fit", wanted, size);
    void *grown = realloc(*data, bytes);
    if (!grown)
        return fail(STATUS_ERR_MEMORY, "no memory for %zu bytes of text", bytes);
    *data = grown;
    *capacity = wanted;
    return STATUS_OK;
}

status byte_buffer_append(byte_buffer *b, const void *data, size_t bytes)
{
    TRY(byte_buffer_reserve(b, bytes));
    if (bytes > 0)
        memcpy(b->data + b->count, data, bytes);
    b->count += bytes;
    return STATUS_OK;
}

status token_list_append(token_list *list, const int32_t *ids, size_t count)
{
    TRY(token_list_reserve(list, count));
    if (count > 0)
        memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return STATUS_OK;
}

void token_list_fini(token_list *list)
{
    free(list->ids);
    *list = (token_list){0};
}

size_t utf8_next(const uint8_t *text, size_t bytes, int32_t *code)
{
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t lead = text[0];
    *code = lead;
    if (lead < 0x80)
        return 1;
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    *code = -1;
    if (lead < 0xc2 || lead > 0xf4 || bytes < length)
        return 1;
    int32_t value = lead & (0x7f >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 1;
        value = value << 6 | (text[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 1;
    *code = value;
    return length;
}

size_t utf8_last(const uint8_t *text, size_t bytes, int32_t *code)
{
    for (size_t length = 1; length <= 4 && length <= bytes; length++)
        if (utf8_next(text + bytes - length, length, code) == length && *code >= 0)
            return length;
    *code = -1;
    return 1;
}

size_t utf8_valid_prefix(const uint8_t *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        int32_t code;
        const size_t length = utf8_next(text + at, bytes - at, &code);
        if (code < 0)
            break;
        at += length;
    }
    return at;
}

size_t utf8_damaged_prefix(const uint8_t *text, size_t bytes)
{
    int32_t code;
    size_t at = 0;
    while (at < bytes) {
        utf8_next(text + at, bytes - at, &code);
        if (code >= 0)
            break;
        at++;
    }
    return at;
}

size_t utf8_put(int32_t code, uint8_t out[4])
{
    return (size_t)utf8proc_encode_char(code, out);
}

#define O CHAR_OTHER
#define L CHAR_LETTER
#define N CHAR_NUMBER
#define S CHAR_SPACE
const uint8_t char_ascii_class[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O, // 0x00
    O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, // 0x10
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, // space
    N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O, // 0
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, // @
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O, // P
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, // `
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O, // p
};
#undef O
#undef L
#undef N
#undef S

char_class char_class_wide(int32_t code)
{
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return CHAR_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return CHAR_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return CHAR_SPACE;
    default:
        return code == 0x85 ? CHAR_SPACE : CHAR_OTHER;
    }
}

// Circled and squared Latin letters are the only alphabetic characters among the symbols.
static bool is_alphabetic_symbol(int32_t code)
{
    return (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
           (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
}

bool char_is_word(int32_t code)
{
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return code == 0x200c || code == 0x200d || is_alphabetic_symbol(code);
    }
}
