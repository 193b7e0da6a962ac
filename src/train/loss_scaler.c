#include "train/loss_scaler.h"

loss_scaler loss_scaler_none(void)
{
    return (loss_scaler){.scale = 1, .minimum = 1, .window = 1, .hysteresis = 1, .credit = 1};
}

static status shrink(loss_scaler *s)
{
    if (!s->dynamic)
        return STATUS_OK;
    s->good = 0;
    if (s->credit > 1) {
        s->credit--;
        return STATUS_OK;
    }
    if (s->scale <= s->minimum)
        return fail(STATUS_ERR_NUMERICS,
                    "gradients overflow at the least loss scale %g; lower the learning rate, or "
                    "train in bfloat16",
                    s->minimum);
    s->scale = s->scale / 2 > s->minimum ? s->scale / 2 : s->minimum;
    return STATUS_OK;
}

static void grow(loss_scaler *s)
{
    s->in_a_row = 0;
    if (!s->dynamic)
        return;
    s->good++;
    if (s->refill_always)
        s->credit = s->hysteresis;
    if (s->good % s->window == 0) {
        s->credit = s->hysteresis;
        s->scale *= 2;
    }
}

status loss_scaler_update(loss_scaler *scaler, bool overflow)
{
    if (!overflow) {
        grow(scaler);
        return STATUS_OK;
    }
    scaler->in_a_row++;
    if (scaler->in_a_row >= LOSS_SCALER_MAX_SKIPPED)
        return fail(STATUS_ERR_NUMERICS,
                    "%d iterations in a row had gradients that are not finite; lower the learning "
                    "rate, or load an earlier checkpoint",
                    LOSS_SCALER_MAX_SKIPPED);
    return shrink(scaler);
}
