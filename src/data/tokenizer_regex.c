#include "data/tokenizer_regex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/memory.h"

struct regex {
    pcre2_code *code;
};

struct regex_worker {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

enum { STACK_FIRST = 32 << 10, STACK_MAX = 16 << 20 };

// The members of \s, \w and \h as they stand in a class.
#define SPACE "\\t-\\r \\x{85}\\p{Z}"
#define WORD                                                                    \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}" \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define HEX "0-9A-Fa-f"

typedef struct translation {
    const char *pattern;
    size_t bytes;
    size_t at;
    const char *where;
    byte_buffer out;
} translation;

static status refuse(const translation *t, const char *what)
{
    return fail(STATUS_ERR_UNSUPPORTED,
                "%s: the expression has %s at byte %zu, which is not "
                "supported; supported: what Perl and Ruby write alike",
                t->where, what, t->at);
}

static status put(translation *t, const char *text)
{
    return byte_buffer_append(&t->out, text, strlen(text));
}

static status put_set(translation *t, const char *members, bool negative, bool in_class)
{
    if (in_class && negative)
        return refuse(t, "a negated set in a class");
    if (!in_class)
        TRY(put(t, negative ? "[^" : "["));
    TRY(put(t, members));
    return in_class ? STATUS_OK : put(t, "]");
}

// \p{L}, \x{..}, or the same without braces.
static status put_braced(translation *t)
{
    const char *start = t->pattern + t->at;
    size_t length = 2;
    if (t->at + 2 < t->bytes && start[2] == '{') {
        const char *end = memchr(start, '}', t->bytes - t->at);
        if (!end)
            return refuse(t, "a brace without its end");
        length = (size_t)(end - start) + 1;
    }
    t->at += length;
    return byte_buffer_append(&t->out, start, length);
}

// One escape, at the backslash.
static status put_escape(translation *t, bool in_class)
{
    if (t->at + 1 >= t->bytes)
        return refuse(t, "a backslash at its end");
    const char c = t->pattern[t->at + 1];
    const char copy[] = {'\\', c, '\0'};
    switch (c) {
    case 's':
    case 'S':
        TRY(put_set(t, SPACE, c == 'S', in_class));
        break;
    case 'w':
    case 'W':
        TRY(put_set(t, WORD, c == 'W', in_class));
        break;
    case 'h':
    case 'H':
        TRY(put_set(t, HEX, c == 'H', in_class));
        break;
    case 'v':
        TRY(put(t, "\\x{0b}"));
        break;
    case 'p':
    case 'P':
    case 'x':
        return put_braced(t);
    case 'a':
    case 'd':
    case 'D':
    case 'e':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        TRY(put(t, copy));
        break;
    default:
        if (isalnum((unsigned char)c) || c == '\0')
            return refuse(t, "an escape of a letter or digit");
        TRY(byte_buffer_append(&t->out, copy, 2));
    }
    t->at += 2;
    return STATUS_OK;
}

static status put_class(translation *t)
{
    size_t first = t->at + 1;
    if (first < t->bytes && t->pattern[first] == '^')
        first++;
    TRY(byte_buffer_append(&t->out, t->pattern + t->at, first - t->at));
    t->at = first;
    while (t->at < t->bytes && (t->pattern[t->at] != ']' || t->at == first)) {
        const char c = t->pattern[t->at];
        if (c == '[')
            return refuse(t, "a class in a class");
        if (c == '&' && t->at + 1 < t->bytes && t->pattern[t->at + 1] == '&')
            return refuse(t, "an intersection of classes");
        if (c == '\\') {
            TRY(put_escape(t, true));
            continue;
        }
        TRY(byte_buffer_append(&t->out, &c, 1));
        t->at++;
    }
    if (t->at == t->bytes)
        return refuse(t, "a class without its end");
    t->at++;
    return put(t, "]");
}

// A group: plain, (?: (?= (?! (?<= (?<! (?> or the option i.
static status check_group(const translation *t)
{
    static const char *const known[] = {"(?:", "(?=",  "(?!",  "(?<=",  "(?<!",
                                        "(?>", "(?i)", "(?i:", "(?-i)", "(?-i:"};
    const size_t left = t->bytes - t->at;
    if (left >= 2 && t->pattern[t->at + 1] == '*')
        return refuse(t, "a verb");
    if (left < 2 || t->pattern[t->at + 1] != '?')
        return STATUS_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) <= left && !memcmp(t->pattern + t->at, known[i], strlen(known[i])))
            return STATUS_OK;
    return refuse(t, "a group of another kind");
}

static status translate(translation *t)
{
    while (t->at < t->bytes) {
        const char c = t->pattern[t->at];
        if (c == '\\') {
            TRY(put_escape(t, false));
            continue;
        }
        if (c == '[') {
            TRY(put_class(t));
            continue;
        }
        if (c == '(')
            TRY(check_group(t));
        TRY(byte_buffer_append(&t->out, &c, 1));
        t->at++;
        // Braces of escapes never come here.
        if (c == '}' && t->at < t->bytes && t->pattern[t->at] == '+')
            return refuse(t, "a + after {n,m}");
    }
    return STATUS_OK;
}

static status compile(const translation *t, regex *r)
{
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return fail(STATUS_ERR_MEMORY, "no memory for an expression");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 100);
    r->code = pcre2_compile(t->out.data, t->out.count,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, context);
    pcre2_compile_context_free(context);
    if (!r->code) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(code, text, sizeof text);
        return fail(STATUS_ERR_UNSUPPORTED, "%s: the expression does not compile: %s", t->where,
                    (const char *)text);
    }
    // Without a just-in-time compiler for this machine matching is only slower.
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    return STATUS_OK;
}

status regex_create(const char *pattern, size_t bytes, const char *where, regex **out)
{
    void *memory;
    translation t = {.pattern = pattern, .bytes = bytes, .where = where};
    TRY(memory_alloc(1, sizeof(regex), "an expression", &memory));
    status result = translate(&t);
    if (result == STATUS_OK)
        result = compile(&t, memory);
    free(t.out.data);
    if (result == STATUS_OK)
        *out = memory;
    else
        memory_free(memory);
    return result;
}

void regex_destroy(regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    memory_free(r);
}

status regex_worker_create(regex_worker **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(regex_worker), "an expression", &memory));
    regex_worker *w = memory;
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MAX, NULL);
    if (!w->match || !w->context || !w->stack) {
        regex_worker_destroy(w);
        return fail(STATUS_ERR_MEMORY, "no memory for an expression");
    }
    pcre2_jit_stack_assign(w->context, NULL, w->stack);
    *out = w;
    return STATUS_OK;
}

void regex_worker_destroy(regex_worker *w)
{
    if (!w)
        return;
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    memory_free(w);
}

status regex_find(const regex *r, regex_worker *w, const uint8_t *text, size_t bytes, size_t at,
                  size_t *start, size_t *end)
{
    int code = pcre2_match(r->code, text, bytes, at, PCRE2_NO_UTF_CHECK, w->match, w->context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(r->code, text, bytes, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match,
                           w->context);
    *start = SIZE_MAX;
    *end = SIZE_MAX;
    if (code == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (code < 0) {
        PCRE2_UCHAR message[128];
        pcre2_get_error_message(code, message, sizeof message);
        return fail(STATUS_ERR_UNSUPPORTED,
                    "the tokenizer's expression fails at byte %zu of a piece of %zu: %s", at, bytes,
                    (const char *)message);
    }
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(w->match);
    *start = found[0];
    *end = found[1];
    return STATUS_OK;
}
