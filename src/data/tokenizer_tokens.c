// tokenizer.json: the added tokens and what the post-processor adds.
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_file.h"

// An added token that the model does not have follows all others.
static int32_t expected_id(const tokenizer *t, const char *content, size_t bytes)
{
    const int32_t id = tokenizer_find_token(t, content, bytes);
    if (id >= 0)
        return id;
    int32_t next = (int32_t)t->model.vocab.count;
    for (size_t i = 0; i < t->added.count; i++)
        if (t->added.tokens[i].id >= next)
            next = t->added.tokens[i].id + 1;
    return next;
}

static status read_token(const token_file *f, const json_t *value)
{
    static const char where[] = "added_tokens";
    added_token token = {0};
    const char *content;
    size_t bytes;
    TRY(token_file_check_keys(f, where, value,
                              "id content single_word lstrip rstrip normalized special"));
    TRY(token_file_string(f, where, value, "content", &content, &bytes));
    TRY(token_file_bool(f, where, value, "special", false, &token.special));
    TRY(token_file_bool(f, where, value, "single_word", false, &token.single_word));
    TRY(token_file_bool(f, where, value, "lstrip", false, &token.lstrip));
    TRY(token_file_bool(f, where, value, "rstrip", false, &token.rstrip));
    TRY(token_file_bool(f, where, value, "normalized", !token.special, &token.normalized));
    if (bytes == 0)
        return fail(STATUS_ERR_FORMAT, "%s: %s: token %zu is empty", f->path, where,
                    f->t->added.count);
    if (token_map_find(&f->t->added.names, content, bytes) >= 0)
        return fail(STATUS_ERR_FORMAT, "%s: %s: \"%s\" stands twice", f->path, where, content);
    token.id = expected_id(f->t, content, bytes);
    const json_t *id = json_object_get(value, "id");
    if (!json_is_integer(id) || json_integer_value(id) != token.id)
        return fail(STATUS_ERR_FORMAT, "%s: %s: the id of \"%s\" is not %d, as its place says",
                    f->path, where, content, token.id);
    return added_tokens_add(&f->t->added, content, bytes, &token);
}

static status insert_token(tokenizer *t, text_worker *w, size_t index)
{
    const token_entry *name = &t->added.names.entries[index];
    const uint8_t *text = (const uint8_t *)name->text;
    size_t bytes = name->bytes;
    if (!t->added.tokens[index].normalized)
        return added_trie_insert(&t->added.raw, text, bytes, index);
    TRY(text_normalize(t, w, text, bytes, &text, &bytes));
    if (bytes == 0)
        return fail(STATUS_ERR_UNSUPPORTED, "the added token \"%s\" normalizes to nothing",
                    name->text);
    return added_trie_insert(&t->added.normalized, text, bytes, index);
}

// Special tokens come first: of tokens with equal texts, the first is found.
static status insert_tokens(tokenizer *t)
{
    text_worker w = {0};
    status result = STATUS_OK;
    TRY_OUT(result, regex_worker_create(&w.regex));
    for (int special = 1; special >= 0; special--)
        for (size_t i = 0; i < t->added.count; i++)
            if (t->added.tokens[i].special == (special == 1))
                TRY_OUT(result, insert_token(t, &w, i));
out:
    regex_worker_destroy(w.regex);
    free(w.normal[0].data);
    free(w.normal[1].data);
    return result;
}

status token_file_added(const token_file *f, const json_t *value)
{
    if (value && !json_is_null(value) && !json_is_array(value))
        return fail(STATUS_ERR_FORMAT, "%s: \"added_tokens\" is not a list", f->path);
    for (size_t i = 0; i < json_array_size(value); i++)
        TRY(read_token(f, json_array_get(value, i)));
    return insert_tokens(f->t);
}

// {"SpecialToken": {"id": NAME}}: the ids that "special_tokens" gives for NAME.
static status append_special(const token_file *f, const json_t *processor, const json_t *item,
                             token_list *out)
{
    const char *name;
    size_t bytes;
    TRY(token_file_string(f, "post_processor", item, "id", &name, &bytes));
    const json_t *special = json_object_get(json_object_get(processor, "special_tokens"), name);
    const json_t *ids = json_object_get(special, "ids");
    if (!json_is_array(ids))
        return fail(STATUS_ERR_FORMAT, "%s: post_processor: no special token \"%s\"", f->path,
                    name);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= INT32_MAX)
            return fail(STATUS_ERR_FORMAT, "%s: post_processor: an id of \"%s\" is not a number",
                        f->path, name);
        TRY(token_list_push(out, (int32_t)json_integer_value(id)));
    }
    return STATUS_OK;
}

// Only what surrounds one text matters: `single` has the text as sequence A, once.
static status read_template(const token_file *f, const json_t *value)
{
    const json_t *single = json_object_get(value, "single");
    int sequences = 0;
    TRY(token_file_check_keys(f, "post_processor", value, "type single pair special_tokens"));
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        if (special)
            TRY(append_special(f, value, special, sequences ? &f->t->after : &f->t->before));
        else if (json_object_get(item, "Sequence"))
            sequences++;
        else
            sequences = 2;
    }
    if (sequences != 1)
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: post_processor: \"single\" is not special tokens around one sequence",
                    f->path);
    return STATUS_OK;
}

static status read_post_processor(const token_file *f, const json_t *value)
{
    const char *kind;
    TRY(token_file_kind(f, "post_processor", value, &kind));
    if (!strcmp(kind, "ByteLevel"))
        return STATUS_OK;
    if (strcmp(kind, "TemplateProcessing"))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: post_processor: kind \"%s\" is not supported; supported: ByteLevel, "
                    "TemplateProcessing, Sequence",
                    f->path, kind);
    if (f->t->before.count + f->t->after.count > 0)
        return fail(STATUS_ERR_UNSUPPORTED, "%s: post_processor: two templates; one would be right",
                    f->path);
    return read_template(f, value);
}

status token_file_post_processor(const token_file *f, const json_t *value)
{
    const char *kind;
    if (!value || json_is_null(value))
        return STATUS_OK;
    TRY(token_file_kind(f, "post_processor", value, &kind));
    if (strcmp(kind, "Sequence"))
        return read_post_processor(f, value);
    const json_t *list = json_object_get(value, "processors");
    TRY(token_file_check_keys(f, "post_processor", value, "type processors"));
    if (!json_is_array(list))
        return fail(STATUS_ERR_FORMAT, "%s: post_processor: \"processors\" is not a list", f->path);
    for (size_t i = 0; i < json_array_size(list); i++)
        TRY(read_post_processor(f, json_array_get(list, i)));
    return STATUS_OK;
}
