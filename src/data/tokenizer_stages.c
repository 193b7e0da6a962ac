// tokenizer.json: the normalizer and the pre-tokenizer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_file.h"

static status copy_text(const char *text, size_t bytes, char **out)
{
    *out = malloc(bytes + 1);
    if (!*out)
        return fail(STATUS_ERR_MEMORY, "no memory for %zu bytes", bytes);
    memcpy(*out, text, bytes);
    (*out)[bytes] = '\0';
    return STATUS_OK;
}

// {"String": "..."} or {"Regex": "..."}
static status read_pattern(const token_file *f, const char *where, const json_t *object,
                           text_pattern *out)
{
    const json_t *value = json_object_get(object, "pattern");
    const json_t *literal = json_object_get(value, "String");
    const json_t *expression = json_object_get(value, "Regex");
    char place[512];
    if (json_object_size(value) != 1 || !(json_is_string(literal) || json_is_string(expression)))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: %s: the pattern is not supported; supported: {\"String\": ...} and "
                    "{\"Regex\": ...}",
                    f->path, where);
    snprintf(place, sizeof place, "%s: %s", f->path, where);
    if (expression)
        return regex_create(json_string_value(expression), json_string_length(expression), place,
                            &out->expression);
    out->literal_bytes = json_string_length(literal);
    if (out->literal_bytes == 0)
        return fail(STATUS_ERR_FORMAT, "%s: the pattern is empty; a text would be right", place);
    return copy_text(json_string_value(literal), out->literal_bytes, &out->literal);
}

static bool named(const char *name, const char *const *names, size_t count, int *index)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name, names[i])) {
            *index = (int)i;
            return true;
        }
    return false;
}

static status too_many_steps(const token_file *f, const char *where)
{
    return fail(STATUS_ERR_UNSUPPORTED, "%s: %s: more than %d steps", f->path, where, STAGES_MAX);
}

static status read_content(const token_file *f, const json_t *value, const char *key,
                           normal_step *step)
{
    const char *text;
    TRY(token_file_string(f, "normalizer", value, key, &text, &step->content_bytes));
    return copy_text(text, step->content_bytes, &step->content);
}

static status read_normal_step(const token_file *f, const json_t *value, normal_kind kind)
{
    static const char *const keys[] = {"type",         "type",
                                       "type",         "type",
                                       "type",         "type strip_left strip_right",
                                       "type prepend", "type pattern content"};
    if (f->t->normal_count == STAGES_MAX)
        return too_many_steps(f, "normalizer");
    normal_step *step = &f->t->normal[f->t->normal_count++];
    step->kind = kind;
    TRY(token_file_check_keys(f, "normalizer", value, keys[kind]));
    if (kind == NORMAL_STRIP) {
        TRY(token_file_bool(f, "normalizer", value, "strip_left", true, &step->strip_left));
        TRY(token_file_bool(f, "normalizer", value, "strip_right", true, &step->strip_right));
    }
    if (kind == NORMAL_PREPEND)
        TRY(read_content(f, value, "prepend", step));
    if (kind == NORMAL_REPLACE) {
        TRY(read_pattern(f, "normalizer", value, &step->pattern));
        TRY(read_content(f, value, "content", step));
    }
    return STATUS_OK;
}

// Either part may be a sequence of its kind.
static status read_sequence(const token_file *f, const char *where, const json_t *value,
                            const char *key, int depth,
                            status (*read)(const token_file *, const json_t *, int))
{
    const json_t *list = json_object_get(value, key);
    char keys[64];
    snprintf(keys, sizeof keys, "type %s", key);
    TRY(token_file_check_keys(f, where, value, keys));
    if (!json_is_array(list))
        return fail(STATUS_ERR_FORMAT, "%s: %s: \"%s\" is not a list", f->path, where, key);
    if (depth == STAGES_MAX)
        return too_many_steps(f, where);
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read(f, json_array_get(list, i), depth + 1));
    return STATUS_OK;
}

static status read_normalizer(const token_file *f, const json_t *value, int depth)
{
    static const char *const names[] = {"NFC",       "NFD",   "NFKC",    "NFKD",
                                        "Lowercase", "Strip", "Prepend", "Replace"};
    const char *kind;
    int index;
    TRY(token_file_kind(f, "normalizer", value, &kind));
    if (!strcmp(kind, "Sequence"))
        return read_sequence(f, "normalizer", value, "normalizers", depth, read_normalizer);
    if (!named(kind, names, sizeof names / sizeof *names, &index))
        return fail(
            STATUS_ERR_UNSUPPORTED,
            "%s: normalizer: kind \"%s\" is not supported; supported: NFC, NFD, NFKC, NFKD, "
            "Lowercase, Strip, Prepend, Replace, Sequence",
            f->path, kind);
    return read_normal_step(f, value, (normal_kind)index);
}

status token_file_normalizer(const token_file *f, const json_t *value)
{
    return !value || json_is_null(value) ? STATUS_OK : read_normalizer(f, value, 0);
}

static status add_stage(const token_file *f, split_kind kind, split_stage **stage)
{
    if (f->t->stage_count == STAGES_MAX)
        return too_many_steps(f, "pre_tokenizer");
    *stage = &f->t->stages[f->t->stage_count++];
    (*stage)->kind = kind;
    return STATUS_OK;
}

static status read_byte_level(const token_file *f, const json_t *value)
{
    bool prefix, words;
    split_stage *stage = NULL;
    TRY(token_file_check_keys(f, "pre_tokenizer", value,
                              "type add_prefix_space trim_offsets use_regex"));
    TRY(token_file_bool(f, "pre_tokenizer", value, "add_prefix_space", true, &prefix));
    TRY(token_file_bool(f, "pre_tokenizer", value, "use_regex", true, &words));
    if (prefix)
        TRY(add_stage(f, SPLIT_PREFIX_SPACE, &stage));
    return words ? add_stage(f, SPLIT_GPT2, &stage) : STATUS_OK;
}

static status read_split(const token_file *f, const json_t *value)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *behavior;
    size_t bytes;
    int index;
    split_stage *stage = NULL;
    TRY(token_file_check_keys(f, "pre_tokenizer", value, "type pattern behavior invert"));
    TRY(add_stage(f, SPLIT_PATTERN, &stage));
    TRY(token_file_bool(f, "pre_tokenizer", value, "invert", false, &stage->invert));
    TRY(token_file_string(f, "pre_tokenizer", value, "behavior", &behavior, &bytes));
    if (!named(behavior, names, sizeof names / sizeof *names, &index))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: pre_tokenizer: behavior \"%s\" is not supported; supported: Removed, "
                    "Isolated, MergedWithPrevious, MergedWithNext, Contiguous",
                    f->path, behavior);
    stage->behavior = (split_behavior)index;
    return read_pattern(f, "pre_tokenizer", value, &stage->pattern);
}

static status read_digits(const token_file *f, const json_t *value)
{
    bool each;
    split_stage *stage = NULL;
    TRY(token_file_check_keys(f, "pre_tokenizer", value, "type individual_digits"));
    TRY(token_file_bool(f, "pre_tokenizer", value, "individual_digits", false, &each));
    return add_stage(f, each ? SPLIT_EACH_DIGIT : SPLIT_DIGITS, &stage);
}

static status read_pre_tokenizer(const token_file *f, const json_t *value, int depth)
{
    const char *kind;
    TRY(token_file_kind(f, "pre_tokenizer", value, &kind));
    if (f->t->byte_level)
        return fail(
            STATUS_ERR_UNSUPPORTED,
            "%s: pre_tokenizer: \"%s\" comes after ByteLevel; ByteLevel last would be right",
            f->path, kind);
    if (!strcmp(kind, "Sequence"))
        return read_sequence(f, "pre_tokenizer", value, "pretokenizers", depth, read_pre_tokenizer);
    if (!strcmp(kind, "Split"))
        return read_split(f, value);
    if (!strcmp(kind, "Digits"))
        return read_digits(f, value);
    if (strcmp(kind, "ByteLevel"))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: pre_tokenizer: kind \"%s\" is not supported; supported: ByteLevel, Split, "
                    "Digits, Sequence",
                    f->path, kind);
    f->t->byte_level = true;
    return read_byte_level(f, value);
}

status token_file_pre_tokenizer(const token_file *f, const json_t *value)
{
    if (value && !json_is_null(value))
        TRY(read_pre_tokenizer(f, value, 0));
    if (!f->t->byte_level)
        return fail(
            STATUS_ERR_UNSUPPORTED,
            "%s: pre_tokenizer: there is no ByteLevel; only byte-level models are supported",
            f->path);
    return STATUS_OK;
}
