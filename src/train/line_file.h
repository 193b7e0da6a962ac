/* A text file of lines in the order of iterations, which grows while a run goes on: metrics.jsonl
 * and its like. Each line is on its way to the system when the call returns, so that a killed run
 * leaves whole lines, and at most one begun at the end. */
#ifndef TRIFOLD_TRAIN_LINE_FILE_H
#define TRIFOLD_TRAIN_LINE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

enum { LINE_FILE_MAX_LINE = 4096 }; /* bytes of a line with its end */

/* A line being built; {.used = 0} is empty. */
typedef struct text_line {
    char text[LINE_FILE_MAX_LINE];
    size_t used;
} text_line;

/* Append; the line must stay below the bound. */
void text_line_add(text_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* {0} before line_file_open(). */
typedef struct line_file {
    char *path;
    FILE *stream;
} line_file;

typedef struct line_file_options {
    const char *folder; /* exists */
    const char *name;
    const char *prefix; /* of every line, before the digits of its iteration and a comma */
    const char *header; /* the first line, or NULL */
    int64_t keep;       /* lines of later iterations are dropped */
} line_file_options;

/* Open the file for appending after its lines of iterations up to `keep`. An end without a newline
 * is dropped. Errors: a line that is not of this kind (nothing is changed then); a file that
 * another run writes. line_file_close() is needed on failure too. */
status line_file_open(const line_file_options *options, line_file *file);

/* Append `line`, given without its end. */
status line_file_write(line_file *file, const char *line);

void line_file_close(line_file *file);

/* Create a folder and those above it, where they are missing. */
status folder_create(const char *path);

enum { NUMBER_TEXT_BYTES = 32 };

/* The shortest of 15 to 17 digits that reads back as the same double; "nan", "inf", "-inf". */
const char *number_text(double value, char text[NUMBER_TEXT_BYTES]);

#endif
