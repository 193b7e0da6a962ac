// The model against Hugging Face's GPTNeoX: one set of weights and tokens gives the same logits and
// gradients (tests/golden/par: parallel residual, tests/golden/seq: sequential).
#include "model_fixture.h"

#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/safetensors.h"
#include "data/dataset.h"

enum {
    MICRO_BATCHES = 4, // of two samples: the first iteration of config.yml
    SAMPLES = 2,
};

typedef struct golden_run {
    const char *name;
    int64_t seed;
} golden_run;

static void golden_path(char path[512], const golden_run *run, const char *file)
{
    snprintf(path, 512, "%s/%s/%s", TRIFOLD_GOLDEN, run->name, file);
}

static model_options golden_options(const golden_run *run, size_t checkpoint_layers)
{
    char path[512];
    model_options o = {.batch = SAMPLES, .type = DTYPE_F32, .training = true};
    golden_path(path, run, "config.json");
    assert_ok(hf_config_read(path, &o.shape));
    o.tokens = o.shape.max_positions;
    o.checkpoint_layers = checkpoint_layers;
    return o;
}

// Tensor `index` of the table from a file with Hugging Face's names.
static const safetensors_entry *golden_entry(const safetensors *st, const tensor_info *info)
{
    char name[HF_NAME_MAX];
    hf_tensor_name(name, info->name);
    const safetensors_entry *e = safetensors_find(st, name);
    return e ? e : safetensors_find(st, "lm_head.weight");
}

static void load_weights(model_fixture *f, const golden_run *run)
{
    char path[512];
    safetensors *st;
    golden_path(path, run, "model.safetensors");
    assert_ok(safetensors_open(path, &st));
    for (size_t i = 0; i < f->table.count; i++) {
        const tensor_info *info = &f->table.tensors[i];
        assert_ok(safetensors_read(st, golden_entry(st, info), 0, tensor_elements(info),
                                   optimizer_master(f->optimizer) + info->offset));
    }
    safetensors_close(st);
    assert_ok(optimizer_publish(f->optimizer, f->stream));
}

typedef struct golden_batch {
    int32_t *tokens, *labels;
    float *scale, *losses;
} golden_batch;

static dataset *open_data(const golden_run *run, const model_options *o)
{
    char path[512];
    const char *prefix = path;
    dataset *data;
    dataset_options d = dataset_options_defaults();
    golden_path(path, run, "data");
    d.part = DATASET_TRAIN;
    d.paths = &prefix;
    d.path_count = 1;
    d.split = "969,30,1";
    d.seq_length = (int64_t)o->tokens;
    d.seed = run->seed;
    d.wanted = 320;
    d.vocab = (int64_t)o->shape.vocab;
    assert_ok(dataset_open(&d, &data));
    return data;
}

static model_batch read_batch(golden_batch *b, const dataset *data, const model_options *o, int k)
{
    const batch_order order = {.samples = dataset_count(data),
                               .micro_batch = SAMPLES,
                               .accumulation = MICRO_BATCHES,
                               .data_parallel = 1};
    const size_t rows = o->batch * o->tokens;
    int32_t *samples = malloc(o->batch * (o->tokens + 1) * sizeof *samples);
    assert_ok(dataset_batch(data, &order, 0, k, 0, samples));
    for (size_t r = 0; r < rows; r++) {
        const int32_t *at = samples + r / o->tokens * (o->tokens + 1) + r % o->tokens;
        b->tokens[r] = at[0];
        b->labels[r] = at[1];
        b->scale[r] = 1.0f / (float)(MICRO_BATCHES * rows);
    }
    free(samples);
    return (model_batch){
        .tokens = b->tokens, .labels = b->labels, .scale = b->scale, .losses = b->losses};
}

static void check_logits(model_fixture *f, const golden_run *run, const model_batch *batch,
                         size_t vocab)
{
    char path[512];
    safetensors *st;
    const size_t count = f->rows * vocab;
    float *ours = malloc(count * sizeof *ours), *theirs = malloc(count * sizeof *theirs);
    golden_path(path, run, "logits.safetensors");
    assert_ok(safetensors_open(path, &st));
    const safetensors_entry *e = safetensors_find(st, "logits");
    assert_non_null(e);
    assert_int_equal(e->count, count);
    assert_ok(safetensors_read(st, e, 0, count, theirs));
    assert_ok(model_logits(f->model, f->stream, &f->storage, batch, ours));
    check_close("logits", ours, theirs, count, 0, 1e-5);
    safetensors_close(st);
    free(ours);
    free(theirs);
}

static void check_gradients(const model_fixture *f, const golden_run *run)
{
    char path[512];
    safetensors *st;
    golden_path(path, run, "grads.safetensors");
    assert_ok(safetensors_open(path, &st));
    for (size_t i = 0; i < f->table.count; i++) {
        const tensor_info *info = &f->table.tensors[i];
        const size_t n = tensor_elements(info);
        float *theirs = malloc(n * sizeof *theirs);
        assert_ok(safetensors_read(st, golden_entry(st, info), 0, n, theirs));
        const double error = check_relative_l2(f->grads + info->offset, theirs, n);
        if (!(error <= 1e-5))
            fail_msg("%s: gradient of %s: relative L2 error %.3g", run->name, info->name, error);
        free(theirs);
    }
    safetensors_close(st);
}

static void check_run(const golden_run *run, size_t checkpoint_layers)
{
    const model_options o = golden_options(run, checkpoint_layers);
    const size_t rows = o.batch * o.tokens;
    golden_batch b = {malloc(rows * 4), malloc(rows * 4), malloc(rows * 4), malloc(rows * 4)};
    model_fixture f;
    model_fixture_init(&f, &o);
    load_weights(&f, run);
    dataset *data = open_data(run, &o);
    for (int k = 0; k < MICRO_BATCHES; k++) {
        const model_batch batch = read_batch(&b, data, &o, k);
        const model_gradients gradients = {.accumulate = k > 0};
        if (k == 0)
            check_logits(&f, run, &batch, o.shape.vocab);
        model_fixture_train(&f, &batch, &gradients);
    }
    check_gradients(&f, run);
    dataset_close(data);
    model_fixture_fini(&f);
    void *owned[] = {b.tokens, b.labels, b.scale, b.losses};
    for (size_t i = 0; i < 4; i++)
        free(owned[i]);
}

static void parallel_block_equals_hugging_face(void **state)
{
    (void)state;
    const golden_run run = {"par", 1234};
    check_run(&run, 0);
    check_run(&run, 2);
}

static void sequential_block_equals_hugging_face(void **state)
{
    (void)state;
    const golden_run run = {"seq", 42};
    check_run(&run, 0);
    check_run(&run, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parallel_block_equals_hugging_face),
        cmocka_unit_test(sequential_block_equals_hugging_face),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
