/* The mix of several data sets: which set serves which sample, by GPT-NeoX's greedy rule.
 *
 * At sample i the set with the largest weight * max(i, 1) - (samples it served so far) is next,
 * the first of equals. So every set stays within one sample of its share. Kept are the number of
 * the set (2 bytes a sample) and, every 4096 samples, what each set served so far. */
#ifndef TRIFOLD_DATA_BLEND_H
#define TRIFOLD_DATA_BLEND_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { BLEND_SETS_MAX = 65535 };

/* Scale weights to a sum of 1, in place. They must be finite, >= 0 and sum to more than 0; `name`
 * is the part's, for errors. *sum is what they summed to. */
status blend_normalize(const char *name, double *weights, size_t sets, double *sum);

/* Weights from counts of documents: with p the share of the documents, p^alpha scaled to a sum of
 * 1, times 1 - p, scaled again. A single set gets 1. Fails where all weights come out 0. */
status blend_weigh_documents(const char *name, const int64_t *documents, size_t sets, double alpha,
                             double *weights);

/* What to ask of a set of this normalised weight: ceil(wanted * weight * 1.005), the surplus
 * because the shares are not met exactly. Fails where it exceeds 2^62. */
status blend_wanted(const char *name, int64_t wanted, double weight, int64_t *out);

typedef struct blend blend;

/* The mix of `samples` samples from sets with such weights. They are scaled once more, by a sum in
 * NumPy's own order, since GPT-NeoX does so and it may move their last bits. */
status blend_create(const double *weights, size_t sets, int64_t samples, blend **out);
void blend_destroy(blend *b);

/* The set that serves sample `index`, in 0 .. samples - 1, and how many it served before. */
void blend_locate(const blend *b, int64_t index, size_t *set, int64_t *sample);

#endif
