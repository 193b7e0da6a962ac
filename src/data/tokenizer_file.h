/* Inside the module: reading the JSON of tokenizer files. */
#ifndef TRIFOLD_DATA_TOKENIZER_FILE_H
#define TRIFOLD_DATA_TOKENIZER_FILE_H

#include <jansson.h>

#include "data/tokenizer_internal.h"

/* A tokenizer under construction, and where its text comes from. */
typedef struct token_file {
    const char *path;
    tokenizer *t;
} token_file;

/* The whole file, with a NUL behind it that is not counted; the caller frees it. At most 1 GiB. */
status token_file_read(const char *path, char **text, size_t *bytes);

/* Parse; a syntax error names line and column. A key that stands twice is one. */
status token_file_parse(const char *path, const char *text, size_t bytes, json_t **out);

/* An object without keys other than `keys`, blanks between them; null values are always allowed. */
status token_file_check_keys(const token_file *f, const char *where, const json_t *object,
                             const char *keys);

/* A value by key: `otherwise` where it is absent or null, an error where it is of another kind. */
status token_file_bool(const token_file *f, const char *where, const json_t *object,
                       const char *key, bool otherwise, bool *out);

/* As above for a text, which must be there. Lent. */
status token_file_string(const token_file *f, const char *where, const json_t *object,
                         const char *key, const char **text, size_t *bytes);

/* The text "type" of an object. */
status token_file_kind(const token_file *f, const char *where, const json_t *object,
                       const char **kind);

/* The object of tokens to ids of a vocabulary, into the model. */
status token_file_vocabulary(const token_file *f, const char *where, const json_t *object);

/* The parts of a tokenizer.json; null is none. */
status token_file_normalizer(const token_file *f, const json_t *value);
status token_file_pre_tokenizer(const token_file *f, const json_t *value);
status token_file_post_processor(const token_file *f, const json_t *value);
status token_file_added(const token_file *f, const json_t *value);

#endif
