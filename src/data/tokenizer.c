// A tokenizer as a whole: added tokens, normalisation, words, ids.
#include "data/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "base/sizes.h"
#include "data/tokenizer_internal.h"

enum {
    CHAR_LEVEL_VOCAB = 512,
    CHAR_LEVEL_EOD = 0,
};

static const char *const kind_names[] = {[TOKENIZER_GPT2_BPE] = "GPT2BPETokenizer",
                                         [TOKENIZER_HF] = "HFTokenizer",
                                         [TOKENIZER_CHAR_LEVEL] = "CharLevelTokenizer"};

status tokenizer_kind_parse(const char *name, tokenizer_kind *kind)
{
    for (int k = 0; k < 3; k++) {
        if (!strcasecmp(name, kind_names[k])) {
            *kind = (tokenizer_kind)k;
            return STATUS_OK;
        }
    }
    return fail(STATUS_ERR_CONFIG,
                "tokenizer \"%s\" is not supported; GPT2BPETokenizer, HFTokenizer and "
                "CharLevelTokenizer are",
                name);
}

// ---- Lists of ids ----

status token_list_push(token_list *list, int32_t id)
{
    if (list->count == list->capacity) {
        const size_t capacity = size_max(256, 2 * list->capacity);
        int32_t *ids = realloc(list->ids, capacity * sizeof *ids);
        if (!ids)
            return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for %zu ids", capacity);
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return STATUS_OK;
}

void token_list_fini(token_list *list)
{
    free(list->ids);
    *list = (token_list){0};
}

// ---- Opening ----

static int32_t find_eod(const tokenizer *t)
{
    const char eod[] = "<|endoftext|>";
    for (size_t i = 0; i < t->n_added; i++)
        if (!strcmp(t->added[i].text, eod))
            return t->added[i].id;
    return bpe_find(t->bpe, eod, sizeof eod - 1);
}

static status load(tokenizer *t, const tokenizer_options *o)
{
    t->kind = o->kind;
    if (o->kind == TOKENIZER_CHAR_LEVEL) {
        t->vocab_size = CHAR_LEVEL_VOCAB;
        t->eod = CHAR_LEVEL_EOD;
        return STATUS_OK;
    }
    if (!o->vocab_file)
        return fail(STATUS_ERR_CONFIG, "%s needs its vocabulary: vocab-file", kind_names[o->kind]);
    TRY(bpe_create(&t->bpe));
    TRY(o->kind == TOKENIZER_HF ? tokenizer_load_hf(t, o->vocab_file)
                                : tokenizer_load_gpt2(t, o->vocab_file, o->merges_file));
    t->eod = find_eod(t);
    return STATUS_OK;
}

status tokenizer_open(const tokenizer_options *options, tokenizer **out)
{
    tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    const status result = load(t, options);
    if (result == STATUS_OK)
        *out = t;
    else
        tokenizer_close(t);
    return result;
}

void tokenizer_close(tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_added; i++)
        free(t->added[i].text);
    for (int i = 0; i < t->n_steps; i++)
        regex_split_destroy(t->steps[i].regex);
    free(t->added);
    bpe_destroy(t->bpe);
    free(t);
}

size_t tokenizer_vocab_size(const tokenizer *t)
{
    return t->vocab_size;
}

int32_t tokenizer_eod(const tokenizer *t)
{
    return t->eod;
}

// ---- Encoding ----

struct tokenizer_encoder {
    const tokenizer *t;
    bpe_cache *cache;
    bool parse_special;
    token_list *out;
};

status tokenizer_encoder_create(const tokenizer *t, tokenizer_encoder **out)
{
    tokenizer_encoder *e = calloc(1, sizeof *e);
    if (!e)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    e->t = t;
    const status result = bpe_cache_create(&e->cache);
    if (result == STATUS_OK)
        *out = e;
    else
        free(e);
    return result;
}

void tokenizer_encoder_destroy(tokenizer_encoder *e)
{
    if (!e)
        return;
    bpe_cache_destroy(e->cache);
    free(e);
}

static status encode_steps(tokenizer_encoder *e, int step, const char *text, size_t bytes);

static status split_gpt2(tokenizer_encoder *e, int step, const char *text, size_t bytes)
{
    const bool last = step + 1 == e->t->n_steps;
    for (size_t i = 0; i < bytes;) {
        const size_t n = pretokenize_gpt2(text + i, bytes - i);
        TRY(last ? bpe_encode(e->t->bpe, e->cache, text + i, n, e->out)
                 : encode_steps(e, step + 1, text + i, n));
        i += n;
    }
    return STATUS_OK;
}

static status split_regex(tokenizer_encoder *e, int step, const char *text, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        size_t begin = bytes, end = bytes;
        if (!regex_split_find(e->t->steps[step].regex, text, bytes, done, &begin, &end))
            begin = end = bytes;
        if (begin > done)
            TRY(encode_steps(e, step + 1, text + done, begin - done));
        if (end > begin)
            TRY(encode_steps(e, step + 1, text + begin, end - begin));
        done = end;
    }
    return STATUS_OK;
}

static bool is_number_at(const char *text, size_t bytes, size_t *length)
{
    const int32_t c = utf8_next(text, bytes, length);
    const utf8proc_category_t k = c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

static status split_digits(tokenizer_encoder *e, int step, const char *text, size_t bytes)
{
    const bool each = e->t->steps[step].kind == SPLIT_DIGIT;
    for (size_t begin = 0; begin < bytes;) {
        size_t length;
        const bool number = is_number_at(text + begin, bytes - begin, &length);
        size_t end = begin + length;
        while (end < bytes && !(each && number) &&
               is_number_at(text + end, bytes - end, &length) == number)
            end += length;
        TRY(encode_steps(e, step + 1, text + begin, end - begin));
        begin = end;
    }
    return STATUS_OK;
}

static status encode_steps(tokenizer_encoder *e, int step, const char *text, size_t bytes)
{
    if (step == e->t->n_steps)
        return bpe_encode(e->t->bpe, e->cache, text, bytes, e->out);
    switch (e->t->steps[step].kind) {
    case SPLIT_GPT2:
        return split_gpt2(e, step, text, bytes);
    case SPLIT_REGEX:
        return split_regex(e, step, text, bytes);
    case SPLIT_DIGITS:
    case SPLIT_DIGIT:
        return split_digits(e, step, text, bytes);
    }
    return STATUS_OK;
}

// Text without added tokens.
static status encode_plain(tokenizer_encoder *e, const char *text, size_t bytes)
{
    if (bytes == 0)
        return STATUS_OK;
    if (!e->t->add_prefix_space || text[0] == ' ')
        return encode_steps(e, 0, text, bytes);
    char *prefixed = malloc(bytes + 1);
    if (!prefixed)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for %zu bytes", bytes + 1);
    prefixed[0] = ' ';
    memcpy(prefixed + 1, text, bytes);
    const status result = encode_steps(e, 0, prefixed, bytes + 1);
    free(prefixed);
    return result;
}

static bool is_word_before(const char *text, size_t at)
{
    size_t begin = at, length;
    if (at == 0)
        return false;
    do {
        begin--;
    } while (begin > 0 && ((unsigned char)text[begin] & 0xc0) == 0x80);
    return unicode_is_word(utf8_next(text + begin, at - begin, &length));
}

static bool fits_at(const added_token *a, const char *text, size_t bytes, size_t at)
{
    size_t length;
    if (a->length > bytes - at || memcmp(text + at, a->text, a->length) != 0)
        return false;
    if (!a->single_word)
        return true;
    const size_t end = at + a->length;
    const bool word_after =
        end < bytes && unicode_is_word(utf8_next(text + end, bytes - end, &length));
    return !word_after && !is_word_before(text, at);
}

// The longest added token that begins at `at`, or NULL.
static const added_token *added_at(const tokenizer_encoder *e, bool normalized, const char *text,
                                   size_t bytes, size_t at)
{
    const added_token *best = NULL;
    for (size_t i = 0; i < e->t->n_added; i++) {
        const added_token *a = &e->t->added[i];
        const bool wanted = a->normalized == normalized && (!a->special || e->parse_special);
        if (wanted && (!best || a->length > best->length) && fits_at(a, text, bytes, at))
            best = a;
    }
    return best;
}

static size_t spaces_before(const char *text, size_t from, size_t at)
{
    while (at > from) {
        size_t begin = at, length;
        do {
            begin--;
        } while (begin > from && ((unsigned char)text[begin] & 0xc0) == 0x80);
        if (!unicode_is_space(utf8_next(text + begin, at - begin, &length)))
            break;
        at = begin;
    }
    return at;
}

static size_t spaces_after(const char *text, size_t bytes, size_t at)
{
    while (at < bytes) {
        size_t length;
        if (!unicode_is_space(utf8_next(text + at, bytes - at, &length)))
            break;
        at += length;
    }
    return at;
}

typedef status (*rest_encoder)(tokenizer_encoder *e, const char *text, size_t bytes);

// Cut the added tokens out of the text, and give what lies between them to `rest`.
static status cut_added(tokenizer_encoder *e, bool normalized, const char *text, size_t bytes,
                        rest_encoder rest)
{
    const bool *starts = e->t->starts_added[normalized];
    size_t done = 0;
    for (size_t i = 0; i < bytes;) {
        const added_token *a =
            starts[(unsigned char)text[i]] ? added_at(e, normalized, text, bytes, i) : NULL;
        if (!a) {
            i++;
            continue;
        }
        const size_t begin = a->lstrip ? spaces_before(text, done, i) : i;
        const size_t end = i + a->length;
        TRY(rest(e, text + done, begin - done));
        TRY(token_list_push(e->out, a->id));
        done = a->rstrip ? spaces_after(text, bytes, end) : end;
        i = done;
    }
    return rest(e, text + done, bytes - done);
}

static status encode_normalized(tokenizer_encoder *e, const char *text, size_t bytes)
{
    return cut_added(e, true, text, bytes, encode_plain);
}

static bool is_ascii(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

static utf8proc_option_t options_of(normal_form form)
{
    switch (form) {
    case NORMAL_NFC:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NORMAL_NFD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NORMAL_NFKC:
        return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NORMAL_NFKD:
        return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    }
    return UTF8PROC_STABLE;
}

// The normal forms leave ASCII alone. What is not UTF-8 has no normal form and stays as it is.
static status encode_raw(tokenizer_encoder *e, const char *text, size_t bytes)
{
    char *current = NULL;
    size_t length = bytes;
    if (bytes == 0)
        return STATUS_OK;
    const int forms = is_ascii(text, bytes) ? 0 : e->t->n_forms;
    for (int i = 0; i < forms; i++) {
        utf8proc_uint8_t *normal;
        const utf8proc_ssize_t n =
            utf8proc_map((const utf8proc_uint8_t *)(current ? current : text),
                         (utf8proc_ssize_t)length, &normal, options_of(e->t->forms[i]));
        if (n == UTF8PROC_ERROR_NOMEM) {
            free(current);
            return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for %zu bytes", length);
        }
        if (n < 0)
            break;
        free(current);
        current = (char *)normal;
        length = (size_t)n;
    }
    const status result = encode_normalized(e, current ? current : text, length);
    free(current);
    return result;
}

static status encode_bytes(const char *text, size_t bytes, token_list *out)
{
    for (size_t i = 0; i < bytes; i++)
        TRY(token_list_push(out, (unsigned char)text[i]));
    return STATUS_OK;
}

status tokenizer_encode(tokenizer_encoder *e, const char *text, size_t bytes, bool parse_special,
                        token_list *out)
{
    const tokenizer *t = e->t;
    if (t->kind == TOKENIZER_CHAR_LEVEL)
        return encode_bytes(text, bytes, out);
    e->parse_special = parse_special;
    e->out = out;
    for (int i = 0; i < t->n_before; i++)
        TRY(token_list_push(out, t->before[i]));
    TRY(cut_added(e, false, text, bytes, encode_raw));
    for (int i = 0; i < t->n_after; i++)
        TRY(token_list_push(out, t->after[i]));
    return STATUS_OK;
}

// ---- Decoding ----

static const char *bytes_of(const tokenizer *t, int32_t id, char *single, size_t *length)
{
    *length = 0;
    if (t->kind == TOKENIZER_CHAR_LEVEL) {
        *single = (char)id;
        *length = id >= 0 && id < 256 ? 1 : 0;
        return single;
    }
    for (size_t i = 0; i < t->n_added; i++) {
        if (t->added[i].id == id) {
            *length = t->added[i].length;
            return t->added[i].text;
        }
    }
    const char *bytes = bpe_bytes(t->bpe, id, length);
    return bytes ? bytes : single;
}

status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, char **text,
                        size_t *bytes)
{
    char single;
    size_t total = 0, length;
    for (size_t i = 0; i < count; i++) {
        bytes_of(t, ids[i], &single, &length);
        total += length;
    }
    char *result = malloc(total + 1);
    if (!result)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory for %zu bytes", total + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *from = bytes_of(t, ids[i], &single, &length);
        memcpy(result + used, from, length);
        used += length;
    }
    result[used] = '\0';
    *text = result;
    *bytes = used;
    return STATUS_OK;
}
