/* The loss scale of fp16 training, by the rules of DeepSpeed's DynamicLossScaler: an overflow costs
 * one credit of the hysteresis, and with the last credit halves the scale; `window` good iterations
 * in a row double it. Other precisions keep the scale 1, and only count. */
#ifndef TRIFOLD_TRAIN_LOSS_SCALER_H
#define TRIFOLD_TRAIN_LOSS_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct loss_scaler {
    bool dynamic;
    double scale;
    double minimum;
    int64_t window;
    int64_t hysteresis;
    bool refill_always; /* consecutive-hysteresis: every good iteration restores all credits */
    int64_t good;       /* good iterations since the last overflow */
    int64_t credit;     /* overflows still forgiven before the scale falls */
    int64_t in_a_row;   /* skipped iterations without a good one between */
} loss_scaler;

enum {
    LOSS_SCALER_MAX_SKIPPED = 50, /* in a row, then the run ends, as in GPT-NeoX */
};

/* The constant scale 1 of fp32 and bf16. */
loss_scaler loss_scaler_none(void);

/* Take note of an iteration whose gradients were finite or not. STATUS_ERR_NUMERICS where nothing
 * is left to try: the scale is at its minimum, or too many iterations were skipped in a row. */
status loss_scaler_update(loss_scaler *scaler, bool overflow);

#endif
