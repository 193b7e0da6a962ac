// Layers over the parts of a pipeline.
#include "check.h"

#include "parallel/pipe_partition.h"

enum { MOST = 12 };

static size_t heaviest(const size_t *weights, const size_t *bounds, size_t parts)
{
    size_t most = 0;
    for (size_t p = 0; p < parts; p++) {
        size_t sum = 0;
        for (size_t i = bounds[p]; i < bounds[p + 1]; i++)
            sum += weights[i];
        most = sum > most ? sum : most;
    }
    return most;
}

// The lightest possible heaviest run, by trying every cut.
static size_t best_of_all(const size_t *weights, size_t count, size_t parts)
{
    size_t best = SIZE_MAX, sum = 0;
    if (parts == 1) {
        for (size_t i = 0; i < count; i++)
            sum += weights[i];
        return sum;
    }
    for (size_t first = 1; first + parts - 1 <= count; first++) {
        sum += weights[first - 1];
        const size_t rest = best_of_all(weights + first, count - first, parts - 1);
        const size_t most = sum > rest ? sum : rest;
        best = most < best ? most : best;
    }
    return best;
}

static void every_cut_is_the_best_and_loses_no_layer(void **state)
{
    (void)state;
    for (size_t seed = 0; seed < 40; seed++) {
        for (size_t count = 1; count <= MOST; count++) {
            size_t weights[MOST], bounds[MOST + 1];
            for (size_t i = 0; i < count; i++)
                weights[i] = 1 + (seed * 7 + i * i * 13 + seed * i) % (seed % 3 == 0 ? 1 : 17);
            for (size_t parts = 1; parts <= count; parts++) {
                assert_ok(pipe_partition(weights, count, parts, bounds));
                assert_int_equal(bounds[0], 0);
                assert_int_equal(bounds[parts], count);
                for (size_t p = 0; p < parts; p++)
                    assert_true(bounds[p] < bounds[p + 1]);
                assert_int_equal(heaviest(weights, bounds, parts),
                                 best_of_all(weights, count, parts));
            }
        }
    }
}

static void equal_layers_are_dealt_out_evenly(void **state)
{
    (void)state;
    const size_t weights[] = {1, 1, 1, 1, 1, 1, 1};
    size_t bounds[4];
    assert_ok(pipe_partition(weights, 7, 3, bounds));
    assert_int_equal(bounds[1], 3);
    assert_int_equal(bounds[2], 6);
}

static void more_parts_than_layers_are_refused(void **state)
{
    (void)state;
    const size_t weights[] = {1, 1};
    size_t bounds[4];
    assert_fails(STATUS_ERR_CONFIG, "2 layers cannot be dealt out to 3 parts",
                 pipe_partition(weights, 2, 3, bounds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_the_best_and_loses_no_layer),
        cmocka_unit_test(equal_layers_are_dealt_out_evenly),
        cmocka_unit_test(more_parts_than_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
