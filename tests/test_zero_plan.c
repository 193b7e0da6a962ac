// How ZeRO deals tensors out: every element once, even parts, room for neighbours.
#include "check.h"

#include <stdlib.h>

#include "base/sizes.h"
#include "zero/zero_plan.h"

typedef struct tensor_spec {
    size_t unit, elements;
} tensor_spec;

// Odd sizes, tensors far smaller than a part for each rank, and a unit without tensors (4).
static const tensor_spec specs[] = {{0, 37 * 24}, {0, 100}, {1, 7},     {1, 16}, {1, 5000},
                                    {2, 7},       {2, 16},  {2, 30001}, {3, 1},  {3, 2},
                                    {5, 19},      {5, 19},  {5, 2048}};
enum { TENSORS = sizeof specs / sizeof specs[0], UNITS = 6 };

static tensor_table table_of(const tensor_spec *list, size_t count)
{
    tensor_table table;
    tensor_table_init(&table);
    for (size_t i = 0; i < count; i++) {
        tensor_info info = {.rows = 1, .cols = list[i].elements, .unit = list[i].unit};
        snprintf(info.name, sizeof info.name, "t%zu", i);
        assert_ok(tensor_table_add(&table, &info, NULL));
    }
    return table;
}

static zero_plan_options options_of(size_t ranks, size_t rank, size_t bucket, bool by_unit)
{
    return (zero_plan_options){.ranks = ranks,
                               .rank = rank,
                               .bucket_elements = bucket,
                               .by_unit = by_unit,
                               .tied = SIZE_MAX,
                               .tied_unit = SIZE_MAX};
}

static void check_buckets(const zero_plan *plan)
{
    size_t end = 0, tensor = 0;
    for (size_t k = 0; k < plan->n_buckets; k++) {
        const zero_bucket *b = &plan->buckets[k];
        assert_int_equal(b->begin, end);
        assert_int_equal(b->first_tensor, tensor);
        assert_true(b->end > b->begin && b->end_tensor > b->first_tensor);
        if (b->end_tensor > b->first_tensor + 1)
            assert_true(b->end - b->begin <= plan->options.bucket_elements);
        for (size_t i = b->first_tensor; i < b->end_tensor; i++) {
            assert_int_equal(plan->bucket_of[i], k);
            if (plan->options.by_unit)
                assert_int_equal(plan->table->tensors[i].unit,
                                 plan->table->tensors[b->first_tensor].unit);
        }
        end = b->end;
        tensor = b->end_tensor;
    }
    assert_int_equal(end, plan->table->elements);
    assert_int_equal(tensor, plan->table->count);
}

static void check_parts(const zero_plan *plan)
{
    size_t shard = 0;
    for (size_t k = 0; k < plan->n_buckets; k++) {
        const zero_bucket *b = &plan->buckets[k];
        size_t least = SIZE_MAX, most = 0, at = b->begin;
        for (size_t r = 0; r < plan->options.ranks; r++) {
            size_t begin, end;
            zero_plan_part(plan, k, r, &begin, &end);
            assert_int_equal(begin, at);
            assert_int_equal(begin % TENSOR_ALIGN, 0);
            assert_int_equal(plan->counts[k * plan->options.ranks + r], end - begin);
            least = size_min(least, end - begin);
            most = size_max(most, end - begin);
            at = end;
        }
        assert_int_equal(at, b->end);
        assert_true(most - least <= TENSOR_ALIGN);
        assert_int_equal(b->shard, shard);
        shard += b->own_end - b->own_begin;
    }
    assert_int_equal(shard, plan->shard_elements);
}

static void check_pieces(const zero_plan *plan)
{
    for (size_t i = 0; i < plan->table->count; i++) {
        const tensor_info *info = &plan->table->tensors[i];
        size_t covered = 0;
        for (size_t r = 0; r < plan->options.ranks; r++) {
            size_t begin, end;
            zero_plan_piece(plan, i, r, &begin, &end);
            assert_true(begin >= info->offset && begin <= end);
            covered += end - begin;
        }
        assert_int_equal(covered, size_round_up(tensor_elements(info), TENSOR_ALIGN));
    }
}

static void check_blocks(const zero_plan *plan)
{
    if (!plan->options.by_unit)
        return;
    for (size_t k = 0; k < plan->n_buckets; k++) {
        const zero_bucket *b = &plan->buckets[k];
        const zero_block *block = &plan->blocks[b->block];
        assert_true(b->space >= block->begin && b->space + b->end - b->begin <= block->end);
        assert_true(block->end <= plan->space_elements);
        for (size_t j = 0; j < k; j++)
            if (plan->buckets[j].block == b->block)
                assert_true(plan->buckets[j].space + plan->buckets[j].end -
                                plan->buckets[j].begin <=
                            b->space);
    }
    for (size_t u = 0; u < plan->n_units; u++) {
        if (u > 0)
            assert_false(zero_plan_overlap(plan, u - 1, u));
        assert_false(zero_plan_overlap(plan, u, plan->n_units)); // the tied tensor
    }
}

static void every_element_has_one_owner(void **state)
{
    (void)state;
    static const size_t buckets[] = {1, 16, 900, 5000, 40000, SIZE_MAX};
    tensor_table table = table_of(specs, TENSORS);
    for (size_t ranks = 1; ranks <= 9; ranks++) {
        for (size_t i = 0; i < sizeof buckets / sizeof buckets[0] * 4; i++) {
            size_t owned = 0;
            for (size_t rank = 0; rank < ranks; rank++) {
                zero_plan_options o = options_of(ranks, rank, buckets[i / 4], i % 2);
                zero_plan plan;
                if (i / 2 % 2) {
                    o.tied = 0;
                    o.tied_unit = UNITS - 1;
                }
                assert_ok(zero_plan_create(&table, &o, &plan));
                check_buckets(&plan);
                check_parts(&plan);
                check_pieces(&plan);
                check_blocks(&plan);
                owned += plan.shard_elements;
                zero_plan_destroy(&plan);
            }
            assert_int_equal(owned, table.elements);
        }
    }
    tensor_table_fini(&table);
}

static void one_rank_has_the_layout_of_the_table(void **state)
{
    (void)state;
    tensor_table table = table_of(specs, TENSORS);
    zero_plan plan;
    const zero_plan_options o = options_of(1, 0, 900, false);
    assert_ok(zero_plan_create(&table, &o, &plan));
    for (size_t k = 0; k < plan.n_buckets; k++)
        assert_int_equal(plan.buckets[k].shard, plan.buckets[k].begin);
    zero_plan_destroy(&plan);
    tensor_table_fini(&table);
}

static void a_tied_tensor_is_cut_alike_in_any_table(void **state)
{
    (void)state;
    static const tensor_spec first[] = {{0, 9001}, {0, 40}, {1, 300}};
    static const tensor_spec last[] = {{0, 300}, {1, 17}, {1, 9001}, {1, 5}};
    tensor_table a = table_of(first, 3), b = table_of(last, 4);
    for (size_t rank = 0; rank < 3; rank++) {
        zero_plan_options o = options_of(3, rank, SIZE_MAX, rank % 2);
        zero_plan p, q;
        size_t begin[2], end[2];
        o.tied = 0;
        assert_ok(zero_plan_create(&a, &o, &p));
        o.tied = 2;
        assert_ok(zero_plan_create(&b, &o, &q));
        zero_plan_piece(&p, 0, rank, &begin[0], &end[0]);
        zero_plan_piece(&q, 2, rank, &begin[1], &end[1]);
        assert_int_equal(begin[0] - a.tensors[0].offset, begin[1] - b.tensors[2].offset);
        assert_int_equal(end[0] - a.tensors[0].offset, end[1] - b.tensors[2].offset);
        zero_plan_destroy(&p);
        zero_plan_destroy(&q);
    }
    tensor_table_fini(&a);
    tensor_table_fini(&b);
}

static void units_name_their_blocks_and_buckets(void **state)
{
    (void)state;
    tensor_table table = table_of(specs, TENSORS);
    zero_plan plan;
    size_t blocks[ZERO_UNIT_BLOCKS];
    zero_plan_options o = options_of(2, 1, SIZE_MAX, true);
    o.tied = 0;
    o.tied_unit = 5;
    assert_ok(zero_plan_create(&table, &o, &plan));
    assert_int_equal(plan.n_blocks, UNITS + 1);
    assert_int_equal(zero_plan_unit_blocks(&plan, 0, blocks), 2);
    assert_int_equal(blocks[1], UNITS);
    assert_int_equal(zero_plan_unit_blocks(&plan, 1, blocks), 1);
    assert_int_equal(zero_plan_unit_blocks(&plan, 5, blocks), 2);
    assert_int_equal(plan.blocks[4].begin, plan.blocks[4].end);
    assert_int_equal(plan.needed_buckets[0], 2); // the tied tensor, then the rest
    assert_int_equal(plan.needed_buckets[1], 3);
    assert_int_equal(plan.needed_buckets[4], 0);
    assert_int_equal(plan.needed_buckets[5], plan.n_buckets);
    // Units 1 and 2, the largest neighbours, and the tied tensor.
    assert_int_equal(plan.space_elements, (16 + 16 + 5008) + (16 + 16 + 30016) + 37 * 24 + 8);
    zero_plan_destroy(&plan);
    tensor_table_fini(&table);
}

static void bad_plans_are_refused(void **state)
{
    (void)state;
    static const tensor_spec back[] = {{1, 5}, {0, 5}};
    tensor_table table = table_of(specs, TENSORS), empty = table_of(specs, 0);
    tensor_table descending = table_of(back, 2);
    zero_plan plan = {0};
    zero_plan_options o = options_of(2, 0, 0, false);
    assert_fails(STATUS_ERR_CONFIG, "a bucket of 0", zero_plan_create(&table, &o, &plan));
    o = options_of(2, 2, 16, false);
    assert_fails(STATUS_ERR_CONFIG, "rank 2 of 2", zero_plan_create(&table, &o, &plan));
    o = options_of(0, 0, 16, false);
    assert_fails(STATUS_ERR_CONFIG, "rank 0 of 0", zero_plan_create(&table, &o, &plan));
    o = options_of(2, 0, 16, false);
    assert_fails(STATUS_ERR_CONFIG, "no tensors", zero_plan_create(&empty, &o, &plan));
    assert_fails(STATUS_ERR_CONFIG, "units must ascend", zero_plan_create(&descending, &o, &plan));
    o.tied = TENSORS;
    assert_fails(STATUS_ERR_CONFIG, "tied tensor 13 of 13", zero_plan_create(&table, &o, &plan));
    o.tied = 0;
    o.tied_unit = UNITS;
    assert_fails(STATUS_ERR_CONFIG, "unit 6 of 6", zero_plan_create(&table, &o, &plan));
    o.tied = SIZE_MAX;
    o.tied_unit = 0;
    assert_fails(STATUS_ERR_CONFIG, "name the tensor", zero_plan_create(&table, &o, &plan));
    assert_null(plan.buckets);
    zero_plan_destroy(&plan);
    tensor_table_fini(&table);
    tensor_table_fini(&empty);
    tensor_table_fini(&descending);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_has_one_owner),
        cmocka_unit_test(one_rank_has_the_layout_of_the_table),
        cmocka_unit_test(a_tied_tensor_is_cut_alike_in_any_table),
        cmocka_unit_test(units_name_their_blocks_and_buckets),
        cmocka_unit_test(bad_plans_are_refused),
    };
    return cmocka_run_group_tests_name("zero_plan", tests, NULL, NULL);
}
