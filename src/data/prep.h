/* From text files to a set of tokens: PREFIX.bin and PREFIX.idx (indexed_dataset.h).
 *
 * The inputs are read front to back, in memory that does not grow with them, cut into chunks that
 * worker threads encode, and written in their order: the set does not depend on the number of
 * workers. A document is held whole, at about five bytes for each of its own, unless the tokenizer
 * allows to cut it (tokenizer_can_cut() inside the module): then files of any size pass.
 *
 * Documents: a line of JSON lines, or of plain text what `split` says. A document without tokens is
 * skipped and counted, as GPT-NeoX does. The caller is one process alone; nothing here knows MPI.
 */
#ifndef TRIFOLD_DATA_PREP_H
#define TRIFOLD_DATA_PREP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/indexed_dataset.h"
#include "data/tokenizer.h"

enum {
    PREP_KEYS_MAX = 16,
    PREP_WORKERS_MAX = 256,
};

typedef enum prep_format {
    PREP_AUTO, /* by name: .jsonl, .ndjson and .json are JSON lines */
    PREP_TEXT,
    PREP_JSON_LINES,
} prep_format;

/* Where a plain text file is cut into documents. */
typedef enum prep_split {
    PREP_SPLIT_NONE,       /* the file is one document, as in GPT-NeoX */
    PREP_SPLIT_PARAGRAPHS, /* at lines that are blank, which belong to no document */
    PREP_SPLIT_LINES,      /* each line, without its end, is one */
} prep_split;

typedef struct prep_progress {
    uint64_t bytes_read;
    uint64_t bytes_total; /* 0: not known, as an input is no regular file */
    double seconds;
} prep_progress;

typedef struct prep_options {
    const char *const *inputs; /* "-" is standard input */
    size_t input_count;
    const char *output;      /* PREFIX; with several keys each gives a set PREFIX_KEY */
    const char *const *keys; /* of JSON lines, their texts in that order */
    size_t key_count;        /* 1 to PREP_KEYS_MAX */
    prep_format format;
    prep_split split;
    bool append_eod;    /* end each document with the tokenizer's end-of-document token */
    bool parse_special; /* the text of a special token is that token; else plain text */
    int workers;        /* threads that encode, 1 to PREP_WORKERS_MAX */
    void (*progress)(const prep_progress *p, void *context); /* about once a second; may be NULL */
    void *context;
} prep_options;

/* One input as JSON lines of "text", one worker; inputs and output are still to be set. */
prep_options prep_options_defaults(void);

/* What was written to one set. */
typedef struct prep_report {
    int64_t documents;
    int64_t skipped; /* documents without tokens */
    int64_t tokens;  /* with those that end documents */
    int64_t eod;     /* end-of-document tokens, in texts too */
    int64_t bytes;   /* of text */
    indexed_dtype dtype;
} prep_report;

/* Write the sets; reports[k] is of key k (plain text counts as key 0). Bad lines are errors that
 * start with FILE:LINE:COLUMN. Until all is written, older files stay as they are. */
status prep_run(const tokenizer *t, const prep_options *o, prep_report *reports);

#endif
