// Elementwise operations, rotary embedding and embeddings, on every instruction set.
#include "device_fixture.h"

static const size_t counts[] = {0, 1, 3, 15, 16, 17, 63, 64, 65, 1000, 9001};
enum { COUNTS = sizeof counts / sizeof counts[0] };
static const size_t shapes[][2] = {{0, 3},  {3, 0},  {1, 1},  {3, 3},   {2, 17},
                                   {7, 63}, {4, 64}, {5, 65}, {67, 129}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static double *doubles(fixture *f, size_t count)
{
    return (double *)(void *)host_floats(f, 2 * count);
}

// ---- GELU ----

static double gelu_exact(double x, gelu_kind kind, double *slope)
{
    if (kind == GELU_ERF) {
        const double cdf = 0.5 * erfc(-x / sqrt(2.0));
        *slope = cdf + x * exp(-x * x / 2) / sqrt(2 * acos(-1.0));
        return x * cdf;
    }
    const double k = sqrt(2 / acos(-1.0)), u = k * (x + 0.044715 * x * x * x);
    const double half = 1 / (1 + exp(-2 * u)); // (1 + tanh u) / 2 without cancellation
    *slope = half + 2 * x * half * (1 - half) * k * (1 + 3 * 0.044715 * x * x);
    return x * half;
}

static array gelu_run(fixture *f, const array *x, gelu_kind kind)
{
    const array y = array_new(f, x->count, x->type);
    assert_ok(device_gelu_forward(
        f->s, &(gelu_forward_args){
                  .y = y.data, .x = x->data, .count = x->count, .kind = kind, .type = x->type}));
    return y;
}

// A small relative error also where the value is small. The tanh form's exponent reaches 49 on
// [-8, 8] and carries 2.5 x 2^-24 of roundings: 7.3e-6 of values that are then under 1e-15.
static void gelu_on(fixture *f, dtype type)
{
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < COUNTS; i++) {
            const array x = array_random(f, counts[i], type, 11, -8, 8);
            double *expected = doubles(f, x.count), slope;
            for (size_t j = 0; j < x.count; j++)
                expected[j] = gelu_exact((double)x.host[j], (gelu_kind)kind, &slope);
            const array y = gelu_run(f, &x, (gelu_kind)kind);
            check_array(f, "gelu", &y, expected, kind == GELU_ERF ? 1e-6 : 8e-6, 1e-30);
            fixture_release(f);
        }
    }
}

static void gelu_meets_double_precision(void **state)
{
    (void)state;
    on_every_device(gelu_on);
}

static void gelu_ends_on(fixture *f, dtype type)
{
    const float high = type == DTYPE_F16 ? 65504.0f : 3e38f;
    const float ends[] = {0.0f, NAN, INFINITY, 50.0f, high, -50.0f, -high, -1000.0f, 1000.0f};
    for (int kind = 0; kind < 2; kind++) {
        const array x = array_from(f, ends, 9, type);
        const array y = gelu_run(f, &x, (gelu_kind)kind);
        const float *v = array_values(f, &y);
        assert_true(v[0] == 0 && isnan(v[1]) && v[2] == INFINITY);
        for (int i = 3; i < 9; i++)
            assert_true(v[i] == (x.host[i] > 0 ? x.host[i] : 0));
        const float ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
        const array dx = array_from(f, ones, 9, type);
        assert_ok(device_gelu_backward(f->s, &(gelu_backward_args){.dx = dx.data,
                                                                   .dy = dx.data,
                                                                   .x = x.data,
                                                                   .rows = 3,
                                                                   .cols = 3,
                                                                   .kind = (gelu_kind)kind,
                                                                   .type = type}));
        const float *d = array_values(f, &dx);
        assert_true(fabsf(d[0] - 0.5f) < 1e-6f && isnan(d[1]));
        for (int i = 3; i < 9; i++)
            assert_true(d[i] == (x.host[i] > 0 ? 1 : 0));
        fixture_release(f);
    }
}

static void gelu_is_right_at_its_ends(void **state)
{
    (void)state;
    on_every_device(gelu_ends_on);
}

static void check_gelu_backward(fixture *f, dtype type, const size_t shape[2], gelu_kind kind,
                                bool accumulate)
{
    const size_t rows = shape[0], cols = shape[1], n = rows * cols;
    const array x = array_random(f, n, type, 12, -5, 5), dy = array_random(f, n, type, 13, -1, 1);
    const array dx = array_new(f, n, type), y = array_new(f, n, type);
    const array before = array_random(f, cols, DTYPE_F32, 14, -1, 1);
    const array dbias = accumulate ? before : array_new(f, cols, DTYPE_F32);
    double *expected = doubles(f, n), *sums = doubles(f, cols);
    for (size_t c = 0; accumulate && c < cols; c++)
        sums[c] = (double)before.host[c];
    for (size_t i = 0; i < n; i++) {
        double slope;
        gelu_exact((double)x.host[i], kind, &slope);
        expected[i] = (double)dy.host[i] * slope;
        sums[i % cols] += expected[i];
    }
    gelu_backward_args args = {.dx = dx.data,
                               .y = y.data,
                               .dbias = dbias.data,
                               .dy = dy.data,
                               .x = x.data,
                               .rows = rows,
                               .cols = cols,
                               .kind = kind,
                               .type = type,
                               .accumulate = accumulate};
    assert_ok(device_gelu_backward(f->s, &args));
    check_array(f, "gelu dx", &dx, expected, 1e-6, 5e-7); // the slope passes through zero
    check_array(f, "gelu dbias", &dbias, sums, 1e-6, 5e-6);
    const array forward = gelu_run(f, &x, kind);
    check_same(f, "gelu again", &y, &forward);
    args.dx = args.y = NULL;
    args.dx = dy.data;
    args.dbias = NULL;
    assert_ok(device_gelu_backward(f->s, &args));
    check_same(f, "gelu dx in place", &dx, &dy);
}

static void gelu_backward_on(fixture *f, dtype type)
{
    for (size_t i = 0; i < SHAPES; i++) {
        for (int variant = 0; variant < 4; variant++) {
            check_gelu_backward(f, type, shapes[i], (gelu_kind)(variant & 1), variant & 2);
            fixture_release(f);
        }
    }
}

static void gelu_gradients_meet_double_precision(void **state)
{
    (void)state;
    on_every_device(gelu_backward_on);
}

// ---- Sums of columns ----

static void bias_on(fixture *f, dtype type)
{
    for (size_t i = 0; i < 2 * SHAPES; i++) {
        const size_t rows = shapes[i / 2][0], cols = shapes[i / 2][1];
        const bool accumulate = i % 2;
        const array dy = array_random(f, rows * cols, type, 15, -1, 1);
        const array before = array_random(f, cols, DTYPE_F32, 16, -1, 1);
        const array dbias = accumulate ? before : array_new(f, cols, DTYPE_F32);
        double *sums = doubles(f, cols);
        for (size_t c = 0; accumulate && c < cols; c++)
            sums[c] = (double)before.host[c];
        for (size_t j = 0; j < rows * cols; j++)
            sums[j % cols] += (double)dy.host[j];
        assert_ok(device_bias_backward(f->s, &(bias_backward_args){.dbias = dbias.data,
                                                                   .dy = dy.data,
                                                                   .rows = rows,
                                                                   .cols = cols,
                                                                   .type = type,
                                                                   .accumulate = accumulate}));
        check_array(f, "dbias", &dbias, sums, 5e-7, 5e-6);
        fixture_release(f);
    }
}

static void bias_gradients_are_sums_of_rows(void **state)
{
    (void)state;
    on_every_device(bias_on);
}

// 20000 equal rows, so that every rounding errs the same way: one running fp32 sum is wrong by
// 1e-4, sums of blocks by at most the number of rows in one, and of blocks, times 2^-25.
static void long_sum_on(fixture *f, dtype type)
{
    const size_t rows = 20000, cols = 5;
    float *thirds = host_floats(f, rows * cols);
    for (size_t i = 0; i < rows * cols; i++)
        thirds[i] = 1.0f / 3;
    const array dy = array_from(f, thirds, rows * cols, type);
    const array dbias = array_new(f, cols, DTYPE_F32);
    double expected[5];
    for (size_t c = 0; c < cols; c++)
        expected[c] = (double)rows * (double)dy.host[0];
    assert_ok(device_bias_backward(
        f->s, &(bias_backward_args){
                  .dbias = dbias.data, .dy = dy.data, .rows = rows, .cols = cols, .type = type}));
    check_array(f, "long sum", &dbias, expected, 5e-6, 0);
}

static void long_sums_keep_their_digits(void **state)
{
    (void)state;
    on_every_device(long_sum_on);
}

// ---- Dropout, sums, conversions ----

// Offsets inside a block of four, and where the block's number passes 32 bits.
static void dropout_on(fixture *f, dtype type)
{
    const uint64_t offsets[] = {0, 1, 6, 0x3fffffffdULL, 0x123456789abcdefULL};
    for (size_t i = 0; i < COUNTS * 5; i++) {
        const size_t n = counts[i / 5];
        const dropout_spec spec = {.probability = 0.3f,
                                   .seed = 0xfeedbeef12345678ULL,
                                   .stream = 0x100000007ULL,
                                   .offset = offsets[i % 5]};
        const array x = array_random(f, n, type, 17, -1, 1),
                    a = array_random(f, n, type, 18, -1, 1);
        const array y = array_new(f, n, type), alone = array_new(f, n, type);
        double *expected = doubles(f, n), *expected_alone = doubles(f, n);
        for (size_t j = 0; j < n; j++) {
            const bool kept = philox_uniform(spec.seed, spec.stream, spec.offset + j) >= 0.3f;
            expected_alone[j] = kept ? (double)a.host[j] / (1 - (double)0.3f) : 0;
            expected[j] = (double)x.host[j] + expected_alone[j];
        }
        dropout_args args = {
            .y = y.data, .x = x.data, .a = a.data, .count = n, .type = type, .dropout = spec};
        assert_ok(device_dropout(f->s, &args));
        check_array(f, "dropout", &y, expected, 2e-7, 2e-7);
        args.y = alone.data;
        args.x = NULL;
        assert_ok(device_dropout(f->s, &args));
        check_array(f, "dropout alone", &alone, expected_alone, 2e-7, 0);
        args.y = x.data;
        args.x = x.data;
        assert_ok(device_dropout(f->s, &args));
        check_same(f, "dropout onto x", &x, &y);
        args.y = a.data;
        args.x = NULL;
        assert_ok(device_dropout(f->s, &args));
        check_same(f, "dropout onto a", &a, &alone);
        fixture_release(f);
    }
}

static void dropout_draws_by_global_index(void **state)
{
    (void)state;
    on_every_device(dropout_on);
}

// A dropped infinity is gone, not NaN; without dropout everything stays.
static void dropped_infinities_on(fixture *f, dtype type)
{
    float values[200];
    for (int i = 0; i < 200; i++)
        values[i] = INFINITY;
    const array a = array_from(f, values, 200, type), y = array_new(f, 200, type);
    dropout_args args = {.y = y.data,
                         .a = a.data,
                         .count = 200,
                         .type = type,
                         .dropout = {.probability = 0.5f, .seed = 3}};
    assert_ok(device_dropout(f->s, &args));
    const float *v = array_values(f, &y);
    for (size_t i = 0; i < 200; i++)
        assert_true(v[i] == (philox_uniform(3, 0, i) >= 0.5f ? INFINITY : 0));
    args.dropout.probability = 0;
    assert_ok(device_dropout(f->s, &args));
    check_same(f, "no dropout", &y, &a);
}

static void what_is_dropped_is_zero_whatever_it_was(void **state)
{
    (void)state;
    on_every_device(dropped_infinities_on);
}

static void add_on(fixture *f, dtype type)
{
    for (size_t i = 0; i < COUNTS; i++) {
        const array x = array_random(f, counts[i], type, 19, -1, 1);
        const array a = array_random(f, counts[i], type, 20, -1, 1);
        const array y = array_new(f, counts[i], type);
        float *sums = host_floats(f, x.count);
        for (size_t j = 0; j < x.count; j++)
            sums[j] = x.host[j] + a.host[j];
        const array expected = array_from(f, sums, x.count, type);
        add_args args = {.y = y.data, .x = x.data, .a = a.data, .count = x.count, .type = type};
        assert_ok(device_add(f->s, &args));
        check_same(f, "add", &y, &expected);
        args.y = a.data;
        assert_ok(device_add(f->s, &args));
        check_same(f, "add in place", &a, &expected);
        fixture_release(f);
    }
}

static void sums_are_rounded_once(void **state)
{
    (void)state;
    on_every_device(add_on);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Every 16-bit pattern widens to what base/dtype.h says.
static void widen_on(fixture *f, dtype type)
{
    if (type == DTYPE_F32)
        return;
    uint16_t *all = (uint16_t *)(void *)host_floats(f, 32768);
    for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    const array x = array_new(f, 65536, type), y = array_new(f, 65536, DTYPE_F32);
    const array back = array_new(f, 65536, type);
    assert_ok(device_upload(f->s, x.data, all, 131072));
    assert_ok(device_cast(f->s, &(cast_args){y.data, x.data, 65536, DTYPE_F32, type}));
    assert_ok(device_cast(f->s, &(cast_args){back.data, y.data, 65536, type, DTYPE_F32}));
    const float *wide = array_values(f, &y);
    uint16_t *returned = (uint16_t *)(void *)host_floats(f, 32768);
    assert_ok(device_download(f->s, returned, back.data, 131072));
    for (size_t i = 0; i < 65536; i++) {
        const float expected = type == DTYPE_BF16 ? bf16_to_f32(all[i]) : f16_to_f32(all[i]);
        if (bits_of(wide[i]) != bits_of(expected))
            fail_msg("%s pattern %04zx on %s is %08x, expected %08x", dtype_str(type), i, f->isa,
                     bits_of(wide[i]), bits_of(expected));
        if (!isnan(expected))
            assert_int_equal(returned[i], all[i]);
    }
}

static void every_16_bit_pattern_widens_exactly(void **state)
{
    (void)state;
    on_every_device(widen_on);
}

// Random bit patterns of all exponents, and each neighbourhood of a tie.
static float pattern(size_t i)
{
    uint32_t words[4], bits;
    philox_block(21, 0, i, words);
    bits = words[0];
    if (i % 4 == 1) // near a tie of bf16
        bits = (bits & 0xffff0000u) + 0x8000u + words[1] % 3 - 1;
    if (i % 4 == 2) // near a tie of fp16, in its range
        bits = ((112 + words[1] % 32) << 23 | (bits & 0x807fe000u)) + 0x1000u + words[2] % 3 - 1;
    if (i % 4 == 3) // fp16's subnormals
        bits = (100 + words[1] % 14) << 23 | (bits & 0x807fffffu);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void narrow_on(fixture *f, dtype type)
{
    const size_t n = 40003;
    float *values = host_floats(f, n);
    for (size_t i = 0; i < n; i++)
        values[i] = pattern(i);
    const float special[] = {INFINITY, -INFINITY, NAN,      0.0f,           -0.0f,
                             65504.0f, 65519.99f, 65520.0f, 1e-45f,         3.4e38f,
                             1e-38f,   0x1p-24f,  0x1p-25f, 0x1.000002p-25f};
    memcpy(values, special, sizeof special);
    const array x = array_new(f, n, DTYPE_F32), y = array_new(f, n, type);
    array_set(f, &x, values);
    assert_ok(device_cast(f->s, &(cast_args){y.data, x.data, n, type, DTYPE_F32}));
    const size_t size = dtype_size(type);
    unsigned char *got = (unsigned char *)host_floats(f, n);
    assert_ok(device_download(f->s, got, y.data, n * size));
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(values[i]), result = 0;
        if (type != DTYPE_F32)
            bits = type == DTYPE_BF16 ? f32_to_bf16(values[i]) : f32_to_f16(values[i]);
        memcpy(&result, got + i * size, size);
        if (result != bits)
            fail_msg("%08x to %s on %s is %08x, expected %08x", bits_of(values[i]), dtype_str(type),
                     f->isa, result, bits);
    }
}

static void narrowing_rounds_as_the_scalar_code(void **state)
{
    (void)state;
    on_every_device(narrow_on);
}

static void cast_between_halves_on(fixture *f, dtype type)
{
    const dtype other = type == DTYPE_BF16 ? DTYPE_F16 : DTYPE_BF16;
    for (size_t i = 0; i < COUNTS; i++) {
        const array x = array_random(f, counts[i], type, 22, -300, 300);
        const array y = array_new(f, counts[i], other),
                    expected = array_from(f, x.host, x.count, other);
        assert_ok(device_cast(f->s, &(cast_args){y.data, x.data, x.count, other, type}));
        check_same(f, "cast", &y, &expected);
        fixture_release(f);
    }
}

static void types_convert_into_each_other(void **state)
{
    (void)state;
    on_every_device(cast_between_halves_on);
}

// ---- Rotary ----

typedef struct rotary_shape {
    size_t batch, tokens, heads, head_dim, dims;
} rotary_shape;

static void check_rotary(fixture *f, dtype type, const rotary_shape *r)
{
    const size_t half = r->dims / 2, n = r->batch * r->tokens * r->heads * 3 * r->head_dim;
    const array qkv = array_random(f, n, type, 23, -1, 1);
    float *angles = host_floats(f, r->tokens * half), *cosines = host_floats(f, r->tokens * half);
    float *sines = host_floats(f, r->tokens * half);
    fill_uniform(angles, r->tokens * half, 24, -3, 3);
    for (size_t i = 0; i < r->tokens * half; i++) {
        cosines[i] = cosf(angles[i]);
        sines[i] = sinf(angles[i]);
    }
    const array c = array_from(f, cosines, r->tokens * half, DTYPE_F32);
    const array s = array_from(f, sines, r->tokens * half, DTYPE_F32);
    double *expected = doubles(f, n);
    for (size_t i = 0; i < n; i++) {
        const size_t d = i % r->head_dim, part = i / r->head_dim % 3;
        const size_t t = i / (3 * r->head_dim * r->heads) % r->tokens;
        const double x = (double)qkv.host[i];
        expected[i] = x;
        if (part == 2 || d >= r->dims)
            continue;
        const double cosine = (double)cosines[t * half + d % half];
        const double sine = (double)sines[t * half + d % half];
        expected[i] = d < half ? x * cosine - (double)qkv.host[i + half] * sine
                               : x * cosine + (double)qkv.host[i - half] * sine;
    }
    rotary_args args = {.qkv = qkv.data,
                        .cos = c.data,
                        .sin = s.data,
                        .batch = r->batch,
                        .tokens = r->tokens,
                        .heads = r->heads,
                        .head_dim = r->head_dim,
                        .rotary_dims = r->dims,
                        .type = type};
    assert_ok(device_rotary(f->s, &args));
    check_array(f, "rotary", &qkv, expected, 0, 2e-7);
    args.backward = true;
    assert_ok(device_rotary(f->s, &args));
    for (size_t i = 0; i < n; i++)
        expected[i] = (double)qkv.host[i];
    // Once more rounded, of values that reach 1.4.
    check_array(f, "rotary and back", &qkv, expected, 0,
                1e-6 + (type == DTYPE_F32 ? 0 : 3 * type_rtol(type)));
}

static void rotary_on(fixture *f, dtype type)
{
    const rotary_shape all[] = {{1, 1, 1, 2, 2},     {2, 3, 2, 5, 2},   {1, 4, 3, 16, 4},
                                {0, 3, 1, 8, 8},     {1, 5, 2, 64, 16}, {2, 3, 1, 66, 34},
                                {1, 2, 2, 128, 128}, {1, 2, 2, 8, 0},   {2, 33, 4, 80, 40}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check_rotary(f, type, &all[i]);
        fixture_release(f);
    }
}

static void rotary_turns_and_turns_back(void **state)
{
    (void)state;
    on_every_device(rotary_on);
}

// ---- Embedding ----

static void check_embedding(fixture *f, dtype type, size_t batch, size_t tokens, size_t cols)
{
    enum { VOCAB = 11 };
    const size_t rows = batch * tokens, n = rows * cols;
    int32_t ids[256];
    assert_true(rows <= 256);
    for (size_t r = 0; r < rows; r++) // tokens repeat, so gradients meet
        ids[r] = (int32_t)(philox_uniform(25, 0, r) * VOCAB);
    const int32_t *device_ids = integers_new(f, ids, rows);
    const array weight = array_random(f, VOCAB * cols, type, 26, -1, 1);
    const array positions = array_random(f, (tokens + 2) * cols, type, 27, -1, 1);
    const array dy = array_random(f, n, type, 28, -1, 1);
    for (int learned = 0; learned < 2; learned++) {
        const array y = array_new(f, n, type);
        const array dweight = array_random(f, VOCAB * cols, DTYPE_F32, 29, -1, 1);
        const array dpositions = array_random(f, (tokens + 2) * cols, DTYPE_F32, 30, -1, 1);
        double *expected = doubles(f, n), *dw = doubles(f, VOCAB * cols),
               *dp = doubles(f, dpositions.count);
        for (size_t i = 0; i < dweight.count; i++)
            dw[i] = (double)dweight.host[i];
        for (size_t i = 0; i < dpositions.count; i++)
            dp[i] = (double)dpositions.host[i];
        for (size_t i = 0; i < n; i++) {
            const size_t r = i / cols, c = i % cols, w = (size_t)ids[r] * cols + c;
            expected[i] = (double)weight.host[w] +
                          (learned ? (double)positions.host[r % tokens * cols + c] : 0);
            dw[w] += (double)dy.host[i];
            dp[r % tokens * cols + c] += learned ? (double)dy.host[i] : 0;
        }
        assert_ok(device_embedding_forward(
            f->s, &(embedding_forward_args){.y = y.data,
                                            .tokens = device_ids,
                                            .weight = weight.data,
                                            .positions = learned ? positions.data : NULL,
                                            .vocab = VOCAB,
                                            .batch = batch,
                                            .tokens_per_sample = tokens,
                                            .cols = cols,
                                            .type = type}));
        check_array(f, "embedding", &y, expected, 1e-7, 0);
        assert_ok(device_embedding_backward(
            f->s, &(embedding_backward_args){.dweight = dweight.data,
                                             .dpositions = learned ? dpositions.data : NULL,
                                             .tokens = device_ids,
                                             .dy = dy.data,
                                             .vocab = VOCAB,
                                             .batch = batch,
                                             .tokens_per_sample = tokens,
                                             .cols = cols,
                                             .type = type}));
        check_array(f, "embedding dweight", &dweight, dw, 1e-6, 5e-6);
        check_array(f, "embedding dpositions", &dpositions, dp, 1e-6, 5e-6);
    }
}

// The rows of a vocabulary in two parts: the sum is the whole embedding, and each part's gradient
// is its rows of the whole one.
static void split_embedding_on(fixture *f, dtype type)
{
    enum { VOCAB = 16, ROWS = 6, WIDTH = 17, FIRST = 9 };
    const int32_t ids[ROWS] = {0, 8, 9, VOCAB - 1, 3, 12};
    const int32_t *device_ids = integers_new(f, ids, ROWS);
    const array weight = array_random(f, (size_t)VOCAB * WIDTH, type, 26, -1, 1);
    const array dy = array_random(f, ROWS * WIDTH, DTYPE_F32, 28, -1, 1);
    const size_t firsts[] = {0, FIRST, VOCAB};
    double *whole = doubles(f, ROWS * WIDTH), *sum = doubles(f, ROWS * WIDTH);
    for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
        whole[i] = (double)weight.host[(size_t)ids[i / WIDTH] * WIDTH + i % WIDTH];
    for (size_t part = 0; part < 2; part++) {
        const size_t first = firsts[part], rows = firsts[part + 1] - first;
        const array y = array_new(f, ROWS * WIDTH, type);
        const array dweight = array_new(f, rows * WIDTH, DTYPE_F32);
        assert_ok(device_zero(f->s, dweight.data, rows * WIDTH * sizeof(float)));
        assert_ok(device_embedding_forward(
            f->s, &(embedding_forward_args){.y = y.data,
                                            .tokens = device_ids,
                                            .weight = (unsigned char *)weight.data +
                                                      first * WIDTH * dtype_size(type),
                                            .first_token = first,
                                            .vocab = rows,
                                            .batch = 2,
                                            .tokens_per_sample = ROWS / 2,
                                            .cols = WIDTH,
                                            .type = type}));
        assert_ok(device_embedding_backward(
            f->s, &(embedding_backward_args){.dweight = dweight.data,
                                             .tokens = device_ids,
                                             .dy = dy.data,
                                             .first_token = first,
                                             .vocab = rows,
                                             .batch = 2,
                                             .tokens_per_sample = ROWS / 2,
                                             .cols = WIDTH,
                                             .type = DTYPE_F32}));
        const float *values = array_values(f, &y);
        for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
            sum[i] += (double)values[i];
        double *dw = doubles(f, rows * WIDTH);
        for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++) {
            const size_t row = (size_t)ids[i / WIDTH] - first;
            if (row < rows)
                dw[row * WIDTH + i % WIDTH] += (double)dy.host[i];
        }
        check_array(f, "part's dweight", &dweight, dw, 1e-6, 1e-6);
    }
    for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
        assert_true(sum[i] == whole[i]);
}

static void parts_of_a_vocabulary_add_up(void **state)
{
    (void)state;
    on_every_device(split_embedding_on);
}

static void embedding_on(fixture *f, dtype type)
{
    const size_t all[][3] = {{0, 4, 3},  {1, 1, 1},  {2, 3, 17},
                             {3, 5, 64}, {2, 7, 65}, {3, 43, 129}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check_embedding(f, type, all[i][0], all[i][1], all[i][2]);
        fixture_release(f);
    }
}

static void embeddings_meet_double_precision(void **state)
{
    (void)state;
    on_every_device(embedding_on);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_vocabulary_add_up),
        cmocka_unit_test(gelu_meets_double_precision),
        cmocka_unit_test(gelu_is_right_at_its_ends),
        cmocka_unit_test(gelu_gradients_meet_double_precision),
        cmocka_unit_test(bias_gradients_are_sums_of_rows),
        cmocka_unit_test(long_sums_keep_their_digits),
        cmocka_unit_test(dropout_draws_by_global_index),
        cmocka_unit_test(what_is_dropped_is_zero_whatever_it_was),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(every_16_bit_pattern_widens_exactly),
        cmocka_unit_test(narrowing_rounds_as_the_scalar_code),
        cmocka_unit_test(types_convert_into_each_other),
        cmocka_unit_test(rotary_turns_and_turns_back),
        cmocka_unit_test(embeddings_meet_double_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
