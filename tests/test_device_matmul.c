// Matrix products against double precision: types, transposes, bias, residual, accumulation.
#include "device_fixture.h"

typedef struct product_case {
    size_t m, n, k;
    bool transpose_a, transpose_b;
    bool bias, residual, accumulate;
} product_case;

static const product_case cases[] = {
    {1, 1, 1, false, false, false, false, false},   {5, 7, 3, false, true, true, false, false},
    {33, 17, 65, false, true, true, true, false},   {64, 64, 64, false, false, false, false, false},
    {31, 50, 129, true, false, false, false, true}, {128, 96, 40, false, true, false, true, false},
    {50, 33, 20, false, false, false, false, true},
};

static double at(const array *a, size_t row, size_t col, size_t rows, size_t cols, bool transposed)
{
    return (double)a->host[transposed ? col * rows + row : row * cols + col];
}

static void check_case(fixture *f, const product_case *p, dtype in, dtype out)
{
    const matmul_spec spec = {.m = p->m,
                              .n = p->n,
                              .k = p->k,
                              .transpose_a = p->transpose_a,
                              .transpose_b = p->transpose_b,
                              .in = in,
                              .out = out,
                              .bias = p->bias,
                              .residual = p->residual};
    const array a = array_random(f, p->m * p->k, in, 1, -1, 1);
    const array b = array_random(f, p->k * p->n, in, 2, -1, 1);
    const array bias = array_random(f, p->n, in, 3, -1, 1);
    const array residual = array_random(f, p->m * p->n, out, 4, -1, 1);
    const array before = array_random(f, p->m * p->n, out, 5, -1, 1);
    array c = array_new(f, p->m * p->n, out);
    double *expected = calloc(p->m * p->n, sizeof *expected);
    for (size_t i = 0; i < p->m; i++) {
        for (size_t j = 0; j < p->n; j++) {
            double sum = p->accumulate ? (double)before.host[i * p->n + j] : 0;
            for (size_t e = 0; e < p->k; e++)
                sum += at(&a, i, e, p->m, p->k, p->transpose_a) *
                       at(&b, e, j, p->k, p->n, p->transpose_b);
            sum += p->bias ? (double)bias.host[j] : 0;
            sum += p->residual ? (double)residual.host[i * p->n + j] : 0;
            expected[i * p->n + j] = sum;
        }
    }
    matmul *plan;
    assert_ok(device_matmul_create(f->d, &spec, &plan));
    if (p->accumulate)
        array_set(f, &c, before.host);
    assert_ok(device_matmul(f->s, plan,
                            &(matmul_args){.c = c.data,
                                           .a = a.data,
                                           .b = b.data,
                                           .bias = bias.data,
                                           .residual = residual.data,
                                           .accumulate = p->accumulate}));
    // Sums of k products below 1, in fp32.
    check_array(f, "C", &c, expected, 0, 2e-7 * (double)(p->k + 4));
    device_matmul_destroy(plan);
    free(expected);
    fixture_release(f);
}

static void check_all(fixture *f, dtype type)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_case(f, &cases[i], type, type);
        if (type != DTYPE_F32 && !cases[i].residual)
            check_case(f, &cases[i], type, DTYPE_F32);
    }
}

static void products_equal_double_precision(void **state)
{
    (void)state;
    on_every_device(check_all);
}

static void empty_products_are_refused(void **state)
{
    (void)state;
    const device_options options = {.backend = "cpu", .threads = 1, .local_ranks = 1};
    const matmul_spec spec = {.m = 0, .n = 3, .k = 2, .in = DTYPE_F32, .out = DTYPE_F32};
    device *d;
    matmul *plan;
    assert_ok(device_create(&options, &d));
    assert_fails(STATUS_ERR_DEVICE, "must be > 0", device_matmul_create(d, &spec, &plan));
    device_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_equal_double_precision),
        cmocka_unit_test(empty_products_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
