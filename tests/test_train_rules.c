#include "check.h"

#include "train/loss_scaler.h"
#include "train/lr_schedule.h"

// Values computed by GPT-NeoX's AnnealingLR for lr 6e-4, min 6e-5, N 320000, warmup 0.01.
static void cosine_gives_gpt_neox_values(void **state)
{
    (void)state;
    const lr_schedule s = {
        .style = LR_COSINE, .lr = 6e-4, .min_lr = 6e-5, .warmup = 0.01, .decay_iters = 320000};
    const struct {
        int64_t updates;
        double lr;
    } cases[] = {{0, 1.875e-7},           {1, 1.875e-7},  {2, 3.75e-7},  {3200, 6e-4},
                 {160000, 3.34283810e-4}, {320000, 6e-5}, {400000, 6e-5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(fabs(lr_schedule_at(&s, cases[i].updates) / cases[i].lr - 1) < 1e-8);
}

static void no_style_rises_after_warmup(void **state)
{
    (void)state;
    const lr_style styles[] = {LR_CONSTANT, LR_LINEAR, LR_COSINE, LR_EXPONENTIAL};
    for (size_t i = 0; i < 4; i++) {
        const lr_schedule s = {
            .style = styles[i], .lr = 1e-3, .min_lr = 1e-4, .warmup = 0.05, .decay_iters = 90};
        for (int64_t k = 5; k < 200; k++) {
            assert_true(lr_schedule_at(&s, k + 1) <= lr_schedule_at(&s, k));
            if (k >= 90)
                assert_true(lr_schedule_at(&s, k) == 1e-4);
        }
    }
}

static void warmup_of_zero_starts_at_the_peak(void **state)
{
    (void)state;
    const lr_schedule s = {
        .style = LR_LINEAR, .lr = 1e-3, .min_lr = 0, .warmup = 0, .decay_iters = 10};
    assert_true(lr_schedule_at(&s, 0) == 1e-3);
}

static loss_scaler dynamic_scaler(void)
{
    return (loss_scaler){
        .dynamic = true, .scale = 1024, .minimum = 1, .window = 4, .hysteresis = 2, .credit = 2};
}

static void overflow_spends_credit_then_halves(void **state)
{
    (void)state;
    loss_scaler s = dynamic_scaler();
    assert_ok(loss_scaler_update(&s, true));
    assert_true(s.scale == 1024);
    assert_ok(loss_scaler_update(&s, true));
    assert_true(s.scale == 512);
    assert_ok(loss_scaler_update(&s, true)); // credit comes back with the window only
    assert_true(s.scale == 256);
}

static void a_window_of_good_iterations_doubles(void **state)
{
    (void)state;
    loss_scaler s = dynamic_scaler();
    for (int i = 0; i < 3; i++)
        assert_ok(loss_scaler_update(&s, false));
    assert_true(s.scale == 1024);
    assert_ok(loss_scaler_update(&s, false));
    assert_true(s.scale == 2048 && s.credit == 2);
    for (int i = 0; i < 4; i++)
        assert_ok(loss_scaler_update(&s, false));
    assert_true(s.scale == 4096);
}

static void overflow_at_the_minimum_is_an_error(void **state)
{
    (void)state;
    loss_scaler s = dynamic_scaler();
    s.scale = 1;
    s.credit = 1;
    assert_fails(STATUS_ERR_NUMERICS, "least loss scale", loss_scaler_update(&s, true));
}

static void too_many_skipped_iterations_are_an_error(void **state)
{
    (void)state;
    loss_scaler s = loss_scaler_none();
    for (int i = 1; i < LOSS_SCALER_MAX_SKIPPED; i++)
        assert_ok(loss_scaler_update(&s, true));
    assert_true(s.scale == 1);
    assert_fails(STATUS_ERR_NUMERICS, "in a row", loss_scaler_update(&s, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cosine_gives_gpt_neox_values),
        cmocka_unit_test(no_style_rises_after_warmup),
        cmocka_unit_test(warmup_of_zero_starts_at_the_peak),
        cmocka_unit_test(overflow_spends_credit_then_halves),
        cmocka_unit_test(a_window_of_good_iterations_doubles),
        cmocka_unit_test(overflow_at_the_minimum_is_an_error),
        cmocka_unit_test(too_many_skipped_iterations_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
