// ZeRO beside the update: memory, state in and out, what is sent when, and misuse.
#include "zero_fixture.h"

#include <time.h>

// One value from all ranks, in their order; the caller frees it.
static double *from_all(double own)
{
    double *all = calloc((size_t)size, sizeof *all);
    size_t *counts = calloc((size_t)size, sizeof *counts);
    comm_request request = {0};
    assert_non_null(all);
    assert_non_null(counts);
    all[rank] = own;
    for (int r = 0; r < size; r++)
        counts[r] = sizeof *all;
    assert_ok(comm_allgather_begin(group, COMM_CONTROL, all, counts, DTYPE_U8, &request));
    assert_ok(comm_wait(&request));
    free(counts);
    return all;
}

static double sum_of_all(double own)
{
    double *all = from_all(own), sum = 0;
    for (int r = 0; r < size; r++)
        sum += all[r];
    free(all);
    return sum;
}

// ---- Gradients ----

static void a_bad_gradient_on_one_rank_is_seen_by_all(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int spoil = 0; spoil < 2; spoil++) {
            const zero_options o = zero_options_of(stage, DTYPE_F32);
            double own;
            zero *z = zero_begin(&o);
            walk w = {.z = z, .type = DTYPE_F32, .micro_batches = 2, .spoil = spoil};
            walk_step(&w, WALK_PLAIN);
            assert_ok(zero_square_sum(z, stream, &own));
            const double sum = sum_of_all(own);
            assert_on_all(isfinite(sum) == !spoil, "stage %d: the sum of squares is %g", stage,
                          sum);
            assert_on_all(stage > 0 || rank == 0 || own == 0, "rank %d counts too", rank);
            zero_destroy(z);
        }
}

// The pieces of all ranks, in their order, are the tensor.
static void owned_pieces_make_up_the_sum(void **state)
{
    (void)state;
    float *expected = buffer_of(table.elements), *whole = buffer_of(table.elements);
    size_t *counts = calloc((size_t)size, sizeof *counts);
    for (int stage = 0; stage <= 3; stage++) {
        const zero_options o = zero_options_of(stage, DTYPE_F32);
        zero *z = zero_begin(&o);
        walk w = {.z = z, .type = DTYPE_F32, .micro_batches = 2};
        walk_step(&w, WALK_PLAIN);
        gradient_sums(expected, stage, 0, 2);
        for (size_t t = 0; t < table.count; t++) {
            const size_t padded = size_round_up(tensor_elements(&table.tensors[t]), TENSOR_ALIGN);
            float *owned;
            size_t count, at = 0, total = 0;
            comm_request request = {0};
            zero_gradient_owned(z, t, &owned, &count);
            double *all = from_all((double)count);
            for (int r = 0; r < size; r++) {
                counts[r] = stage == 0 && r > 0 ? 0 : (size_t)all[r];
                at += r < rank ? counts[r] : 0;
                total += counts[r];
            }
            free(all);
            assert_int_equal(total, padded);
            memcpy(whole + at, owned, counts[rank] * sizeof *owned);
            assert_ok(
                comm_allgather_begin(group, COMM_CONTROL, whole, counts, DTYPE_F32, &request));
            assert_ok(comm_wait(&request));
            assert_on_all(
                !memcmp(whole, expected + table.tensors[t].offset, padded * sizeof *whole),
                "stage %d: the pieces of tensor %zu are not its sum", stage, t);
        }
        zero_destroy(z);
    }
    free(counts);
    memory_free(expected);
    memory_free(whole);
}

static void a_complete_bucket_travels_before_the_others_are_ready(void **state)
{
    (void)state;
    if (size == 1)
        return; // nothing travels
    for (int stage = 0; stage <= 3; stage++) {
        const zero_options o = zero_options_of(stage, DTYPE_F32);
        const comm_dimension dimension = stage == 0 ? COMM_DATA : COMM_ZERO;
        zero *z = zero_begin(&o);
        walk w = {.z = z, .type = DTYPE_F32, .micro_batches = 1};
        comm_traffic traffic[COMM_DIMENSION_COUNT];
        uint64_t sent = 0;
        struct timespec pause = {.tv_nsec = 10000000};
        for (size_t u = ZERO_UNITS; stage == 3 && u-- > 0;)
            walk_forward(&w, u); // what the pass below fetches is then less than what it sends
        assert_ok(zero_wait_params(z));
        walk_backward(&w, TIED_UNIT, 0);
        walk_backward(&w, 4, 0);
        walk_backward(&w, 3, 0);
        comm_traffic_take(world, traffic);
        walk_backward(&w, 2, 0); // a large tensor: the buckets of this unit are complete
        for (int i = 0; i < 1000 && sent == 0; i++) {
            nanosleep(&pause, NULL);
            comm_traffic_take(world, traffic);
            sent = traffic[dimension].raw_bytes;
        }
        walk_backward(&w, 1, 0);
        walk_backward(&w, 0, 0);
        assert_ok(zero_finish_gradients(z, stream));
        assert_on_all(sent > 0, "stage %d: nothing was sent before the last tensor was ready",
                      stage);
        zero_destroy(z);
    }
}

// ---- What stage 3 fetches ----

// Elements of the parameters of a unit, padding included, without the tied tensor.
static size_t unit_elements(size_t unit)
{
    size_t sum = 0;
    for (size_t t = 0; t < table.count; t++)
        if (table.tensors[t].unit == unit && t != TIED)
            sum += size_round_up(tensor_elements(&table.tensors[t]), TENSOR_ALIGN);
    return sum;
}

// A settled step fetches each unit for its forward pass and again for its backward pass, but for
// the last layer, still there, and the head, used once. Each element goes to all others once.
static void a_step_of_stage_3_fetches_no_more_than_it_must(void **state)
{
    (void)state;
    const size_t tied = size_round_up(tensor_elements(&table.tensors[TIED]), TENSOR_ALIGN);
    const zero_options o = zero_options_of(3, DTYPE_F32);
    comm_traffic traffic[COMM_DIMENSION_COUNT];
    size_t fetched = tied, reduced = tied;
    zero *z = zero_begin(&o);
    walk w = {.z = z, .type = DTYPE_F32, .micro_batches = 1};
    for (size_t u = 0; u < ZERO_UNITS; u++) {
        fetched += unit_elements(u) * (u + 2 < ZERO_UNITS ? 2 : 1);
        reduced += unit_elements(u);
    }
    for (w.step = 0; w.step < 3; w.step++) {
        // A barrier: what the last step began has been sent by all when the counters are taken.
        assert_ok(zero_acquire(z, stream, 0, false));
        assert_ok(zero_release(z, stream, 0, false));
        assert_ok(comm_barrier(group));
        comm_traffic_take(world, traffic);
        walk_step(&w, WALK_PLAIN);
        assert_ok(zero_step(z, stream, 0.01f, 1, (int64_t)w.step + 1));
        assert_ok(zero_acquire(z, stream, 0, false));
        assert_ok(zero_release(z, stream, 0, false));
        assert_ok(comm_barrier(group));
        comm_traffic_take(world, traffic);
        const double sent = sum_of_all((double)traffic[COMM_ZERO].raw_bytes);
        const double expected = (double)(fetched + reduced) * sizeof(float) * (size - 1);
        // The first step learns that the last layer is followed by the head's backward pass. The
        // unit that is fetched ahead, the second, may fall on either side of the counting.
        const double ahead = 2 * (double)unit_elements(1) * sizeof(float) * (size - 1);
        assert_on_all(w.step == 0 || fabs(sent - expected) <= ahead,
                      "step %zu sent %.0f bytes, expected %.0f", w.step, sent, expected);
    }
    zero_destroy(z);
}

// ---- Memory ----

static void memory_is_as_planned(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * 2 * 2; i++) {
        zero_options o = zero_options_of(i / 4, i % 2 ? DTYPE_BF16 : DTYPE_F32);
        zero_memory used, planned;
        size_t before, after, peak;
        zero *z;
        o.bucket_elements = i / 2 % 2 ? 1000 : SIZE_MAX;
        device_memory(cpu, &before, &peak);
        assert_ok(zero_create(cpu, &table, &o, &z));
        device_memory(cpu, &after, &peak);
        used = zero_memory_used(z);
        assert_ok(zero_memory_plan(&table, &o, (size_t)size, &planned));
        assert_int_equal(used.params + used.gradients + used.optimizer, after - before);
        assert_true(used.params == planned.params && used.gradients <= planned.gradients &&
                    used.optimizer <= planned.optimizer);
        if (rank == 0)
            assert_true(used.gradients == planned.gradients && used.optimizer == planned.optimizer);
        zero_destroy(z);
    }
}

// The table of zero.h, exact over all ranks.
static void memory_follows_the_formulas(void **state)
{
    (void)state;
    const size_t psi = table.elements;
    const size_t tied = size_round_up(tensor_elements(&table.tensors[TIED]), TENSOR_ALIGN);
    const size_t space = unit_elements(1) + unit_elements(2) + tied; // the two largest neighbours
    for (int stage = 0; stage <= 3; stage++)
        for (int half = 0; half < 2; half++) {
            const zero_options o = zero_options_of(stage, half ? DTYPE_BF16 : DTYPE_F32);
            const size_t ranks = (size_t)size, e = half ? 2 : 4, m = half || stage == 3 ? 4 : 0;
            const size_t held = stage == 0 ? ranks : 1; // times that the optimizer's psi exists
            zero *z;
            assert_ok(zero_create(cpu, &table, &o, &z));
            const zero_memory used = zero_memory_used(z);
            const double gradients = sum_of_all((double)used.gradients);
            const double moments = sum_of_all((double)used.optimizer);
            assert_int_equal(used.params, e * (stage == 3 ? space : psi));
            assert_int_equal((size_t)gradients,
                             4 * (stage < 2 ? ranks * psi : psi + ranks * space));
            assert_int_equal((size_t)moments, (8 + m) * psi * held);
            zero_destroy(z);
        }
}

// ---- State ----

// A group of the caller alone, with what `from` has.
static zero *copy_of(zero *from, comm_group *alone, int stage)
{
    zero_options o = zero_options_of(stage, DTYPE_F32);
    zero *z;
    float *host = buffer_of(table.elements);
    o.data = alone;
    o.zero = alone;
    o.bucket_elements = 777;
    assert_ok(zero_create(cpu, &table, &o, &z));
    for (int part = ZERO_PARAM; part <= ZERO_EXP_AVG_SQ; part++)
        for (size_t t = 0; t < table.count; t++) {
            assert_ok(zero_read(from, stream, (zero_part)part, t, host));
            assert_ok(zero_write(z, stream, (zero_part)part, t, host));
        }
    assert_ok(zero_publish(z, stream));
    memory_free(host);
    return z;
}

// From any stage on all ranks to any stage on one, whose model then reads the same.
static void state_moves_to_any_stage_and_rank_count(void **state)
{
    (void)state;
    comm_group *alone;
    assert_ok(comm_group_create(world, COMM_ZERO, &rank, 1, &alone));
    for (int from = 0; from <= 3; from++) {
        const zero_options o = zero_options_of(from, DTYPE_F32);
        reference ref = reference_begin();
        zero *z = zero_begin(&o);
        walk w = {.z = z, .type = DTYPE_F32, .micro_batches = 1};
        walk_step(&w, WALK_PLAIN);
        assert_ok(zero_step(z, stream, 0.01f, 0.5f, 1)); // read while parameters are on their way
        reference_step(&ref, from, 0, 1);
        for (int to = 0; to <= 3; to++) {
            zero *copy = copy_of(z, alone, to);
            walk reader = {.z = copy,
                           .expected = optimizer_master(ref.optimizer),
                           .type = DTYPE_F32,
                           .wrong = SIZE_MAX};
            for (int part = ZERO_PARAM; part <= ZERO_EXP_AVG_SQ; part++) {
                const size_t wrong =
                    first_difference(copy, (zero_part)part, reference_part(&ref, (zero_part)part));
                assert_on_all(wrong == SIZE_MAX, "stage %d to %d: part %d, element %zu", from, to,
                              part, wrong);
            }
            for (size_t u = 0; u < ZERO_UNITS; u++)
                walk_forward(&reader, u);
            assert_on_all(reader.wrong == SIZE_MAX, "stage %d to %d: parameter %zu", from, to,
                          reader.wrong);
            zero_destroy(copy);
        }
        zero_destroy(z);
        reference_end(&ref);
    }
    comm_group_destroy(alone);
}

// ---- Misuse ----

static void bad_options_are_refused(void **state)
{
    (void)state;
    zero *z = NULL;
    zero_memory memory;
    zero_options o = zero_options_of(4, DTYPE_F32);
    assert_fails(STATUS_ERR_CONFIG, "stage 4", zero_create(cpu, &table, &o, &z));
    assert_fails(STATUS_ERR_CONFIG, "stage 4", zero_memory_plan(&table, &o, 2, &memory));
    o.stage = -1;
    assert_fails(STATUS_ERR_CONFIG, "stage -1", zero_create(cpu, &table, &o, &z));
    o = zero_options_of(1, DTYPE_F32);
    o.bucket_elements = 0;
    assert_fails(STATUS_ERR_CONFIG, "a bucket of 0", zero_create(cpu, &table, &o, &z));
    assert_null(z);
    zero_destroy(z);
}

static void tensors_are_ready_once(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        const zero_options o = zero_options_of(stage, DTYPE_F32);
        zero *z = zero_begin(&o);
        walk w = {.z = z, .type = DTYPE_F32, .micro_batches = 1};
        assert_fails(STATUS_ERR_COMM, "there are 14", zero_gradient_ready(z, stream, ZERO_TENSORS));
        if (stage >= 2)
            assert_fails(STATUS_ERR_COMM, "was not acquired", zero_gradient_ready(z, stream, 13));
        walk_backward(&w, TIED_UNIT, 0);
        assert_fails(STATUS_ERR_COMM, "ready twice", zero_gradient_ready(z, stream, 13));
        for (size_t u = TIED_UNIT; u-- > 1;)
            walk_backward(&w, u, 0);
        assert_fails(STATUS_ERR_COMM, "tensor 0 of 14 was never ready",
                     zero_finish_gradients(z, stream));
        walk_backward(&w, 0, 0);
        assert_ok(zero_finish_gradients(z, stream));
        zero_destroy(z);
    }
}

static void units_are_released_before_their_room_is_wanted(void **state)
{
    (void)state;
    const zero_options o = zero_options_of(3, DTYPE_F32);
    zero *z = zero_begin(&o);
    float host[2] = {0};
    assert_fails(STATUS_ERR_COMM, "unit 6 is used", zero_acquire(z, stream, 6, false));
    assert_fails(STATUS_ERR_COMM, "unit 6 is used", zero_release(z, stream, 6, false));
    assert_fails(STATUS_ERR_COMM, "was not acquired", zero_release(z, stream, 1, false));
    assert_ok(zero_acquire(z, stream, 0, false));
    assert_ok(zero_acquire(z, stream, 0, false)); // several times at once
    assert_fails(STATUS_ERR_COMM, "release it first", zero_step(z, stream, 1, 1, 1));
    assert_ok(zero_acquire(z, stream, 1, false));
    assert_fails(STATUS_ERR_COMM, "whose room it needs", zero_acquire(z, stream, 2, false));
    assert_ok(zero_release(z, stream, 0, false));
    assert_fails(STATUS_ERR_COMM, "whose room it needs", zero_acquire(z, stream, 2, false));
    assert_ok(zero_release(z, stream, 0, false));
    assert_ok(zero_acquire(z, stream, 2, false));
    assert_ok(zero_release(z, stream, 2, false));
    assert_ok(zero_release(z, stream, 1, false));
    assert_fails(STATUS_ERR_COMM, "there are 14", zero_read(z, stream, ZERO_PARAM, 14, host));
    assert_fails(STATUS_ERR_COMM, "there are 14", zero_write(z, stream, ZERO_PARAM, 14, host));
    zero_destroy(z);
}

int main(int argc, char **argv)
{
    if (!zero_world_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_gradient_on_one_rank_is_seen_by_all),
        cmocka_unit_test(owned_pieces_make_up_the_sum),
        cmocka_unit_test(a_complete_bucket_travels_before_the_others_are_ready),
        cmocka_unit_test(a_step_of_stage_3_fetches_no_more_than_it_must),
        cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(memory_follows_the_formulas),
        cmocka_unit_test(state_moves_to_any_stage_and_rank_count),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(tensors_are_ready_once),
        cmocka_unit_test(units_are_released_before_their_room_is_wanted),
    };
    int failures = cmocka_run_group_tests_name("zero_state", tests, NULL, NULL);
    zero_world_end();
    return failures;
}
