// Reading tokenizer.json, vocab.json and merges.txt.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_internal.h"

// GPT-2's alphabet: printable characters of Latin-1 stand for their byte, the other bytes for the
// characters from 256 on, in order.
static bool stands_for_itself(int32_t c)
{
    return (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

static int byte_of_char(int32_t c)
{
    if (stands_for_itself(c))
        return (int)c;
    if (c < 256)
        return -1;
    int32_t next = 256;
    for (int32_t byte = 0; byte < 256; byte++)
        if (!stands_for_itself(byte) && next++ == c)
            return (int)byte;
    return -1;
}

size_t byte_level_decode(const char *text, char *bytes)
{
    const size_t length = strlen(text);
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        size_t step;
        const int byte = byte_of_char(utf8_next(text + i, length - i, &step));
        if (byte < 0)
            return SIZE_MAX;
        bytes[n++] = (char)byte;
        i += step;
    }
    return n;
}

static status read_json(const char *path, json_t **root)
{
    json_error_t error;
    *root = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!*root)
        return fail(STATUS_ERR_FORMAT, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    if (json_is_object(*root))
        return STATUS_OK;
    json_decref(*root);
    return fail(STATUS_ERR_FORMAT, "%s: is not a JSON map", path);
}

// ---- Vocabulary and merges ----

static bool is_added(const tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == id)
            return true;
    return false;
}

// Entries that are no byte strings are added tokens that stand in the vocabulary too.
static status load_vocab(tokenizer *t, const char *path, const json_t *vocab)
{
    const char *text;
    json_t *value;
    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return fail(STATUS_ERR_FORMAT, "%s: has no vocabulary", path);
    json_object_foreach((json_t *)(uintptr_t)vocab, text, value)
    {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id > INT32_MAX)
            return fail(STATUS_ERR_FORMAT, "%s: token \"%s\" has no id >= 0", path, text);
        char *bytes = malloc(strlen(text) + 1);
        if (!bytes)
            return fail(STATUS_ERR_MEMORY, "%s: out of memory", path);
        const size_t length = byte_level_decode(text, bytes);
        status result = STATUS_OK;
        if (length != SIZE_MAX && !is_added(t, (int32_t)id))
            result = bpe_add_token(t->bpe, bytes, length, (int32_t)id);
        free(bytes);
        if (result != STATUS_OK) {
            const char *reason = error_message();
            char copy[256];
            snprintf(copy, sizeof copy, "%s", reason);
            error_clear();
            return fail(result, "%s: token \"%s\": %s", path, text, copy);
        }
        if ((size_t)id + 1 > t->vocab_size)
            t->vocab_size = (size_t)id + 1;
    }
    return STATUS_OK;
}

static status add_merge(tokenizer *t, const char *path, size_t number, const char *left,
                        const char *right)
{
    char *bytes = malloc(strlen(left) + strlen(right) + 2);
    if (!bytes)
        return fail(STATUS_ERR_MEMORY, "%s: out of memory", path);
    const size_t left_length = byte_level_decode(left, bytes);
    char *rest = bytes + (left_length == SIZE_MAX ? 0 : left_length);
    const size_t right_length = byte_level_decode(right, rest);
    status result = STATUS_ERR_FORMAT;
    if (left_length != SIZE_MAX && right_length != SIZE_MAX)
        result = bpe_add_merge(t->bpe, bytes, left_length, rest, right_length);
    free(bytes);
    if (result != STATUS_ERR_FORMAT)
        return result;
    error_clear();
    return fail(result,
                "%s: merge %zu, \"%s\" with \"%s\": a part or the whole is not in the "
                "vocabulary",
                path, number, left, right);
}

// A merge as one text, "left right".
static status add_merge_text(tokenizer *t, const char *path, size_t number, const char *text)
{
    const char *blank = strchr(text, ' ');
    if (!blank || blank == text || !blank[1] || strchr(blank + 1, ' '))
        return fail(STATUS_ERR_FORMAT, "%s: merge %zu, \"%s\", is not two tokens with a blank",
                    path, number, text);
    char *left = strndup(text, (size_t)(blank - text));
    if (!left)
        return fail(STATUS_ERR_MEMORY, "%s: out of memory", path);
    const status result = add_merge(t, path, number, left, blank + 1);
    free(left);
    return result;
}

static status load_merges(tokenizer *t, const char *path, const json_t *merges)
{
    size_t i;
    json_t *merge;
    if (!json_is_array(merges))
        return fail(STATUS_ERR_FORMAT, "%s: has no merges", path);
    json_array_foreach((json_t *)(uintptr_t)merges, i, merge)
    {
        const char *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        if (json_is_string(merge))
            TRY(add_merge_text(t, path, i, json_string_value(merge)));
        else if (left && right && json_array_size(merge) == 2)
            TRY(add_merge(t, path, i, left, right));
        else
            return fail(STATUS_ERR_FORMAT, "%s: merge %zu is neither a text nor a pair", path, i);
    }
    return STATUS_OK;
}

// ---- Added tokens ----

status tokenizer_add_token(tokenizer *t, const added_token *token)
{
    added_token *added = realloc(t->added, (t->n_added + 1) * sizeof *added);
    if (!added)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    t->added = added;
    added_token *slot = &added[t->n_added];
    *slot = *token;
    slot->text = malloc(token->length + 1);
    if (!slot->text)
        return fail(STATUS_ERR_MEMORY, "tokenizer: out of memory");
    memcpy(slot->text, token->text, token->length);
    slot->text[token->length] = '\0';
    t->n_added++;
    if (token->length > 0)
        t->starts_added[token->normalized][(unsigned char)token->text[0]] = true;
    if ((size_t)token->id + 1 > t->vocab_size)
        t->vocab_size = (size_t)token->id + 1;
    return STATUS_OK;
}

static status load_added(tokenizer *t, const char *path, const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        const json_t *id = json_object_get(item, "id");
        const json_t *content = json_object_get(item, "content");
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= 1 << 24 || !json_is_string(content) ||
            json_string_length(content) == 0)
            return fail(STATUS_ERR_FORMAT, "%s: added token %zu has no id and content", path, i);
        const added_token token = {.text = (char *)(uintptr_t)json_string_value(content),
                                   .length = json_string_length(content),
                                   .id = (int32_t)json_integer_value(id),
                                   .special = json_is_true(json_object_get(item, "special")),
                                   .normalized = json_is_true(json_object_get(item, "normalized")),
                                   .lstrip = json_is_true(json_object_get(item, "lstrip")),
                                   .rstrip = json_is_true(json_object_get(item, "rstrip")),
                                   .single_word =
                                       json_is_true(json_object_get(item, "single_word"))};
        TRY(tokenizer_add_token(t, &token));
    }
    return STATUS_OK;
}

// ---- Normaliser, pre-tokeniser, post-processor ----

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "";
}

static status load_normalizer(tokenizer *t, const char *path, const json_t *part)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    size_t i;
    json_t *item;
    if (!part || json_is_null(part))
        return STATUS_OK;
    if (!strcmp(type_of(part), "Sequence")) {
        json_array_foreach(json_object_get(part, "normalizers"), i, item)
            TRY(load_normalizer(t, path, item));
        return STATUS_OK;
    }
    for (int form = 0; form < 4; form++) {
        if (strcmp(type_of(part), names[form]) != 0)
            continue;
        if (t->n_forms == TOKENIZER_STEPS_MAX)
            return fail(STATUS_ERR_UNSUPPORTED, "%s: more than %d normalizers", path,
                        TOKENIZER_STEPS_MAX);
        t->forms[t->n_forms++] = (normal_form)form;
        return STATUS_OK;
    }
    return fail(STATUS_ERR_UNSUPPORTED,
                "%s: normalizer \"%s\" is not supported; NFC, NFD, NFKC, NFKD and Sequence are",
                path, type_of(part));
}

static status add_step(tokenizer *t, const char *path, split_kind kind, regex_split *regex)
{
    if (t->n_steps == TOKENIZER_STEPS_MAX) {
        regex_split_destroy(regex);
        return fail(STATUS_ERR_UNSUPPORTED, "%s: more than %d pre-tokenizers", path,
                    TOKENIZER_STEPS_MAX);
    }
    t->steps[t->n_steps++] = (split_step){kind, regex};
    return STATUS_OK;
}

static status load_split(tokenizer *t, const char *path, const json_t *part)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *regex_text = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    if ((!regex_text && !literal) || json_is_true(json_object_get(part, "invert")) || !behavior ||
        strcmp(behavior, "Isolated") != 0)
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: pre-tokenizer Split with behavior \"%s\" is not supported; Isolated, not "
                    "inverted, is",
                    path, behavior ? behavior : "");
    regex_split *regex;
    TRY(regex_split_create(regex_text ? regex_text : literal, !regex_text, &regex));
    return add_step(t, path, SPLIT_REGEX, regex);
}

static status load_pretokenizer(tokenizer *t, const char *path, const json_t *part)
{
    size_t i;
    json_t *item;
    const char *type = type_of(part);
    if (!strcmp(type, "Sequence")) {
        json_array_foreach(json_object_get(part, "pretokenizers"), i, item)
            TRY(load_pretokenizer(t, path, item));
        return STATUS_OK;
    }
    if (!strcmp(type, "Split"))
        return load_split(t, path, part);
    if (!strcmp(type, "Digits"))
        return add_step(t, path,
                        json_is_true(json_object_get(part, "individual_digits")) ? SPLIT_DIGIT
                                                                                 : SPLIT_DIGITS,
                        NULL);
    if (strcmp(type, "ByteLevel") != 0)
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: pre-tokenizer \"%s\" is not supported; ByteLevel, Split, Digits and "
                    "Sequence are",
                    path, type);
    if (json_is_true(json_object_get(part, "add_prefix_space"))) {
        if (t->n_steps > 0)
            return fail(STATUS_ERR_UNSUPPORTED,
                        "%s: add_prefix_space after another pre-tokenizer is not supported", path);
        t->add_prefix_space = true;
    }
    const json_t *use_regex = json_object_get(part, "use_regex");
    return json_is_false(use_regex) ? STATUS_OK : add_step(t, path, SPLIT_GPT2, NULL);
}

// Whether a ByteLevel stands in the pre-tokeniser: without it the vocabulary is not of bytes.
static bool has_byte_level(const json_t *part)
{
    size_t i;
    json_t *item;
    if (!strcmp(type_of(part), "ByteLevel"))
        return true;
    json_array_foreach(json_object_get(part, "pretokenizers"), i,
                       item) if (has_byte_level(item)) return true;
    return false;
}

static status add_frame(tokenizer *t, const char *path, const json_t *special, bool is_before)
{
    const char *name = json_string_value(json_object_get(special, "id"));
    int *count = is_before ? &t->n_before : &t->n_after;
    for (size_t i = 0; name && i < t->n_added && *count < TOKENIZER_FRAME_MAX; i++) {
        if (strcmp(t->added[i].text, name) != 0)
            continue;
        (is_before ? t->before : t->after)[(*count)++] = t->added[i].id;
        return STATUS_OK;
    }
    return fail(STATUS_ERR_UNSUPPORTED,
                "%s: the post-processor adds \"%s\", which is no added token, or adds more than %d",
                path, name ? name : "", TOKENIZER_FRAME_MAX);
}

static status load_postprocessor(tokenizer *t, const char *path, const json_t *part)
{
    size_t i;
    json_t *item;
    bool is_before = true;
    if (!part || json_is_null(part) || !strcmp(type_of(part), "ByteLevel"))
        return STATUS_OK;
    if (!strcmp(type_of(part), "Sequence")) {
        json_array_foreach(json_object_get(part, "processors"), i, item)
            TRY(load_postprocessor(t, path, item));
        return STATUS_OK;
    }
    if (strcmp(type_of(part), "TemplateProcessing") != 0)
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: post-processor \"%s\" is not supported; ByteLevel, TemplateProcessing and "
                    "Sequence are",
                    path, type_of(part));
    json_array_foreach(json_object_get(part, "single"), i, item)
    {
        const json_t *special = json_object_get(item, "SpecialToken");
        if (special)
            TRY(add_frame(t, path, special, is_before));
        else
            is_before = false;
    }
    return STATUS_OK;
}

static bool is_empty(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

static status check_model(const char *path, const json_t *model)
{
    static const char *const unused[] = {"dropout", "continuing_subword_prefix",
                                         "end_of_word_suffix", "byte_fallback"};
    const json_t *type = json_object_get(model, "type");
    if (type && strcmp(type_of(model), "BPE") != 0)
        return fail(STATUS_ERR_UNSUPPORTED, "%s: model \"%s\" is not supported; BPE is", path,
                    type_of(model));
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++)
        if (!is_empty(json_object_get(model, unused[i])))
            return fail(STATUS_ERR_UNSUPPORTED,
                        "%s: model with \"%s\" is not supported; byte-level BPE without it is",
                        path, unused[i]);
    return STATUS_OK;
}

static status load_parts(tokenizer *t, const char *path, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *pretokenizer = json_object_get(root, "pre_tokenizer");
    TRY(check_model(path, model));
    if (!has_byte_level(pretokenizer))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: pre-tokenizer \"%s\" is not byte level; byte-level BPE is supported", path,
                    type_of(pretokenizer));
    if (!is_empty(json_object_get(root, "truncation")) ||
        !is_empty(json_object_get(root, "padding")))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: truncation and padding are not supported; set them to null", path);
    TRY(load_added(t, path, json_object_get(root, "added_tokens")));
    TRY(load_vocab(t, path, json_object_get(model, "vocab")));
    TRY(load_merges(t, path, json_object_get(model, "merges")));
    bpe_set_ignore_merges(t->bpe, json_is_true(json_object_get(model, "ignore_merges")));
    TRY(load_normalizer(t, path, json_object_get(root, "normalizer")));
    TRY(load_pretokenizer(t, path, pretokenizer));
    return load_postprocessor(t, path, json_object_get(root, "post_processor"));
}

status tokenizer_load_hf(tokenizer *t, const char *path)
{
    json_t *root;
    TRY(read_json(path, &root));
    const status result = load_parts(t, path, root);
    json_decref(root);
    return result;
}

static status load_merge_lines(tokenizer *t, const char *path, FILE *file)
{
    char *line = NULL;
    size_t capacity = 0, number = 0;
    ssize_t length;
    status result = STATUS_OK;
    while (result == STATUS_OK && (length = getline(&line, &capacity, file)) >= 0) {
        number++;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = '\0';
        const bool is_header = number == 1 && !strncmp(line, "#version", 8);
        if (length > 0 && !is_header)
            result = add_merge_text(t, path, number, line);
    }
    free(line);
    return result;
}

status tokenizer_load_gpt2(tokenizer *t, const char *vocab_path, const char *merges_path)
{
    const char eod[] = "<|endoftext|>";
    json_t *root;
    if (!merges_path)
        return fail(STATUS_ERR_CONFIG, "GPT2BPETokenizer needs merges.txt beside %s: merge-file",
                    vocab_path);
    TRY(read_json(vocab_path, &root));
    const json_t *id = json_object_get(root, eod);
    status result = STATUS_OK;
    if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < 1 << 24) {
        const added_token token = {.text = (char *)(uintptr_t)eod,
                                   .length = sizeof eod - 1,
                                   .id = (int32_t)json_integer_value(id),
                                   .special = true};
        result = tokenizer_add_token(t, &token);
    }
    if (result == STATUS_OK)
        result = load_vocab(t, vocab_path, root);
    json_decref(root);
    TRY(result);
    FILE *file = fopen(merges_path, "r");
    if (!file)
        return fail_errno(STATUS_ERR_CONFIG, "%s: cannot be opened", merges_path);
    result = load_merge_lines(t, merges_path, file);
    fclose(file);
    return result == STATUS_OK ? add_step(t, merges_path, SPLIT_GPT2, NULL) : result;
}
