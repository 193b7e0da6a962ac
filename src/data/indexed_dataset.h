/* Tokenised text in Megatron's memory-mapped form: PREFIX.bin holds the tokens, PREFIX.idx says
 * where each document lies. GPT-NeoX and Megatron-LM read what the writer makes, and the reverse.
 *
 * PREFIX.bin: token ids back to back, no header.
 * PREFIX.idx, little endian, no padding between fields:
 *     9 bytes   "MMIDIDX\0\0"
 *     u64       version, 1
 *     u8        type of a token: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16 (6, 7: floats, refused)
 *     u64       S, sequences
 *     u64       D, entries of the document index
 *     i32 [S]   size of each sequence in tokens
 *     i64 [S]   where it starts in the .bin, in bytes
 *     i64 [D]   document index: 0, then the count of sequences after each document; ends with S
 *     i8  [S]   modes of a multimodal set; may be absent, not used
 *
 * GPT-NeoX takes every sequence for a document and never looks at the document index, so that is
 * what `document` means in this header. The index is checked all the same, and kept by a merge.
 *
 * Everything the .idx says is checked against the sizes of both files when it is opened, in 64-bit
 * arithmetic; a fault is one line that starts with the name of the file. Sequences must come in the
 * order of their place in the .bin and must not overlap; gaps are allowed and counted. A file that
 * is cut short by somebody after it was opened ends the process, as with any mapped file. */
#ifndef TRIFOLD_DATA_INDEXED_DATASET_H
#define TRIFOLD_DATA_INDEXED_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The code of a token type in the .idx. */
typedef enum indexed_dtype {
    INDEXED_U8 = 1,
    INDEXED_I8 = 2,
    INDEXED_I16 = 3,
    INDEXED_I32 = 4,
    INDEXED_I64 = 5,
    INDEXED_U16 = 8,
} indexed_dtype;

/* The type that Megatron's tools choose: u16 below 65500 ids, else i32. */
indexed_dtype indexed_dtype_for_vocab(int64_t vocab);

/* Reading. Nothing here is written after open: any number of threads may read. */
typedef struct indexed_dataset indexed_dataset;

/* Open PREFIX.bin and PREFIX.idx. Ids read must be in [0, vocab); vocab 0 allows every id that an
 * int32 holds. Costs one pass over the .idx; the .bin is not touched. */
status indexed_dataset_open(const char *prefix, int64_t vocab, indexed_dataset **out);
void indexed_dataset_close(indexed_dataset *ds);

int64_t indexed_dataset_documents(const indexed_dataset *ds);
int64_t indexed_dataset_tokens(const indexed_dataset *ds);
indexed_dtype indexed_dataset_dtype(const indexed_dataset *ds);

/* Tokens of one document; `document` must be in range. */
int64_t indexed_dataset_size(const indexed_dataset *ds, int64_t document);

/* Tokens of documents [first, end), which must be in range. */
int64_t indexed_dataset_tokens_in(const indexed_dataset *ds, int64_t first, int64_t end);

/* Bytes of the .bin that belong to no document: 0 in what Megatron's tools write, so worth a
 * warning. */
uint64_t indexed_dataset_unused_bytes(const indexed_dataset *ds);

/* Tokens [offset, offset + count) of a document. An id outside the vocabulary, or a range outside
 * the document, is an error that names both. */
status indexed_dataset_read(const indexed_dataset *ds, int64_t document, int64_t offset,
                            int64_t count, int32_t *out);

/* Writing, front to back, in memory that does not grow with the data. Files are written aside as
 * PREFIX.bin.part, PREFIX.idx.part and PREFIX.doc.part, synced, and renamed by
 * indexed_writer_finish(); until then an older PREFIX.bin and PREFIX.idx stay as they are. One
 * thread at a time; after a failure only indexed_writer_destroy() is of use. */
typedef struct indexed_writer indexed_writer;

/* The folder of `prefix` must exist. Two writers of one prefix at a time are refused. */
status indexed_writer_create(const char *prefix, indexed_dtype dtype, indexed_writer **out);

/* Append tokens to the document that is being written; the pieces of a document join to one
 * sequence. A negative id, or one that the type does not hold, is an error. */
status indexed_writer_add(indexed_writer *w, const int32_t *tokens, size_t count);

/* Close the document, at most 2^31 - 1 tokens; it may be empty. */
status indexed_writer_end_document(indexed_writer *w);

/* Append the whole set `prefix`, of the same token type, between two documents. Its document index
 * goes on from the documents before it. */
status indexed_writer_merge(indexed_writer *w, const char *prefix);

/* What was written so far, merged sets included. */
int64_t indexed_writer_documents(const indexed_writer *w);
int64_t indexed_writer_tokens(const indexed_writer *w);

/* Complete both files and move them into place. The old .idx is removed before the new .bin comes,
 * so an interruption never leaves a pair that does not belong together. The last document must be
 * closed. Only indexed_writer_destroy() may follow. */
status indexed_writer_finish(indexed_writer *w);

/* Release the writer; without indexed_writer_finish() what was begun is removed. NULL allowed. */
void indexed_writer_destroy(indexed_writer *w);

#endif
