// Counts of parameters, FLOPs and initial weights, against numbers worked out beside the code.
#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "check.h"
#include "model/model_init.h"
#include "model/model_shape.h"

// Pythia 160M: untied, biased, rotary.
static model_shape pythia(size_t layers, size_t hidden, size_t heads, size_t vocab)
{
    return (model_shape){.n_layers = layers,
                         .hidden = hidden,
                         .n_heads = heads,
                         .ffn = 4 * hidden,
                         .vocab = vocab,
                         .max_positions = 2048,
                         .position = POSITION_ROTARY,
                         .rotary_dims = hidden / heads / 4,
                         .rotary_base = 10000,
                         .norm = NORM_LAYERNORM,
                         .norm_epsilon = 1e-5f,
                         .gelu = GELU_ERF,
                         .parallel_residual = true,
                         .attention_bias = true,
                         .mlp_bias = true};
}

static const model_init_options normal = {
    .weights = INIT_NORMAL, .output = INIT_SCALED_NORMAL, .std = 0.02};

static size_t parameters_of(const model_shape *shape)
{
    tensor_table table;
    tensor_table_init(&table);
    const model_part whole = model_part_whole(shape);
    assert_ok(model_shape_tensors(shape, &normal, &whole, &table));
    const size_t count = tensor_table_parameters(&table);
    tensor_table_fini(&table);
    return count;
}

static void pythia_models_have_their_published_number_of_parameters(void **state)
{
    (void)state;
    const struct {
        size_t layers, hidden, heads, parameters;
    } models[] = {
        // The Pythia paper's table of models: with a vocabulary of 50304 rows, both of them
        // counted.
        {6, 512, 8, 70426624},
        {12, 768, 12, 162322944},
        {24, 1024, 16, 405334016},
        {16, 2048, 8, 1011781632},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const model_shape shape =
            pythia(models[i].layers, models[i].hidden, models[i].heads, 50304);
        assert_int_equal(parameters_of(&shape), models[i].parameters);
    }
}

static void each_choice_adds_its_own_parameters(void **state)
{
    (void)state;
    const size_t L = 3, C = 64, V = 101, P = 2048;
    model_shape shape = pythia(L, C, 4, V);
    const size_t whole = 2 * V * C + L * (12 * C * C + 13 * C) + 2 * C;
    assert_int_equal(parameters_of(&shape), whole);
    shape.tied = true;
    assert_int_equal(parameters_of(&shape), whole - V * C);
    shape.position = POSITION_LEARNED;
    assert_int_equal(parameters_of(&shape), whole - V * C + P * C);
    shape.norm = NORM_RMSNORM; // no bias of the 2 L + 1 norms
    assert_int_equal(parameters_of(&shape), whole - V * C + P * C - (2 * L + 1) * C);
    shape.attention_bias = false;
    shape.mlp_bias = false;
    assert_int_equal(parameters_of(&shape),
                     whole - V * C + P * C - (2 * L + 1) * C - L * (4 + 5) * C);
}

static void flops_follow_the_formula_of_gpt_neox(void **state)
{
    (void)state;
    model_shape shape = pythia(12, 768, 12, 50304);
    assert_true(model_shape_flops(&shape, 32, 2048, 50304, false) == 59634547163136.0);
    assert_true(model_shape_flops(&shape, 32, 2048, 50304, true) == 79512729550848.0);
    shape = pythia(2, 64, 4, 100); // a vocabulary of 100 is padded to 128
    assert_true(model_shape_flops(&shape, 8, 32, 128, false) == 173015040.0);
    assert_true(model_shape_flops(&shape, 8, 32, 128, true) == 230686720.0);
}

enum {
    ROWS = 40,
    COLS = 250,
    VALUES = ROWS * COLS,
};

static tensor_info tensor_named(const char *name, tensor_init init, float scale)
{
    tensor_info info = {.rows = ROWS,
                        .cols = COLS,
                        .whole_rows = ROWS,
                        .whole_cols = COLS,
                        .init = init,
                        .init_scale = scale};
    strncpy(info.name, name, sizeof info.name - 1);
    return info;
}

static void an_initial_weight_depends_on_its_place_alone(void **state)
{
    (void)state;
    static float whole[VALUES], piece[VALUES], expected[VALUES], other[VALUES];
    const tensor_info info = tensor_named("layers.0.mlp.linear1.weight", TENSOR_INIT_NORMAL, 0.02f);
    const tensor_info second =
        tensor_named("layers.1.mlp.linear1.weight", TENSOR_INIT_NORMAL, 0.02f);
    model_init_tensor(&info, 1234, whole);
    model_init_tensor(&second, 1234, other);
    assert_memory_not_equal(whole, other, sizeof whole);
    // Parts of rows and columns, from the last to the first, with another tensor drawn in between.
    for (size_t at = ROWS * COLS; at-- > 0;) {
        const size_t row = at / COLS / 7 * 7, col = at % COLS / 50 * 50;
        tensor_info part = info;
        if (at % 211 != 0)
            continue;
        part.first_row = row;
        part.first_col = col;
        part.rows = size_min(7, ROWS - row);
        part.cols = 50;
        model_init_tensor(&second, 1234, other);
        model_init_tensor(&part, 1234, piece);
        tensor_part_take(&part, expected, whole);
        assert_memory_equal(piece, expected, part.rows * part.cols * sizeof *piece);
    }
    model_init_tensor(&info, 1235, other);
    assert_memory_not_equal(whole, other, sizeof whole);
}

// Mean and standard deviation of n values stray by about 1 / sqrt(n) of the deviation: five of that
// are allowed.
static void check_moments(const float *values, double deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < VALUES; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    const double mean = sum / VALUES;
    assert_true(fabs(mean) < 5 * deviation / sqrt(VALUES));
    assert_true(fabs(sqrt(squares / VALUES) / deviation - 1) < 5 / sqrt(VALUES));
}

static void initial_weights_have_their_deviation(void **state)
{
    (void)state;
    static float values[VALUES];
    tensor_info info = tensor_named("word_embeddings.weight", TENSOR_INIT_NORMAL, 0.02f);
    model_init_tensor(&info, 7, values);
    check_moments(values, 0.02);
    info.init = TENSOR_INIT_UNIFORM;
    model_init_tensor(&info, 7, values);
    check_moments(values, 0.02 / sqrt(3));
    for (size_t i = 0; i < VALUES; i++)
        assert_true(values[i] >= -0.02f && values[i] < 0.02f);
    info.init = TENSOR_INIT_ONE;
    model_init_tensor(&info, 7, values);
    for (size_t i = 0; i < VALUES; i++)
        assert_true(values[i] == 1.0f);
}

static float scale_of(const model_shape *shape, init_method method, const char *name)
{
    const model_init_options init = {.weights = method, .output = method, .std = 0.02};
    tensor_table table;
    tensor_table_init(&table);
    const model_part whole = model_part_whole(shape);
    assert_ok(model_shape_tensors(shape, &init, &whole, &table));
    const size_t index = tensor_table_find(&table, name);
    assert_true(index < table.count);
    const float scale = table.tensors[index].init_scale;
    tensor_table_fini(&table);
    return scale;
}

static void init_methods_have_the_deviations_of_gpt_neox(void **state)
{
    (void)state;
    const model_shape shape = pythia(6, 512, 8, 50304);
    const char *name = "layers.3.mlp.linear1.weight"; // (2048, 512)
    const struct {
        init_method method;
        double scale;
    } methods[] = {
        {INIT_NORMAL, 0.02},
        {INIT_SCALED_NORMAL, 0.02 / sqrt(12)},
        {INIT_SINGLE_RESIDUAL_SCALED, 0.02 / sqrt(6)},
        {INIT_SMALL, sqrt(2.0 / (5 * 512))},
        {INIT_WANG, 2.0 / 6 / sqrt(512)},
        {INIT_XAVIER_UNIFORM, sqrt(6.0 / (2048 + 512))},
        {INIT_XAVIER_NORMAL, sqrt(2.0 / (2048 + 512))},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const double scale = (double)scale_of(&shape, methods[i].method, name);
        assert_true(fabs(scale / methods[i].scale - 1) < 1e-6); // rounding to float
    }
}

static void shapes_that_do_not_divide_are_refused(void **state)
{
    (void)state;
    model_shape shape = pythia(2, 64, 4, 100);
    assert_ok(model_shape_check(&shape));
    shape.hidden = 62;
    assert_fails(STATUS_ERR_CONFIG, "62", model_shape_check(&shape));
    shape = pythia(2, 64, 4, 100);
    shape.rotary_dims = 3;
    assert_fails(STATUS_ERR_CONFIG, "3", model_shape_check(&shape));
    shape = pythia(0, 64, 4, 100);
    assert_fails(STATUS_ERR_CONFIG, "layers", model_shape_check(&shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pythia_models_have_their_published_number_of_parameters),
        cmocka_unit_test(each_choice_adds_its_own_parameters),
        cmocka_unit_test(flops_follow_the_formula_of_gpt_neox),
        cmocka_unit_test(an_initial_weight_depends_on_its_place_alone),
        cmocka_unit_test(initial_weights_have_their_deviation),
        cmocka_unit_test(init_methods_have_the_deviations_of_gpt_neox),
        cmocka_unit_test(shapes_that_do_not_divide_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
