/* Text to token ids and back, by the tokenizers that GPT-NeoX configurations name.
 *
 *   CharLevelTokenizer   512 ids: UTF-8 bytes; end of document 0, padding 1
 *   GPT2BPETokenizer     vocab.json and merges.txt
 *   HFTokenizer          tokenizer.json of Hugging Face's `tokenizers`: byte-level BPE with its
 *                        added tokens, normaliser, pre-tokeniser and post-processor; what would
 *                        change ids and is not known here is refused by name
 *
 * A tokenizer is read-only after tokenizer_open() and serves any number of threads; each thread has
 * an encoder of its own, which remembers the words it has seen. */
#ifndef TRIFOLD_DATA_TOKENIZER_H
#define TRIFOLD_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum tokenizer_kind {
    TOKENIZER_GPT2_BPE,
    TOKENIZER_HF,
    TOKENIZER_CHAR_LEVEL,
} tokenizer_kind;

/* "GPT2BPETokenizer", "HFTokenizer", "CharLevelTokenizer"; compared without regard to case. */
status tokenizer_kind_parse(const char *name, tokenizer_kind *kind);

typedef struct tokenizer_options {
    tokenizer_kind kind;
    const char *vocab_file;  /* vocab.json or tokenizer.json */
    const char *merges_file; /* merges.txt, GPT2BPETokenizer only */
} tokenizer_options;

typedef struct tokenizer tokenizer;

status tokenizer_open(const tokenizer_options *options, tokenizer **out);
void tokenizer_close(tokenizer *t);

/* Ids, added tokens included: one more than the largest. */
size_t tokenizer_vocab_size(const tokenizer *t);

/* The id that ends a document, <|endoftext|>, or -1 where there is none. */
int32_t tokenizer_eod(const tokenizer *t);

/* A growing list of ids. Begins zeroed; the owner releases it with token_list_fini(). */
typedef struct token_list {
    int32_t *ids;
    size_t count, capacity;
} token_list;

status token_list_push(token_list *list, int32_t id);
void token_list_fini(token_list *list);

typedef struct tokenizer_encoder tokenizer_encoder;

status tokenizer_encoder_create(const tokenizer *t, tokenizer_encoder **out);
void tokenizer_encoder_destroy(tokenizer_encoder *e);

/* Append the ids of `bytes` bytes of UTF-8 text. `parse_special`: the text of a special token is
 * that token; otherwise it is plain text. Bytes that are not UTF-8 are encoded as they are. */
status tokenizer_encode(tokenizer_encoder *e, const char *text, size_t bytes, bool parse_special,
                        token_list *out);

/* The bytes of the ids, and their number: a string for free(), NUL-terminated. */
status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, char **text,
                        size_t *bytes);

#endif
