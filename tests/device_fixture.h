/* What the tests of device operations share: every instruction set with several numbers of threads,
 * arrays of any type in device memory, and comparison with double precision. */
#ifndef TRIFOLD_TESTS_DEVICE_FIXTURE_H
#define TRIFOLD_TESTS_DEVICE_FIXTURE_H

#include <stdbool.h>
#include <stdlib.h>

#include "base/philox.h"
#include "base/sizes.h"
#include "check.h"
#include "device/device.h"

enum {
    FIXTURE_ARRAYS = 64, /* live at a time */
};

/* One array: `data` begins one element after the block's start, so no vector is aligned, and ends
 * with the block, so that reading on is seen. */
typedef struct array {
    void *data;
    size_t count;
    dtype type;
    float *host; /* the values given, rounded to the type; NULL for outputs */
} array;

typedef struct fixture {
    device *d;
    device_stream *s;
    const char *isa;
    int threads;
    void *blocks[FIXTURE_ARRAYS];
    float *hosts[FIXTURE_ARRAYS];
    size_t blocks_used, hosts_used;
} fixture;

static const dtype fixture_types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
static const char *const fixture_isas[] = {"base", "avx2", "avx512"};

static inline float fixture_round(float x, dtype type)
{
    return type == DTYPE_F32    ? x
           : type == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(x))
                                : f16_to_f32(f32_to_f16(x));
}

static inline void fixture_release(fixture *f)
{
    while (f->blocks_used > 0)
        device_free(f->d, f->blocks[--f->blocks_used]);
    while (f->hosts_used > 0)
        free(f->hosts[--f->hosts_used]);
}

/* Host memory for `count` floats, released with the arrays. */
static inline float *host_floats(fixture *f, size_t count)
{
    assert_true(f->hosts_used < FIXTURE_ARRAYS);
    float *host = calloc(count + 1, sizeof *host);
    assert_non_null(host);
    f->hosts[f->hosts_used++] = host;
    return host;
}

/* An output: filled with NaN, so that a value not written is seen. */
static inline array array_new(fixture *f, size_t count, dtype type)
{
    assert_true(f->blocks_used < FIXTURE_ARRAYS);
    const size_t size = dtype_size(type), bytes = (count + 1) * size;
    void *block;
    assert_ok(device_malloc(f->d, bytes, "test", &block));
    f->blocks[f->blocks_used++] = block;
    void *ones = malloc(bytes);
    assert_non_null(ones);
    memset(ones, 0xff, bytes);
    assert_ok(device_upload(f->s, block, ones, bytes));
    free(ones);
    return (array){.data = (unsigned char *)block + size, .count = count, .type = type};
}

static inline void array_set(fixture *f, const array *a, const float *values)
{
    uint16_t *half = malloc((a->count + 1) * sizeof *half);
    assert_non_null(half);
    for (size_t i = 0; i < a->count; i++)
        half[i] = a->type == DTYPE_BF16 ? f32_to_bf16(values[i]) : f32_to_f16(values[i]);
    const void *from = a->type == DTYPE_F32 ? (const void *)values : half;
    assert_ok(device_upload(f->s, a->data, from, a->count * dtype_size(a->type)));
    free(half);
}

/* An input with these values; its `host` has them as the type holds them. */
static inline array array_from(fixture *f, const float *values, size_t count, dtype type)
{
    array a = array_new(f, count, type);
    a.host = host_floats(f, count);
    for (size_t i = 0; i < count; i++)
        a.host[i] = fixture_round(values[i], type);
    array_set(f, &a, a.host);
    return a;
}

/* Uniform values in [low, high), a function of `seed`. */
static inline void fill_uniform(float *x, size_t count, uint64_t seed, float low, float high)
{
    for (size_t i = 0; i < count; i++)
        x[i] = low + (high - low) * philox_uniform(seed, 0, i);
}

static inline array array_random(fixture *f, size_t count, dtype type, uint64_t seed, float low,
                                 float high)
{
    float *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    fill_uniform(values, count, seed, low, high);
    const array a = array_from(f, values, count, type);
    free(values);
    return a;
}

static inline int32_t *integers_new(fixture *f, const int32_t *values, size_t count)
{
    void *block;
    assert_true(f->blocks_used < FIXTURE_ARRAYS);
    assert_ok(device_malloc(f->d, count * sizeof *values, "test", &block));
    f->blocks[f->blocks_used++] = block;
    assert_ok(device_upload(f->s, block, values, count * sizeof *values));
    return block;
}

/* The values now in device memory. */
static inline float *array_values(fixture *f, const array *a)
{
    float *out = host_floats(f, a->count);
    if (a->type == DTYPE_F32) {
        assert_ok(device_download(f->s, out, a->data, a->count * sizeof *out));
        return out;
    }
    uint16_t *half = malloc((a->count + 1) * sizeof *half);
    assert_non_null(half);
    assert_ok(device_download(f->s, half, a->data, a->count * sizeof *half));
    for (size_t i = 0; i < a->count; i++)
        out[i] = a->type == DTYPE_BF16 ? bf16_to_f32(half[i]) : f16_to_f32(half[i]);
    free(half);
    return out;
}

/* Half a unit in the last place, relative, and of the least subnormal. */
static inline double type_rtol(dtype type)
{
    return type == DTYPE_F32 ? 0x1p-24 : type == DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
}

static inline double type_atol(dtype type)
{
    return type == DTYPE_F16 ? 0x1p-25 : 0;
}

/* Every |value - expected| <= atol + rtol |expected|, beside the rounding to the array's type. */
static inline void check_array(fixture *f, const char *what, const array *a, const double *expected,
                               double rtol, double atol)
{
    const float *values = array_values(f, a);
    rtol += type_rtol(a->type);
    atol += type_atol(a->type);
    for (size_t i = 0; i < a->count; i++) {
        const double error = fabs((double)values[i] - expected[i]);
        if (!(error <= atol + rtol * fabs(expected[i])))
            fail_msg("%s (%s, %s, %d threads): element %zu of %zu is %.9g, expected %.9g", what,
                     dtype_str(a->type), f->isa, f->threads, i, a->count, (double)values[i],
                     expected[i]);
    }
}

/* The same bits. */
static inline void check_same(fixture *f, const char *what, const array *a, const array *b)
{
    assert_int_equal(a->count, b->count);
    const float *x = array_values(f, a), *y = array_values(f, b);
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0)
            fail_msg("%s (%s, %s, %d threads): element %zu of %zu is %.9g, then %.9g", what,
                     dtype_str(a->type), f->isa, f->threads, i, a->count, (double)x[i],
                     (double)y[i]);
}

/* Run `check` on each instruction set that this machine has, with 1, 2 and 3 threads, for each
 * type. Whatever it leaves in the fixture is released. */
static inline void on_every_device(void (*check)(fixture *f, dtype type))
{
    for (size_t i = 0; i < sizeof fixture_isas / sizeof fixture_isas[0]; i++) {
        for (int threads = 1; threads <= 3; threads++) {
            fixture f = {.isa = fixture_isas[i], .threads = threads};
            const device_options options = {
                .backend = "cpu", .threads = threads, .local_ranks = 1, .isa = f.isa};
            if (device_create(&options, &f.d) != STATUS_OK) {
                assert_true(i > 0); // the base runs everywhere
                error_clear();
                continue;
            }
            assert_ok(device_stream_create(f.d, &f.s));
            for (size_t t = 0; t < 3; t++) {
                check(&f, fixture_types[t]);
                fixture_release(&f);
            }
            size_t in_use, peak;
            device_memory(f.d, &in_use, &peak);
            assert_int_equal(in_use, 0);
            device_stream_destroy(f.s);
            device_destroy(f.d);
        }
    }
}

#endif
