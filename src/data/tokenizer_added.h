/* Inside the module: added tokens, which are found in a text before it is split into words. */
#ifndef TRIFOLD_DATA_TOKENIZER_ADDED_H
#define TRIFOLD_DATA_TOKENIZER_ADDED_H

#include <stdbool.h>

#include "data/token_map.h"
#include "data/tokenizer_text.h"

typedef struct added_token {
    int32_t id;
    bool special;     /* found only where special tokens are asked for */
    bool single_word; /* not where it touches a character of a word */
    bool lstrip;      /* takes the white space before it */
    bool rstrip;      /* takes the white space after it */
    bool normalized;  /* looked for in normalized text, itself normalized */
} added_token;

/* A trie over bytes: node 0 is the root, the children of a node are a list in `sibling`. */
typedef struct added_node {
    uint32_t child; /* 0: none */
    uint32_t sibling;
    int32_t token; /* index into the tokens, -1: none ends here */
    uint8_t byte;
} added_node;

typedef struct added_trie {
    added_node *nodes;
    size_t count;
    size_t capacity;
    bool starts[256]; /* bytes that a token starts with */
} added_trie;

typedef struct added_tokens {
    token_map names; /* by content as in the file */
    added_token *tokens;
    size_t count;
    size_t capacity;
    added_trie raw;
    added_trie normalized;
} added_tokens;

/* Append a token; its id is added.names' too. Its text joins a trie with added_trie_insert(),
 * special tokens first. */
status added_tokens_add(added_tokens *a, const char *content, size_t bytes,
                        const added_token *token);
void added_tokens_fini(added_tokens *a);

/* `text` is not empty. Of equal texts the first stays. */
status added_trie_insert(added_trie *trie, const uint8_t *text, size_t bytes, size_t token);

/* A search through one text: the leftmost, of those the longest token, again and again. */
typedef struct added_search {
    const added_tokens *added;
    const added_trie *trie;
    const uint8_t *text;
    size_t bytes;
    bool special; /* find special tokens too */
    size_t at;    /* where the next match may begin */
    size_t done;  /* end of the last token with the space that it took */
} added_search;

/* The next token: its id and where the plain text before it lies, [*start, *end), perhaps empty. At
 * the end of the text -1 and the plain text that is left. */
int32_t added_search_next(added_search *s, size_t *start, size_t *end);

#endif
