// The mix of data sets: against the greedy rule worked out with NumPy.
#include "data/blend.h"

#include <stdlib.h>

#include "data_golden.h"

static void check_blend(const double *weights, size_t sets, int64_t size, uint64_t expected)
{
    blend *b = NULL;
    uint64_t hash = GOLDEN_HASH_START;
    int64_t *served = calloc(sets, sizeof *served);
    assert_non_null(served);
    assert_ok(blend_create(weights, sets, size, &b));
    for (int64_t i = 0; i < size; i++) {
        size_t set = SIZE_MAX;
        int64_t sample = -1;
        blend_locate(b, i, &set, &sample);
        assert_true(set < sets);
        assert_int_equal(sample, served[set]);
        served[set]++;
        golden_hash(&hash, set);
        golden_hash(&hash, (uint64_t)sample);
    }
    assert_true(hash == expected);
    for (size_t k = 0; k < sets; k++)
        assert_true(fabs((double)served[k] - weights[k] * (double)size) <= 1.0);
    blend_destroy(b);
    free(served);
}

static void blends_equal_those_of_neox(void **state)
{
    (void)state;
    FILE *file = golden_open("blends.txt");
    uint64_t sets;
    int cases = 0;
    for (; golden_next(file, &sets); cases++) {
        int64_t wanted = golden_i64(file), size = golden_i64(file), each;
        double weights[300], sum = 0;
        assert_in_range(sets, 1, 300);
        for (size_t k = 0; k < sets; k++)
            weights[k] = golden_double(file);
        assert_ok(blend_normalize("train", weights, sets, &sum));
        for (size_t k = 0; k < sets; k++) {
            assert_ok(blend_wanted("train", wanted, weights[k], &each));
            assert_int_equal(each, golden_i64(file));
        }
        check_blend(weights, sets, size, golden_u64(file));
    }
    fclose(file);
    assert_int_equal(cases, 20);
}

static void the_small_example_comes_out(void **state)
{
    (void)state;
    static const size_t expected[] = {1, 0, 1, 0, 1, 1, 0, 1};
    const double weights[] = {1.0 / 3, 2.0 / 3};
    blend *b = NULL;
    assert_ok(blend_create(weights, 2, 8, &b));
    for (int64_t i = 0; i < 8; i++) {
        size_t set;
        int64_t sample;
        blend_locate(b, i, &set, &sample);
        assert_int_equal(set, expected[i]);
    }
    blend_destroy(b);
    blend_destroy(NULL);
}

static void documents_give_the_weights_of_neox(void **state)
{
    (void)state;
    FILE *file = golden_open("document_weights.txt");
    uint64_t sets;
    int cases = 0;
    for (; golden_next(file, &sets); cases++) {
        double alpha = golden_double(file), weights[16];
        int64_t documents[16];
        assert_in_range(sets, 1, 16);
        for (size_t k = 0; k < sets; k++)
            documents[k] = golden_i64(file);
        assert_ok(blend_weigh_documents("train", documents, sets, alpha, weights));
        // Two libraries' pow() may differ in the last bit, but not at these two powers.
        double slack = alpha == 0 || alpha == 1 ? 0 : 4e-16;
        for (size_t k = 0; k < sets; k++)
            assert_true(fabs(weights[k] - golden_double(file)) <= slack);
    }
    fclose(file);
    assert_int_equal(cases, 16);
    double weights[2];
    assert_ok(blend_weigh_documents("train", (int64_t[]){5}, 1, 1, weights));
    assert_true(weights[0] == 1);
    assert_fails(STATUS_ERR_CONFIG, "valid: no documents in any of 2 sets",
                 blend_weigh_documents("valid", (int64_t[]){0, 0}, 2, 1, weights));
    assert_fails(STATUS_ERR_CONFIG, "valid: the weights sum to 0",
                 blend_weigh_documents("valid", (int64_t[]){0, 9}, 2, 1, weights));
    assert_fails(STATUS_ERR_CONFIG, "valid: weight 1 is",
                 blend_weigh_documents("valid", (int64_t[]){0, 9}, 2, -1, weights));
}

static void too_many_samples_are_refused(void **state)
{
    (void)state;
    int64_t wanted;
    assert_fails(STATUS_ERR_CONFIG, "test: 9223372036854775807 samples are too many",
                 blend_wanted("test", INT64_MAX, 1, &wanted));
    assert_ok(blend_wanted("test", 0, 1, &wanted));
    assert_int_equal(wanted, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blends_equal_those_of_neox),
        cmocka_unit_test(the_small_example_comes_out),
        cmocka_unit_test(documents_give_the_weights_of_neox),
        cmocka_unit_test(too_many_samples_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
