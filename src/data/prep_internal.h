/* Inside the module: the parts of corpus preparation. The reader fills chunks, workers encode them,
 * prep.c hands them round and writes. */
#ifndef TRIFOLD_DATA_PREP_INTERNAL_H
#define TRIFOLD_DATA_PREP_INTERNAL_H

#include "data/prep.h"
#include "data/tokenizer_internal.h"

enum {
    PREP_CHUNK_BYTES = 512 << 10,
    PREP_CHUNK_PIECES = 16 << 10,
    PREP_ERROR_BYTES = 1024,
};

/* A document, or a part of one that was cut. */
typedef struct prep_piece {
    size_t start; /* in the text of the chunk */
    size_t bytes;
    size_t line; /* counted from 1 */
    bool last;   /* the document ends with it */
} prep_piece;

/* What travels from reader to worker to writer; buffers are kept for the next round. */
typedef struct prep_chunk {
    byte_buffer text;
    prep_piece *pieces;
    size_t count;
    size_t capacity;
    const char *path; /* all pieces are of one file */
    bool json;
    token_list ids;
    size_t *id_counts; /* (count, keys): ids of each piece */
    size_t id_capacity;
    int64_t text_bytes[PREP_KEYS_MAX];
    status result; /* what the worker found; the writer records it in the order of the input */
    char error[PREP_ERROR_BYTES];
} prep_chunk;

void prep_chunk_fini(prep_chunk *c);

/* The inputs, one after another. {0} with the options set; then prep_reader_open(). */
typedef struct prep_reader {
    const prep_options *o;
    bool can_cut;
    size_t next_input;
    int fd;           /* -1: no file is open */
    const char *path; /* of the open file */
    bool json;
    bool begun;       /* its first bytes were seen */
    byte_buffer rest; /* read, and not yet given to a chunk */
    size_t start;     /* of the document at work, in the text of the chunk */
    size_t scan;      /* of the line at work */
    size_t end;       /* of the last line of the paragraph at work */
    size_t searched;  /* up to here the document has no place to cut it */
    size_t line;
    bool in_paragraph;
    uint64_t bytes_read;
} prep_reader;

void prep_reader_init(prep_reader *r, const prep_options *o, bool can_cut);
void prep_reader_fini(prep_reader *r);

/* Check that all inputs can be opened, and add up their sizes; 0 where one has none. */
status prep_inputs_check(const prep_options *o, uint64_t *bytes_total);

/* Fill a chunk with the next pieces, at least one; *done at the end of the inputs, and then none.
 */
status prep_reader_fill(prep_reader *r, prep_chunk *c, bool *done);

/* Encode a chunk. Errors of the text go into the chunk. */
void prep_chunk_encode(prep_chunk *c, tokenizer_encoder *e, const prep_options *o);

#endif
