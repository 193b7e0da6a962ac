// The model against its own mathematics: gradients against differences of the loss, recomputation,
// accumulation and dropout, for every form of block.
#include "model_fixture.h"

#include "base/philox.h"

enum {
    BATCH = 2,
    TOKENS = 11,
    VOCAB = 37,
};

static model_options small_model(void)
{
    return (model_options){.shape = {.n_layers = 3,
                                     .hidden = 24,
                                     .n_heads = 3,
                                     .ffn = 40,
                                     .vocab = VOCAB,
                                     .max_positions = 16,
                                     .position = POSITION_ROTARY,
                                     .rotary_dims = 4,
                                     .rotary_base = 10000,
                                     .norm = NORM_LAYERNORM,
                                     .norm_epsilon = 1e-5f,
                                     .parallel_residual = true,
                                     .attention_bias = true,
                                     .mlp_bias = true},
                           .batch = BATCH,
                           .tokens = TOKENS,
                           .type = DTYPE_F32,
                           .seed = 3,
                           .training = true};
}

typedef struct small_batch {
    int32_t tokens[BATCH * TOKENS], labels[BATCH * TOKENS];
    float scale[BATCH * TOKENS], losses[BATCH * TOKENS];
} small_batch;

static model_batch fill_batch(small_batch *b, int64_t first_sample)
{
    for (size_t r = 0; r < BATCH * TOKENS; r++) {
        const uint64_t at = (uint64_t)first_sample * TOKENS + r;
        b->tokens[r] = (int32_t)(philox_uniform(1, 1, at) * VOCAB);
        b->labels[r] = (int32_t)(philox_uniform(1, 2, at) * VOCAB);
        b->scale[r] = r % 5 == 0 ? 0 : 0.25f; // some rows do not count
    }
    return (model_batch){.tokens = b->tokens,
                         .labels = b->labels,
                         .scale = b->scale,
                         .losses = b->losses,
                         .iteration = 5,
                         .first_sample = first_sample};
}

static void train_once(model_fixture *f, const model_batch *batch, bool accumulate)
{
    const model_gradients gradients = {.accumulate = accumulate};
    model_fixture_train(f, batch, &gradients);
}

static double weighted_loss(const small_batch *b)
{
    double sum = 0;
    for (size_t r = 0; r < BATCH * TOKENS; r++)
        sum += (double)b->losses[r] * (double)b->scale[r];
    return sum;
}

// The derivative of the loss along a direction, by central differences, against the gradient.
// A step of length 2e-3 leaves a relative error of some 5e-3: curvature, and rounding in fp32.
static void check_gradient(const model_options *options, const char *what)
{
    model_fixture f;
    small_batch b;
    model_fixture_init(&f, options);
    const model_batch batch = fill_batch(&b, 0);
    float *weights = optimizer_master(f.optimizer);
    train_once(&f, &batch, false);
    for (size_t i = 0; i < f.table.count; i++) {
        const tensor_info *info = &f.table.tensors[i];
        const size_t n = tensor_elements(info);
        float *saved = malloc(n * sizeof *saved), *grad = malloc(n * sizeof *grad);
        memcpy(saved, weights + info->offset, n * sizeof *saved);
        memcpy(grad, f.grads + info->offset, n * sizeof *grad);
        double norm = 0, slope = 0, loss[2];
        for (size_t j = 0; j < n; j++)
            norm += (double)grad[j] * (double)grad[j];
        assert_true(isfinite(norm));
        norm = sqrt(norm);
        const double step = 2e-3 / (norm > 0 ? norm : 1);
        for (int side = 0; side < 2; side++) {
            for (size_t j = 0; j < n; j++)
                weights[info->offset + j] =
                    saved[j] + (float)((side ? -step : step) * (double)grad[j]);
            train_once(&f, &batch, false);
            loss[side] = weighted_loss(&b);
        }
        slope = (loss[0] - loss[1]) / (2 * step);
        if (fabs(slope - norm * norm) > 2e-2 * norm * norm + 1e-6)
            fail_msg("%s: %s: slope %.6g, squared gradient %.6g", what, info->name, slope,
                     norm * norm);
        memcpy(weights + info->offset, saved, n * sizeof *saved);
        free(saved);
        free(grad);
    }
    model_fixture_fini(&f);
}

static void gradients_follow_the_loss_in_every_block(void **state)
{
    (void)state;
    model_options o = small_model();
    check_gradient(&o, "parallel");
    o.shape.parallel_residual = false;
    check_gradient(&o, "sequential");
    o.shape.tied = true;
    o.shape.position = POSITION_LEARNED;
    o.shape.gelu = GELU_TANH;
    check_gradient(&o, "tied, learned positions, tanh");
    o.shape.norm = NORM_RMSNORM;
    o.shape.position = POSITION_NONE;
    o.shape.attention_bias = o.shape.mlp_bias = false;
    check_gradient(&o, "RMSNorm without biases");
}

static void gradients_follow_the_loss_through_dropout(void **state)
{
    (void)state;
    model_options o = small_model();
    o.hidden_dropout = 0.2f;
    o.attention_dropout = 0.3f;
    check_gradient(&o, "parallel with dropout");
    o.shape.parallel_residual = false;
    o.checkpoint_layers = 1;
    check_gradient(&o, "sequential with dropout, recomputed");
}

// Recomputed activations are the same bits, so the gradients are.
static void recomputation_changes_no_bit(void **state)
{
    (void)state;
    for (int parallel = 0; parallel < 2; parallel++) {
        model_options o = small_model();
        o.shape.parallel_residual = parallel;
        o.hidden_dropout = 0.1f;
        model_fixture kept, again;
        small_batch b;
        const model_batch batch = fill_batch(&b, 0);
        model_fixture_init(&kept, &o);
        train_once(&kept, &batch, false);
        for (size_t chunk = 1; chunk < 5; chunk++) {
            o.checkpoint_layers = chunk;
            model_fixture_init(&again, &o);
            train_once(&again, &batch, false);
            assert_memory_equal(again.grads, kept.grads, kept.table.elements * sizeof(float));
            model_fixture_fini(&again);
        }
        model_fixture_fini(&kept);
    }
}

static void micro_batches_add_up_and_padding_stays_zero(void **state)
{
    (void)state;
    const model_options o = small_model();
    model_fixture f;
    small_batch b;
    model_fixture_init(&f, &o);
    const size_t elements = f.table.elements;
    float *sum = calloc(elements, sizeof *sum);
    for (int64_t k = 0; k < 2; k++) {
        const model_batch batch = fill_batch(&b, k * BATCH);
        train_once(&f, &batch, false);
        for (size_t i = 0; i < elements; i++)
            sum[i] += f.grads[i];
    }
    for (int64_t k = 0; k < 2; k++) {
        const model_batch batch = fill_batch(&b, k * BATCH);
        train_once(&f, &batch, k > 0);
    }
    // The same sums in another order of additions: rounding only.
    assert_close(f.grads, sum, elements, 1e-4, 1e-6);
    for (size_t i = 0; i < f.table.count; i++) {
        const size_t end = i + 1 < f.table.count ? f.table.tensors[i + 1].offset : elements;
        const tensor_info *info = &f.table.tensors[i];
        for (size_t j = info->offset + tensor_elements(info); j < end; j++)
            assert_true(f.grads[j] == 0);
    }
    free(sum);
    model_fixture_fini(&f);
}

// Masks depend on the place in the global batch, not on how it is cut: two samples at once, or one
// after the other.
static void dropout_does_not_depend_on_the_micro_batch(void **state)
{
    (void)state;
    model_options o = small_model();
    o.hidden_dropout = 0.2f;
    o.attention_dropout = 0.2f;
    model_fixture both, single;
    small_batch b, c;
    model_fixture_init(&both, &o);
    model_batch batch = fill_batch(&b, 0);
    train_once(&both, &batch, false);
    o.batch = 1;
    model_fixture_init(&single, &o);
    fill_batch(&c, 0);
    for (int64_t sample = 0; sample < BATCH; sample++) {
        batch = (model_batch){.tokens = c.tokens + sample * TOKENS,
                              .labels = c.labels + sample * TOKENS,
                              .scale = c.scale + sample * TOKENS,
                              .losses = c.losses + sample * TOKENS,
                              .iteration = 5,
                              .first_sample = sample};
        train_once(&single, &batch, sample > 0);
    }
    assert_close(c.losses, b.losses, BATCH * TOKENS, 1e-6, 1e-6);
    model_fixture_fini(&both);
    model_fixture_fini(&single);
}

typedef struct ready_log {
    size_t *seen;
    size_t count;
} ready_log;

static status note_ready(void *context, device_stream *s, size_t index)
{
    (void)s;
    ready_log *log = context;
    log->seen[index]++;
    log->count++;
    return STATUS_OK;
}

static void every_gradient_is_announced_once(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        model_options o = small_model();
        o.shape.tied = tied;
        model_fixture f;
        small_batch b;
        model_fixture_init(&f, &o);
        const model_batch batch = fill_batch(&b, 0);
        ready_log log = {.seen = calloc(f.table.count, sizeof(size_t))};
        const model_gradients gradients = {.announce = true};
        f.storage.context = &log;
        f.storage.ready = note_ready;
        model_fixture_train(&f, &batch, &gradients);
        assert_int_equal(log.count, f.table.count);
        for (size_t i = 0; i < f.table.count; i++)
            assert_int_equal(log.seen[i], 1);
        free(log.seen);
        model_fixture_fini(&f);
    }
}

static void memory_is_what_was_estimated(void **state)
{
    (void)state;
    for (size_t chunk = 0; chunk < 3; chunk++) {
        model_options o = small_model();
        o.checkpoint_layers = chunk;
        o.part = model_part_whole(&o.shape);
        o.sets = 1;
        model_fixture f;
        size_t estimate, before, after, peak;
        model_fixture_init(&f, &o);
        assert_ok(model_activation_bytes(f.device, &o, &estimate));
        device_memory(f.device, &before, &peak);
        model_destroy(f.model);
        f.model = NULL;
        device_memory(f.device, &after, &peak);
        assert_int_equal(before - after, estimate);
        model_fixture_fini(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_follow_the_loss_in_every_block),
        cmocka_unit_test(gradients_follow_the_loss_through_dropout),
        cmocka_unit_test(recomputation_changes_no_bit),
        cmocka_unit_test(micro_batches_add_up_and_padding_stays_zero),
        cmocka_unit_test(dropout_does_not_depend_on_the_micro_batch),
        cmocka_unit_test(every_gradient_is_announced_once),
        cmocka_unit_test(memory_is_what_was_estimated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
