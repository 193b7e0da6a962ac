#include "train/lr_schedule.h"

#include <math.h>

const char *lr_style_str(lr_style style)
{
    switch (style) {
    case LR_CONSTANT:
        return "constant";
    case LR_LINEAR:
        return "linear";
    case LR_COSINE:
        return "cosine";
    case LR_EXPONENTIAL:
        return "exponential";
    }
    return "unknown";
}

static double decayed(const lr_schedule *s, double progress)
{
    switch (s->style) {
    case LR_CONSTANT:
        return s->lr;
    case LR_LINEAR:
        return s->lr * (1 - progress);
    case LR_COSINE:
        return s->min_lr + (s->lr - s->min_lr) / 2 * (1 + cos(acos(-1.0) * progress));
    case LR_EXPONENTIAL:
        return s->lr * exp(-0.693 * progress);
    }
    return s->lr;
}

double lr_schedule_at(const lr_schedule *schedule, int64_t updates)
{
    const double total = (double)schedule->decay_iters;
    const double warm = schedule->warmup * total;
    const double done = (double)updates;
    if (updates >= schedule->decay_iters)
        return schedule->min_lr;
    if (warm > 0 && done <= warm)
        return schedule->lr * fmax(1, done) / warm;
    return fmax(schedule->min_lr, decayed(schedule, (done - warm) / (total - warm)));
}
