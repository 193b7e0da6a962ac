/* What the tests of ZeRO share: a table of awkward tensors, a model that only goes through its
 * units, and the update that one process makes of all ranks' gradients. */
#ifndef TRIFOLD_TESTS_ZERO_FIXTURE_H
#define TRIFOLD_TESTS_ZERO_FIXTURE_H

#include "comm_fixture.h"

#include "base/sizes.h"
#include "zero/zero.h"

enum {
    ZERO_TENSORS = 14,
    ZERO_UNITS = 6,
    TIED = 0,
    TIED_UNIT = ZERO_UNITS - 1,
};

/* Odd sizes, tensors smaller than 16 elements a rank, one much larger than the others. */
static const struct {
    size_t unit, rows, cols;
    bool decay, counted;
} zero_specs[ZERO_TENSORS] = {
    {0, 37, 24, true, true}, {0, 10, 10, true, true},   {1, 1, 7, false, true},
    {1, 1, 16, false, true}, {1, 71, 71, true, true},   {2, 1, 7, false, false},
    {2, 1, 16, false, true}, {2, 101, 103, true, true}, {3, 1, 1, false, true},
    {3, 1, 2, false, true},  {4, 1, 33, false, true},   {4, 33, 35, true, true},
    {5, 1, 19, false, true}, {5, 64, 32, true, false},
};

static device *cpu;
static device_stream *stream;
static tensor_table table;
static comm_group *zero_group; /* all ranks */
static bool untied;            /* the tied tensor is as any other */

static inline bool zero_world_begin(int argc, char **argv)
{
    const device_options d = {.backend = "cpu", .threads = 2, .local_ranks = 1};
    int *ranks = NULL;
    if (!world_begin(argc, argv) || device_create(&d, &cpu) != STATUS_OK ||
        device_stream_create(cpu, &stream) != STATUS_OK)
        return false;
    for (size_t i = 0; i < ZERO_TENSORS; i++) {
        tensor_info info = {.rows = zero_specs[i].rows,
                            .cols = zero_specs[i].cols,
                            .unit = zero_specs[i].unit,
                            .decay = zero_specs[i].decay,
                            .counted = zero_specs[i].counted};
        snprintf(info.name, sizeof info.name, "t%zu", i);
        if (tensor_table_add(&table, &info, NULL) != STATUS_OK)
            return false;
    }
    ranks = calloc((size_t)size, sizeof *ranks);
    for (int r = 0; ranks && r < size; r++)
        ranks[r] = r;
    const bool ok =
        ranks && comm_group_create(world, COMM_ZERO, ranks, size, &zero_group) == STATUS_OK;
    free(ranks);
    return ok;
}

static inline void zero_world_end(void)
{
    comm_group_destroy(zero_group);
    tensor_table_fini(&table);
    device_stream_destroy(stream);
    device_destroy(cpu);
    comm_destroy(world);
}

static inline zero_options zero_options_of(int stage, dtype type)
{
    zero_options o = zero_options_defaults();
    o.stage = stage;
    o.data = group;
    o.zero = zero_group;
    o.adam = (optimizer_options){
        .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f, .type = type};
    o.bucket_elements = 5000;
    o.tied = untied ? SIZE_MAX : TIED;
    o.tied_unit = untied ? SIZE_MAX : TIED_UNIT;
    return o;
}

/* ---- Gradients ---- */

/* The tied tensor has two: of the last unit, which writes first, and of its own. */
enum { SHARES = 2 };

static inline bool is_tied(size_t tensor)
{
    return tensor == TIED && !untied;
}

static inline unsigned salt_of(size_t step, size_t micro_batch, size_t share)
{
    return (unsigned)((step * 16 + micro_batch) * SHARES + share);
}

/* Of this table's element `i`, the gradient of a micro-batch on rank r. */
static inline float gradient_of(int r, size_t i, bool tied, size_t step, size_t micro_batch)
{
    const float own = sample(r, i, salt_of(step, micro_batch, 0));
    return tied ? sample(r, i, salt_of(step, micro_batch, 1)) + own : own;
}

/* What rank r adds up over the micro-batches in one buffer. */
static inline float accumulated(int r, size_t i, bool tied, size_t step, size_t count)
{
    float sum = gradient_of(r, i, tied, step, 0);
    for (size_t k = 1; k < count; k++) {
        if (tied)
            sum += sample(r, i, salt_of(step, k, 1));
        sum += sample(r, i, salt_of(step, k, 0));
    }
    return sum;
}

/* The sum of all, in the order of a stage: over micro-batches first, or over ranks first. */
static inline float gradient_sum(int stage, size_t i, bool tied, size_t step, size_t count)
{
    float sum = 0;
    if (stage < 2) {
        for (int r = 0; r < size; r++)
            sum = r == 0 ? accumulated(r, i, tied, step, count)
                         : sum + accumulated(r, i, tied, step, count);
        return sum;
    }
    for (size_t k = 0; k < count; k++) {
        float ranks = gradient_of(0, i, tied, step, k);
        for (int r = 1; r < size; r++)
            ranks += gradient_of(r, i, tied, step, k);
        sum = k == 0 ? ranks : sum + ranks;
    }
    return sum;
}

/* The flat buffer of these sums. */
static inline void gradient_sums(float *grads, int stage, size_t step, size_t count)
{
    memset(grads, 0, table.elements * sizeof *grads);
    for (size_t t = 0; t < table.count; t++) {
        const tensor_info *info = &table.tensors[t];
        for (size_t j = 0; j < tensor_elements(info); j++)
            grads[info->offset + j] =
                gradient_sum(stage, info->offset + j, is_tied(t), step, count);
    }
}

/* ---- The model that only goes through its units ---- */

typedef struct walk {
    zero *z;
    const float *expected; /* flat master parameters; NULL: not compared */
    dtype type;
    size_t step, micro_batches;
    bool spoil;   /* one gradient of the last rank is not a number */
    size_t wrong; /* the first element whose parameter was not as expected; SIZE_MAX */
} walk;

static inline float rounded(float x, dtype type)
{
    return type == DTYPE_F32    ? x
           : type == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(x))
                                : f16_to_f32(f32_to_f16(x));
}

static inline float value_at(const void *values, size_t i, dtype type)
{
    if (type == DTYPE_F32)
        return ((const float *)values)[i];
    const uint16_t half = ((const uint16_t *)values)[i];
    return type == DTYPE_BF16 ? bf16_to_f32(half) : f16_to_f32(half);
}

static inline void look_at(walk *w, size_t tensor)
{
    const tensor_info *info = &table.tensors[tensor];
    const void *params = zero_params(w->z)[tensor];
    for (size_t j = 0; w->expected && j < tensor_elements(info) && w->wrong == SIZE_MAX; j++)
        if (!same_bits(value_at(params, j, w->type),
                       rounded(w->expected[info->offset + j], w->type)))
            w->wrong = info->offset + j;
}

static inline bool is_used(size_t unit, size_t tensor)
{
    return table.tensors[tensor].unit == unit || (is_tied(tensor) && unit == TIED_UNIT);
}

static inline void walk_forward(walk *w, size_t unit)
{
    assert_ok(zero_acquire(w->z, stream, unit, false));
    for (size_t t = 0; t < table.count; t++)
        if (is_used(unit, t))
            look_at(w, t);
    assert_ok(zero_release(w->z, stream, unit, false));
}

static inline void write_gradient(walk *w, size_t tensor, size_t share, size_t k, bool accumulate)
{
    const tensor_info *info = &table.tensors[tensor];
    float *g = zero_gradients(w->z)[tensor];
    for (size_t j = 0; j < tensor_elements(info); j++) {
        const float x = sample(rank, info->offset + j, salt_of(w->step, k, share));
        g[j] = accumulate ? g[j] + x : x;
    }
    if (w->spoil && tensor == 4 && rank == size - 1)
        g[tensor_elements(info) - 1] = NAN;
}

static inline void walk_backward(walk *w, size_t unit, size_t k)
{
    const zero_rules rules = zero_gradient_rules(w->z, k, w->micro_batches);
    assert_ok(zero_acquire(w->z, stream, unit, true));
    if (unit == TIED_UNIT && !untied)
        write_gradient(w, TIED, 1, k, rules.accumulate);
    for (size_t t = table.count; t-- > 0;) {
        if (!is_used(unit, t))
            continue;
        look_at(w, t);
        if (table.tensors[t].unit != unit)
            continue;
        write_gradient(w, t, 0, k, is_tied(t) || rules.accumulate);
        if (rules.announce)
            assert_ok(zero_gradient_ready(w->z, stream, t));
    }
    assert_ok(zero_release(w->z, stream, unit, true));
}

/* The order in which a micro-batch's units are used. */
typedef enum walk_order {
    WALK_PLAIN,     /* forward, then backward, for each micro-batch */
    WALK_RECOMPUTE, /* forward again two units at a time before their backward pass */
    WALK_PIPELINE,  /* one forward pass ahead of the backward passes */
    WALK_ORDERS,
} walk_order;

static inline void forward_all(walk *w)
{
    for (size_t u = 0; u + 1 < ZERO_UNITS; u++)
        walk_forward(w, u);
}

static inline void backward_all(walk *w, size_t k, walk_order order)
{
    walk_backward(w, ZERO_UNITS - 1, k);
    for (size_t u = ZERO_UNITS - 1; u-- > 0;) {
        if (order == WALK_RECOMPUTE && u % 2 == 0 && u > 0) {
            walk_forward(w, u - 1);
            walk_forward(w, u);
        }
        walk_backward(w, u, k);
    }
}

/* Forward and backward of all micro-batches. */
static inline void walk_step(walk *w, walk_order order)
{
    w->wrong = SIZE_MAX;
    if (order == WALK_PIPELINE)
        forward_all(w);
    for (size_t k = 0; k < w->micro_batches; k++) {
        if (order != WALK_PIPELINE || k + 1 < w->micro_batches)
            forward_all(w);
        backward_all(w, k, order);
    }
    assert_ok(zero_finish_gradients(w->z, stream));
}

/* ---- The same by one process ---- */

typedef struct reference {
    optimizer *optimizer;
    float *grads;
} reference;

static inline float initial(zero_part part, size_t i)
{
    const float x = sample(40 + (int)part, i, 77);
    return part == ZERO_EXP_AVG_SQ ? x * x : x;
}

static inline float *reference_part(const reference *ref, zero_part part)
{
    return part == ZERO_PARAM     ? optimizer_master(ref->optimizer)
           : part == ZERO_EXP_AVG ? optimizer_exp_avg(ref->optimizer)
                                  : optimizer_exp_avg_sq(ref->optimizer);
}

static inline reference reference_begin(void)
{
    reference ref = {.grads = buffer_of(table.elements)};
    const optimizer_options o = zero_options_of(0, DTYPE_F32).adam;
    assert_ok(optimizer_create(cpu, &table, &o, &ref.optimizer));
    for (size_t t = 0; t < table.count; t++)
        for (size_t j = 0; j < tensor_elements(&table.tensors[t]); j++)
            for (int part = ZERO_PARAM; part <= ZERO_EXP_AVG_SQ; part++) {
                const size_t i = table.tensors[t].offset + j;
                reference_part(&ref, (zero_part)part)[i] = initial((zero_part)part, i);
            }
    return ref;
}

static inline void reference_end(reference *ref)
{
    optimizer_destroy(ref->optimizer);
    memory_free(ref->grads);
}

static inline void reference_step(reference *ref, int stage, size_t step, size_t micro_batches)
{
    gradient_sums(ref->grads, stage, step, micro_batches);
    assert_ok(optimizer_step(ref->optimizer, stream, ref->grads, 0.01f, 0.5f, (int64_t)step + 1));
}

/* ---- State ---- */

static inline zero *zero_begin(const zero_options *options)
{
    zero *z = NULL;
    float *host = buffer_of(table.elements);
    assert_ok(zero_create(cpu, &table, options, &z));
    for (int part = ZERO_PARAM; part <= ZERO_EXP_AVG_SQ; part++)
        for (size_t t = 0; t < table.count; t++) {
            for (size_t j = 0; j < tensor_elements(&table.tensors[t]); j++)
                host[j] = initial((zero_part)part, table.tensors[t].offset + j);
            assert_ok(zero_write(z, stream, (zero_part)part, t, host));
        }
    assert_ok(zero_publish(z, stream));
    memory_free(host);
    return z;
}

/* Where a state first differs from a flat buffer; SIZE_MAX: nowhere. Collective. */
static inline size_t first_difference(zero *z, zero_part part, const float *expected)
{
    size_t wrong = SIZE_MAX;
    float *host = buffer_of(table.elements);
    for (size_t t = 0; t < table.count; t++) {
        const tensor_info *info = &table.tensors[t];
        assert_ok(zero_read(z, stream, part, t, host));
        for (size_t j = 0; j < tensor_elements(info) && wrong == SIZE_MAX; j++)
            if (!same_bits(host[j], expected[info->offset + j]))
                wrong = info->offset + j;
    }
    memory_free(host);
    return wrong;
}

#endif
