/* Inside the module: cutting text into the words that byte-pair encoding works on. */
#ifndef TRIFOLD_DATA_PRETOKENIZE_H
#define TRIFOLD_DATA_PRETOKENIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The length of the next word of `text` (bytes > 0) by GPT-2's pattern
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * A byte that is not UTF-8 counts as a character of no class. */
size_t pretokenize_gpt2(const char *text, size_t bytes);

/* Decode one character; *length is 1 and the result -1 where the bytes are not UTF-8. */
int32_t utf8_next(const char *text, size_t bytes, size_t *length);

/* \s of Unicode: White_Space. */
bool unicode_is_space(int32_t c);

/* Letters, digits and underscore, as \w. */
bool unicode_is_word(int32_t c);

/* One step of a pre-tokeniser that cuts by a regular expression (PCRE2, Unicode). */
typedef struct regex_split regex_split;

status regex_split_create(const char *pattern, bool literal, regex_split **out);
void regex_split_destroy(regex_split *r);

/* The first match in text[from, bytes): *begin and *end; false where there is none. An empty match
 * is passed over. */
bool regex_split_find(const regex_split *r, const char *text, size_t bytes, size_t from,
                      size_t *begin, size_t *end);

#endif
