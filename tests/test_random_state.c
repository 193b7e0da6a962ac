// NumPy's RandomState: against numbers that NumPy drew.
#include "data/random_state.h"

#include <stdlib.h>

#include "data_golden.h"

static void the_first_numbers_are_numpys(void **state)
{
    (void)state;
    static const int32_t ten[] = {7, 2, 9, 1, 0, 8, 4, 5, 6, 3}, eight[] = {7, 5, 6, 0, 4, 3, 2, 1};
    int32_t items[10];
    random_state rng;
    random_state_seed(&rng, 1234);
    assert_int_equal(random_state_u32(&rng), 822569775);
    random_state_seed(&rng, 1234);
    for (int32_t i = 0; i < 10; i++)
        items[i] = i;
    random_state_shuffle_i32(&rng, items, 10);
    assert_memory_equal(items, ten, sizeof ten);
    for (int32_t i = 0; i < 8; i++)
        items[i] = i;
    random_state_shuffle_i32(&rng, items, 8);
    assert_memory_equal(items, eight, sizeof eight);
}

static void shuffles_equal_numpys(void **state)
{
    (void)state;
    FILE *file = golden_open("shuffles.txt");
    uint64_t seed;
    int cases = 0;
    for (; golden_next(file, &seed); cases++) {
        size_t count = (size_t)golden_u64(file);
        uint64_t hash = GOLDEN_HASH_START;
        int32_t *first = malloc((count + 1) * sizeof *first);
        int64_t *second = malloc((count + 1) * sizeof *second);
        random_state rng;
        assert_non_null(first);
        assert_non_null(second);
        for (size_t i = 0; i < count; i++)
            second[i] = first[i] = (int32_t)i;
        random_state_seed(&rng, (uint32_t)seed);
        random_state_shuffle_i32(&rng, first, count);
        random_state_shuffle_i64(&rng, second, count);
        for (size_t i = 0; i < count; i++)
            golden_hash(&hash, (uint64_t)first[i]);
        for (size_t i = 0; i < count; i++)
            golden_hash(&hash, (uint64_t)second[i]);
        assert_true(hash == golden_u64(file));
        free(first);
        free(second);
    }
    fclose(file);
    assert_int_equal(cases, 60);
}

static void the_permutation_does_not_depend_on_the_type(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    int32_t a[COUNT];
    uint32_t b[COUNT];
    int64_t c[COUNT];
    random_state rng;
    for (int i = 0; i < COUNT; i++) {
        a[i] = i;
        b[i] = (uint32_t)i;
        c[i] = i;
    }
    random_state_seed(&rng, 99);
    random_state_shuffle_i32(&rng, a, COUNT);
    random_state_seed(&rng, 99);
    random_state_shuffle_u32(&rng, b, COUNT);
    random_state_seed(&rng, 99);
    random_state_shuffle_i64(&rng, c, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true(a[i] == (int64_t)b[i] && a[i] == c[i]);
}

static void intervals_equal_numpys_also_past_32_bits(void **state)
{
    (void)state;
    FILE *file = golden_open("intervals.txt");
    uint64_t seed;
    int cases = 0;
    for (; golden_next(file, &seed); cases++) {
        uint64_t max = golden_u64(file), hash = GOLDEN_HASH_START;
        random_state rng;
        random_state_seed(&rng, (uint32_t)seed);
        for (int i = 0; i < 1000; i++) {
            uint64_t value = random_state_interval(&rng, max);
            assert_true(value <= max);
            golden_hash(&hash, value);
        }
        assert_true(hash == golden_u64(file));
        // An interval of one number draws nothing.
        int next = rng.next;
        assert_int_equal(random_state_interval(&rng, 0), 0);
        assert_int_equal(rng.next, next);
    }
    fclose(file);
    assert_int_equal(cases, 54);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_numbers_are_numpys),
        cmocka_unit_test(shuffles_equal_numpys),
        cmocka_unit_test(the_permutation_does_not_depend_on_the_type),
        cmocka_unit_test(intervals_equal_numpys_also_past_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
