// Parameters on their way to those who read them.
//
// Stages 1 and 2: after the update every rank has its part of the new parameters in place, and
// buckets are gathered in forward order; a unit waits for those with its own tensors.
//
// Stage 3: a unit's parameters come into the space of blocks when they are wanted, made from the
// masters of all ranks, and stay until another unit needs the room or they change:
//
//     absent --fetch--> coming --wait--> here --room needed, or a step--> absent
//
// While one unit is used the next is on its way. Which one that is, is remembered from the last
// time, so that recomputation and pipelines are followed as well; a wrong guess costs a message,
// and every rank guesses the same.
#include "zero/zero_internal.h"

// ---- Stages 1 and 2 ----

status zero_params_from_master(zero *z, device_stream *s, size_t bucket)
{
    const zero_bucket *b = &z->plan.buckets[bucket];
    if (!z->master)
        return STATUS_OK;
    return device_cast(s, &(cast_args){.dst = own_params(z, b),
                                       .src = own_master(z, b),
                                       .count = b->own_end - b->own_begin,
                                       .dst_type = z->options.adam.type,
                                       .src_type = DTYPE_F32});
}

static status begin_gather(zero *z, size_t bucket)
{
    return comm_allgather_begin(z->options.zero, COMM_PARAMETERS,
                                bucket_params(z, &z->plan.buckets[bucket]),
                                z->plan.counts + bucket * z->plan.options.ranks,
                                z->options.adam.type, &z->buckets[bucket].params);
}

static status wait_gathers(zero *z, size_t end)
{
    for (; z->gathered < end && z->gathered < z->gathers; z->gathered++)
        TRY(comm_wait(&z->buckets[z->gathered].params));
    return STATUS_OK;
}

status zero_params_gather(zero *z)
{
    if (z->gathers == z->plan.n_buckets)
        z->gathers = z->gathered = 0;
    if (z->gathers - z->gathered == ZERO_WINDOW)
        TRY(wait_gathers(z, z->gathered + 1));
    TRY(begin_gather(z, z->gathers));
    z->gathers++;
    return z->options.overlap ? STATUS_OK : wait_gathers(z, z->gathers);
}

status zero_wait_params(zero *z)
{
    return shares_params(z) ? STATUS_OK : wait_gathers(z, z->plan.n_buckets);
}

// ---- Stage 3 ----

static status wait_block(zero *z, size_t block)
{
    const zero_plan *plan = &z->plan;
    const size_t end = plan->blocks[block].end_bucket;
    if (z->blocks[block].params != PARAMS_COMING)
        return STATUS_OK;
    for (size_t k = zero_plan_next(plan, block, plan->blocks[block].first_bucket); k < end;
         k = zero_plan_next(plan, block, k + 1))
        TRY(comm_wait(&z->buckets[k].params));
    z->blocks[block].params = PARAMS_HERE;
    return STATUS_OK;
}

// Whether a block may be fetched now: *in_use is a block that is used and has its room.
static bool has_room(const zero *z, size_t block, size_t *in_use)
{
    for (size_t i = 0; i < z->plan.n_blocks; i++) {
        if (i == block || z->blocks[i].users == 0 || !zero_plan_overlap(&z->plan, block, i))
            continue;
        *in_use = i;
        return false;
    }
    return true;
}

static status clear_room(zero *z, size_t block)
{
    for (size_t i = 0; i < z->plan.n_blocks; i++) {
        if (i == block || !zero_plan_overlap(&z->plan, block, i))
            continue;
        TRY(wait_block(z, i));
        z->blocks[i].params = PARAMS_ABSENT;
    }
    return STATUS_OK;
}

// Begin to bring a block that is absent, whose room is free.
static status fetch_block(zero *z, device_stream *s, size_t block)
{
    const zero_plan *plan = &z->plan;
    const size_t first = zero_plan_next(plan, block, plan->blocks[block].first_bucket);
    const size_t end = plan->blocks[block].end_bucket;
    TRY(clear_room(z, block));
    for (size_t k = first; k < end; k = zero_plan_next(plan, block, k + 1))
        TRY(zero_params_from_master(z, s, k));
    // The message reads what the device wrote, and writes where it may have read.
    TRY(device_stream_synchronize(s));
    for (size_t k = first; k < end; k = zero_plan_next(plan, block, k + 1)) {
        if (k >= first + ZERO_WINDOW)
            TRY(comm_wait(&z->buckets[k - ZERO_WINDOW].params));
        TRY(begin_gather(z, k));
    }
    z->blocks[block].params = PARAMS_COMING;
    return STATUS_OK;
}

static status use_block(zero *z, device_stream *s, size_t block)
{
    size_t in_use;
    if (z->blocks[block].params == PARAMS_ABSENT) {
        if (!has_room(z, block, &in_use))
            return fail(STATUS_ERR_COMM,
                        "unit %zu is acquired while unit %zu, whose room it needs, is in use; "
                        "release that first",
                        block, in_use);
        TRY(fetch_block(z, s, block));
    }
    z->blocks[block].users++;
    return STATUS_OK;
}

static status fetch_unit(zero *z, device_stream *s, size_t unit, bool *fetched)
{
    size_t blocks[ZERO_UNIT_BLOCKS], in_use;
    const size_t count = zero_plan_unit_blocks(&z->plan, unit, blocks);
    for (size_t i = 0; i < count; i++) {
        if (z->blocks[blocks[i]].params != PARAMS_ABSENT)
            continue;
        *fetched = true; // or would be, were there room: what follows it must wait anyway
        if (has_room(z, blocks[i], &in_use))
            TRY(fetch_block(z, s, blocks[i]));
    }
    return STATUS_OK;
}

status zero_params_expect(zero *z, device_stream *s)
{
    bool fetched = false;
    unit_use use = z->last_use;
    if (!z->options.overlap)
        return STATUS_OK;
    // The next unit may be here already: turning from forward to backward, or recomputed.
    for (int ahead = 0; ahead < 2 && !fetched; ahead++) {
        use = z->followers[use];
        TRY(fetch_unit(z, s, use / 2, &fetched));
    }
    return STATUS_OK;
}

static status use_unit(zero *z, device_stream *s, size_t unit, bool backward)
{
    size_t blocks[ZERO_UNIT_BLOCKS];
    const size_t count = zero_plan_unit_blocks(&z->plan, unit, blocks);
    const unit_use use = 2 * unit + backward;
    for (size_t i = 0; i < count; i++)
        TRY(use_block(z, s, blocks[i]));
    z->followers[z->last_use] = use;
    z->last_use = use;
    for (size_t i = 0; i < count; i++)
        TRY(wait_block(z, blocks[i]));
    return zero_params_expect(z, s);
}

static status leave_unit(zero *z, size_t unit)
{
    size_t blocks[ZERO_UNIT_BLOCKS];
    const size_t count = zero_plan_unit_blocks(&z->plan, unit, blocks);
    for (size_t i = 0; i < count; i++) {
        if (z->blocks[blocks[i]].users == 0)
            return fail(STATUS_ERR_COMM, "unit %zu is released, but was not acquired", unit);
        z->blocks[blocks[i]].users--;
    }
    return STATUS_OK;
}

status zero_params_drop(zero *z)
{
    for (size_t i = 0; i < z->plan.n_blocks; i++) {
        if (z->blocks[i].users > 0)
            return fail(STATUS_ERR_COMM,
                        "parameters of unit %zu change while it is in use; release it first", i);
        TRY(wait_block(z, i));
        z->blocks[i].params = PARAMS_ABSENT;
    }
    return STATUS_OK;
}

// ---- What the model calls ----

static status check_unit(const zero *z, size_t unit)
{
    if (unit < z->plan.n_units)
        return STATUS_OK;
    return fail(STATUS_ERR_COMM, "unit %zu is used, but there are %zu", unit, z->plan.n_units);
}

status zero_acquire(zero *z, device_stream *s, size_t unit, bool backward)
{
    TRY(check_unit(z, unit));
    if (shares_params(z))
        TRY(use_unit(z, s, unit, backward));
    else
        TRY(wait_gathers(z, z->plan.needed_buckets[unit]));
    return backward && shares_gradients(z) ? zero_gradients_open(z, s, unit) : STATUS_OK;
}

status zero_release(zero *z, device_stream *s, size_t unit, bool backward)
{
    (void)s;
    (void)backward;
    TRY(check_unit(z, unit));
    return shares_params(z) ? leave_unit(z, unit) : STATUS_OK;
}
