/* Text to token ids and back.
 *
 * A tokenizer is what its files say and never changes: any number of threads share one. An encoder
 * turns text into ids with it; it keeps a cache and buffers, so each thread has its own.
 * Kinds, named as in GPT-NeoX:
 *     GPT2BPETokenizer    vocab.json and merges.txt; ids are those of the vocabulary alone
 *     HFTokenizer         tokenizer.json: byte-level BPE with what stands around it
 *     CharLevelTokenizer  each byte is its own id; 512 ids, end of document 0, padding 1
 * Ids equal those of the `tokenizers` package for the same file. Of a tokenizer.json are known: the
 * model BPE; the normalizers NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace; the
 * pre-tokenizers Split, Digits and, last, ByteLevel; the post-processors ByteLevel and
 * TemplateProcessing; sequences of them; added tokens. Anything else that would change ids is
 * refused by name. Letters, digits and normal forms are those of utf8proc's version of Unicode: a
 * character that is newer than the tables of the package may normalize otherwise there.
 *
 * Text is UTF-8, but any bytes are taken: a byte that belongs to no character counts as a character
 * of its own that is neither letter, digit nor space. Without a normalizer that changes the text,
 * decoding gives back the same bytes. */
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

typedef struct tokenizer_options {
    tokenizer_kind kind;
    const char *vocab_file;  /* vocab.json or tokenizer.json; unused by CharLevelTokenizer */
    const char *merges_file; /* merges.txt; GPT2BPETokenizer only */
} tokenizer_options;

typedef struct tokenizer tokenizer;

/* The kind with this name, as GPT-NeoX spells it but in any case of letters. */
status tokenizer_kind_parse(const char *name, tokenizer_kind *kind);

/* Read the files. Errors start with the name of the file. */
status tokenizer_open(const tokenizer_options *options, tokenizer **out);
void tokenizer_close(tokenizer *t);

/* Ids, added tokens included: one more than the largest. */
size_t tokenizer_vocab_size(const tokenizer *t);

/* The end-of-document token: `<|endoftext|>`, or 0 at the character level; -1 if there is none. */
int32_t tokenizer_eod(const tokenizer *t);

/* A growing list of ids: {0} is empty; the owner releases it with token_list_fini(). */
typedef struct token_list {
    int32_t *ids;
    size_t count;
    size_t capacity;
} token_list;

void token_list_fini(token_list *list);

typedef struct tokenizer_encoder tokenizer_encoder;

/* `t` must outlive the encoder. */
status tokenizer_encoder_create(const tokenizer *t, tokenizer_encoder **out);
void tokenizer_encoder_destroy(tokenizer_encoder *e);

/* Append the ids of a text, with what the file's post-processor puts around it. `parse_special`:
 * the text of a special token, as `<|endoftext|>`, becomes that token; else it is plain text. Added
 * tokens that are not special are always found. The encoder keeps memory in proportion to the
 * longest text so far. */
status tokenizer_encode(tokenizer_encoder *e, const char *text, size_t bytes, bool parse_special,
                        token_list *out);

/* The bytes of the ids: those of a character may be spread over several. A string for free(),
 * NUL-terminated, and its length. An id that the vocabulary does not have stands for no bytes. */
status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, char **text,
                        size_t *bytes);

#endif
