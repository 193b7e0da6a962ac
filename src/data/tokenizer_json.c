// tokenizer.json: the whole, and its model. What would change ids and is not known is refused.
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer_file.h"

static status check_switched_off(const token_file *f, const char *where, const json_t *object,
                                 const char *key)
{
    const json_t *value = json_object_get(object, key);
    const bool off = !value || json_is_null(value) || json_is_false(value) ||
                     (json_is_string(value) && json_string_length(value) == 0) ||
                     (json_is_number(value) && json_number_value(value) == 0);
    return off ? STATUS_OK
               : fail(STATUS_ERR_UNSUPPORTED, "%s: %s: \"%s\" is not supported; supported: null",
                      f->path, where, key);
}

// A merge in one of its two forms: "a b" or ["a", "b"].
static bool merge_parts(const json_t *merge, const char *text[2], size_t bytes[2])
{
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (size_t i = 0; i < 2; i++) {
            const json_t *part = json_array_get(merge, i);
            if (!json_is_string(part))
                return false;
            text[i] = json_string_value(part);
            bytes[i] = json_string_length(part);
        }
        return true;
    }
    if (!json_is_string(merge))
        return false;
    const char *blank = memchr(json_string_value(merge), ' ', json_string_length(merge));
    if (!blank)
        return false;
    text[0] = json_string_value(merge);
    bytes[0] = (size_t)(blank - text[0]);
    text[1] = blank + 1;
    bytes[1] = json_string_length(merge) - bytes[0] - 1;
    return !memchr(text[1], ' ', bytes[1]);
}

static bool is_version_line(const json_t *merge)
{
    return json_is_string(merge) && !strncmp(json_string_value(merge), "#version", 8);
}

static status read_merges(const token_file *f, const json_t *merges)
{
    byte_buffer scratch = {0};
    status result = STATUS_OK;
    if (!json_is_array(merges))
        return fail(STATUS_ERR_FORMAT, "%s: model: \"merges\" is not a list", f->path);
    TRY(bpe_init(&f->t->model, json_array_size(merges)));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *merge = json_array_get(merges, i);
        const char *text[2];
        size_t bytes[2];
        bool known;
        if (is_version_line(merge))
            continue;
        if (!merge_parts(merge, text, bytes))
            TRY_OUT(result,
                    fail(STATUS_ERR_FORMAT,
                         "%s: model: merge %zu is neither \"a b\" nor [\"a\", \"b\"]", f->path, i));
        TRY_OUT(result, bpe_add_merge(&f->t->model, text[0], bytes[0], text[1], bytes[1], &scratch,
                                      &known));
        if (!known)
            TRY_OUT(result, fail(STATUS_ERR_FORMAT,
                                 "%s: model: merge %zu, \"%.*s %.*s\", has a part or a result that "
                                 "is not in the vocabulary",
                                 f->path, i, (int)bytes[0], text[0], (int)bytes[1], text[1]));
    }
out:
    free(scratch.data);
    return result;
}

static status read_unknown(const token_file *f, const json_t *model)
{
    const char *text;
    size_t bytes;
    const json_t *value = json_object_get(model, "unk_token");
    if (!value || json_is_null(value))
        return STATUS_OK;
    TRY(token_file_string(f, "model", model, "unk_token", &text, &bytes));
    f->t->model.unknown_id = token_map_find(&f->t->model.vocab, text, bytes);
    if (f->t->model.unknown_id < 0)
        return fail(STATUS_ERR_FORMAT, "%s: model: the unk_token \"%s\" is not in the vocabulary",
                    f->path, text);
    return STATUS_OK;
}

static status read_model(const token_file *f, const json_t *model)
{
    const char *kind;
    TRY(token_file_kind(f, "model", model, &kind));
    if (strcmp(kind, "BPE"))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: model: kind \"%s\" is not supported; supported: BPE", f->path, kind);
    TRY(token_file_check_keys(f, "model", model,
                              "type dropout unk_token continuing_subword_prefix end_of_word_suffix "
                              "fuse_unk byte_fallback ignore_merges vocab merges"));
    TRY(check_switched_off(f, "model", model, "dropout"));
    TRY(check_switched_off(f, "model", model, "continuing_subword_prefix"));
    TRY(check_switched_off(f, "model", model, "end_of_word_suffix"));
    TRY(check_switched_off(f, "model", model, "byte_fallback"));
    TRY(token_file_bool(f, "model", model, "fuse_unk", false, &f->t->model.fuse_unknown));
    TRY(token_file_bool(f, "model", model, "ignore_merges", false, &f->t->model.ignore_merges));
    TRY(token_file_vocabulary(f, "model: vocab", json_object_get(model, "vocab")));
    TRY(read_merges(f, json_object_get(model, "merges")));
    return read_unknown(f, model);
}

static status check_decoder(const token_file *f, const json_t *decoder)
{
    const char *kind;
    if (!decoder || json_is_null(decoder))
        return STATUS_OK;
    TRY(token_file_kind(f, "decoder", decoder, &kind));
    if (strcmp(kind, "ByteLevel"))
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: decoder: kind \"%s\" is not supported; supported: ByteLevel", f->path,
                    kind);
    return STATUS_OK;
}

static status read_root(const token_file *f, const json_t *root)
{
    TRY(token_file_check_keys(f, "tokenizer", root,
                              "version truncation padding added_tokens normalizer pre_tokenizer "
                              "post_processor decoder model"));
    TRY(check_switched_off(f, "tokenizer", root, "truncation"));
    TRY(check_switched_off(f, "tokenizer", root, "padding"));
    TRY(read_model(f, json_object_get(root, "model")));
    TRY(token_file_normalizer(f, json_object_get(root, "normalizer")));
    TRY(token_file_pre_tokenizer(f, json_object_get(root, "pre_tokenizer")));
    TRY(check_decoder(f, json_object_get(root, "decoder")));
    TRY(token_file_added(f, json_object_get(root, "added_tokens")));
    return token_file_post_processor(f, json_object_get(root, "post_processor"));
}

status tokenizer_read_json(tokenizer *t, const char *path)
{
    const token_file f = {path, t};
    char *text = NULL;
    size_t bytes;
    json_t *root = NULL;
    status result;
    TRY_OUT(result, token_file_read(path, &text, &bytes));
    TRY_OUT(result, token_file_parse(path, text, bytes, &root));
    result = read_root(&f, root);
out:
    free(text);
    json_decref(root);
    return result;
}
