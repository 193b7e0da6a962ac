/* The learning rate as a function of the number of updates made, as GPT-NeoX's AnnealingLR, but
 * that it stays at min_lr from lr-decay-iters on (GPT-NeoX's cosine rises again there). */
#ifndef TRIFOLD_TRAIN_LR_SCHEDULE_H
#define TRIFOLD_TRAIN_LR_SCHEDULE_H

#include <stdint.h>

typedef enum lr_style {
    LR_CONSTANT,
    LR_LINEAR,
    LR_COSINE,
    LR_EXPONENTIAL,
} lr_style;

typedef struct lr_schedule {
    lr_style style;
    double lr, min_lr;
    double warmup;       /* fraction of decay_iters; the product is not rounded */
    int64_t decay_iters; /* N: from this update on the rate is min_lr */
} lr_schedule;

/* "constant", "linear", "cosine", "exponential". */
const char *lr_style_str(lr_style style);

/* The rate of the update that follows `updates` made ones. With w = warmup N, j = updates - w and
 * E = N - w: lr max(1, updates) / w while updates <= w, then by style, never under min_lr. */
double lr_schedule_at(const lr_schedule *schedule, int64_t updates);

#endif
