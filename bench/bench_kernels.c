// The CPU device's operations beside a copy of the same memory, in one run.
//
//     bench_kernels [megabytes [threads [isa]]]
//
// `megabytes` is the size of one fp32 array: 64 streams from memory (the default), 1 stays in
// caches. For each operation and type it prints the bytes that must move, each array once, over the
// time, and that rate relative to device_copy(). Median of several rounds, in each of which copy
// and operation run by turns, so that a busy machine slows both.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/dtype.h"
#include "device/device.h"

enum {
    ROUNDS = 9,
    COLS = 768,
    VOCAB = 50304,
    ARRAYS = 6,
};

typedef struct bench {
    device *d;
    device_stream *s;
    size_t count, rows;   // elements of an array, rows of COLS
    void *arrays[ARRAYS]; // fp32 or narrower, `count` elements each
    float *small[6];      // (COLS) or (rows)
    int32_t *ids;         // (rows)
    int runs;             // of an operation in one measurement
} bench;

static void check(status code)
{
    if (code == STATUS_OK)
        return;
    fprintf(stderr, "bench_kernels: %s\n", error_message());
    exit(status_exit_code(code));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef void operation(bench *b, dtype type);

static double seconds_of(bench *b, operation *run, dtype type)
{
    const double begin = now();
    for (int i = 0; i < b->runs; i++)
        run(b, type);
    check(device_stream_synchronize(b->s));
    return (now() - begin) / b->runs;
}

static void run_copy(bench *b, dtype type)
{
    (void)type;
    check(device_copy(b->s, b->arrays[1], b->arrays[0], b->count * sizeof(float)));
}

// `bytes` an element of an array, the least that the operation moves.
static void measure(bench *b, const char *name, operation *run, dtype type, double bytes)
{
    double rates[ROUNDS], ratios[ROUNDS];
    run(b, type);
    for (int i = 0; i < ROUNDS; i++) {
        const double copy = 8.0 * (double)b->count / seconds_of(b, run_copy, DTYPE_F32);
        rates[i] = bytes * (double)b->count / seconds_of(b, run, type);
        ratios[i] = rates[i] / copy;
    }
    qsort(rates, ROUNDS, sizeof *rates, by_value);
    qsort(ratios, ROUNDS, sizeof *ratios, by_value);
    printf("%-24s %-5s %8.2f GB/s %7.2f of copy %8.3f ns/element\n", name, dtype_str(type),
           rates[ROUNDS / 2] * 1e-9, ratios[ROUNDS / 2], bytes / rates[ROUNDS / 2] * 1e9);
}

static void run_add(bench *b, dtype type)
{
    check(device_add(b->s, &(add_args){.y = b->arrays[2],
                                       .x = b->arrays[0],
                                       .a = b->arrays[1],
                                       .count = b->count,
                                       .type = type}));
}

static void run_narrow(bench *b, dtype type)
{
    check(device_cast(b->s, &(cast_args){b->arrays[2], b->arrays[0], b->count, type, DTYPE_F32}));
}

static void run_widen(bench *b, dtype type)
{
    check(device_cast(b->s, &(cast_args){b->arrays[0], b->arrays[2], b->count, DTYPE_F32, type}));
}

static void run_dropout(bench *b, dtype type)
{
    check(device_dropout(b->s, &(dropout_args){.y = b->arrays[2],
                                               .x = b->arrays[0],
                                               .a = b->arrays[1],
                                               .count = b->count,
                                               .type = type,
                                               .dropout = {.probability = 0.1f, .seed = 1}}));
}

static void gelu(bench *b, dtype type, gelu_kind kind)
{
    check(device_gelu_forward(
        b->s,
        &(gelu_forward_args){
            .y = b->arrays[1], .x = b->arrays[0], .count = b->count, .kind = kind, .type = type}));
}

static void run_gelu_erf(bench *b, dtype type)
{
    gelu(b, type, GELU_ERF);
}

static void run_gelu_tanh(bench *b, dtype type)
{
    gelu(b, type, GELU_TANH);
}

static void gelu_back(bench *b, dtype type, gelu_kind kind)
{
    check(device_gelu_backward(b->s, &(gelu_backward_args){.dx = b->arrays[1],
                                                           .y = b->arrays[2],
                                                           .dbias = b->small[0],
                                                           .dy = b->arrays[3],
                                                           .x = b->arrays[0],
                                                           .rows = b->rows,
                                                           .cols = COLS,
                                                           .kind = kind,
                                                           .type = type}));
}

static void run_gelu_erf_back(bench *b, dtype type)
{
    gelu_back(b, type, GELU_ERF);
}

static void run_gelu_tanh_back(bench *b, dtype type)
{
    gelu_back(b, type, GELU_TANH);
}

static void run_bias(bench *b, dtype type)
{
    check(device_bias_backward(b->s, &(bias_backward_args){.dbias = b->small[0],
                                                           .dy = b->arrays[0],
                                                           .rows = b->rows,
                                                           .cols = COLS,
                                                           .type = type}));
}

static void norm(bench *b, dtype type, bool two)
{
    check(device_norm_forward(b->s, &(norm_forward_args){.y = b->arrays[1],
                                                         .y2 = two ? b->arrays[2] : NULL,
                                                         .mean = b->small[4],
                                                         .rstd = b->small[5],
                                                         .x = b->arrays[0],
                                                         .weight = b->small[0],
                                                         .bias = b->small[1],
                                                         .weight2 = b->small[2],
                                                         .bias2 = b->small[3],
                                                         .rows = b->rows,
                                                         .cols = COLS,
                                                         .epsilon = 1e-5f,
                                                         .kind = NORM_LAYERNORM,
                                                         .type = type}));
}

static void run_norm(bench *b, dtype type)
{
    norm(b, type, false);
}

static void run_norm_two(bench *b, dtype type)
{
    norm(b, type, true);
}

static void norm_back(bench *b, dtype type, bool two)
{
    check(device_norm_backward(b->s, &(norm_backward_args){.dx = b->arrays[1],
                                                           .dweight = b->small[0],
                                                           .dbias = b->small[1],
                                                           .dweight2 = two ? b->small[2] : NULL,
                                                           .dbias2 = two ? b->small[3] : NULL,
                                                           .dresidual = b->arrays[1],
                                                           .dy = b->arrays[2],
                                                           .dy2 = two ? b->arrays[3] : NULL,
                                                           .x = b->arrays[0],
                                                           .mean = b->small[4],
                                                           .rstd = b->small[5],
                                                           .weight = b->small[2],
                                                           .weight2 = b->small[3],
                                                           .rows = b->rows,
                                                           .cols = COLS,
                                                           .kind = NORM_LAYERNORM,
                                                           .type = type}));
}

static void run_norm_back(bench *b, dtype type)
{
    norm_back(b, type, false);
}

static void run_norm_two_back(bench *b, dtype type)
{
    norm_back(b, type, true);
}

// Heads of 64 of which a quarter is rotated, as Pythia's.
static void run_rotary(bench *b, dtype type)
{
    const size_t tokens = b->rows / 3;
    check(device_rotary(b->s, &(rotary_args){.qkv = b->arrays[0],
                                             .cos = b->arrays[4],
                                             .sin = b->arrays[5],
                                             .batch = 1,
                                             .tokens = tokens,
                                             .heads = COLS / 64,
                                             .head_dim = 64,
                                             .rotary_dims = 16,
                                             .type = type}));
}

static void run_embedding(bench *b, dtype type)
{
    check(device_embedding_forward(b->s, &(embedding_forward_args){.y = b->arrays[1],
                                                                   .tokens = b->ids,
                                                                   .weight = b->arrays[0],
                                                                   .vocab = (size_t)VOCAB,
                                                                   .batch = 1,
                                                                   .tokens_per_sample = b->rows,
                                                                   .cols = COLS,
                                                                   .type = type}));
}

static void run_embedding_back(bench *b, dtype type)
{
    check(device_embedding_backward(b->s, &(embedding_backward_args){.dweight = b->arrays[1],
                                                                     .tokens = b->ids,
                                                                     .dy = b->arrays[0],
                                                                     .vocab = (size_t)VOCAB,
                                                                     .batch = 1,
                                                                     .tokens_per_sample = b->rows,
                                                                     .cols = COLS,
                                                                     .type = type}));
}

static void cross_entropy(bench *b, dtype type, bool gradient)
{
    check(
        device_cross_entropy(b->s, &(cross_entropy_args){.losses = b->small[4],
                                                         .dlogits = gradient ? b->arrays[1] : NULL,
                                                         .logits = b->arrays[0],
                                                         .labels = b->ids,
                                                         .scale = b->small[5],
                                                         .rows = b->count / VOCAB,
                                                         .vocab = VOCAB,
                                                         .type = type}));
}

static void run_loss(bench *b, dtype type)
{
    cross_entropy(b, type, false);
}

static void run_loss_gradient(bench *b, dtype type)
{
    cross_entropy(b, type, true);
}

static void run_squares(bench *b, dtype type)
{
    (void)type;
    double sum;
    check(device_sum_squares(b->s, &sum, b->arrays[0], b->count));
}

static void run_adamw(bench *b, dtype type)
{
    check(device_adamw(b->s, &(adamw_args){.param = b->arrays[1],
                                           .exp_avg = b->arrays[2],
                                           .exp_avg_sq = b->arrays[3],
                                           .param_out = type == DTYPE_F32 ? NULL : b->arrays[4],
                                           .grad = b->arrays[0],
                                           .count = b->count,
                                           .lr = 1e-9f,
                                           .beta1 = 0.9f,
                                           .beta2 = 0.95f,
                                           .epsilon = 1e-8f,
                                           .weight_decay = 0.1f,
                                           .grad_scale = 1,
                                           .step = 10,
                                           .out_type = type}));
}

static void *memory(bench *b, size_t bytes)
{
    void *out;
    check(device_malloc(b->d, bytes, "benchmark", &out));
    return out;
}

static void set_up(bench *b, size_t megabytes)
{
    b->rows = (megabytes << 20) / sizeof(float) / COLS;
    b->count = b->rows * COLS;
    b->runs = megabytes < 16 ? 20 : 2;
    float *values = malloc(b->count * sizeof *values);
    int32_t *ids = malloc(b->rows * sizeof *ids);
    if (!values || !ids)
        check(fail(STATUS_ERR_MEMORY, "no memory for %zu values", b->count));
    for (size_t i = 0; i < b->count; i++)
        values[i] = (float)(i * 2654435761u % 4096) / 1024.0f - 2;
    for (size_t i = 0; i < b->rows; i++)
        ids[i] = (int32_t)(i * 7919 % b->rows);
    for (int i = 0; i < ARRAYS; i++) {
        b->arrays[i] = memory(b, b->count * sizeof *values);
        check(device_upload(b->s, b->arrays[i], values, b->count * sizeof *values));
    }
    for (int i = 0; i < 6; i++) {
        const size_t count = b->rows > COLS ? b->rows : COLS;
        b->small[i] = memory(b, count * sizeof *values);
    }
    b->ids = memory(b, b->rows * sizeof *ids);
    check(device_upload(b->s, b->ids, ids, b->rows * sizeof *ids));
    free(values);
    free(ids);
}

// The same values in every type, so that none works on accidental NaN or denormals.
static void fill(bench *b, dtype type)
{
    float *values = memory(b, b->count * sizeof *values);
    for (size_t i = 0; i < b->count; i++)
        values[i] = (float)(i * 2654435761u % 4096) / 1024.0f - 2;
    for (int i = 0; i < ARRAYS; i++)
        check(device_cast(b->s, &(cast_args){b->arrays[i], values, b->count, type, DTYPE_F32}));
    device_free(b->d, values);
}

static void run_type(bench *b, dtype type)
{
    const double z = (double)dtype_size(type);
    fill(b, type);
    measure(b, "add", run_add, type, 3 * z);
    measure(b, "dropout", run_dropout, type, 3 * z);
    measure(b, "gelu erf", run_gelu_erf, type, 2 * z);
    measure(b, "gelu tanh", run_gelu_tanh, type, 2 * z);
    measure(b, "gelu erf backward", run_gelu_erf_back, type, 4 * z);
    measure(b, "gelu tanh backward", run_gelu_tanh_back, type, 4 * z);
    measure(b, "bias backward", run_bias, type, z);
    measure(b, "norm", run_norm, type, 2 * z);
    measure(b, "two norms", run_norm_two, type, 3 * z);
    measure(b, "norm backward", run_norm_back, type, 4 * z);
    measure(b, "two norms backward", run_norm_two_back, type, 5 * z);
    measure(b, "rotary 16 of 64", run_rotary, type, z / 3);
    measure(b, "embedding", run_embedding, type, 2 * z);
    measure(b, "embedding backward", run_embedding_back, type, 8 + z);
    fill(b, DTYPE_F32);
    measure(b, "fp32 to type", run_narrow, type, 4 + z);
    measure(b, "type to fp32", run_widen, type, 4 + z);
    fill(b, DTYPE_F32);
    if (b->count >= VOCAB) {
        measure(b, "loss", run_loss, type, 4);
        measure(b, "loss and gradient", run_loss_gradient, type, 4 + z);
    }
    fill(b, DTYPE_F32);
    measure(b, "adamw", run_adamw, type, type == DTYPE_F32 ? 28 : 28 + z);
}

int main(int argc, char **argv)
{
    const long megabytes = argc > 1 ? strtol(argv[1], NULL, 10) : 64;
    const device_options options = {.backend = "cpu",
                                    .threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0,
                                    .local_ranks = 1,
                                    .isa = argc > 3 ? argv[3] : NULL};
    if (megabytes < 1 || megabytes > 65536 || options.threads < 0) {
        fprintf(stderr, "usage: bench_kernels [megabytes 1..65536 [threads [isa]]]\n");
        return 2;
    }
    bench b = {0};
    check(device_create(&options, &b.d));
    check(device_stream_create(b.d, &b.s));
    set_up(&b, (size_t)megabytes);
    printf("%s; arrays of %zu MB, rows of %d\n", device_describe(b.d), (size_t)megabytes, COLS);
    run_copy(&b, DTYPE_F32);
    printf("%-24s %-5s %8.2f GB/s\n", "copy", "",
           8e-9 * (double)b.count / seconds_of(&b, run_copy, DTYPE_F32));
    fill(&b, DTYPE_F32);
    measure(&b, "sum of squares", run_squares, DTYPE_F32, 4);
    const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int t = 0; t < 3; t++)
        run_type(&b, types[t]);
    return 0; // the process ends: its memory goes with it
}
