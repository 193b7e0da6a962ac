// ZeRO: every stage makes the update that one process makes of the summed gradients.
#include "zero_fixture.h"

typedef struct training {
    zero_options options;
    size_t micro_batches;
    walk_order order;
} training;

enum { STEPS = 3 };

static void describe(const training *t, char *text, size_t bytes)
{
    snprintf(text, bytes, "stage %d, %s, buckets of %zu, %zu micro-batches, order %d%s%s",
             t->options.stage, dtype_str(t->options.adam.type), t->options.bucket_elements,
             t->micro_batches, (int)t->order, t->options.overlap ? "" : ", waiting",
             t->options.separate_master ? ", separate" : "");
}

static void check_state(zero *z, const reference *ref, const char *text)
{
    for (int part = ZERO_PARAM; part <= ZERO_EXP_AVG_SQ; part++) {
        const size_t wrong =
            first_difference(z, (zero_part)part, reference_part(ref, (zero_part)part));
        assert_on_all(wrong == SIZE_MAX, "%s: part %d, element %zu differs", text, part, wrong);
    }
}

// Sums of rounded numbers in another order: the squares agree to double precision.
static void check_squares(zero *z, const reference *ref, const char *text)
{
    double sum, expected = 0;
    double *sums = calloc((size_t)size, sizeof *sums);
    size_t *counts = calloc((size_t)size, sizeof *counts);
    comm_request request = {0};
    assert_ok(zero_square_sum(z, stream, &sums[rank]));
    for (int r = 0; r < size; r++)
        counts[r] = sizeof *sums;
    assert_ok(comm_allgather_begin(group, COMM_CONTROL, sums, counts, DTYPE_U8, &request));
    assert_ok(comm_wait(&request));
    sum = 0;
    for (int r = 0; r < size; r++)
        sum += sums[r];
    for (size_t t = 0; t < table.count; t++)
        for (size_t j = 0; j < tensor_elements(&table.tensors[t]) && table.tensors[t].counted;
             j++) {
            const double g = (double)ref->grads[table.tensors[t].offset + j];
            expected += g * g;
        }
    assert_on_all(fabs(sum - expected) <= 1e-13 * expected, "%s: squares are %.17g, expected %.17g",
                  text, sum, expected);
    free(sums);
    free(counts);
}

static void check_training(const training *t)
{
    char text[128];
    describe(t, text, sizeof text);
    reference ref = reference_begin();
    zero *z = zero_begin(&t->options);
    walk w = {.z = z,
              .expected = optimizer_master(ref.optimizer),
              .type = t->options.adam.type,
              .micro_batches = t->micro_batches};
    for (w.step = 0; w.step < STEPS; w.step++) {
        walk_step(&w, t->order);
        assert_on_all(w.wrong == SIZE_MAX, "%s: step %zu reads another parameter %zu", text, w.step,
                      w.wrong);
        reference_step(&ref, t->options.stage, w.step, t->micro_batches);
        check_squares(z, &ref, text);
        assert_ok(zero_step(z, stream, 0.01f, 0.5f, (int64_t)w.step + 1));
    }
    check_state(z, &ref, text);
    assert_ok(zero_wait_params(z));
    for (size_t u = 0; u < ZERO_UNITS; u++)
        walk_forward(&w, u);
    assert_on_all(w.wrong == SIZE_MAX, "%s: parameter %zu is wrong at the end", text, w.wrong);
    zero_destroy(z);
    reference_end(&ref);
}

static void every_stage_updates_to_the_same_bits(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (size_t count = 1; count <= 3; count += 2) {
            training t = {.options = zero_options_of(stage, DTYPE_F32), .micro_batches = count};
            check_training(&t);
        }
}

static void buckets_of_any_size_give_the_same_bits(void **state)
{
    (void)state;
    static const size_t buckets[] = {1, 100, 1200, SIZE_MAX};
    for (int stage = 0; stage <= 3; stage++)
        for (size_t i = 0; i < sizeof buckets / sizeof buckets[0]; i++) {
            training t = {.options = zero_options_of(stage, DTYPE_F32), .micro_batches = 2};
            t.options.bucket_elements = buckets[i];
            check_training(&t);
        }
}

static void the_models_copy_is_the_rounded_master(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int type = 0; type < 2; type++) {
            training t = {.options = zero_options_of(stage, type ? DTYPE_F16 : DTYPE_BF16),
                          .micro_batches = 2};
            check_training(&t);
        }
}

static void separate_masters_give_the_same_bits(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        training t = {.options = zero_options_of(stage, DTYPE_F32), .micro_batches = 2};
        t.options.separate_master = true;
        check_training(&t);
    }
}

static void units_may_come_in_other_orders(void **state)
{
    (void)state;
    for (int stage = 1; stage <= 3; stage++)
        for (int order = WALK_RECOMPUTE; order < WALK_ORDERS; order++) {
            training t = {.options = zero_options_of(stage, DTYPE_F32),
                          .micro_batches = 3,
                          .order = (walk_order)order};
            check_training(&t);
        }
}

static void nothing_depends_on_overlap(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        training t = {.options = zero_options_of(stage, DTYPE_BF16), .micro_batches = 2};
        t.options.overlap = false;
        check_training(&t);
    }
}

static void tensors_need_not_be_tied(void **state)
{
    (void)state;
    untied = true;
    for (int stage = 0; stage <= 3; stage++) {
        training t = {.options = zero_options_of(stage, DTYPE_F32), .micro_batches = 2};
        check_training(&t);
    }
    untied = false;
}

int main(int argc, char **argv)
{
    if (!zero_world_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_updates_to_the_same_bits),
        cmocka_unit_test(buckets_of_any_size_give_the_same_bits),
        cmocka_unit_test(the_models_copy_is_the_rounded_master),
        cmocka_unit_test(separate_masters_give_the_same_bits),
        cmocka_unit_test(units_may_come_in_other_orders),
        cmocka_unit_test(nothing_depends_on_overlap),
        cmocka_unit_test(tensors_need_not_be_tied),
    };
    int failures = cmocka_run_group_tests_name("zero", tests, NULL, NULL);
    zero_world_end();
    return failures;
}
