/* Inside the module: the regular expressions of tokenizer files, with PCRE2.
 *
 * Such files are written for Oniguruma's Ruby syntax. What it shares with Perl's is taken; \s \S \w
 * \W \h \H and \v are translated, as they mean other sets there; what would mean something else is
 * refused: other escapes of letters, POSIX and nested classes, && in a class, options but i, a +
 * after {n,m}. */
#ifndef TRIFOLD_DATA_TOKENIZER_REGEX_H
#define TRIFOLD_DATA_TOKENIZER_REGEX_H

#include "data/tokenizer_text.h"

typedef struct regex regex;
typedef struct regex_worker regex_worker;

/* `where` starts the message of an error: a file and the place in it. */
status regex_create(const char *pattern, size_t bytes, const char *where, regex **out);
void regex_destroy(regex *r);

/* Buffers of one thread, for any expression. */
status regex_worker_create(regex_worker **out);
void regex_worker_destroy(regex_worker *w);

/* The leftmost match that begins at or after `at` in a text that is sound UTF-8; *start > bytes
 * where there is none. */
status regex_find(const regex *r, regex_worker *w, const uint8_t *text, size_t bytes, size_t at,
                  size_t *start, size_t *end);

#endif
