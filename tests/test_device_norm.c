#include "device_fixture.h"

// Sizes around vectors, and one large enough to be split over threads.
static const size_t shapes[][2] = {{0, 5},  {1, 1},  {3, 3},   {2, 17},  {5, 63},
                                   {4, 64}, {3, 65}, {2, 768}, {67, 129}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

// One norm problem: inputs as the device holds them.
typedef struct problem {
    size_t rows, cols;
    norm_kind kind;
    bool two;
    double epsilon;
    array x, dy, dy2, dresidual, weight, bias, weight2, bias2;
} problem;

static problem make_problem(fixture *f, dtype type, const size_t shape[2], norm_kind kind, bool two,
                            float center)
{
    const size_t rows = shape[0], cols = shape[1], n = rows * cols;
    problem p = {.rows = rows, .cols = cols, .kind = kind, .two = two, .epsilon = 1e-5};
    p.x = array_random(f, n, type, 1, center - 2, center + 2);
    p.dy = array_random(f, n, type, 2, -1, 1);
    p.dy2 = array_random(f, n, type, 3, -1, 1);
    p.dresidual = array_random(f, n, type, 4, -1, 1);
    p.weight = array_random(f, cols, type, 5, 0.5f, 1.5f);
    p.bias = array_random(f, cols, type, 6, -1, 1);
    p.weight2 = array_random(f, cols, type, 7, 0.5f, 1.5f);
    p.bias2 = array_random(f, cols, type, 8, -1, 1);
    return p;
}

static void row_statistics(const problem *p, size_t r, double *mean, double *rstd)
{
    const float *x = p->x.host + r * p->cols;
    double sum = 0, square = 0;
    for (size_t c = 0; c < p->cols; c++)
        sum += (double)x[c];
    *mean = p->kind == NORM_LAYERNORM ? sum / (double)p->cols : 0;
    for (size_t c = 0; c < p->cols; c++)
        square += ((double)x[c] - *mean) * ((double)x[c] - *mean);
    *rstd = 1 / sqrt(square / (double)p->cols + p->epsilon);
}

static void reference_forward(const problem *p, double *y, double *y2, double *mean, double *rstd)
{
    const bool biased = p->kind == NORM_LAYERNORM;
    for (size_t r = 0; r < p->rows; r++) {
        row_statistics(p, r, &mean[r], &rstd[r]);
        for (size_t c = 0; c < p->cols; c++) {
            const size_t i = r * p->cols + c;
            const double normal = ((double)p->x.host[i] - mean[r]) * rstd[r];
            y[i] = normal * (double)p->weight.host[c] + (biased ? (double)p->bias.host[c] : 0);
            y2[i] = normal * (double)p->weight2.host[c] + (biased ? (double)p->bias2.host[c] : 0);
        }
    }
}

// A host array of doubles that lives to the end of the check.
static double *doubles(fixture *f, size_t count)
{
    return (double *)(void *)host_floats(f, 2 * count);
}

typedef struct outputs {
    array y, y2, mean, rstd;
} outputs;

static outputs run_forward(fixture *f, const problem *p, dtype type)
{
    const size_t n = p->rows * p->cols;
    const bool layernorm = p->kind == NORM_LAYERNORM;
    outputs o = {.y = array_new(f, n, type),
                 .y2 = array_new(f, n, type),
                 .mean = array_new(f, p->rows, DTYPE_F32),
                 .rstd = array_new(f, p->rows, DTYPE_F32)};
    assert_ok(
        device_norm_forward(f->s, &(norm_forward_args){.y = o.y.data,
                                                       .y2 = p->two ? o.y2.data : NULL,
                                                       .mean = layernorm ? o.mean.data : NULL,
                                                       .rstd = o.rstd.data,
                                                       .x = p->x.data,
                                                       .weight = p->weight.data,
                                                       .bias = layernorm ? p->bias.data : NULL,
                                                       .weight2 = p->weight2.data,
                                                       .bias2 = layernorm ? p->bias2.data : NULL,
                                                       .rows = p->rows,
                                                       .cols = p->cols,
                                                       .epsilon = (float)p->epsilon,
                                                       .kind = p->kind,
                                                       .type = type}));
    return o;
}

// `slack` is the relative error that cancellation in x - mean may add.
static void check_forward(fixture *f, dtype type, const problem *p, double slack)
{
    const size_t n = p->rows * p->cols;
    double *y = doubles(f, n), *y2 = doubles(f, n);
    double *mean = doubles(f, p->rows), *rstd = doubles(f, p->rows);
    reference_forward(p, y, y2, mean, rstd);
    const outputs o = run_forward(f, p, type);
    check_array(f, "rstd", &o.rstd, rstd, 5e-7 + slack, 0);
    if (p->kind == NORM_LAYERNORM)
        check_array(f, "mean", &o.mean, mean, 2e-7, 2e-7);
    check_array(f, "y", &o.y, y, 1e-6, 1e-6 + slack);
    if (p->two)
        check_array(f, "y2", &o.y2, y2, 1e-6, 1e-6 + slack);
}

static void forward_on(fixture *f, dtype type)
{
    for (size_t i = 0; i < SHAPES; i++) {
        for (int variant = 0; variant < 4; variant++) {
            const problem p = make_problem(
                f, type, shapes[i], variant & 1 ? NORM_RMSNORM : NORM_LAYERNORM, variant & 2, 0.3f);
            check_forward(f, type, &p, 0);
            fixture_release(f);
        }
    }
}

static void norms_meet_double_precision(void **state)
{
    (void)state;
    on_every_device(forward_on);
}

// The mean of fp32 values near 100 is known to 4e-6, so the result to as much; a variance from
// sums of squares would be wrong by 1e-3.
static void far_mean_on(fixture *f, dtype type)
{
    const problem p = make_problem(f, type, shapes[7], NORM_LAYERNORM, false, 100);
    check_forward(f, type, &p, 1e-5);
}

static void layernorm_keeps_its_digits_far_from_zero(void **state)
{
    (void)state;
    on_every_device(far_mean_on);
}

typedef struct gradients {
    array dx, dweight, dbias, dweight2, dbias2;
} gradients;

// From statistics of the reference, so that only the backward pass is judged. `before`, where
// accumulating, is what the gradients of parameters hold.
static gradients run_backward(fixture *f, const problem *p, dtype type, const array *before,
                              bool in_place)
{
    const size_t n = p->rows * p->cols;
    float *mean = host_floats(f, p->rows), *rstd = host_floats(f, p->rows);
    for (size_t r = 0; r < p->rows; r++) {
        double m, s;
        row_statistics(p, r, &m, &s);
        mean[r] = (float)m;
        rstd[r] = (float)s;
    }
    const array mean_array = array_from(f, mean, p->rows, DTYPE_F32);
    const array rstd_array = array_from(f, rstd, p->rows, DTYPE_F32);
    gradients g = {.dx = array_new(f, n, type)};
    array *sums[] = {&g.dweight, &g.dbias, &g.dweight2, &g.dbias2};
    for (int i = 0; i < 4; i++)
        *sums[i] = before ? array_from(f, before->host, p->cols, DTYPE_F32)
                          : array_new(f, p->cols, DTYPE_F32);
    if (in_place)
        array_set(f, &g.dx, p->dresidual.host);
    const bool layernorm = p->kind == NORM_LAYERNORM;
    assert_ok(device_norm_backward(
        f->s, &(norm_backward_args){.dx = g.dx.data,
                                    .dweight = g.dweight.data,
                                    .dbias = layernorm ? g.dbias.data : NULL,
                                    .dweight2 = p->two ? g.dweight2.data : NULL,
                                    .dbias2 = p->two && layernorm ? g.dbias2.data : NULL,
                                    .dresidual = in_place ? g.dx.data : p->dresidual.data,
                                    .dy = p->dy.data,
                                    .dy2 = p->two ? p->dy2.data : NULL,
                                    .x = p->x.data,
                                    .mean = layernorm ? mean_array.data : NULL,
                                    .rstd = rstd_array.data,
                                    .weight = p->weight.data,
                                    .weight2 = p->weight2.data,
                                    .rows = p->rows,
                                    .cols = p->cols,
                                    .kind = p->kind,
                                    .type = type,
                                    .accumulate = before != NULL}));
    return g;
}

typedef struct reference_gradients {
    double *dx, *dweight, *dbias, *dweight2, *dbias2;
} reference_gradients;

// dx = dresidual + rstd (g - mean(g) - normal mean(g normal)), g = dy weight + dy2 weight2.
static reference_gradients reference_backward(fixture *f, const problem *p, const array *before)
{
    const size_t cols = p->cols;
    reference_gradients e = {doubles(f, p->rows * cols), doubles(f, cols), doubles(f, cols),
                             doubles(f, cols), doubles(f, cols)};
    for (size_t c = 0; before && c < cols; c++)
        e.dweight[c] = e.dbias[c] = e.dweight2[c] = e.dbias2[c] = (double)before->host[c];
    double *g = doubles(f, cols), *normal = doubles(f, cols);
    for (size_t r = 0; r < p->rows; r++) {
        double mean, rstd, sum_g = 0, sum_gn = 0;
        row_statistics(p, r, &mean, &rstd);
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const double dy = (double)p->dy.host[i], dy2 = (double)p->dy2.host[i];
            normal[c] = ((double)p->x.host[i] - mean) * rstd;
            g[c] = dy * (double)p->weight.host[c] + (p->two ? dy2 * (double)p->weight2.host[c] : 0);
            sum_g += g[c];
            sum_gn += g[c] * normal[c];
            e.dweight[c] += dy * normal[c];
            e.dbias[c] += dy;
            e.dweight2[c] += dy2 * normal[c];
            e.dbias2[c] += dy2;
        }
        if (p->kind == NORM_RMSNORM)
            sum_g = 0;
        for (size_t c = 0; c < cols; c++)
            e.dx[r * cols + c] = (double)p->dresidual.host[r * cols + c] +
                                 rstd * (g[c] - (sum_g + normal[c] * sum_gn) / (double)cols);
    }
    return e;
}

static void check_backward(fixture *f, dtype type, const problem *p, bool accumulate)
{
    const array before = array_random(f, p->cols, DTYPE_F32, 9, -1, 1);
    const reference_gradients e = reference_backward(f, p, accumulate ? &before : NULL);
    const gradients g = run_backward(f, p, type, accumulate ? &before : NULL, false);
    check_array(f, "dx", &g.dx, e.dx, 1e-6, 3e-6);
    check_array(f, "dweight", &g.dweight, e.dweight, 1e-6, 3e-6);
    if (p->kind == NORM_LAYERNORM)
        check_array(f, "dbias", &g.dbias, e.dbias, 1e-6, 3e-6);
    if (p->two)
        check_array(f, "dweight2", &g.dweight2, e.dweight2, 1e-6, 3e-6);
    if (p->two && p->kind == NORM_LAYERNORM)
        check_array(f, "dbias2", &g.dbias2, e.dbias2, 1e-6, 3e-6);
    const gradients again = run_backward(f, p, type, accumulate ? &before : NULL, true);
    check_same(f, "dx in place", &g.dx, &again.dx);
    check_same(f, "dweight again", &g.dweight, &again.dweight);
}

static void backward_on(fixture *f, dtype type)
{
    for (size_t i = 0; i < SHAPES; i++) {
        for (int variant = 0; variant < 8; variant++) {
            const problem p = make_problem(
                f, type, shapes[i], variant & 1 ? NORM_RMSNORM : NORM_LAYERNORM, variant & 2, 0.3f);
            check_backward(f, type, &p, variant & 4);
            fixture_release(f);
        }
    }
}

static void gradients_of_norms_meet_double_precision(void **state)
{
    (void)state;
    on_every_device(backward_on);
}

// L = sum(dy y + dy2 y2) + sum(dresidual x), in double precision.
static double loss_of(const problem *p, double *y, double *y2, double *mean, double *rstd)
{
    reference_forward(p, y, y2, mean, rstd);
    double loss = 0;
    for (size_t i = 0; i < p->rows * p->cols; i++)
        loss += (double)p->dy.host[i] * y[i] + (p->two ? (double)p->dy2.host[i] * y2[i] : 0) +
                (double)p->dresidual.host[i] * (double)p->x.host[i];
    return loss;
}

// Central differences over a step of 2^-10 err by its square and the rounding of x.
static void slopes_on(fixture *f, dtype type)
{
    if (type != DTYPE_F32)
        return;
    for (int kind = 0; kind < 2; kind++) {
        problem p = make_problem(f, type, (size_t[]){2, 7}, (norm_kind)kind, true, 0.3f);
        const gradients g = run_backward(f, &p, type, NULL, false);
        double y[14], y2[14], mean[2], rstd[2], expected[14];
        for (size_t i = 0; i < 14; i++) {
            const float x = p.x.host[i];
            p.x.host[i] = x + 0x1p-10f;
            const double above = loss_of(&p, y, y2, mean, rstd);
            const float high = p.x.host[i];
            p.x.host[i] = x - 0x1p-10f;
            expected[i] =
                (above - loss_of(&p, y, y2, mean, rstd)) / ((double)high - (double)p.x.host[i]);
            p.x.host[i] = x;
        }
        check_array(f, "slope", &g.dx, expected, 1e-5, 1e-5);
        fixture_release(f);
    }
}

static void gradients_of_norms_meet_finite_differences(void **state)
{
    (void)state;
    on_every_device(slopes_on);
}

static void nan_on(fixture *f, dtype type)
{
    problem p = make_problem(f, type, (size_t[]){3, 65}, NORM_LAYERNORM, false, 0);
    p.x.host[65 + 64] = NAN;
    array_set(f, &p.x, p.x.host);
    const outputs o = run_forward(f, &p, type);
    const float *y = array_values(f, &o.y);
    for (size_t c = 0; c < 65; c++) {
        assert_false(isnan(y[c]) || isnan(y[130 + c]));
        assert_true(isnan(y[65 + c]));
    }
}

static void a_nan_spoils_its_own_row_only(void **state)
{
    (void)state;
    on_every_device(nan_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_meet_double_precision),
        cmocka_unit_test(layernorm_keeps_its_digits_far_from_zero),
        cmocka_unit_test(gradients_of_norms_meet_double_precision),
        cmocka_unit_test(gradients_of_norms_meet_finite_differences),
        cmocka_unit_test(a_nan_spoils_its_own_row_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
