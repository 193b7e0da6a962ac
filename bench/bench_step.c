// How much of the machine a training step uses: the rate of the model's forward and backward pass
// beside the best rate that a matrix product reaches in the same run, and the optimizer's bytes a
// second beside those of a copy.
//
//   bench_step [SHAPE [TYPE]]     SHAPE 14m, 70m or 160m; TYPE fp32 or bf16; all without
//
// Work of a step: 6 R (12 L C^2 + V C) for the products of weights and 6 R L C T / 2 for causal
// attention, both with their backward pass; nothing for what is elementwise.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/philox.h"
#include "model/model.h"
#include "model/model_init.h"
#include "zero/optimizer.h"

enum {
    STEPS = 6, // the first does not count
    VOCAB = 50304,
};

typedef struct bench_shape {
    const char *name;
    size_t layers, hidden, heads, batch, tokens;
} bench_shape;

static const bench_shape shapes[] = {
    {"14m", 6, 128, 4, 4, 512},
    {"70m", 6, 512, 8, 2, 512},
    {"160m", 12, 768, 12, 1, 1024},
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return values[count / 2];
}

// The best of several square and tall products, in operations a second.
static status matmul_peak(device *d, device_stream *s, dtype type, double *peak)
{
    const size_t sizes[][3] = {
        {1024, 1024, 1024}, {2048, 2048, 2048}, {1024, 3072, 768}, {1024, 768, 3072}};
    *peak = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const matmul_spec spec = {.m = sizes[i][0],
                                  .n = sizes[i][1],
                                  .k = sizes[i][2],
                                  .transpose_b = true,
                                  .in = type,
                                  .out = type};
        const double work = 2.0 * (double)(spec.m * spec.n) * (double)spec.k;
        matmul *plan;
        void *a, *b, *c;
        TRY(device_matmul_create(d, &spec, &plan));
        TRY(device_malloc(d, spec.m * spec.k * 4, "A", &a));
        TRY(device_malloc(d, spec.n * spec.k * 4, "B", &b));
        TRY(device_malloc(d, spec.m * spec.n * 4, "C", &c));
        for (int run = 0; run < 8; run++) {
            const double begin = now_s();
            TRY(device_matmul(s, plan, &(matmul_args){.c = c, .a = a, .b = b}));
            const double rate = work / (now_s() - begin);
            if (run > 0 && rate > *peak)
                *peak = rate;
        }
        device_free(d, a);
        device_free(d, b);
        device_free(d, c);
        device_matmul_destroy(plan);
    }
    return STATUS_OK;
}

// Bytes read and written a second by a sum of two buffers into a third: what memory gives to
// streams that all threads work on.
static status copy_rate(device *d, device_stream *s, double *rate)
{
    const size_t count = 32 << 20;
    void *buffers[3];
    for (int i = 0; i < 3; i++)
        TRY(device_malloc(d, count * sizeof(float), "copy", &buffers[i]));
    *rate = 0;
    for (int run = 0; run < 6; run++) {
        const double begin = now_s();
        TRY(device_add(s, &(add_args){.y = buffers[0],
                                      .x = buffers[1],
                                      .a = buffers[2],
                                      .count = count,
                                      .type = DTYPE_F32}));
        const double bytes = 3.0 * (double)count * sizeof(float) / (now_s() - begin);
        if (run > 0 && bytes > *rate)
            *rate = bytes;
    }
    for (int i = 0; i < 3; i++)
        device_free(d, buffers[i]);
    return STATUS_OK;
}

typedef struct bench_run {
    device *device;
    device_stream *stream;
    model_options options;
    tensor_table table;
    optimizer *optimizer;
    model *model;
    float *grads;
    int32_t *tokens, *labels;
    float *scale, *losses;
} bench_run;

static status host_array(size_t count, void **out)
{
    return memory_alloc(count, sizeof(float), "batch", out);
}

static status begin(bench_run *r, const bench_shape *shape, dtype type)
{
    const model_init_options init = {.weights = INIT_SMALL, .output = INIT_WANG};
    const optimizer_options o = {
        .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .weight_decay = 0.1f, .type = type};
    const size_t rows = shape->batch * shape->tokens;
    void *p;
    r->options = (model_options){.shape = {.n_layers = shape->layers,
                                           .hidden = shape->hidden,
                                           .n_heads = shape->heads,
                                           .ffn = 4 * shape->hidden,
                                           .vocab = VOCAB,
                                           .max_positions = 2048,
                                           .position = POSITION_ROTARY,
                                           .rotary_dims = shape->hidden / shape->heads / 4,
                                           .rotary_base = 10000,
                                           .norm_epsilon = 1e-5f,
                                           .parallel_residual = true,
                                           .attention_bias = true,
                                           .mlp_bias = true},
                                 .batch = shape->batch,
                                 .tokens = shape->tokens,
                                 .type = type,
                                 .training = true};
    TRY(model_shape_tensors(&r->options.shape, &init, &r->table));
    TRY(optimizer_create(r->device, &r->table, &o, &r->optimizer));
    TRY(device_malloc(r->device, r->table.elements * sizeof(float), "gradients", &p));
    r->grads = p;
    TRY(model_create(r->device, &r->options, &r->table, &r->model));
    for (size_t i = 0; i < r->table.count; i++)
        model_init_tensor(&r->table.tensors[i], 1, 0, tensor_elements(&r->table.tensors[i]),
                          optimizer_master(r->optimizer) + r->table.tensors[i].offset);
    TRY(optimizer_publish(r->optimizer, r->stream));
    TRY(host_array(rows, &p));
    r->tokens = p;
    TRY(host_array(rows, &p));
    r->labels = p;
    TRY(host_array(rows, &p));
    r->scale = p;
    TRY(host_array(rows, &p));
    r->losses = p;
    for (size_t i = 0; i < rows; i++) {
        r->tokens[i] = (int32_t)(philox_uniform(1, 1, i) * VOCAB);
        r->labels[i] = (int32_t)(philox_uniform(1, 2, i) * VOCAB);
        r->scale[i] = 1.0f / (float)rows;
    }
    return STATUS_OK;
}

static void end(bench_run *r)
{
    memory_free(r->tokens);
    memory_free(r->labels);
    memory_free(r->scale);
    memory_free(r->losses);
    model_destroy(r->model);
    if (r->grads)
        device_free(r->device, r->grads);
    optimizer_destroy(r->optimizer);
    tensor_table_fini(&r->table);
}

// Median seconds of forward and backward, and of the optimizer's norm and update.
static status time_steps(bench_run *r, double *model_s, double *optimizer_s)
{
    double model_times[STEPS], optimizer_times[STEPS], norm;
    const model_batch batch = {
        .tokens = r->tokens, .labels = r->labels, .scale = r->scale, .losses = r->losses};
    const model_gradients gradients = {.buffer = r->grads};
    for (int step = 0; step < STEPS; step++) {
        const double first = now_s();
        TRY(model_train(r->model, r->stream, optimizer_params(r->optimizer), &batch, &gradients));
        const double second = now_s();
        TRY(optimizer_gradient_norm(r->optimizer, r->stream, r->grads, &norm));
        TRY(optimizer_step(r->optimizer, r->stream, r->grads, 1e-4f, 1, step + 1));
        model_times[step] = second - first;
        optimizer_times[step] = now_s() - second;
    }
    *model_s = median(model_times + 1, STEPS - 1);
    *optimizer_s = median(optimizer_times + 1, STEPS - 1);
    return STATUS_OK;
}

static status bench(bench_run *r, const bench_shape *shape, dtype type, double peak, double copy)
{
    double model_s, optimizer_s;
    TRY(begin(r, shape, type));
    TRY(time_steps(r, &model_s, &optimizer_s));
    const double rows = (double)(shape->batch * shape->tokens);
    const double layers = (double)shape->layers, hidden = (double)shape->hidden;
    const double work = 6 * rows * (12 * layers * hidden * hidden + VOCAB * hidden) +
                        6 * rows * layers * hidden * (double)shape->tokens;
    // p, m, v read and written, g read twice, the model's copy written.
    const double bytes = (double)r->table.elements *
                         (double)(8 * sizeof(float) + (type == DTYPE_F32 ? 0 : dtype_size(type)));
    printf("%-5s %-5s %9.0f tokens/s  model %6.1f GFLOP/s, %4.1f%% of the best product %6.1f  "
           "optimizer %5.1f GB/s, %4.1f%% of copy %5.1f\n",
           shape->name, dtype_str(type), rows / (model_s + optimizer_s), work / model_s * 1e-9,
           work / model_s / peak * 100, peak * 1e-9, bytes / optimizer_s * 1e-9,
           bytes / optimizer_s / copy * 100, copy * 1e-9);
    return STATUS_OK;
}

static status bench_all(int argc, char **argv)
{
    const device_options o = {.backend = "cpu", .local_ranks = 1};
    device *d;
    device_stream *s;
    double copy;
    TRY(device_create(&o, &d));
    TRY(device_stream_create(d, &s));
    printf("%s\n", device_describe(d));
    TRY(copy_rate(d, s, &copy));
    for (dtype type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        double peak;
        if (argc > 2 && strcmp(argv[2], dtype_str(type)) != 0)
            continue;
        TRY(matmul_peak(d, s, type, &peak));
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            bench_run r = {.device = d, .stream = s};
            if (argc > 1 && strcmp(argv[1], shapes[i].name) != 0)
                continue;
            tensor_table_init(&r.table);
            const status result = bench(&r, &shapes[i], type, peak, copy);
            end(&r);
            TRY(result);
        }
    }
    device_stream_destroy(s);
    device_destroy(d);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const status result = bench_all(argc, argv);
    if (result != STATUS_OK)
        log_error("%s", error_message());
    return status_exit_code(result);
}
