/* Inside the module: byte-pair encoding of words, given as bytes. */
#ifndef TRIFOLD_DATA_BPE_H
#define TRIFOLD_DATA_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/tokenizer.h"

/* Vocabulary and merges. Fill with bpe_add_token(), then bpe_add_merge() in the order of rank. */
typedef struct bpe bpe;

status bpe_create(bpe **out);
void bpe_destroy(bpe *b);

/* Token `id` stands for these bytes. Ids may have gaps, come in any order, but not twice. */
status bpe_add_token(bpe *b, const void *bytes, size_t length, int32_t id);

/* The next merge, of two tokens into the one that stands for both. STATUS_ERR_FORMAT where one of
 * the three is not in the vocabulary. */
status bpe_add_merge(bpe *b, const void *left, size_t left_length, const void *right,
                     size_t right_length);

/* The token of exactly these bytes, or -1. */
int32_t bpe_find(const bpe *b, const void *bytes, size_t length);

/* The bytes of a token; NULL where the id stands for none. */
const char *bpe_bytes(const bpe *b, int32_t id, size_t *length);

/* One more than the largest id. */
size_t bpe_size(const bpe *b);

/* Words whole in the vocabulary are their token, without looking at merges. */
void bpe_set_ignore_merges(bpe *b, bool ignore);

/* A thread's scratch and its memory of words. */
typedef struct bpe_cache bpe_cache;

status bpe_cache_create(bpe_cache **out);
void bpe_cache_destroy(bpe_cache *c);

/* Append the tokens of one word. Bytes that no token stands for are dropped, as Hugging Face does
 * where the model has no unknown token. */
status bpe_encode(const bpe *b, bpe_cache *c, const char *word, size_t length, token_list *out);

#endif
