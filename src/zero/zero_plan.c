#include "zero/zero_plan.h"

#include <stdint.h>
#include <string.h>

#include "base/sizes.h"

static status check(const tensor_table *table, const zero_plan_options *o)
{
    if (table->count == 0)
        return fail(STATUS_ERR_CONFIG, "ZeRO: there are no tensors to share; give at least one");
    if (o->bucket_elements == 0)
        return fail(STATUS_ERR_CONFIG, "ZeRO: a bucket of 0 elements; it must have at least 1");
    if (o->rank >= o->ranks)
        return fail(STATUS_ERR_CONFIG, "ZeRO: rank %zu of %zu; ranks are below their number",
                    o->rank, o->ranks);
    for (size_t i = 1; i < table->count; i++)
        if (table->tensors[i].unit < table->tensors[i - 1].unit)
            return fail(STATUS_ERR_CONFIG,
                        "ZeRO: tensor %s of unit %zu follows unit %zu; units "
                        "must ascend",
                        table->tensors[i].name, table->tensors[i].unit, table->tensors[i - 1].unit);
    const size_t units = table->tensors[table->count - 1].unit + 1;
    if (o->tied != SIZE_MAX && o->tied >= table->count)
        return fail(STATUS_ERR_CONFIG, "ZeRO: tied tensor %zu of %zu; there is none such", o->tied,
                    table->count);
    if (o->tied_unit != SIZE_MAX && (o->tied == SIZE_MAX || o->tied_unit >= units))
        return fail(STATUS_ERR_CONFIG,
                    "ZeRO: unit %zu of %zu uses a tied tensor; name the tensor, and a unit below "
                    "their number",
                    o->tied_unit, units);
    return STATUS_OK;
}

// ---- Buckets ----

static size_t tensor_end(const tensor_table *table, size_t tensor)
{
    return tensor + 1 < table->count ? table->tensors[tensor + 1].offset : table->elements;
}

// Whether tensors i and i + 1 may not share a bucket, whatever its size.
static bool is_apart(const zero_plan *plan, size_t i)
{
    const zero_plan_options *o = &plan->options;
    const tensor_info *tensors = plan->table->tensors;
    return i == o->tied || i + 1 == o->tied ||
           (o->by_unit && tensors[i].unit != tensors[i + 1].unit);
}

// From the end of the table, where gradients are final first, so that a bucket that is not full is
// among the last to be sent.
static void cut_buckets(zero_plan *plan)
{
    const tensor_table *table = plan->table;
    zero_bucket *first = plan->buckets + table->count;
    for (size_t i = table->count; i-- > 0;) {
        const size_t begin = table->tensors[i].offset, end = tensor_end(table, i);
        const bool open = i + 1 < table->count && !is_apart(plan, i) &&
                          first->end - begin <= plan->options.bucket_elements;
        if (!open)
            *--first = (zero_bucket){.end = end, .end_tensor = i + 1};
        first->begin = begin;
        first->first_tensor = i;
    }
    plan->n_buckets = (size_t)(plan->buckets + table->count - first);
    memmove(plan->buckets, first, plan->n_buckets * sizeof *first);
}

void zero_plan_part(const zero_plan *plan, size_t bucket, size_t rank, size_t *begin, size_t *end)
{
    const zero_bucket *b = &plan->buckets[bucket];
    size_split((b->end - b->begin) / TENSOR_ALIGN, plan->options.ranks, rank, begin, end);
    *begin = b->begin + *begin * TENSOR_ALIGN;
    *end = b->begin + *end * TENSOR_ALIGN;
}

static void deal_out(zero_plan *plan)
{
    for (size_t k = 0; k < plan->n_buckets; k++) {
        zero_bucket *b = &plan->buckets[k];
        for (size_t r = 0; r < plan->options.ranks; r++) {
            size_t begin, end;
            zero_plan_part(plan, k, r, &begin, &end);
            plan->counts[k * plan->options.ranks + r] = end - begin;
        }
        zero_plan_part(plan, k, plan->options.rank, &b->own_begin, &b->own_end);
        b->shard = plan->shard_elements;
        plan->shard_elements += b->own_end - b->own_begin;
        for (size_t i = b->first_tensor; i < b->end_tensor; i++)
            plan->bucket_of[i] = k;
    }
}

void zero_plan_piece(const zero_plan *plan, size_t tensor, size_t rank, size_t *begin, size_t *end)
{
    size_t part_begin, part_end;
    zero_plan_part(plan, plan->bucket_of[tensor], rank, &part_begin, &part_end);
    *begin = size_max(plan->table->tensors[tensor].offset, part_begin);
    *end = size_max(*begin, size_min(tensor_end(plan->table, tensor), part_end));
}

// ---- Units and blocks ----

static bool uses_tied(const zero_plan *plan, size_t unit)
{
    const zero_plan_options *o = &plan->options;
    return o->tied != SIZE_MAX &&
           (unit == plan->table->tensors[o->tied].unit || unit == o->tied_unit);
}

static void find_needed(zero_plan *plan)
{
    for (size_t i = 0; i < plan->table->count; i++)
        plan->needed_buckets[plan->table->tensors[i].unit] = plan->bucket_of[i] + 1;
    if (plan->options.tied_unit != SIZE_MAX) {
        size_t *needed = &plan->needed_buckets[plan->options.tied_unit];
        *needed = size_max(*needed, plan->bucket_of[plan->options.tied] + 1);
    }
}

size_t zero_plan_unit_blocks(const zero_plan *plan, size_t unit, size_t blocks[ZERO_UNIT_BLOCKS])
{
    size_t count = 0;
    blocks[count++] = unit;
    if (uses_tied(plan, unit))
        blocks[count++] = plan->n_units;
    return count;
}

size_t zero_plan_next(const zero_plan *plan, size_t block, size_t bucket)
{
    const size_t end = plan->blocks[block].end_bucket;
    while (bucket < end && plan->buckets[bucket].block != block)
        bucket++;
    return bucket;
}

// Blocks with their buckets and, as begin and end, how much they hold.
static void form_blocks(zero_plan *plan)
{
    for (size_t k = 0; k < plan->n_buckets; k++) {
        zero_bucket *b = &plan->buckets[k];
        const bool tied = b->first_tensor == plan->options.tied;
        b->block = tied ? plan->n_units : plan->table->tensors[b->first_tensor].unit;
        zero_block *block = &plan->blocks[b->block];
        if (block->end_bucket == 0)
            block->first_bucket = k;
        block->end_bucket = k + 1;
        b->space = block->end; // within the block
        block->end += b->end - b->begin;
    }
}

// See the header: any two neighbours of the ring of blocks fit beside each other.
static void place_blocks(zero_plan *plan)
{
    zero_block *blocks = plan->blocks, *tied = &plan->blocks[plan->n_units];
    size_t shared = blocks[0].end;
    for (size_t u = 1; u < plan->n_units; u++)
        shared = size_max(shared, blocks[u - 1].end + blocks[u].end);
    plan->space_elements = shared + tied->end;
    for (size_t u = 1; u < plan->n_units; u += 2) {
        blocks[u].begin = shared - blocks[u].end;
        blocks[u].end = shared;
    }
    tied->begin = shared;
    tied->end += shared;
    for (size_t k = 0; k < plan->n_buckets; k++)
        plan->buckets[k].space += blocks[plan->buckets[k].block].begin;
}

// ---- Creation ----

static status allocate(zero_plan *plan)
{
    const size_t tensors = plan->table->count;
    size_t parts;
    void *memory;
    if (!size_mul(tensors, plan->options.ranks, &parts))
        return fail(STATUS_ERR_CONFIG, "ZeRO: %zu tensors over %zu ranks exceed the address space",
                    tensors, plan->options.ranks);
    TRY(memory_alloc(tensors, sizeof(zero_bucket), "ZeRO buckets", &memory));
    plan->buckets = memory;
    TRY(memory_alloc(tensors, sizeof(size_t), "ZeRO buckets", &memory));
    plan->bucket_of = memory;
    TRY(memory_alloc(plan->n_units, sizeof(size_t), "ZeRO buckets", &memory));
    plan->needed_buckets = memory;
    cut_buckets(plan);
    TRY(memory_alloc(plan->n_buckets * plan->options.ranks, sizeof(size_t), "ZeRO buckets",
                     &memory));
    plan->counts = memory;
    if (!plan->options.by_unit)
        return STATUS_OK;
    plan->n_blocks = plan->n_units + 1;
    TRY(memory_alloc(plan->n_blocks, sizeof(zero_block), "ZeRO blocks", &memory));
    plan->blocks = memory;
    return STATUS_OK;
}

status zero_plan_create(const tensor_table *table, const zero_plan_options *options, zero_plan *out)
{
    TRY(check(table, options));
    zero_plan plan = {
        .table = table, .options = *options, .n_units = table->tensors[table->count - 1].unit + 1};
    const status result = allocate(&plan);
    if (result != STATUS_OK) {
        zero_plan_destroy(&plan);
        return result;
    }
    deal_out(&plan);
    find_needed(&plan);
    if (options->by_unit) {
        form_blocks(&plan);
        place_blocks(&plan);
    }
    *out = plan;
    return STATUS_OK;
}

void zero_plan_destroy(zero_plan *plan)
{
    memory_free(plan->buckets);
    memory_free(plan->counts);
    memory_free(plan->bucket_of);
    memory_free(plan->needed_buckets);
    memory_free(plan->blocks);
    *plan = (zero_plan){0};
}
