// The loss and the optimizer's passes, on every instruction set.
#include "device_fixture.h"

#include "base/sizes.h"

static double *doubles(fixture *f, size_t count)
{
    return (double *)(void *)host_floats(f, 2 * count);
}

// ---- Cross entropy ----

// Expected losses and gradients of (rows, vocab) logits.
static void reference_loss(const float *logits, const int32_t *labels, const float *scale,
                           size_t rows, size_t vocab, double *losses, double *dlogits)
{
    for (size_t r = 0; r < rows; r++) {
        const float *x = logits + r * vocab;
        double most = -INFINITY, sum = 0;
        for (size_t v = 0; v < vocab; v++)
            most = fmax(most, (double)x[v]);
        for (size_t v = 0; v < vocab; v++)
            sum += exp((double)x[v] - most);
        const double lse = most + log(sum);
        losses[r] = lse - (double)x[labels[r]];
        for (size_t v = 0; v < vocab; v++)
            dlogits[r * vocab + v] = (exp((double)x[v] - lse) - ((size_t)labels[r] == v)) *
                                     (scale ? (double)scale[r] : 0);
    }
}

typedef struct loss_run {
    array losses, dlogits;
} loss_run;

static loss_run run_loss(fixture *f, const array *logits, const int32_t *labels, const array *scale,
                         size_t rows, size_t vocab, dtype type, bool in_place)
{
    const int32_t *device_labels = integers_new(f, labels, rows);
    loss_run run = {.losses = array_new(f, rows, DTYPE_F32),
                    .dlogits = in_place ? *logits : array_new(f, rows * vocab, type)};
    cross_entropy_args args = {.losses = run.losses.data,
                               .dlogits = run.dlogits.data,
                               .logits = logits->data,
                               .labels = device_labels,
                               .scale = scale->data,
                               .rows = rows,
                               .vocab = vocab,
                               .type = type};
    assert_ok(device_cross_entropy(f->s, &args));
    return run;
}

// The loss is a difference of fp32 numbers near the log-sum-exp, correct to 1e-7 of it: 1.5e-6 is
// for 12. Gradients: e^(x - max) to a few ulp, and rounding x - max.
static void check_loss(fixture *f, dtype type, size_t rows, size_t vocab, float spread)
{
    const array logits = array_random(f, rows * vocab, DTYPE_F32, 31, -spread, spread);
    const array scale = array_random(f, rows, DTYPE_F32, 32, 0.5f, 2);
    int32_t labels[80];
    assert_true(rows <= 80);
    for (size_t r = 0; r < rows; r++)
        labels[r] = (int32_t)(philox_uniform(33, 0, r) * (float)vocab);
    if (rows > 0)
        labels[0] = (int32_t)vocab - 1;
    double *losses = doubles(f, rows), *dlogits = doubles(f, rows * vocab);
    reference_loss(logits.host, labels, scale.host, rows, vocab, losses, dlogits);
    const loss_run run = run_loss(f, &logits, labels, &scale, rows, vocab, type, false);
    check_array(f, "loss", &run.losses, losses, 1e-7, 1e-7 * (double)spread);
    // fp16's least number is 6e-8: gradients under it are rounded as the type says.
    check_array(f, "dlogits", &run.dlogits, dlogits, 1e-6 + 1e-7 * (double)spread, 1e-37);
    const array only = array_new(f, rows, DTYPE_F32);
    assert_ok(
        device_cross_entropy(f->s, &(cross_entropy_args){.losses = only.data,
                                                         .logits = logits.data,
                                                         .labels = integers_new(f, labels, rows),
                                                         .scale = scale.data,
                                                         .rows = rows,
                                                         .vocab = vocab,
                                                         .type = type}));
    check_same(f, "loss alone", &only, &run.losses);
    if (type == DTYPE_F32) {
        const loss_run again = run_loss(f, &logits, labels, &scale, rows, vocab, type, true);
        check_same(f, "dlogits in place", &again.dlogits, &run.dlogits);
    }
}

static void loss_on(fixture *f, dtype type)
{
    const size_t all[][2] = {{0, 7},  {1, 1},  {3, 3},    {2, 17},   {2, 63},
                             {3, 64}, {1, 65}, {5, 1025}, {79, 129}, {3, 5000}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check_loss(f, type, all[i][0], all[i][1], 4);
        fixture_release(f);
    }
    check_loss(f, type, 2, 333, 1e4f);
}

static void losses_meet_double_precision(void **state)
{
    (void)state;
    on_every_device(loss_on);
}

static void large_vocabulary_on(fixture *f, dtype type)
{
    check_loss(f, type, 2, 50304, 3);
}

static void a_large_vocabulary_costs_no_digits(void **state)
{
    (void)state;
    on_every_device(large_vocabulary_on);
}

// Logits that grow along the row, so that the running maximum moves in each block, and a long
// stretch of minus infinity before very low ones.
static void moving_maximum_on(fixture *f, dtype type)
{
    enum { V = 5003 };
    float *x = host_floats(f, 2 * (size_t)V);
    for (size_t v = 0; v < V; v++) {
        x[v] = 0.05f * (float)v - 100;
        x[V + v] = v < 3000 ? -INFINITY : -1e4f + 0.001f * (float)v;
    }
    const float ones[] = {1, 1};
    const int32_t labels[] = {17, 4000};
    const array logits = array_from(f, x, 2 * V, DTYPE_F32),
                scale = array_from(f, ones, 2, DTYPE_F32);
    double losses[2], *dlogits = doubles(f, 2 * (size_t)V);
    reference_loss(x, labels, ones, 2, V, losses, dlogits);
    const loss_run run = run_loss(f, &logits, labels, &scale, 2, V, type, false);
    check_array(f, "loss", &run.losses, losses, 1e-7, 1e-6);
    // x - max reaches 250, so its rounding 1.5e-5; below 1e-37 there is no gradient.
    check_array(f, "dlogits", &run.dlogits, dlogits, 2e-5, 1e-37);
}

static void the_maximum_may_move(void **state)
{
    (void)state;
    on_every_device(moving_maximum_on);
}

static void spoiled_logits_on(fixture *f, dtype type)
{
    enum { V = 2100 };
    for (size_t at = 0; at < V; at += 699) {
        for (int kind = 0; kind < 2; kind++) {
            float *x = host_floats(f, 3 * (size_t)V);
            fill_uniform(x, 3 * V, 34, -1, 1);
            x[V + at] = kind ? INFINITY : NAN;
            const float ones[] = {1, 1, 1};
            const int32_t labels[] = {5, 5, 5};
            const array logits = array_from(f, x, 3 * V, DTYPE_F32);
            const array scale = array_from(f, ones, 3, DTYPE_F32);
            const loss_run run = run_loss(f, &logits, labels, &scale, 3, V, type, false);
            const float *losses = array_values(f, &run.losses);
            assert_true(isfinite(losses[0]) && !isfinite(losses[1]) && isfinite(losses[2]));
            assert_true(kind || isnan(losses[1]));
            const float *d = array_values(f, &run.dlogits);
            assert_true(!isfinite(d[V + at]));
            assert_true(isfinite(d[at]) && isfinite(d[2 * V + at]));
            fixture_release(f);
        }
    }
}

static void spoiled_logits_spoil_their_loss(void **state)
{
    (void)state;
    on_every_device(spoiled_logits_on);
}

// ---- Cross entropy of columns split over ranks ----

// The columns [first, end) of a matrix.
static array columns_of(fixture *f, const float *x, size_t rows, size_t cols, size_t first,
                        size_t end)
{
    const size_t width = end - first;
    float *part = host_floats(f, rows * width);
    for (size_t r = 0; r < rows; r++)
        memcpy(part + r * width, x + r * cols + first, width * sizeof *part);
    return array_from(f, part, rows * width, DTYPE_F32);
}

// Every rank's losses, with labels under `labelled`, and its columns of the gradient, against the
// whole rows in double.
static void check_split(fixture *f, dtype type, size_t rows, size_t vocab, size_t ranks,
                        const float *x, size_t labelled)
{
    const array scale = array_random(f, rows, DTYPE_F32, 32, 0.5f, 2);
    const array stats = array_new(f, ranks * rows * CROSS_ENTROPY_STATS, DTYPE_F32);
    int32_t *labels = malloc(rows * sizeof *labels);
    double *losses = doubles(f, rows), *dlogits = doubles(f, rows * vocab);
    for (size_t r = 0; r < rows; r++)
        labels[r] = (int32_t)(philox_uniform(33, 0, r) * (float)labelled);
    const int32_t *device_labels = integers_new(f, labels, rows);
    reference_loss(x, labels, scale.host, rows, vocab, losses, dlogits);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t rank = 0; rank < ranks; rank++) {
            size_t first, end;
            size_split(vocab, ranks, rank, &first, &end);
            const size_t width = end - first;
            const array own = columns_of(f, x, rows, vocab, first, end);
            if (pass == 0) {
                assert_ok(device_cross_entropy_stats(
                    f->s, &(cross_entropy_stats_args){.stats = (float *)stats.data +
                                                               rank * rows * CROSS_ENTROPY_STATS,
                                                      .logits = own.data,
                                                      .labels = device_labels,
                                                      .rows = rows,
                                                      .vocab = width,
                                                      .first = first}));
                continue;
            }
            const array loss = array_new(f, rows, DTYPE_F32);
            const array d = type == DTYPE_F32 ? own : array_new(f, rows * width, type);
            assert_ok(device_cross_entropy_merge(
                f->s, &(cross_entropy_merge_args){.losses = loss.data,
                                                  .dlogits = d.data,
                                                  .logits = own.data,
                                                  .stats = stats.data,
                                                  .labels = device_labels,
                                                  .scale = scale.data,
                                                  .ranks = ranks,
                                                  .rows = rows,
                                                  .vocab = width,
                                                  .first = first,
                                                  .type = type}));
            double *expected = doubles(f, rows * width);
            for (size_t r = 0; r < rows; r++)
                memcpy(expected + r * width, dlogits + r * vocab + first, width * sizeof(double));
            check_array(f, "split loss", &loss, losses, 2e-7, 1e-6);
            check_array(f, "split dlogits", &d, expected, 2e-6, 1e-37);
        }
    }
    free(labels);
}

static void split_on(fixture *f, dtype type)
{
    const size_t all[][3] = {{1, 1, 1}, {3, 7, 2}, {5, 101, 4}, {33, 1025, 3}, {2, 5000, 8}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const size_t rows = all[i][0], vocab = all[i][1];
        float *x = host_floats(f, rows * vocab);
        fill_uniform(x, rows * vocab, 31, -4, 4);
        check_split(f, type, rows, vocab, all[i][2], x, vocab);
        fixture_release(f);
    }
}

static void columns_of_ranks_give_the_whole_loss(void **state)
{
    (void)state;
    on_every_device(split_on);
}

// One rank's columns hold nothing but minus infinity; another's a NaN.
static void odd_parts_on(fixture *f, dtype type)
{
    enum { V = 90 };
    float x[2 * V];
    fill_uniform(x, sizeof x / sizeof x[0], 31, -4, 4);
    for (size_t v = 60; v < V; v++)
        x[v] = -INFINITY;
    for (size_t v = 60; v < V; v++)
        x[V + v] = -INFINITY;
    check_split(f, type, 2, V, 3, x, 60);
    x[V + 7] = NAN;
    const array stats = array_new(f, 2 * CROSS_ENTROPY_STATS, DTYPE_F32);
    const int32_t labels[] = {1, 2};
    assert_ok(device_cross_entropy_stats(
        f->s, &(cross_entropy_stats_args){.stats = (float *)stats.data,
                                          .logits = array_from(f, x, 2 * V, DTYPE_F32).data,
                                          .labels = integers_new(f, labels, 2),
                                          .rows = 2,
                                          .vocab = V}));
    const float *values = array_values(f, &stats);
    assert_true(isfinite(values[1]) && isnan(values[CROSS_ENTROPY_STATS + 1]));
}

static void empty_and_spoiled_parts_are_told_apart(void **state)
{
    (void)state;
    on_every_device(odd_parts_on);
}

// ---- Sum of squares ----

static double squares_of(fixture *f, const float *values, size_t count)
{
    const array x = array_from(f, values, count, DTYPE_F32);
    double sum = -1;
    assert_ok(device_sum_squares(f->s, &sum, x.data, count));
    fixture_release(f);
    return sum;
}

static void squares_on(fixture *f, dtype type)
{
    if (type != DTYPE_F32)
        return;
    const size_t counts[] = {0, 1, 3, 17, 63, 64, 65, 9001, 200003};
    float *x = malloc(200003 * sizeof *x);
    assert_non_null(x);
    fill_uniform(x, 200003, 35, -1, 1);
    x[0] = 3e30f; // its square does not fit into fp32
    for (size_t i = 0; i < 9; i++) {
        double expected = 0;
        for (size_t j = counts[i]; j-- > 0;)
            expected += (double)x[j] * (double)x[j];
        const double sum = squares_of(f, x, counts[i]);
        assert_true(fabs(sum - expected) <= 1e-12 * expected);
    }
    x[0] = 0.5f;
    const double sum = squares_of(f, x, 200003);
    for (size_t at = 0; at < 200003; at += 40001) {
        for (int kind = 0; kind < 3; kind++) {
            const float kept = x[at];
            x[at] = kind == 0 ? NAN : kind == 1 ? INFINITY : -INFINITY;
            assert_true(!isfinite(squares_of(f, x, 200003)));
            x[at] = kept;
        }
    }
    assert_true(squares_of(f, x, 200003) == sum);
    for (size_t i = 0; i < 200003; i++)
        x[i] = 3.4e38f;
    assert_true(isfinite(squares_of(f, x, 200003)) != 0);
    free(x);
}

static void squares_are_finite_exactly_where_values_are(void **state)
{
    (void)state;
    on_every_device(squares_on);
}

// ---- AdamW ----

typedef struct adamw_state {
    double *p, *m, *v;
} adamw_state;

static void reference_adamw(const adamw_args *a, const float *grad, const adamw_state *e)
{
    const double b1 = (double)a->beta1, b2 = (double)a->beta2, lr = (double)a->lr;
    const double c1 = 1 - pow(b1, (double)a->step), c2 = 1 - pow(b2, (double)a->step);
    for (size_t i = 0; i < a->count; i++) {
        const double g = (double)grad[i] * (double)a->grad_scale;
        e->m[i] = b1 * e->m[i] + (1 - b1) * g;
        e->v[i] = b2 * e->v[i] + (1 - b2) * g * g;
        e->p[i] -= lr * (e->m[i] / c1 / (sqrt(e->v[i] / c2) + (double)a->epsilon) +
                         (double)a->weight_decay * e->p[i]);
    }
}

// 1 - beta2 is rounded to fp32 in both, but the betas' own rounding is the device's business: the
// reference takes the fp32 betas as exact. Three steps of three roundings each.
static void check_adamw(fixture *f, dtype type, size_t n)
{
    const array p = array_random(f, n, DTYPE_F32, 36, -1, 1);
    float *zero = host_floats(f, n);
    const array m = array_from(f, zero, n, DTYPE_F32), v = array_from(f, zero, n, DTYPE_F32);
    const array out = array_new(f, n, type);
    const adamw_state e = {doubles(f, n), doubles(f, n), doubles(f, n)};
    for (size_t i = 0; i < n; i++)
        e.p[i] = (double)p.host[i];
    for (int64_t step = 1; step <= 3; step++) {
        const array grad = array_random(f, n, DTYPE_F32, 36 + (uint64_t)step, -3, 3);
        const adamw_args args = {.param = p.data,
                                 .exp_avg = m.data,
                                 .exp_avg_sq = v.data,
                                 .param_out = step == 3 ? out.data : NULL,
                                 .grad = grad.data,
                                 .count = n,
                                 .lr = 1e-2f,
                                 .beta1 = 0.9f,
                                 .beta2 = 0.95f,
                                 .epsilon = 1e-8f,
                                 .weight_decay = 0.1f,
                                 .grad_scale = 0.25f,
                                 .step = step,
                                 .out_type = type};
        reference_adamw(&args, grad.host, &e);
        assert_ok(device_adamw(f->s, &args));
    }
    check_array(f, "exp_avg", &m, e.m, 1e-6, 1e-7);
    check_array(f, "exp_avg_sq", &v, e.v, 1e-6, 1e-30);
    check_array(f, "param", &p, e.p, 3e-7, 3e-7);
    const array expected = array_from(f, array_values(f, &p), n, type);
    check_same(f, "param_out", &out, &expected);
}

static void adamw_on(fixture *f, dtype type)
{
    const size_t counts[] = {0, 1, 3, 17, 63, 64, 65, 4097, 9001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check_adamw(f, type, counts[i]);
        fixture_release(f);
    }
}

static void adamw_meets_double_precision(void **state)
{
    (void)state;
    on_every_device(adamw_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_meet_double_precision),
        cmocka_unit_test(a_large_vocabulary_costs_no_digits),
        cmocka_unit_test(the_maximum_may_move),
        cmocka_unit_test(spoiled_logits_spoil_their_loss),
        cmocka_unit_test(columns_of_ranks_give_the_whole_loss),
        cmocka_unit_test(empty_and_spoiled_parts_are_told_apart),
        cmocka_unit_test(squares_are_finite_exactly_where_values_are),
        cmocka_unit_test(adamw_meets_double_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
