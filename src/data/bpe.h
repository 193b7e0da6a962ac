/* Inside the module: byte-pair encoding of words (Sennrich et al., "Neural machine translation of
 * rare words with subword units", ACL 2016) over bytes, as GPT-2 does it.
 *
 * A vocabulary writes each byte as one printable character (byte_level_char). A word starts as the
 * ids of its bytes; as long as two neighbours have a merge, those with the merge of the lowest
 * rank, the leftmost of equals, become one. */
#ifndef TRIFOLD_DATA_BPE_H
#define TRIFOLD_DATA_BPE_H

#include <stdbool.h>

#include "data/token_map.h"
#include "data/tokenizer_text.h"

/* The character that stands for a byte: itself where it is printable Latin-1, else the next one
 * from U+0100 on. */
int32_t byte_level_char(uint8_t byte);

/* Append the bytes that a token of a byte-level vocabulary stands for; those of its own text where
 * one of its characters stands for no byte. */
status byte_level_decode(const char *text, size_t bytes, byte_buffer *out);

typedef struct bpe_merge_slot {
    uint64_t pair; /* left id in the upper half */
    uint32_t rank;
    int32_t id;
} bpe_merge_slot;

/* {0} is empty. Filled in this order: vocabulary, merges, bpe_finish(). Then it never changes. */
typedef struct bpe {
    token_map vocab;
    bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
    bool fuse_unknown;  /* unknown bytes side by side give one unknown token */
    int32_t unknown_id; /* for bytes that the vocabulary lacks; -1: they are left out */
    int32_t byte_ids[256];
    bpe_merge_slot *merges;
    size_t merge_slots;
    size_t merge_count;
} bpe;

status bpe_init(bpe *m, size_t merges_expected);
void bpe_fini(bpe *m);

/* Add the merge of the next rank, at most as many as bpe_init() was told. Without both parts and
 * the whole in the vocabulary *known is false and nothing was added. A pair that is there already
 * takes the later rank. */
status bpe_add_merge(bpe *m, const char *left, size_t left_bytes, const char *right,
                     size_t right_bytes, byte_buffer *scratch, bool *known);

void bpe_finish(bpe *m);

/* Buffers and the cache of words of one thread. */
typedef struct bpe_worker bpe_worker;

status bpe_worker_create(const bpe *m, bpe_worker **out);
void bpe_worker_destroy(bpe_worker *w);

/* Append the ids of a word of 1 to 2^31 - 1 bytes. */
status bpe_encode(bpe_worker *w, const uint8_t *word, size_t bytes, token_list *out);

#endif
