/* The order in which GPT-NeoX cuts documents into samples and serves them ("packed").
 *
 * The documents of one part are repeated E times, E being the least count of epochs that yields
 * the samples wanted, and shuffled all together. Read in that order they are one stream of tokens;
 * sample i takes the seq + 1 tokens from token i * seq on, so that each starts with the last token
 * of the one before. There are N = (E * tokens - 1) / seq of them. A second shuffle of 0..N-1, by
 * the same generator, says in which order they are served; the sample that it puts last is never
 * served (GPT-NeoX's length is N - 1), unless it is the only one.
 *
 * Every rank builds the order for itself, in memory, the same from the same numbers: no cache files
 * beside the data, no messages. It takes 4 bytes a document and epoch for the shuffled documents,
 * 4 bytes a sample for the shuffle (8 from 2^32 - 2 samples on) and 2 for the places at which
 * samples start (every eighth is kept). 300 billion tokens in 200 million documents, one epoch at
 * sequence length 2048: 0.8 GB + 0.6 GB + 0.3 GB. What exceeds the memory of the machine is refused
 * before it is asked for. */
#ifndef TRIFOLD_DATA_SAMPLE_ORDER_H
#define TRIFOLD_DATA_SAMPLE_ORDER_H

#include <stdint.h>

#include "base/status.h"
#include "data/indexed_dataset.h"

typedef struct sample_order sample_order;

typedef struct sample_order_options {
    const char *name;   /* of the part, for errors: "train" */
    int64_t first, end; /* documents [first, end) of the set */
    int64_t seq_length; /* tokens of a sample, less one */
    int64_t wanted;     /* samples, >= 0 */
    uint32_t seed;      /* of the RandomState */
} sample_order_options;

/* `source` is lent and must outlive the order. The documents must hold seq_length + 1 tokens or
 * more; where that is not so the caller has the words for it. */
status sample_order_create(const indexed_dataset *source, const sample_order_options *options,
                           sample_order **out);
void sample_order_destroy(sample_order *order);

/* Samples served before they repeat: max(N - 1, 1). */
int64_t sample_order_count(const sample_order *order);

int64_t sample_order_epochs(const sample_order *order);  /* E */
int64_t sample_order_samples(const sample_order *order); /* N */

/* The document at a place of the repeated and shuffled documents, places 0 .. E * documents - 1. */
int64_t sample_order_document(const sample_order *order, int64_t place);

/* Where sample `sample`, in 0 .. N, starts: the place of its document, and the token in it. */
void sample_order_locate(const sample_order *order, int64_t sample, int64_t *place, int64_t *token);

/* The sample that is served as number `index`, in 0 .. N - 1. */
int64_t sample_order_shuffled(const sample_order *order, int64_t index);

/* Read the seq_length + 1 tokens served as number `index`; an index past the end wraps. No
 * allocation; any number of threads. */
status sample_order_read(const sample_order *order, int64_t index, int32_t *tokens);

#endif
