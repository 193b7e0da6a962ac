/* One part of the data, as the training loop reads it: a numbered list of samples, from one path
 * cut by a split or from several paths blended.
 *
 * A sample is seq_length + 1 tokens: inputs are the first seq_length, labels the last. Its order is
 * GPT-NeoX's for the same files, split, seed, sequence length and samples wanted (sample_order.h,
 * blend.h); it does not depend on the grid. Every rank opens the part for itself; nothing is
 * written. Which rank reads which samples: batch_order.h. */
#ifndef TRIFOLD_DATA_DATASET_H
#define TRIFOLD_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/batch_order.h"
#include "data/split.h"

typedef struct dataset dataset;

typedef struct dataset_options {
    dataset_part part;
    const char *const *paths; /* (path_count), without .bin and .idx; at least one */
    size_t path_count;
    const char *split;            /* cuts the one path; NULL: the paths hold this part only */
    const double *weights;        /* (weight_count); without a split */
    size_t weight_count;          /* 0: all alike */
    bool weight_by_num_documents; /* instead of weights */
    double alpha;                 /* weighted_sampler_alpha; 1 */
    int64_t seq_length;
    int64_t seed;   /* 0 .. 2^32 - 1 */
    int64_t wanted; /* samples: split_samples_wanted() */
    int64_t vocab;  /* true size; an id past it is an error when it is read */
} dataset_options;

/* alpha 1, the rest 0. */
dataset_options dataset_options_defaults(void);

/* The options are read during the call only. A part without documents, or with fewer tokens than
 * one sample, is an error that names the part: do not open a part that is not needed. */
status dataset_open(const dataset_options *options, dataset **out);
void dataset_close(dataset *ds);

/* Samples before they repeat. */
int64_t dataset_count(const dataset *ds);

/* For the report at start; over all sets of a blend. */
int64_t dataset_documents(const dataset *ds);
int64_t dataset_epochs(const dataset *ds); /* the most of any set */

/* Bytes of the .bin files that belong to no document; worth a warning where not 0. */
uint64_t dataset_unused_bytes(const dataset *ds);

/* The seq_length + 1 tokens of sample `index` >= 0, which wraps at the count. Neither allocates nor
 * writes to the set: any number of threads. */
status dataset_sample(const dataset *ds, int64_t index, int32_t *tokens);

/* A rank's micro-batch, (micro_batch, seq_length + 1). */
status dataset_batch(const dataset *ds, const batch_order *order, int64_t iteration,
                     int64_t micro_step, int64_t rank, int32_t *tokens);

/* The loss mask of eod_mask_loss: 0 where the input token is `eod`, else 1. */
void dataset_mask_eod(float *mask, const int32_t *inputs, size_t count, int32_t eod);

#endif
