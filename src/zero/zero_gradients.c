// Sums of gradients over the ranks.
//
// Stages 0 and 1: the whole buffer is final at the end of the last micro-batch, and its buckets are
// sent from the end of the table as they become complete:
//
//     forward order    b0 | b1 | b2 | b3
//     sent              4    3    2    1        all-reduce, or reduce-scatter in place
//
// Stages 2 and 3: a unit's gradients live in the space of blocks, from zero_acquire() until their
// sums are in the shard:
//
//     idle --open--> written --last tensor ready--> sent --collect--> idle
//
// A block is collected when a block that overlaps it opens, two units on, or at the end: meanwhile
// its messages travel behind the backward pass.
#include "base/sizes.h"
#include "zero/zero_internal.h"

static bool is_complete(const zero *z, size_t bucket)
{
    const zero_bucket *b = &z->plan.buckets[bucket];
    return z->buckets[bucket].ready == b->end_tensor - b->first_tensor;
}

// Buckets begin from the end of the table or of a unit: the one that was begun a window ago, if it
// is still on its way, is further on.
static status begin_bucket(zero *z, device_stream *s, size_t bucket)
{
    const zero_options *o = &z->options;
    const zero_bucket *b = &z->plan.buckets[bucket];
    bucket_state *state = &z->buckets[bucket];
    float *gradients = bucket_gradients(z, b);
    if (bucket + ZERO_WINDOW < z->plan.n_buckets)
        TRY(comm_wait(&z->buckets[bucket + ZERO_WINDOW].gradient));
    TRY(device_stream_synchronize(s)); // the message reads what the device wrote
    if (o->stage == 0)
        TRY(comm_allreduce_begin(o->data, COMM_GRADIENTS, COMM_SUM, gradients, b->end - b->begin,
                                 DTYPE_F32, &state->gradient));
    else
        TRY(comm_reduce_scatter_begin(o->zero, COMM_GRADIENTS, COMM_SUM, gradients,
                                      z->plan.counts + bucket * z->plan.options.ranks, DTYPE_F32,
                                      &state->gradient));
    state->begun = true;
    return o->overlap ? STATUS_OK : comm_wait(&state->gradient);
}

static status begin_complete(zero *z, device_stream *s)
{
    while (z->unsent > 0 && is_complete(z, z->unsent - 1)) {
        TRY(begin_bucket(z, s, z->unsent - 1));
        z->unsent--;
    }
    return STATUS_OK;
}

// ---- Blocks: stages 2 and 3 ----

// The sums of a block into the shard.
static status collect_bucket(zero *z, device_stream *s, size_t bucket)
{
    const zero_bucket *b = &z->plan.buckets[bucket];
    bucket_state *state = &z->buckets[bucket];
    const size_t count = b->own_end - b->own_begin;
    const float *sum = bucket_gradients(z, b) + (b->own_begin - b->begin);
    float *shard = own_gradients(z, b);
    TRY(comm_wait(&state->gradient));
    if (state->summed)
        TRY(device_add(
            s, &(add_args){.y = shard, .x = shard, .a = sum, .count = count, .type = DTYPE_F32}));
    else
        TRY(device_copy(s, shard, sum, count * sizeof(float)));
    state->summed = true;
    state->begun = false;
    state->ready = 0;
    for (size_t i = b->first_tensor; i < b->end_tensor; i++)
        z->ready[i] = false;
    return STATUS_OK;
}

static status collect_block(zero *z, device_stream *s, size_t block)
{
    const size_t end = z->plan.blocks[block].end_bucket;
    for (size_t k = zero_plan_next(&z->plan, block, z->plan.blocks[block].first_bucket); k < end;
         k = zero_plan_next(&z->plan, block, k + 1))
        TRY(collect_bucket(z, s, k));
    z->blocks[block].gradients = GRADIENTS_IDLE;
    return STATUS_OK;
}

static status open_block(zero *z, device_stream *s, size_t block)
{
    const zero_block *own = &z->plan.blocks[block];
    if (z->blocks[block].gradients == GRADIENTS_OPEN || own->begin == own->end)
        return STATUS_OK;
    for (size_t other = 0; other < z->plan.n_blocks; other++) {
        if (z->blocks[other].gradients == GRADIENTS_IDLE ||
            !zero_plan_overlap(&z->plan, block, other))
            continue;
        if (z->blocks[other].gradients == GRADIENTS_OPEN)
            return fail(STATUS_ERR_COMM,
                        "the gradients of unit %zu need the room of unit %zu, of which some were "
                        "never ready",
                        block, other);
        TRY(collect_block(z, s, other));
    }
    z->blocks[block].gradients = GRADIENTS_OPEN;
    return STATUS_OK;
}

status zero_gradients_open(zero *z, device_stream *s, size_t unit)
{
    size_t blocks[ZERO_UNIT_BLOCKS];
    const size_t count = zero_plan_unit_blocks(&z->plan, unit, blocks);
    for (size_t i = 0; i < count; i++)
        TRY(open_block(z, s, blocks[i]));
    return STATUS_OK;
}

// Begin the complete buckets of a block from its end, up to the first that is not.
static status begin_complete_of(zero *z, device_stream *s, size_t block)
{
    const zero_block *own = &z->plan.blocks[block];
    for (size_t k = own->end_bucket; k-- > own->first_bucket;) {
        if (z->plan.buckets[k].block != block || z->buckets[k].begun)
            continue;
        if (!is_complete(z, k))
            return STATUS_OK;
        TRY(begin_bucket(z, s, k));
    }
    z->blocks[block].gradients = GRADIENTS_SENT;
    return STATUS_OK;
}

// The room between tensors has been another unit's.
static status clear_padding(zero *z, device_stream *s, size_t index)
{
    const size_t used = tensor_elements(&z->table->tensors[index]);
    const size_t padding = size_round_up(used, TENSOR_ALIGN) - used;
    if (padding == 0)
        return STATUS_OK;
    return device_zero(s, (float *)z->gradient_places[index] + used, padding * sizeof(float));
}

// ---- What the model calls ----

status zero_gradient_ready(zero *z, device_stream *s, size_t index)
{
    if (index >= z->table->count)
        return fail(STATUS_ERR_COMM, "gradient of tensor %zu is ready, but there are %zu", index,
                    z->table->count);
    const size_t bucket = z->plan.bucket_of[index], block = z->plan.buckets[bucket].block;
    if (z->ready[index])
        return fail(STATUS_ERR_COMM, "gradient of tensor %zu is ready twice in a step", index);
    if (shares_gradients(z) && z->blocks[block].gradients != GRADIENTS_OPEN)
        return fail(STATUS_ERR_COMM,
                    "gradient of tensor %zu is ready, but its unit was not acquired for a backward "
                    "pass",
                    index);
    z->ready[index] = true;
    z->buckets[bucket].ready++;
    if (!shares_gradients(z))
        return begin_complete(z, s);
    TRY(clear_padding(z, s, index));
    return begin_complete_of(z, s, block);
}

static status finish_whole(zero *z)
{
    for (size_t i = 0; i < z->table->count; i++)
        if (!z->ready[i])
            return fail(STATUS_ERR_COMM, "gradient of tensor %zu of %zu was never ready", i,
                        z->table->count);
    for (size_t k = z->plan.n_buckets; k-- > 0;) {
        TRY(comm_wait(&z->buckets[k].gradient));
        z->buckets[k].begun = false;
        z->buckets[k].ready = 0;
    }
    for (size_t i = 0; i < z->table->count; i++)
        z->ready[i] = false;
    z->unsent = z->plan.n_buckets;
    return STATUS_OK;
}

static status never_ready(const zero *z, const zero_bucket *b)
{
    size_t i = b->first_tensor;
    while (i + 1 < b->end_tensor && z->ready[i])
        i++;
    return fail(STATUS_ERR_COMM, "gradient of tensor %zu of %zu was never ready", i,
                z->table->count);
}

status zero_finish_gradients(zero *z, device_stream *s)
{
    if (!shares_gradients(z))
        return finish_whole(z);
    for (size_t k = 0; k < z->plan.n_buckets; k++)
        if (z->blocks[z->plan.buckets[k].block].gradients == GRADIENTS_OPEN && !z->buckets[k].begun)
            return never_ready(z, &z->plan.buckets[k]);
    for (size_t i = 0; i < z->plan.n_blocks; i++)
        if (z->blocks[i].gradients == GRADIENTS_SENT)
            TRY(collect_block(z, s, i));
    for (size_t k = 0; k < z->plan.n_buckets; k++)
        if (!z->buckets[k].summed)
            return never_ready(z, &z->plan.buckets[k]);
    for (size_t k = 0; k < z->plan.n_buckets; k++)
        z->buckets[k].summed = false;
    return STATUS_OK;
}
