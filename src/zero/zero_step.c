// The update of what a rank owns.
#include "base/sizes.h"
#include "zero/zero_internal.h"

// This rank's piece of tensor `index` with its padding: where its summed gradient lies.
static float *owned(const zero *z, size_t index, size_t *count)
{
    const zero_bucket *b = &z->plan.buckets[z->plan.bucket_of[index]];
    size_t begin, end;
    zero_plan_piece(&z->plan, index, z->plan.options.rank, &begin, &end);
    *count = end - begin;
    return own_gradients(z, b) + (*count > 0 ? begin - b->own_begin : 0);
}

void zero_gradient_owned(const zero *z, size_t index, float **gradient, size_t *count)
{
    *gradient = owned(z, index, count);
}

// Neighbouring pieces are taken together.
status zero_square_sum(zero *z, device_stream *s, double *sum)
{
    const zero_options *o = &z->options;
    const float *run = NULL;
    size_t length = 0;
    double part;
    *sum = 0;
    if (o->stage == 0 && comm_group_rank(o->data) != 0)
        return STATUS_OK;
    for (size_t i = 0; i < z->table->count; i++) {
        size_t count;
        const float *piece = owned(z, i, &count);
        if (!z->table->tensors[i].counted || count == 0)
            continue;
        if (length > 0 && piece == run + length) {
            length += count;
            continue;
        }
        if (length > 0) {
            TRY(device_sum_squares(s, &part, run, length));
            *sum += part;
        }
        run = piece;
        length = count;
    }
    if (length > 0) {
        TRY(device_sum_squares(s, &part, run, length));
        *sum += part;
    }
    return STATUS_OK;
}

typedef struct update {
    float lr, grad_scale;
    int64_t step;
} update;

// Elements [begin, end) of the table, in this rank's part of a bucket, of one weight decay.
static status update_range(zero *z, device_stream *s, const zero_bucket *b, size_t begin,
                           size_t end, bool decay, const update *u)
{
    const optimizer_options *adam = &z->options.adam;
    const size_t at = begin - b->own_begin;
    const bool copy = z->master && !shares_params(z);
    const adamw_args args = {.param = own_master(z, b) + at,
                             .exp_avg = z->exp_avg + b->shard + at,
                             .exp_avg_sq = z->exp_avg_sq + b->shard + at,
                             .param_out = copy ? own_params(z, b) + at * z->size : NULL,
                             .grad = own_gradients(z, b) + at,
                             .count = end - begin,
                             .lr = u->lr,
                             .beta1 = adam->beta1,
                             .beta2 = adam->beta2,
                             .epsilon = adam->epsilon,
                             .weight_decay = decay ? adam->weight_decay : 0,
                             .grad_scale = u->grad_scale,
                             .step = u->step,
                             .out_type = adam->type};
    return device_adamw(s, &args);
}

static status update_bucket(zero *z, device_stream *s, const zero_bucket *b, const update *u)
{
    const tensor_info *tensors = z->table->tensors;
    for (size_t i = b->first_tensor; i < b->end_tensor;) {
        size_t last = i;
        while (last + 1 < b->end_tensor && tensors[last + 1].decay == tensors[i].decay)
            last++;
        const size_t limit = last + 1 < b->end_tensor ? tensors[last + 1].offset : b->end;
        const size_t begin = size_max(tensors[i].offset, b->own_begin);
        const size_t end = size_min(limit, b->own_end);
        if (begin < end)
            TRY(update_range(z, s, b, begin, end, tensors[i].decay, u));
        i = last + 1;
    }
    return STATUS_OK;
}

// Whether parameters are gathered after every change.
static bool gathers(const zero *z)
{
    return z->options.stage == 1 || z->options.stage == 2;
}

status zero_step(zero *z, device_stream *s, float lr, float grad_scale, int64_t step)
{
    const update u = {.lr = lr, .grad_scale = grad_scale, .step = step};
    TRY(zero_wait_params(z));
    if (shares_params(z))
        TRY(zero_params_drop(z));
    for (size_t k = 0; k < z->plan.n_buckets; k++) {
        TRY(update_bucket(z, s, &z->plan.buckets[k], &u));
        if (!gathers(z))
            continue;
        TRY(device_stream_synchronize(s));
        TRY(zero_params_gather(z));
    }
    return shares_params(z) ? zero_params_expect(z, s) : STATUS_OK;
}

status zero_publish(zero *z, device_stream *s)
{
    if (shares_params(z))
        return zero_params_drop(z);
    TRY(zero_wait_params(z));
    for (size_t k = 0; k < z->plan.n_buckets; k++) {
        TRY(zero_params_from_master(z, s, k));
        if (!gathers(z))
            continue;
        TRY(device_stream_synchronize(s));
        TRY(zero_params_gather(z));
    }
    return zero_wait_params(z);
}
