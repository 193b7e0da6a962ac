/* Inside the module: what a tokenizer is made of, and the steps from a text to words.
 *
 * A text passes these steps in order; each hands its pieces to the next at once, so that nothing
 * but the ids is kept: added tokens that are looked for in the text as it is the normalizer, on
 * each piece between them added tokens that are looked for in normalized text the stages of the
 * pre-tokenizer, down to words byte-pair encoding of each word */
#ifndef TRIFOLD_DATA_TOKENIZER_INTERNAL_H
#define TRIFOLD_DATA_TOKENIZER_INTERNAL_H

#include "data/bpe.h"
#include "data/tokenizer.h"
#include "data/tokenizer_added.h"
#include "data/tokenizer_regex.h"
#include "data/tokenizer_text.h"

enum { STAGES_MAX = 32 };

/* What is looked for: a regular expression or a literal text. {0} is nothing. */
typedef struct text_pattern {
    regex *expression;
    char *literal; /* malloc; used where there is no expression */
    size_t literal_bytes;
} text_pattern;

typedef enum normal_kind {
    NORMAL_NFC,
    NORMAL_NFD,
    NORMAL_NFKC,
    NORMAL_NFKD,
    NORMAL_LOWERCASE,
    NORMAL_STRIP,
    NORMAL_PREPEND,
    NORMAL_REPLACE,
} normal_kind;

typedef struct normal_step {
    normal_kind kind;
    bool strip_left, strip_right;
    text_pattern pattern; /* replace */
    char *content;        /* prepend, replace; malloc */
    size_t content_bytes;
} normal_step;

typedef enum split_kind {
    SPLIT_PREFIX_SPACE, /* put a space before a piece that starts with none */
    SPLIT_GPT2,         /* the words of GPT-2 */
    SPLIT_PATTERN,
    SPLIT_DIGITS, /* runs of digits */
    SPLIT_EACH_DIGIT,
} split_kind;

/* What becomes of the matches of a pattern, and of the text between them. */
typedef enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
} split_behavior;

typedef struct split_stage {
    split_kind kind;
    split_behavior behavior;
    bool invert; /* matches and the text between them change places */
    text_pattern pattern;
} split_stage;

struct tokenizer {
    tokenizer_kind kind;
    bpe model;
    added_tokens added;
    normal_step normal[STAGES_MAX];
    size_t normal_count;
    split_stage stages[STAGES_MAX];
    size_t stage_count;
    bool byte_level;   /* the stages end with the alphabet of bytes */
    token_list before; /* what the post-processor puts around a text */
    token_list after;
    size_t vocab_size;
    int32_t eod;
    byte_buffer pieces;   /* the bytes of all ids, back to back */
    size_t *piece_starts; /* (vocab_size + 1); memory_alloc */
};

/* Read the files of a kind into a zeroed tokenizer. */
status tokenizer_read_json(tokenizer *t, const char *path);
status tokenizer_read_gpt2(tokenizer *t, const char *vocab_path, const char *merges_path);

/* The id of a token by its text in the file, added tokens first; -1 if there is none. */
int32_t tokenizer_find_token(const tokenizer *t, const char *text, size_t bytes);

/* Whether a text may be cut before a newline that follows an ASCII letter or digit, and the ids of
 * the parts are those of the whole. */
bool tokenizer_can_cut(const tokenizer *t);

/* Buffers of the steps, of one thread. */
typedef struct text_worker {
    regex_worker *regex; /* lent by the encoder; NULL where no step has an expression */
    byte_buffer normal[2];
    byte_buffer prefixed;
} text_worker;

/* Normalize a text; the result is the text itself or lies in the worker until the next call. */
status text_normalize(const tokenizer *t, text_worker *w, const uint8_t *text, size_t bytes,
                      const uint8_t **out, size_t *out_bytes);

typedef status (*word_function)(void *context, const uint8_t *word, size_t bytes);

/* Split a text into its words, none of them empty, in order. */
status text_split(const tokenizer *t, text_worker *w, const uint8_t *text, size_t bytes,
                  word_function emit, void *context);

/* Find the pattern from `at` on; *start > bytes where there is none. Matches are as an iteration
 * over all of them needs: the caller keeps `last_end`, SIZE_MAX at first, and an empty match there
 * does not count. */
status text_pattern_find(const text_pattern *p, regex_worker *w, const uint8_t *text, size_t bytes,
                         size_t at, size_t last_end, size_t *start, size_t *end);
void text_pattern_fini(text_pattern *p);

/* Bytes of the word at the start of a text, bytes > 0, by GPT-2's expression
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t gpt2_word(const uint8_t *text, size_t bytes);

#endif
