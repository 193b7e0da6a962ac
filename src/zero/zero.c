// What a rank holds in each stage: sizes, allocation, places.
#include "zero/zero.h"

#include <stdint.h>

#include "base/memory.h"
#include "zero/zero_internal.h"

zero_options zero_options_defaults(void)
{
    return (zero_options){.bucket_elements = ZERO_BUCKET_ELEMENTS_DEFAULT,
                          .overlap = true,
                          .tied = SIZE_MAX,
                          .tied_unit = SIZE_MAX};
}

// ---- Sizes ----

// Bytes of each buffer; 0 where the stage has none.
typedef struct buffer_sizes {
    size_t params, gradients, gradient_shard, master, moment;
} buffer_sizes;

static bool has_master(const zero_options *o)
{
    return o->adam.type != DTYPE_F32 || o->stage == 3 || (o->stage > 0 && o->separate_master);
}

static buffer_sizes sizes_of(const zero_options *o, const zero_plan *plan)
{
    const size_t whole = plan->table->elements, shard = plan->shard_elements;
    const size_t param = dtype_size(o->adam.type);
    return (buffer_sizes){.params = (o->stage == 3 ? plan->space_elements : whole) * param,
                          .gradients =
                              (o->stage >= 2 ? plan->space_elements : whole) * sizeof(float),
                          .gradient_shard = o->stage >= 2 ? shard * sizeof(float) : 0,
                          .master = has_master(o) ? shard * sizeof(float) : 0,
                          .moment = shard * sizeof(float)};
}

static zero_memory memory_of(const buffer_sizes *sizes)
{
    return (zero_memory){.params = sizes->params,
                         .gradients = sizes->gradients + sizes->gradient_shard,
                         .optimizer = sizes->master + 2 * sizes->moment};
}

static status check_options(const zero_options *o)
{
    if (o->stage < 0 || o->stage > 3)
        return fail(STATUS_ERR_CONFIG, "ZeRO stage %d; it is 0, 1, 2 or 3", o->stage);
    return STATUS_OK;
}

// In stage 0 nothing is shared: each rank is alone with its shard.
static status make_plan(const tensor_table *table, const zero_options *o, size_t ranks, size_t rank,
                        zero_plan *plan)
{
    TRY(check_options(o));
    const bool shared = o->stage > 0;
    return zero_plan_create(table,
                            &(zero_plan_options){.ranks = shared ? ranks : 1,
                                                 .rank = shared ? rank : 0,
                                                 .bucket_elements = o->bucket_elements,
                                                 .by_unit = o->stage >= 2,
                                                 .tied = o->tied,
                                                 .tied_unit = o->tied_unit},
                            plan);
}

status zero_memory_plan(const tensor_table *table, const zero_options *options, size_t ranks,
                        zero_memory *out)
{
    zero_plan plan;
    TRY(make_plan(table, options, ranks, 0, &plan));
    const buffer_sizes sizes = sizes_of(options, &plan);
    *out = memory_of(&sizes);
    zero_plan_destroy(&plan);
    return STATUS_OK;
}

zero_memory zero_memory_used(const zero *z)
{
    return z->used;
}

// ---- Creation ----

static status allocate_buffers(zero *z)
{
    const buffer_sizes sizes = sizes_of(&z->options, &z->plan);
    void *memory;
    TRY(device_malloc(z->device, sizes.params, "parameters", &memory));
    z->params = memory;
    TRY(device_malloc(z->device, sizes.gradients, "gradients", &memory));
    z->gradients = memory;
    if (shares_gradients(z)) {
        TRY(device_malloc(z->device, sizes.gradient_shard, "gradients", &memory));
        z->gradient_shard = memory;
    }
    if (has_master(&z->options)) {
        TRY(device_malloc(z->device, sizes.master, "parameters", &memory));
        z->master = memory;
    }
    TRY(device_malloc(z->device, sizes.moment, "optimizer state", &memory));
    z->exp_avg = memory;
    TRY(device_malloc(z->device, sizes.moment, "optimizer state", &memory));
    z->exp_avg_sq = memory;
    z->used = memory_of(&sizes);
    return STATUS_OK;
}

static status allocate_states(zero *z)
{
    const zero_plan *plan = &z->plan;
    void *memory;
    TRY(memory_alloc(plan->n_buckets, sizeof(bucket_state), "ZeRO", &memory));
    z->buckets = memory;
    TRY(memory_alloc(plan->n_blocks, sizeof(block_state), "ZeRO", &memory));
    z->blocks = memory;
    TRY(memory_alloc(z->table->count, sizeof(bool), "ZeRO", &memory));
    z->ready = memory;
    TRY(memory_alloc(z->table->count, sizeof(void *), "ZeRO", &memory));
    z->param_places = memory;
    TRY(memory_alloc(z->table->count, sizeof(void *), "ZeRO", &memory));
    z->gradient_places = memory;
    TRY(memory_alloc(plan->options.ranks, sizeof(size_t), "ZeRO", &memory));
    z->counts = memory;
    TRY(memory_alloc(2 * plan->n_units, sizeof(unit_use), "ZeRO", &memory));
    z->followers = memory;
    return STATUS_OK;
}

static void place_tensors(zero *z)
{
    for (size_t i = 0; i < z->table->count; i++) {
        const zero_bucket *b = &z->plan.buckets[z->plan.bucket_of[i]];
        const size_t within = z->table->tensors[i].offset - b->begin;
        z->param_places[i] = bucket_params(z, b) + within * z->size;
        z->gradient_places[i] = bucket_gradients(z, b) + within;
    }
}

// Before anything is known of the order of units: forward through all, then backward.
static void guess_followers(zero *z)
{
    const size_t units = z->plan.n_units;
    for (size_t u = 0; u < units; u++) {
        z->followers[2 * u] = u + 1 < units ? 2 * (u + 1) : 2 * u + 1;
        z->followers[2 * u + 1] = u > 0 ? 2 * (u - 1) + 1 : 0;
    }
    z->last_use = 1; // the backward pass of the first unit, after which a step begins
}

static status set_up(zero *z)
{
    const zero_options *o = &z->options;
    TRY(make_plan(z->table, o, (size_t)comm_group_size(o->zero), (size_t)comm_group_rank(o->zero),
                  &z->plan));
    TRY(allocate_states(z));
    TRY(allocate_buffers(z));
    place_tensors(z);
    guess_followers(z);
    z->unsent = z->plan.n_buckets;
    z->gathers = z->gathered = z->plan.n_buckets;
    return STATUS_OK;
}

status zero_create(device *d, const tensor_table *table, const zero_options *options, zero **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(zero), "ZeRO", &memory));
    zero *z = memory;
    z->device = d;
    z->table = table;
    z->options = *options;
    z->size = dtype_size(options->adam.type);
    const status result = set_up(z);
    if (result == STATUS_OK)
        *out = z;
    else
        zero_destroy(z);
    return result;
}

void zero_destroy(zero *z)
{
    if (!z)
        return;
    for (size_t k = 0; z->buckets && k < z->plan.n_buckets; k++) {
        comm_wait(&z->buckets[k].gradient);
        comm_wait(&z->buckets[k].params);
    }
    device_free(z->device, z->exp_avg_sq);
    device_free(z->device, z->exp_avg);
    device_free(z->device, z->master);
    device_free(z->device, z->gradient_shard);
    device_free(z->device, z->gradients);
    device_free(z->device, z->params);
    memory_free(z->followers);
    memory_free(z->counts);
    memory_free(z->gradient_places);
    memory_free(z->param_places);
    memory_free(z->ready);
    memory_free(z->blocks);
    memory_free(z->buckets);
    zero_plan_destroy(&z->plan);
    memory_free(z);
}

// ---- What the model reads and writes ----

const void *const *zero_params(const zero *z)
{
    return (const void *const *)z->param_places;
}

float *const *zero_gradients(const zero *z)
{
    return (float *const *)z->gradient_places;
}

zero_rules zero_gradient_rules(const zero *z, size_t micro_batch, size_t count)
{
    if (shares_gradients(z))
        return (zero_rules){.accumulate = false, .announce = true};
    return (zero_rules){.accumulate = micro_batch > 0, .announce = micro_batch + 1 == count};
}
