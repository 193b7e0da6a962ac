#include "data/split.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *dataset_part_str(dataset_part part)
{
    static const char *const names[DATASET_PARTS] = {"train", "valid", "test"};
    return names[part];
}

// One share, up to `separator` or the end; returns where it stopped, NULL if it is no number.
static const char *read_share(const char *text, char separator, double *share)
{
    char *end;
    while (isspace((unsigned char)*text))
        text++;
    // strtod() would also take nan, inf and hexadecimal.
    if (!isdigit((unsigned char)*text) && *text != '.' && *text != '+')
        return NULL;
    if (strpbrk(text, "xX"))
        return NULL;
    *share = strtod(text, &end);
    if (end == text)
        return NULL;
    while (isspace((unsigned char)*end))
        end++;
    return *end == '\0' || *end == separator ? end : NULL;
}

static status read_shares(const char *split, double shares[DATASET_PARTS])
{
    char separator = strchr(split, ',') ? ',' : '/';
    const char *text = split;
    for (int i = 0;; i++) {
        double share = 0;
        text = read_share(text, separator, &share);
        if (!text || !isfinite(share))
            return fail(STATUS_ERR_CONFIG,
                        "split \"%s\": share %d is no number of 0 or more; three shares like "
                        "\"969, 30, 1\" would be right",
                        split, i + 1);
        if (i < DATASET_PARTS)
            shares[i] = share;
        if (*text == '\0')
            return STATUS_OK;
        text++;
    }
}

status split_bounds(const char *split, int64_t documents, int64_t bounds[DATASET_PARTS + 1])
{
    double shares[DATASET_PARTS] = {0};
    TRY(read_shares(split, shares));
    double sum = shares[0] + shares[1] + shares[2];
    if (!(sum > 0) || !isfinite(sum))
        return fail(STATUS_ERR_CONFIG, "split \"%s\": the shares sum to %g; more than 0 is needed",
                    split, sum);
    int64_t ends[DATASET_PARTS + 1] = {0};
    for (int i = 0; i < DATASET_PARTS; i++)
        ends[i + 1] = ends[i] + (int64_t)rint(shares[i] / sum * (double)documents);
    int64_t excess = ends[DATASET_PARTS] - documents;
    bounds[0] = 0;
    for (int i = 1; i <= DATASET_PARTS; i++)
        bounds[i] = ends[i] > excess ? ends[i] - excess : 0;
    return STATUS_OK;
}

status split_samples_wanted(dataset_part part, int64_t train_iters, int64_t eval_interval,
                            int64_t eval_iters, int64_t batch, int64_t *out)
{
    int64_t batches = eval_iters;
    bool wraps = false;
    if (part == DATASET_TRAIN)
        batches = train_iters;
    else if (part == DATASET_VALID)
        wraps = __builtin_add_overflow(train_iters / eval_interval, 1, &batches) ||
                __builtin_mul_overflow(batches, eval_iters, &batches);
    if (wraps || __builtin_mul_overflow(batches, batch, out))
        return fail(STATUS_ERR_CONFIG,
                    "%s: %" PRId64 " iterations, or %" PRId64
                    " of evaluation, with batches of %" PRId64
                    " are more samples than 64 bits count; lower them",
                    dataset_part_str(part), train_iters, eval_iters, batch);
    return STATUS_OK;
}
