/* Inside the module: a tokenizer as its file describes it. */
#ifndef TRIFOLD_DATA_TOKENIZER_INTERNAL_H
#define TRIFOLD_DATA_TOKENIZER_INTERNAL_H

#include "data/bpe.h"
#include "data/pretokenize.h"
#include "data/tokenizer.h"

/* A token that is cut out of the text before words are made. */
typedef struct added_token {
    char *text;
    size_t length;
    int32_t id;
    bool special;        /* plain text unless parsing is asked for */
    bool normalized;     /* looked for after normalisation */
    bool lstrip, rstrip; /* takes white space beside it */
    bool single_word;    /* only where no word character is beside it */
} added_token;

typedef enum normal_form {
    NORMAL_NFC,
    NORMAL_NFD,
    NORMAL_NFKC,
    NORMAL_NFKD,
} normal_form;

typedef enum split_kind {
    SPLIT_GPT2,   /* pretokenize_gpt2() */
    SPLIT_REGEX,  /* matches are words, and so is what lies between them */
    SPLIT_DIGITS, /* runs of numbers apart from the rest */
    SPLIT_DIGIT,  /* each number apart */
} split_kind;

typedef struct split_step {
    split_kind kind;
    regex_split *regex;
} split_step;

enum {
    TOKENIZER_STEPS_MAX = 8,
    TOKENIZER_FRAME_MAX = 8,
};

struct tokenizer {
    tokenizer_kind kind;
    bpe *bpe; /* NULL for CharLevelTokenizer */
    added_token *added;
    size_t n_added;
    bool starts_added[2][256]; /* whether a token begins with this byte: [normalized] */
    normal_form forms[TOKENIZER_STEPS_MAX];
    int n_forms;
    bool add_prefix_space;
    split_step steps[TOKENIZER_STEPS_MAX];
    int n_steps;
    int32_t before[TOKENIZER_FRAME_MAX], after[TOKENIZER_FRAME_MAX]; /* of the post-processor */
    int n_before, n_after;
    size_t vocab_size;
    int32_t eod;
};

/* Fill `t` from its files. */
status tokenizer_load_hf(tokenizer *t, const char *path);
status tokenizer_load_gpt2(tokenizer *t, const char *vocab_path, const char *merges_path);

/* The bytes that a string of a byte-level vocabulary stands for, into `bytes` of at least
 * strlen(text) + 1; the length, or SIZE_MAX where it has characters that stand for no byte. */
size_t byte_level_decode(const char *text, char *bytes);

/* Add a token to be cut out of text; takes the values, copies the text. */
status tokenizer_add_token(tokenizer *t, const added_token *token);

#endif
