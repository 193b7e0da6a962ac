// Pipeline schedules: every list is proved by the checker, and the checker notices broken lists.
#include "check.h"

#include <stdlib.h>

#include "parallel/pipe_check.h"

enum { STAGES_MAX = 8 };

static const pipe_costs even = {.forward = 1, .backward_input = 1, .backward_weights = 1};

static pipe_shape shape_of(pipe_kind kind, int stages, int chunks, int micro_batches)
{
    return (pipe_shape){
        .kind = kind, .stages = stages, .chunks = chunks, .micro_batches = micro_batches};
}

static void create_all(const pipe_shape *shape, pipe_schedule *stages)
{
    for (int s = 0; s < shape->stages; s++)
        assert_ok(pipe_schedule_create(shape, s, &stages[s]));
}

static void destroy_all(const pipe_shape *shape, pipe_schedule *stages)
{
    for (int s = 0; s < shape->stages; s++)
        pipe_schedule_destroy(&stages[s]);
}

static pipe_report report_of(pipe_shape shape, const pipe_costs *costs)
{
    pipe_schedule stages[STAGES_MAX];
    pipe_report report;
    create_all(&shape, stages);
    assert_ok(pipe_check(stages, costs, &report));
    destroy_all(&shape, stages);
    return report;
}

static void every_schedule_is_in_order(void **state)
{
    (void)state;
    const pipe_costs uneven = {
        .forward = 1, .backward_input = 1.3, .backward_weights = 0.8, .message = 0.4};
    for (int stages = 1; stages <= STAGES_MAX; stages++)
        for (int m = 1; m <= 17; m++) {
            report_of(shape_of(PIPE_GPIPE, stages, 1, m), &uneven);
            report_of(shape_of(PIPE_1F1B, stages, 1, m), &uneven);
            report_of(shape_of(PIPE_ZERO_BUBBLE, stages, 1, m), &uneven);
            for (int chunks = 2; chunks <= 4 && stages > 1 && m % stages == 0; chunks++)
                report_of(shape_of(PIPE_INTERLEAVED, stages, chunks, m), &uneven);
        }
}

// With even costs and free messages: (p - 1) / (m + p - 1) for GPipe and 1F1B, where a backward
// pass takes two steps; 1 / v of that idle time for v chunks; and for the zero bubble a third of
// it, (p - 1) steps of one in place of three.
static void bubbles_are_those_of_the_literature(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES_MAX; p++)
        for (int m = p; m <= 3 * p; m += p) {
            const double idle = 3.0 * (p - 1), work = 3.0 * m;
            const double plain = idle / (work + idle);
            const double gpipe = report_of(shape_of(PIPE_GPIPE, p, 1, m), &even).bubble;
            const double f1b1 = report_of(shape_of(PIPE_1F1B, p, 1, m), &even).bubble;
            const double zero = report_of(shape_of(PIPE_ZERO_BUBBLE, p, 1, m), &even).bubble;
            assert_true(fabs(gpipe - plain) < 1e-12);
            assert_true(fabs(f1b1 - plain) < 1e-12);
            if (m >= 2 * p)
                assert_true(zero <= (p - 1) / (work + p - 1) + 1e-12);
            assert_true(p == 1 || zero < plain);
            for (int v = 2; v <= 4 && p > 1; v++) {
                const double less = report_of(shape_of(PIPE_INTERLEAVED, p, v, m), &even).bubble;
                assert_true(fabs(less - idle / (v * work + idle)) < 1e-12);
            }
        }
}

static void memory_is_bounded(void **state)
{
    (void)state;
    for (int p = 1; p <= STAGES_MAX; p++)
        for (int m = 1; m <= 17; m++)
            for (int s = 0; s < p; s++) {
                pipe_schedule schedule;
                const pipe_shape plain = shape_of(PIPE_1F1B, p, 1, m);
                const pipe_shape zero = shape_of(PIPE_ZERO_BUBBLE, p, 1, m);
                assert_ok(pipe_schedule_create(&plain, s, &schedule));
                assert_int_equal(schedule.slots, m < p - s ? m : p - s);
                pipe_schedule_destroy(&schedule);
                assert_ok(pipe_schedule_create(&zero, s, &schedule));
                assert_true(schedule.slots <= (m < p ? m : p));
                pipe_schedule_destroy(&schedule);
            }
}

static void shapes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    pipe_schedule schedule;
    const pipe_shape odd = shape_of(PIPE_INTERLEAVED, 4, 2, 6);
    assert_fails(STATUS_ERR_CONFIG,
                 "multiple of the 4 stages, not 6; gradient-accumulation-steps of 8",
                 pipe_schedule_create(&odd, 0, &schedule));
    const pipe_shape single = shape_of(PIPE_INTERLEAVED, 4, 1, 8);
    assert_fails(STATUS_ERR_CONFIG, "virtual-pipe-stages of 2",
                 pipe_schedule_create(&single, 0, &schedule));
    const pipe_shape alone = shape_of(PIPE_INTERLEAVED, 1, 2, 8);
    assert_fails(STATUS_ERR_CONFIG, "pipe-parallel-size of 2",
                 pipe_schedule_create(&alone, 0, &schedule));
    const pipe_shape chunks = shape_of(PIPE_1F1B, 4, 2, 8);
    assert_fails(STATUS_ERR_CONFIG, "interleaved takes several",
                 pipe_schedule_create(&chunks, 0, &schedule));
}

// ---- Broken lists ----

typedef struct pipe_fixture {
    pipe_shape shape;
    pipe_schedule stages[STAGES_MAX];
} pipe_fixture;

static void fixture_init(pipe_fixture *f, pipe_kind kind, int stages, int chunks, int m)
{
    f->shape = shape_of(kind, stages, chunks, m);
    create_all(&f->shape, f->stages);
}

static void expect_wrong(pipe_fixture *f, const char *text)
{
    pipe_report report;
    assert_fails(STATUS_ERR_CONFIG, text, pipe_check(f->stages, &even, &report));
    destroy_all(&f->shape, f->stages);
}

static size_t find(const pipe_schedule *s, pipe_op op, int micro_batch)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].op == op && s->items[i].micro_batch == micro_batch)
            return i;
    fail_msg("no such instruction");
    return 0;
}

static void drop(pipe_schedule *s, size_t at)
{
    memmove(s->items + at, s->items + at + 1, (s->count - at - 1) * sizeof *s->items);
    s->count--;
}

static void swap(pipe_schedule *s, size_t a, size_t b)
{
    const pipe_instruction kept = s->items[a];
    s->items[a] = s->items[b];
    s->items[b] = kept;
}

static void swapped_sends_are_noticed(void **state)
{
    (void)state;
    pipe_fixture f;
    fixture_init(&f, PIPE_GPIPE, 2, 1, 4);
    pipe_schedule *s = &f.stages[0];
    const size_t a = find(s, PIPE_SEND_ACTIVATION, 1), b = find(s, PIPE_SEND_ACTIVATION, 2);
    swap(s, a, b);
    expect_wrong(&f, "stage 0, instruction 3 sends micro-batch 2 of chunk 0 where stage 1");
}

static void a_missing_receive_is_noticed(void **state)
{
    (void)state;
    pipe_fixture f;
    fixture_init(&f, PIPE_1F1B, 3, 1, 4);
    drop(&f.stages[1], find(&f.stages[1], PIPE_RECV_ACTIVATION, 3));
    expect_wrong(&f, "a send between stages 0 and 1 has no counterpart");
    // Neither sent nor received: then the pass has nothing to work on.
    fixture_init(&f, PIPE_1F1B, 3, 1, 4);
    drop(&f.stages[1], find(&f.stages[1], PIPE_RECV_ACTIVATION, 3));
    drop(&f.stages[0], find(&f.stages[0], PIPE_SEND_ACTIVATION, 3));
    expect_wrong(&f, "forward of micro-batch 3, chunk 0: nothing was received for it");
}

static void a_pass_done_twice_or_never_is_noticed(void **state)
{
    (void)state;
    pipe_fixture f;
    fixture_init(&f, PIPE_GPIPE, 1, 1, 3);
    f.stages[0].items[find(&f.stages[0], PIPE_FORWARD, 2)] =
        f.stages[0].items[find(&f.stages[0], PIPE_FORWARD, 1)];
    expect_wrong(&f, "forward of micro-batch 1, chunk 0: it was done before");
    fixture_init(&f, PIPE_GPIPE, 1, 1, 3);
    drop(&f.stages[0], find(&f.stages[0], PIPE_BACKWARD, 2));
    expect_wrong(&f, "part 0 of the model never finishes micro-batch 2");
}

static void passes_out_of_order_are_noticed(void **state)
{
    (void)state;
    pipe_fixture f;
    fixture_init(&f, PIPE_GPIPE, 1, 1, 3);
    pipe_schedule *s = &f.stages[0];
    swap(s, find(s, PIPE_FORWARD, 0), find(s, PIPE_FORWARD, 1));
    expect_wrong(&f, "before that of an earlier micro-batch");
    fixture_init(&f, PIPE_1F1B, 1, 1, 3);
    swap(s, find(s, PIPE_FORWARD, 1), find(s, PIPE_BACKWARD, 1));
    expect_wrong(&f, "backward of micro-batch 1, chunk 0: it comes before the forward pass");
    fixture_init(&f, PIPE_ZERO_BUBBLE, 1, 1, 3);
    swap(s, find(s, PIPE_BACKWARD_INPUT, 0), find(s, PIPE_BACKWARD_WEIGHTS, 0));
    expect_wrong(&f, "before the backward pass of the input");
}

static void a_set_used_twice_is_noticed(void **state)
{
    (void)state;
    pipe_fixture f;
    fixture_init(&f, PIPE_1F1B, 2, 1, 4);
    f.stages[0].items[find(&f.stages[0], PIPE_FORWARD, 1)].slot = 0;
    expect_wrong(&f, "forward of micro-batch 1, chunk 0: its set of activations is in use");
}

// Stage 0 sends its activation only after a gradient came, which only that activation can bring
// about.
static void a_deadlock_is_noticed(void **state)
{
    (void)state;
    pipe_fixture f;
    fixture_init(&f, PIPE_1F1B, 2, 1, 1);
    pipe_schedule *s = &f.stages[0];
    const size_t from = find(s, PIPE_SEND_ACTIVATION, 0), to = find(s, PIPE_BACKWARD, 0);
    for (size_t i = from; i < to; i++)
        swap(s, i, i + 1);
    expect_wrong(&f,
                 "stage 0, instruction 2: backward of micro-batch 0, chunk 0: it waits for ever");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_is_in_order),
        cmocka_unit_test(bubbles_are_those_of_the_literature),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(swapped_sends_are_noticed),
        cmocka_unit_test(a_missing_receive_is_noticed),
        cmocka_unit_test(a_pass_done_twice_or_never_is_noticed),
        cmocka_unit_test(passes_out_of_order_are_noticed),
        cmocka_unit_test(a_set_used_twice_is_noticed),
        cmocka_unit_test(a_deadlock_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
