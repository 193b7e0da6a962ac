/* Which documents of a set are for training, validation and test, and how many samples of each a
 * run asks for: GPT-NeoX's rules. */
#ifndef TRIFOLD_DATA_SPLIT_H
#define TRIFOLD_DATA_SPLIT_H

#include <stdint.h>

#include "base/status.h"

typedef enum dataset_part {
    DATASET_TRAIN = 0,
    DATASET_VALID = 1,
    DATASET_TEST = 2,
} dataset_part;

enum { DATASET_PARTS = 3 };

/* "train", "valid", "test". */
const char *dataset_part_str(dataset_part part);

/* Cut `documents` documents by shares such as "969, 30, 1" or "8/1/1"; missing shares are 0, those
 * past the third do not count. Part p takes documents [bounds[p], bounds[p + 1]).
 *
 * Each part's count is its share of the documents rounded to the nearest, half to even; what the
 * counts then have too many or too few is taken from all three upper ends at once, so mostly from
 * the first part. Unlike GPT-NeoX, no bound falls below 0 by that. Errors: a share that is no
 * number, is negative or not finite; shares that sum to 0. */
status split_bounds(const char *split, int64_t documents, int64_t bounds[DATASET_PARTS + 1]);

/* The samples that a run asks of a part:
 *   train  train_iters * batch
 *   valid  (train_iters / eval_interval + 1) * eval_iters * batch
 *   test   eval_iters * batch
 * with `batch` the global batch size. eval_interval counts only for valid, where it is > 0. An
 * overflow is an error. */
status split_samples_wanted(dataset_part part, int64_t train_iters, int64_t eval_interval,
                            int64_t eval_iters, int64_t batch, int64_t *out);

#endif
