#include "data/pretokenize.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef enum char_class {
    CLASS_OTHER,
    CLASS_LETTER,
    CLASS_NUMBER,
    CLASS_SPACE,
} char_class;

int32_t utf8_next(const char *text, size_t bytes, size_t *length)
{
    const unsigned char first = (unsigned char)text[0];
    if (first < 0x80) {
        *length = 1;
        return first;
    }
    utf8proc_int32_t c;
    const utf8proc_ssize_t limit = bytes < 4 ? (utf8proc_ssize_t)bytes : 4;
    const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, limit, &c);
    *length = n > 0 ? (size_t)n : 1;
    return n > 0 ? c : -1;
}

bool unicode_is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static char_class class_of(int32_t c)
{
    if (c >= 0 && c < 0x80) {
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
            return CLASS_LETTER;
        if (c >= '0' && c <= '9')
            return CLASS_NUMBER;
        return unicode_is_space(c) ? CLASS_SPACE : CLASS_OTHER;
    }
    if (c < 0)
        return CLASS_OTHER;
    const utf8proc_category_t category = utf8proc_category(c);
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
        return CLASS_LETTER;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
        return CLASS_NUMBER;
    return unicode_is_space(c) ? CLASS_SPACE : CLASS_OTHER;
}

bool unicode_is_word(int32_t c)
{
    if (c == '_')
        return true;
    const char_class k = class_of(c);
    if (k == CLASS_LETTER || k == CLASS_NUMBER)
        return true;
    const utf8proc_category_t category = c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_PC;
}

// The end of the run of characters of class `k` that begins at `from`.
static size_t run_end(const char *text, size_t bytes, size_t from, char_class k)
{
    while (from < bytes) {
        size_t length;
        if (class_of(utf8_next(text + from, bytes - from, &length)) != k)
            break;
        from += length;
    }
    return from;
}

// 's, 't, 're, 've, 'm, 'll, 'd at the start of the text; 0 where none.
static size_t contraction(const char *text, size_t bytes)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t n = strlen(endings[i]);
        if (bytes >= n && !memcmp(text, endings[i], n))
            return n;
    }
    return 0;
}

// A run of white space leaves its last character to the word that follows, unless it is alone.
static size_t space_run(const char *text, size_t bytes)
{
    const size_t end = run_end(text, bytes, 0, CLASS_SPACE);
    if (end == bytes)
        return end;
    size_t last = end - 1;
    while (last > 0 && ((unsigned char)text[last] & 0xc0) == 0x80)
        last--;
    return last > 0 ? last : end;
}

size_t pretokenize_gpt2(const char *text, size_t bytes)
{
    size_t length;
    if (text[0] == '\'') {
        const size_t n = contraction(text, bytes);
        if (n > 0)
            return n;
    }
    const char_class first = class_of(utf8_next(text, bytes, &length));
    if (first != CLASS_SPACE)
        return run_end(text, bytes, length, first);
    if (text[0] == ' ' && bytes > 1) {
        const char_class next = class_of(utf8_next(text + 1, bytes - 1, &length));
        if (next != CLASS_SPACE)
            return run_end(text, bytes, 1 + length, next);
    }
    return space_run(text, bytes);
}

struct regex_split {
    pcre2_code *code;
};

status regex_split_create(const char *pattern, bool literal, regex_split **out)
{
    int error;
    PCRE2_SIZE where;
    const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | (literal ? PCRE2_LITERAL : 0u);
    const uint32_t allowed = literal ? options & ~(uint32_t)PCRE2_UCP : options;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, allowed, &error, &where, NULL);
    if (!code) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(error, text, sizeof text);
        return fail(STATUS_ERR_UNSUPPORTED, "pattern \"%s\" is not understood at %zu: %s", pattern,
                    (size_t)where, (const char *)text);
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); // without it only slower
    regex_split *r = malloc(sizeof *r);
    if (!r) {
        pcre2_code_free(code);
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    }
    r->code = code;
    *out = r;
    return STATUS_OK;
}

void regex_split_destroy(regex_split *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    free(r);
}

bool regex_split_find(const regex_split *r, const char *text, size_t bytes, size_t from,
                      size_t *begin, size_t *end)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    bool found = false;
    while (data && !found && from < bytes) {
        if (pcre2_match(r->code, (PCRE2_SPTR)text, bytes, from, 0, data, NULL) < 0)
            break;
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(data);
        found = at[1] > at[0];
        *begin = at[0];
        *end = at[1];
        size_t length;
        utf8_next(text + from, bytes - from, &length);
        from += length;
    }
    pcre2_match_data_free(data);
    return found;
}
