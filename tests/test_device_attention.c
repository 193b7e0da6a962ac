// Causal attention against double precision: forward, backward, dropout, on every device.
#include "device_fixture.h"

typedef struct attention_case {
    size_t batch, tokens, heads, head_dim;
    size_t whole_heads, first_head; // of the masks
    float dropout;
} attention_case;

// Around the blocks of 64 and around vectors.
static const attention_case cases[] = {
    {1, 1, 1, 1, 1, 0, 0},      {2, 2, 3, 8, 3, 0, 0},      {1, 63, 2, 16, 2, 0, 0},
    {1, 64, 1, 33, 1, 0, 0},    {2, 65, 2, 64, 2, 0, 0},    {1, 130, 1, 80, 1, 0, 0},
    {2, 70, 2, 24, 2, 0, 0.3f}, {2, 70, 2, 24, 6, 2, 0.3f},
};

// Everything in double, with the T x T matrices.
typedef struct reference {
    double *out, *lse, *dqkv;
} reference;

static size_t qkv_at(const attention_case *c, size_t b, size_t t, size_t h, size_t part)
{
    return (((b * c->tokens + t) * c->heads + h) * 3 + part) * c->head_dim;
}

static size_t out_at(const attention_case *c, size_t b, size_t t, size_t h)
{
    return ((b * c->tokens + t) * c->heads + h) * c->head_dim;
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

// The factor of probability (b, h, i, j): 0 where dropped.
static double factor(const attention_case *c, const dropout_spec *d, size_t b, size_t h, size_t i,
                     size_t j)
{
    if (d->probability == 0)
        return 1;
    const uint64_t index =
        d->offset + ((b * c->whole_heads + c->first_head + h) * c->tokens + i) * c->tokens + j;
    const bool kept = philox_uniform(d->seed, d->stream, index) >= d->probability;
    return kept ? 1 / (1 - (double)d->probability) : 0;
}

// One query row: its output, and its share of all gradients.
static void reference_row(const attention_case *c, const dropout_spec *d, const float *qkv,
                          const float *dout, size_t b, size_t h, size_t i, reference *r)
{
    const size_t dim = c->head_dim;
    const double scale = 1 / sqrt((double)dim);
    const float *q = qkv + qkv_at(c, b, i, h, 0);
    const float *g = dout + out_at(c, b, i, h);
    double p[256], sum = 0, delta = 0, most = -INFINITY;
    for (size_t j = 0; j <= i; j++) {
        p[j] = dot(q, qkv + qkv_at(c, b, j, h, 1), dim) * scale;
        most = fmax(most, p[j]);
    }
    for (size_t j = 0; j <= i; j++)
        sum += exp(p[j] - most);
    r->lse[(b * c->heads + h) * c->tokens + i] = most + log(sum);
    for (size_t j = 0; j <= i; j++) {
        p[j] = exp(p[j] - most) / sum;
        const double kept = p[j] * factor(c, d, b, h, i, j);
        const float *v = qkv + qkv_at(c, b, j, h, 2);
        for (size_t k = 0; k < dim; k++) {
            r->out[out_at(c, b, i, h) + k] += kept * (double)v[k];
            r->dqkv[qkv_at(c, b, j, h, 2) + k] += kept * (double)g[k];
        }
        delta += kept * dot(g, v, dim);
    }
    for (size_t j = 0; j <= i; j++) {
        const float *k = qkv + qkv_at(c, b, j, h, 1), *v = qkv + qkv_at(c, b, j, h, 2);
        const double ds = p[j] * (factor(c, d, b, h, i, j) * dot(g, v, dim) - delta) * scale;
        for (size_t e = 0; e < dim; e++) {
            r->dqkv[qkv_at(c, b, i, h, 0) + e] += ds * (double)k[e];
            r->dqkv[qkv_at(c, b, j, h, 1) + e] += ds * (double)q[e];
        }
    }
}

static void check_case(fixture *f, dtype type, const attention_case *c)
{
    const size_t rows = c->batch * c->tokens * c->heads, count = rows * c->head_dim;
    const dropout_spec d = {.probability = c->dropout, .seed = 5, .stream = 6, .offset = 7};
    const array qkv = array_random(f, 3 * count, type, 1, -1.5f, 1.5f);
    const array dout = array_random(f, count, type, 2, -1, 1);
    array out = array_new(f, count, type), lse = array_new(f, rows, DTYPE_F32);
    array dqkv = array_new(f, 3 * count, type);
    reference r = {calloc(count, sizeof(double)), calloc(rows, sizeof(double)),
                   calloc(3 * count, sizeof(double))};
    for (size_t b = 0; b < c->batch; b++)
        for (size_t h = 0; h < c->heads; h++)
            for (size_t i = 0; i < c->tokens; i++)
                reference_row(c, &d, qkv.host, dout.host, b, h, i, &r);
    void *workspace;
    assert_ok(device_malloc(
        f->d, device_attention_workspace(f->d, c->batch, c->tokens, c->heads, c->head_dim, type),
        "workspace", &workspace));
    assert_ok(
        device_attention_forward(f->s, &(attention_forward_args){.out = out.data,
                                                                 .lse = lse.data,
                                                                 .qkv = qkv.data,
                                                                 .batch = c->batch,
                                                                 .tokens = c->tokens,
                                                                 .heads = c->heads,
                                                                 .whole_heads = c->whole_heads,
                                                                 .first_head = c->first_head,
                                                                 .head_dim = c->head_dim,
                                                                 .type = type,
                                                                 .dropout = d}));
    check_array(f, "out", &out, r.out, 0, 3e-6);
    check_array(f, "lse", &lse, r.lse, 1e-6, 3e-6);
    assert_ok(
        device_attention_backward(f->s, &(attention_backward_args){.dqkv = dqkv.data,
                                                                   .dout = dout.data,
                                                                   .out = out.data,
                                                                   .lse = lse.data,
                                                                   .qkv = qkv.data,
                                                                   .workspace = workspace,
                                                                   .batch = c->batch,
                                                                   .tokens = c->tokens,
                                                                   .heads = c->heads,
                                                                   .whole_heads = c->whole_heads,
                                                                   .first_head = c->first_head,
                                                                   .head_dim = c->head_dim,
                                                                   .type = type,
                                                                   .dropout = d}));
    // delta comes from the rounded output: in 16 bits that is the larger part of the error.
    check_array(f, "dqkv", &dqkv, r.dqkv, 0, type == DTYPE_F32 ? 2e-5 : 3e-2);
    device_free(f->d, workspace);
    free(r.out);
    free(r.lse);
    free(r.dqkv);
}

static void check_all(fixture *f, dtype type)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_case(f, type, &cases[i]);
        fixture_release(f);
    }
}

static void attention_and_its_gradient_equal_double_precision(void **state)
{
    (void)state;
    on_every_device(check_all);
}

// A NaN in a query reaches its own row; one in a value reaches its row and those after it.
static void check_nan(fixture *f, dtype type)
{
    const attention_case c = {1, 70, 1, 16, 1, 0, 0};
    const size_t count = c.tokens * c.head_dim, at = 66;
    for (size_t part = 0; part < 3; part += 2) {
        float *values = host_floats(f, 3 * count);
        fill_uniform(values, 3 * count, 3, -1, 1);
        values[qkv_at(&c, 0, at, 0, part) + 2] = NAN;
        const array qkv = array_from(f, values, 3 * count, type);
        array out = array_new(f, count, type), lse = array_new(f, c.tokens, DTYPE_F32);
        assert_ok(device_attention_forward(f->s, &(attention_forward_args){.out = out.data,
                                                                           .lse = lse.data,
                                                                           .qkv = qkv.data,
                                                                           .batch = 1,
                                                                           .tokens = c.tokens,
                                                                           .heads = 1,
                                                                           .head_dim = c.head_dim,
                                                                           .type = type}));
        const float *result = array_values(f, &out);
        for (size_t t = 0; t < 64; t++) // rows of the blocks before it
            assert_true(!isnan(result[t * c.head_dim + 2]));
        assert_true(isnan(result[at * c.head_dim + 2]));
        if (part == 2)
            assert_true(isnan(result[(c.tokens - 1) * c.head_dim + 2]));
        fixture_release(f);
    }
}

static void a_nan_reaches_the_output(void **state)
{
    (void)state;
    on_every_device(check_nan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_and_its_gradient_equal_double_precision),
        cmocka_unit_test(a_nan_reaches_the_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
