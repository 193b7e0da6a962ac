// How much of the machine a training step uses: the rate of the model's forward and backward pass
// beside the best rate that a matrix product reaches between the steps, and the optimizer's bytes a
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
    STEPS = 15, // measured; one goes before
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

// Products of several shapes: the best of them is what the machine can do.
enum {
    N_PRODUCTS = 4,
    PRODUCT_RUNS = 4, // of each, at a time
};

typedef struct products {
    matmul *plans[N_PRODUCTS];
    double work[N_PRODUCTS];
    void *a, *b, *c; // large enough for each
} products;

static status products_create(device *d, dtype type, products *p)
{
    static const size_t sizes[N_PRODUCTS][3] = {
        {1024, 1024, 1024}, {2048, 2048, 2048}, {1024, 3072, 768}, {1024, 768, 3072}};
    const size_t bytes = (size_t)2048 * 2048 * sizeof(float);
    for (size_t i = 0; i < N_PRODUCTS; i++) {
        const matmul_spec spec = {.m = sizes[i][0],
                                  .n = sizes[i][1],
                                  .k = sizes[i][2],
                                  .transpose_b = true,
                                  .in = type,
                                  .out = type};
        p->work[i] = 2.0 * (double)(spec.m * spec.n) * (double)spec.k;
        TRY(device_matmul_create(d, &spec, &p->plans[i]));
    }
    TRY(device_malloc(d, bytes, "A", &p->a));
    TRY(device_malloc(d, bytes, "B", &p->b));
    return device_malloc(d, bytes, "C", &p->c);
}

static void products_destroy(device *d, products *p)
{
    for (size_t i = 0; i < N_PRODUCTS; i++)
        device_matmul_destroy(p->plans[i]);
    device_free(d, p->a);
    device_free(d, p->b);
    device_free(d, p->c);
}

// The rate of the best shape, each by the median of its runs as the step is.
static status products_rate(const products *p, device_stream *s, double *rate)
{
    *rate = 0;
    for (size_t i = 0; i < N_PRODUCTS; i++) {
        double times[PRODUCT_RUNS];
        for (int run = 0; run < PRODUCT_RUNS; run++) {
            const double begin = now_s();
            TRY(device_matmul(s, p->plans[i], &(matmul_args){.c = p->c, .a = p->a, .b = p->b}));
            times[run] = now_s() - begin;
        }
        const double now = p->work[i] / median(times, PRODUCT_RUNS);
        if (now > *rate)
            *rate = now;
    }
    return STATUS_OK;
}

typedef struct bench_run {
    device *device;
    device_stream *stream;
    model_options options;
    tensor_table table;
    optimizer *optimizer;
    model *model;
    products products;
    void *copy_from, *copy_to; // as large as half of what the optimizer has at hand
    float *grads;
    void **params, **gradients; // places of the tensors
    model_storage storage;
    int32_t *tokens, *labels;
    float *scale, *losses;
} bench_run;

// Half of parameters, both moments and gradients.
static size_t copy_bytes(const bench_run *r)
{
    return 2 * r->table.elements * sizeof(float);
}

static status host_array(size_t count, void **out)
{
    return memory_alloc(count, sizeof(float), "batch", out);
}

static status place_tensors(bench_run *r)
{
    void *p;
    TRY(memory_alloc(r->table.count, sizeof(void *), "places", &p));
    r->params = p;
    TRY(memory_alloc(r->table.count, sizeof(void *), "places", &p));
    r->gradients = p;
    tensor_table_places(&r->table, optimizer_params(r->optimizer), dtype_size(r->options.type),
                        r->params);
    tensor_table_places(&r->table, r->grads, sizeof(float), r->gradients);
    r->storage = (model_storage){.params = (const void *const *)r->params,
                                 .gradients = (float *const *)r->gradients};
    return STATUS_OK;
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
                                 .sets = 1,
                                 .training = true};
    r->options.part = model_part_whole(&r->options.shape);
    TRY(model_shape_tensors(&r->options.shape, &init, &r->options.part, &r->table));
    TRY(optimizer_create(r->device, &r->table, &o, &r->optimizer));
    TRY(device_malloc(r->device, r->table.elements * sizeof(float), "gradients", &p));
    r->grads = p;
    TRY(model_create(r->device, &r->options, &r->table, NULL, &r->model));
    TRY(products_create(r->device, type, &r->products));
    TRY(device_malloc(r->device, copy_bytes(r), "copy", &r->copy_from));
    TRY(device_malloc(r->device, copy_bytes(r), "copy", &r->copy_to));
    TRY(device_zero(r->stream, r->copy_from, copy_bytes(r)));
    for (size_t i = 0; i < r->table.count; i++)
        model_init_tensor(&r->table.tensors[i], 1,
                          optimizer_master(r->optimizer) + r->table.tensors[i].offset);
    TRY(optimizer_publish(r->optimizer, r->stream));
    TRY(place_tensors(r));
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
    memory_free(r->params);
    memory_free(r->gradients);
    memory_free(r->tokens);
    memory_free(r->labels);
    memory_free(r->scale);
    memory_free(r->losses);
    model_destroy(r->model);
    products_destroy(r->device, &r->products);
    device_free(r->device, r->copy_from);
    device_free(r->device, r->copy_to);
    device_free(r->device, r->grads);
    optimizer_destroy(r->optimizer);
    tensor_table_fini(&r->table);
}

// Rates of one step: operations and bytes a second, and those of products and of a copy beside it.
typedef struct step_rates {
    double seconds, model, product, optimizer, copy;
} step_rates;

static double model_work(const bench_run *r)
{
    const model_shape *shape = &r->options.shape;
    const double rows = (double)(r->options.batch * r->options.tokens);
    const double layers = (double)shape->n_layers, hidden = (double)shape->hidden;
    return 6 * rows * (12 * layers * hidden * hidden + VOCAB * hidden) +
           6 * rows * layers * hidden * (double)r->options.tokens;
}

// p, m, v read and written, g read twice, the model's copy written.
static double optimizer_bytes(const bench_run *r)
{
    const dtype type = r->options.type;
    return (double)r->table.elements *
           (double)(8 * sizeof(float) + (type == DTYPE_F32 ? 0 : dtype_size(type)));
}

static status time_step(bench_run *r, int step, step_rates *out)
{
    double norm;
    const model_batch batch = {
        .tokens = r->tokens, .labels = r->labels, .scale = r->scale, .losses = r->losses};
    const model_gradients gradients = {0};
    const double begin = now_s();
    TRY(model_forward(r->model, r->stream, &r->storage, &batch, 0));
    TRY(model_backward(r->model, r->stream, &r->storage, &batch, 0, NULL, &gradients));
    const double trained = now_s();
    TRY(optimizer_gradient_norm(r->optimizer, r->stream, r->grads, &norm));
    TRY(optimizer_step(r->optimizer, r->stream, r->grads, 1e-4f, 1, step + 1));
    const double stepped = now_s();
    TRY(device_copy(r->stream, r->copy_to, r->copy_from, copy_bytes(r)));
    out->copy = 2.0 * (double)copy_bytes(r) / (now_s() - stepped);
    out->seconds = stepped - begin;
    out->model = model_work(r) / (trained - begin);
    out->optimizer = optimizer_bytes(r) / (stepped - trained);
    return products_rate(&r->products, r->stream, &out->product);
}

// Median over the steps of rates and of their ratios: what else the machine does meets a step and
// what it is measured by alike.
static status bench(bench_run *r, const bench_shape *shape, dtype type)
{
    double seconds[STEPS], work[STEPS], bytes[STEPS], of_product[STEPS], of_copy[STEPS];
    TRY(begin(r, shape, type));
    for (int step = -1; step < STEPS; step++) {
        step_rates rates;
        TRY(time_step(r, step + 1, &rates));
        if (step < 0)
            continue;
        seconds[step] = rates.seconds;
        work[step] = rates.model;
        bytes[step] = rates.optimizer;
        of_product[step] = rates.model / rates.product;
        of_copy[step] = rates.optimizer / rates.copy;
    }
    printf("%-5s %-5s %9.0f tokens/s  model %6.1f GFLOP/s, %5.1f%% of the best product  "
           "optimizer %5.1f GB/s, %5.1f%% of copy\n",
           shape->name, dtype_str(type),
           (double)(shape->batch * shape->tokens) / median(seconds, STEPS),
           median(work, STEPS) * 1e-9, median(of_product, STEPS) * 100, median(bytes, STEPS) * 1e-9,
           median(of_copy, STEPS) * 100);
    return STATUS_OK;
}

static status bench_all(int argc, char **argv)
{
    const device_options o = {.backend = "cpu", .local_ranks = 1};
    device *d;
    device_stream *s;
    TRY(device_create(&o, &d));
    TRY(device_stream_create(d, &s));
    printf("%s\n", device_describe(d));
    for (dtype type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        if (argc > 2 && strcmp(argv[2], dtype_str(type)) != 0)
            continue;
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            bench_run r = {.device = d, .stream = s};
            if (argc > 1 && strcmp(argv[1], shapes[i].name) != 0)
                continue;
            tensor_table_init(&r.table);
            const status result = bench(&r, &shapes[i], type);
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
