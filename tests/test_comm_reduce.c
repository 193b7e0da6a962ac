// The arithmetic of reductions alone, against the scalar conversions of base/dtype.h.
#include "check.h"

#include "base/dtype.h"
#include "comm/comm_internal.h"

enum {
    COUNT = 65536,
};

static uint16_t halves[COUNT], results[COUNT];

static void every_half_survives_a_reduction_of_one(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++)
        halves[i] = (uint16_t)i;
    const void *inputs[] = {halves};
    comm_reduce(COMM_SUM, DTYPE_F16, 1, inputs, results, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(results[i], f32_to_f16(f16_to_f32((f16)i)));
    comm_reduce(COMM_SUM, DTYPE_BF16, 1, inputs, results, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(results[i], f32_to_bf16(bf16_to_f32((bf16)i)));
}

// Every half plus halves of all magnitudes: sums that round, overflow, cancel and are subnormal.
static void sums_of_halves_round_as_the_scalar_conversions(void **state)
{
    (void)state;
    static uint16_t others[COUNT];
    for (uint32_t shift = 0; shift < 16; shift++) {
        for (uint32_t i = 0; i < COUNT; i++)
            others[i] = (uint16_t)((i * 40503u + shift * 4099u) ^ (i >> shift));
        const void *inputs[] = {halves, others};
        comm_reduce(COMM_SUM, DTYPE_F16, 2, inputs, results, COUNT);
        for (int i = 0; i < COUNT; i++) {
            float sum = f16_to_f32(halves[i]) + f16_to_f32(others[i]);
            if (isnan(sum))
                assert_true(isnan(f16_to_f32(results[i])));
            else
                assert_int_equal(results[i], f32_to_f16(sum));
        }
        comm_reduce(COMM_SUM, DTYPE_BF16, 2, inputs, results, COUNT);
        for (int i = 0; i < COUNT; i++) {
            float sum = bf16_to_f32(halves[i]) + bf16_to_f32(others[i]);
            if (isnan(sum))
                assert_true(isnan(bf16_to_f32(results[i])));
            else
                assert_int_equal(results[i], f32_to_bf16(sum));
        }
    }
}

static void sums_run_in_the_order_of_the_inputs(void **state)
{
    (void)state;
    float a[3] = {1e8f, 1, -1e8f}, b[3] = {1, 1e8f, 1}, c[3] = {-1e8f, -1e8f, 1e8f};
    const void *inputs[] = {a, b, c};
    comm_reduce(COMM_SUM, DTYPE_F32, 3, inputs, b, 3); // into one of the inputs
    assert_true(b[0] == 0 && b[1] == 0 && b[2] == 0);
}

static void integers_wrap_without_trapping(void **state)
{
    (void)state;
    int32_t a[1] = {INT32_MAX}, b[1] = {1};
    int64_t c[1] = {INT64_MIN}, d[1] = {-1};
    comm_reduce(COMM_SUM, DTYPE_I32, 2, (const void *[]){a, b}, a, 1);
    comm_reduce(COMM_SUM, DTYPE_I64, 2, (const void *[]){c, d}, c, 1);
    assert_true(a[0] == INT32_MIN && c[0] == INT64_MAX);
}

static void a_maximum_keeps_nan_from_any_place(void **state)
{
    (void)state;
    for (int at = 0; at < 3; at++) {
        float x[3] = {1, 5, 3}, y;
        x[at] = NAN;
        comm_reduce(COMM_MAX, DTYPE_F32, 3, (const void *[]){&x[0], &x[1], &x[2]}, &y, 1);
        assert_true(isnan(y));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives_a_reduction_of_one),
        cmocka_unit_test(sums_of_halves_round_as_the_scalar_conversions),
        cmocka_unit_test(sums_run_in_the_order_of_the_inputs),
        cmocka_unit_test(integers_wrap_without_trapping),
        cmocka_unit_test(a_maximum_keeps_nan_from_any_place),
    };
    return cmocka_run_group_tests_name("comm_reduce", tests, NULL, NULL);
}
