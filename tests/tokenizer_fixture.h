/* Golden cases of tokenizers, and small tokenizer files, for the tests of src/data. */
#ifndef TRIFOLD_TESTS_TOKENIZER_FIXTURE_H
#define TRIFOLD_TESTS_TOKENIZER_FIXTURE_H

#include <jansson.h>

#include "data/tokenizer.h"
#include "data_fixture.h"

static inline const char *golden_path(const char *name)
{
    static char paths[2][PATH_BYTES];
    static int next;
    char *path = paths[next++ % 2];
    snprintf(path, PATH_BYTES, "%s/tokenizer/%s", TRIFOLD_GOLDEN, name);
    return path;
}

static inline tokenizer *open_tokenizer(tokenizer_kind kind, const char *vocab, const char *merges)
{
    tokenizer *t = NULL;
    const tokenizer_options o = {kind, vocab, merges};
    assert_ok(tokenizer_open(&o, &t));
    return t;
}

/* The text has these ids, and `e` gives them. */
static inline void check_ids(tokenizer_encoder *e, const char *text, size_t bytes, bool special,
                             const int32_t *expected, size_t count)
{
    token_list got = {0};
    assert_ok(tokenizer_encode(e, text, bytes, special, &got));
    for (size_t i = 0; i < got.count && i < count; i++)
        if (got.ids[i] != expected[i])
            fail_msg("\"%.*s\": id %zu is %d, expected %d", (int)bytes, text, i, got.ids[i],
                     expected[i]);
    if (got.count != count)
        fail_msg("\"%.*s\": %zu ids, expected %zu", (int)bytes, text, got.count, count);
    token_list_fini(&got);
}

/* Of one line of a golden file; the caller frees *ids. */
static inline size_t golden_ids(const json_t *line, int32_t **ids)
{
    const json_t *list = json_object_get(line, "ids");
    const size_t count = json_array_size(list);
    *ids = calloc(count + 1, sizeof **ids);
    assert_non_null(*ids);
    for (size_t i = 0; i < count; i++)
        (*ids)[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return count;
}

/* Calls `check` with each line of a file of JSON lines; returns how many there are. */
static inline size_t for_each_case(const char *name, void (*check)(const json_t *, void *),
                                   void *context)
{
    char *line = NULL;
    size_t capacity = 0, count = 0;
    FILE *file = fopen(golden_path(name), "r");
    if (!file)
        fail_msg("cannot open %s", golden_path(name));
    for (ssize_t bytes; (bytes = getline(&line, &capacity, file)) > 0; count++) {
        json_error_t error;
        json_t *object = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, &error);
        if (!object)
            fail_msg("%s: %s", name, error.text);
        check(object, context);
        json_decref(object);
    }
    free(line);
    fclose(file);
    return count;
}

#endif
