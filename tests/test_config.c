// Reading configurations: YAML as GPT-NeoX ships it, numbers, names, duplicates, --set.
#include "config_fixture.h"

#include <stdlib.h>

static void lr_is(const char *number, double expected)
{
    char text[256];
    snprintf(text, sizeof text, "optimizer: {type: Adam, params: {lr: %s}}\n", number);
    config *c = new_config();
    assert_ok(load(c, "toy.yml", text));
    if (memcmp(&c->optimizer.params.lr, &expected, sizeof expected) != 0)
        fail_msg("lr: %s gives %.17g", number, c->optimizer.params.lr);
    config_destroy(c);
}

static void every_spelling_of_a_number_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const spellings[] = {"1e-3",  "1E-3",     "1.0e-3",  ".001",  "+1e-3",
                                            "0.001", "1.000e-3", "1.0E-03", "10e-4", "+.1e-2"};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
        lr_is(spellings[i], 0.001);
    lr_is("1", 1.0);
    lr_is("0", 0.0);
    lr_is("1_0.5", 10.5);
    lr_is("2.", 2.0);
    lr_is("1e5", 1e5);
}

static void what_is_no_number_is_a_named_error(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\"fast\"", "1e",    "0x10",   "nan",   "-1",    "fast",
                                        "'0.001'",  "1e-3x", "1.0e_8", "[0.1]", "{}",    "true",
                                        ".inf",     "010",   "1:30",   "--1",   "1e400", "."};
    char text[256];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "optimizer:\n  type: Adam\n  params:\n    lr: %s\n", wrong[i]);
        load_fails(text, "toy.yml:4:9: optimizer.params.lr ");
    }
    load_fails("optimizer: {params: {lr: -1}}", "is -1; it must be at least 0");
    load_fails("optimizer: {params: {lr: nan}}", "must be a finite number, not nan");
}

static void whole_numbers_are_read_as_in_yaml_1_1(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"12", 12},   {"+12", 12},  {"1_000", 1000},
                 {"010", 8},   {"0x1F", 31}, {"0b101", 5},
                 {"1:30", 90}, {"0", 0},     {"2147483647", 2147483647}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{train-iters: %s}", cases[i].text);
        config *c = new_config();
        assert_ok(load(c, "toy.yml", text));
        if (c->train_iters != cases[i].value)
            fail_msg("%s gives %lld", text, (long long)c->train_iters);
        config_destroy(c);
    }
    load_fails("train_iters: 2147483648", "is 2147483648; it must be 0 to 2147483647");
    load_fails("train_iters: 99999999999999999999", "too large");
    load_fails("train_iters: 1e3", "must be a whole number, not the number 1e3; write 1000");
    load_fails("train_iters: 1.5", "must be a whole number");
    load_fails("train_iters: \"5\"", "not the text \"5\"");
    load_fails("train_iters: yes", "not true");
    load_fails("train_iters: 1:75", "must be a whole number");
    load_fails("train_iters: 089", "must be a whole number");
}

static void bools_are_those_of_yaml_1_1(void **state)
{
    (void)state;
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "on", "ON"};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "off", "OFF"};
    static const char *const wrong[] = {"1", "0", "\"true\"", "y", "tRUE", "[true]"};
    char text[64];
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        snprintf(text, sizeof text, "no_weight_tying: %s", yes[i]);
        config *c = new_config();
        assert_ok(load(c, "toy.yml", text));
        assert_true(c->no_weight_tying);
        config_destroy(c);
    }
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        snprintf(text, sizeof text, "use_bias_in_mlp: %s", no[i]);
        config *c = new_config();
        assert_ok(load(c, "toy.yml", text));
        assert_false(c->use_bias_in_mlp);
        config_destroy(c);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "no_weight_tying: %s", wrong[i]);
        load_fails(text, "toy.yml:1:18: no_weight_tying must be ");
    }
}

static void unknown_keys_name_the_place_and_the_nearest_key(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *nearest;
    } cases[] = {
        {TOY "train_micro_batch_size_per_gpus: 4\n", "toy.yml:13:1",
         "train_micro_batch_size_per_gpu"},
        {"optimizer: {type: Adam, params: {lr: 1e-3, beta: [0.9,0.95]}}", "toy.yml:1:44",
         "optimizer.params.betas"},
        {"optimizer: {typ: Adam}", "toy.yml:1:13", "optimizer.type"},
        {"fp16: {enable: true}", "toy.yml:1:8", "fp16.enabled"},
        {"bf16: {enabeld: true}", "toy.yml:1:8", "bf16.enabled"},
        {"zero_optimization: {stages: 1}", "toy.yml:1:21", "zero_optimization.stage"},
        {"data_types: {grad_acum_dtype: fp32}", "toy.yml:1:14", "data_types.grad_accum_dtype"},
        {"comm-compression: {schema: none}", "toy.yml:1:20", "comm_compression.scheme"},
        {"comm-compression: {data: {gradient: {codec: raw}}}", "toy.yml:1:27",
         "comm_compression.data.gradients"},
        {"comm-compression: {data: {gradients: {codek: raw}}}", "toy.yml:1:39",
         "comm_compression.data.gradients.codec"},
        {"{hiden-size: 4}", "toy.yml:1:2", "hidden_size"},
        {"betas: [0.9, 0.95]", "toy.yml:1:1", "optimizer.params.betas"},
        {"optimizer: {train_iters: 3}", "toy.yml:1:13", "train_iters"},
        {"comms_logger: {enabled: true, verbos: true}", "toy.yml:1:31", "comms_logger.verbose"},
        {"deepspeed_extra_args: {coms_logger: {}}", "toy.yml:1:24",
         "deepspeed_extra_args.comms_logger"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[256];
        load_fails(cases[i].text, cases[i].place);
        snprintf(expected, sizeof expected, "nearest known key is \"%s\"", cases[i].nearest);
        load_fails(cases[i].text, expected);
    }
    load_fails("xylophone: 1", "unknown key \"xylophone\"; trifold train --help");
    load_fails("optimizer.params.lr: 1", "unknown key \"optimizer.params.lr\"");
    load_fails("? [a]\n: 1", "toy.yml:1:3: a key must be a word");
    load_fails("\"a\\0b\": 1", "unknown key \"a?b\"");
    load_fails("'': 1", "unknown key \"\"");
}

static void keys_that_files_have_by_mistake_say_what_is_meant(void **state)
{
    (void)state;
    load_fails("decay_lr_to: 1", "min_lr");
    load_fails("warmup-iters: 1", "warmup is a fraction");
    load_fails("attention_type: a", "attention_config");
}

static void dashes_are_underscores_at_every_depth(void **state)
{
    (void)state;
    config *c = resolved(TOY "zero-optimization: {stage: 1, reduce-bucket-size: 7}\n", 1);
    assert_int_equal(c->zero_optimization.reduce_bucket_size, 7);
    config_destroy(c);
}

static void a_key_set_twice_quotes_both_places(void **state)
{
    (void)state;
    load_fails("seed: 1\nmin_lr: 0\nseed: 1\n",
               "toy.yml:3:1: seed is set twice, before at toy.yml:1:1");
    load_fails("min-lr: 0\nmin_lr: 0\n", "toy.yml:2:1: min_lr is set twice");
    load_fails("min_lr: 0\nmin-lr: 0\n", "toy.yml:2:1: min_lr is set twice");
    load_fails("fp16: {loss-scale: 1, loss_scale: 1}",
               "toy.yml:1:23: fp16.loss_scale is set twice");
    load_fails("hostfile: a\nhostfile: b\n", "hostfile is set twice");
    load_fails("fp16: {enabled: true}\nfp16: {enabled: true}\n", "fp16 is set twice");
    config *c = new_config();
    assert_ok(load(c, "a.yml", "\n  seed: 1\n"));
    assert_fails(STATUS_ERR_CONFIG, "b.yml:1:2: seed is already set at a.yml:2:3; keep one",
                 load(c, "b.yml", "{seed: 2}"));
    config_destroy(c);
}

static void later_files_win_where_asked_and_it_is_told(void **state)
{
    (void)state;
    config *c = new_config();
    const char *first = "seed: 1\nfp16: {enabled: true, hysteresis: 7}\nmin_lr: 0.5\n";
    const char *second = "seed: 2\nfp16: {enabled: true}\n";
    assert_ok(config_load_text(c, "a.yml", first, strlen(first), true));
    assert_null(config_remark(c, 0));
    assert_ok(config_load_text(c, "b.yml", second, strlen(second), true));
    assert_int_equal(c->seed, 2);
    // A map is replaced whole: its other keys are at their defaults again.
    assert_int_equal(c->fp16.hysteresis, 2);
    assert_true(c->min_lr == 0.5);
    assert_string_equal(config_remark(c, 0), "b.yml:1:1: seed overrides the value of a.yml:1:1");
    assert_string_equal(config_remark(c, 1), "b.yml:2:1: fp16 overrides the value of a.yml:2:1");
    assert_null(config_remark(c, 2));
    assert_fails(STATUS_ERR_CONFIG, "set twice",
                 config_load_text(c, "c.yml", "{seed: 3, seed: 3}", 18, true));
    config_destroy(c);
}

static void set_overrides_any_key(void **state)
{
    (void)state;
    config *c = new_config();
    assert_ok(load(c, "toy.yml", TOY "zero_optimization: {stage: 1, overlap_comm: true}\n"));
    assert_ok(config_set(c, "optimizer.params.lr=2e-4"));
    assert_ok(config_set(c, "num-layers=6"));
    assert_ok(config_set(c, "num_layers=7"));
    assert_ok(config_set(c, "extra-save-iters=[1, 2]"));
    assert_ok(config_set(c, "zero_optimization={stage: 2}"));
    assert_ok(config_set(c, "save=/tmp/a=b"));
    assert_ok(config_set(c, "comm-compression.data.gradients={codec: zfp, rate: 8}"));
    assert_ok(config_set(c, "comm_compression.pipe.activation-gradients.codec=mpc"));
    assert_ok(config_set(c, "data_path="));
    assert_true(c->optimizer.params.lr == 2e-4);
    assert_int_equal(c->num_layers, 7);
    assert_int_equal(c->extra_save_iters.count, 2);
    assert_int_equal(c->zero_optimization.stage, 2);
    assert_false(c->zero_optimization.overlap_comm);
    assert_string_equal(c->save, "/tmp/a=b");
    assert_int_equal(c->comm_compression.data.gradients.codec, CONFIG_CODEC_ZFP);
    assert_int_equal(c->comm_compression.data.gradients.rate, 8);
    assert_int_equal(c->comm_compression.pipe.activation_gradients.codec, CONFIG_CODEC_MPC);
    assert_true(config_is_set(c, "comm_compression.pipe.activation_gradients"));
    assert_true(config_is_set(c, "comm_compression"));
    assert_false(config_is_set(c, "data_path"));
    assert_null(config_remark(c, 0));
    config_destroy(c);
}

static void errors_of_set_name_it(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"lrr", "--set \"lrr\" has no value; write --set key=value"},
        {"optimizer.params.lrr=1", "--set optimizer.params.lrr: unknown key"},
        {"optimizer.params.lr=fast", "--set optimizer.params.lr: optimizer.params.lr must be"},
        {"fp16={enabled: true, enabled: true}", "--set fp16: fp16.enabled is set twice"},
        {"fp16={enable: true}", "--set fp16: unknown key \"enable\""},
        {"fp16=[", "--set fp16: YAML: "},
        {"fp16=3", "--set fp16: fp16 must be a map"},
        {"=3", "unknown key"},
        {"save=2024", "--set save: save must be text, not the number 2024; quote it"},
        {"decay_lr_to=1", "min_lr"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config *c = new_config();
        assert_fails(STATUS_ERR_CONFIG, cases[i].message, config_set(c, cases[i].text));
        config_destroy(c);
    }
}

static void null_means_not_given(void **state)
{
    (void)state;
    config *c = resolved(TOY "seed: null\nsave: ~\nfp16:\ngradient_accumulation_steps: null\n", 1);
    assert_int_equal(c->seed, 1234);
    assert_null(c->save);
    assert_int_equal(c->gradient_accumulation_steps, 1);
    assert_false(config_is_set(c, "seed"));
    assert_false(config_is_set(c, "fp16"));
    config_destroy(c);
}

static void texts_and_choices_are_checked(void **state)
{
    (void)state;
    load_fails("save: 5", "save must be text, not the number 5; quote it");
    load_fails("save: on", "save must be text, not true; quote it");
    load_fails("save: [a]", "save must be a single value, not a list");
    load_fails("save: {a: b}", "save must be a single value, not a map");
    load_fails("save: \"a\\0b\"", "NUL");
    load_fails("norm: batchnorm",
               "norm cannot be the text \"batchnorm\"; known are layernorm, rmsnorm");
    load_fails("norm: 3", "norm cannot be the number 3");
    load_fails("train_data_paths: a", "must be a list, not the text \"a\"");
    load_fails("train_data_paths: {a: b}", "must be a list, not a map");
    load_fails("train_data_paths: [a, [b]]", "must be a flat list");
    load_fails("train_data_paths: [a, 3]", "must be text, not the number 3");
    load_fails("extra_save_iters: [1, a]", "must hold whole numbers, not the text \"a\"");
    load_fails("extra_save_iters: [-1]", "it must be 0 to 2147483647");
    load_fails("optimizer: {params: {betas: [0.9, 1.0]}}", "at least 0 and below 1");
    load_fails("num_workers: many", "num_workers must be a whole number");
    config *c = new_config();
    assert_ok(load(c, "toy.yml",
                   "{norm: RMSNorm, lr_decay_style: Cosine, optimizer: {type: ADAMW}, save: 'on', "
                   "split: '969,30,1', output_layer_init_method: wang-init}"));
    assert_int_equal(c->norm, CONFIG_NORM_RMSNORM);
    assert_int_equal(c->lr_decay_style, CONFIG_LR_COSINE);
    assert_int_equal(c->output_layer_init_method, CONFIG_INIT_WANG);
    assert_string_equal(c->save, "on");
    assert_string_equal(c->split, "969,30,1");
    config_destroy(c);
}

static void broken_yaml_names_the_place(void **state)
{
    (void)state;
    load_fails("", "toy.yml:1:1: the file is empty");
    load_fails("# only a comment\n", "the file is empty");
    load_fails("- a\n", "toy.yml:1:1: the file holds no map");
    load_fails("just text", "the file holds no map");
    load_fails("{\n  seed: 1,\n  min_lr 3\n", "toy.yml:");
    load_fails("seed: 1\n\tmin_lr: 3\n", "toy.yml:2:1: YAML: ");
    load_fails("seed: 1\n---\nseed: 2\n", "toy.yml:2:1: a second document begins");
    load_fails("seed: !!int 1\n", "toy.yml:1:7: the tag \"tag:yaml.org,2002:int\" is not read");
    load_fails("seed: \xff\n", "is UTF-8 text");
    load_fails("{\"split\": 969,30,1}", "toy.yml:1:");
    load_fails("optimizer: &a {params: *a}\n", "unknown key \"params\"");
    load_fails("seed: *b\n", "toy.yml:1:7: YAML: ");
}

static void oddities_of_shipped_files_are_read(void **state)
{
    (void)state;
    config *c = new_config();
    assert_ok(
        load(c, "neox.yml",
             "# a comment\n"
             "{\n"
             "  # another\n"
             "  \"num-layers\": 6, #12,\n"
             "  'hidden_size': 128,\n"
             "  \"attention-config\": [[[\"flash\"], 2], [[\"global\", \"flash\"], \"all\"]],\n"
             "  \"optimizer\": {\n"
             "    \"type\": \"Adam\",\n"
             "    \"params\": {\n"
             "      \"lr\": 0.97e-4,\n"
             "      \"betas\": [0.9, 0.95],\n"
             "      \"eps\": 1.0e-8,\n"
             "    }\n"
             "  },\n"
             "  \"rotary_pct\": 1, \"hidden_dropout\": 0,\n"
             "  \"extra-save-iters\": [0,1,2,4],\n"
             "  \"comet_others\": {\"test_others\"},\n"
             "  \"memory_profiling_path\": tensorboard,\n"
             "  \"prompt_end\": \"\\n\",\n"
             "  \"pipe_partition_method\": type:transformer|mlp,\n"
             "  \"fp16\": {\n"
             "    \"enabled\": True, \"loss_scale\": 0,\n"
             "  },\n"
             "}\n"));
    assert_int_equal(c->num_layers, 6);
    assert_int_equal(c->hidden_size, 128);
    assert_int_equal(c->attention_config.count, 2);
    assert_int_equal(c->attention_config.items[0].length, 1);
    assert_int_equal(c->attention_config.items[0].count, 2);
    assert_int_equal(c->attention_config.items[1].length, 2);
    assert_int_equal(c->attention_config.items[1].count, 0);
    assert_true(c->optimizer.params.lr == 0.97e-4);
    assert_true(c->optimizer.params.betas.items[1] == 0.95);
    assert_true(c->rotary_pct == 1.0);
    assert_int_equal(c->extra_save_iters.items[3], 4);
    assert_int_equal(c->pipe_partition_method, CONFIG_PARTITION_TRANSFORMER);
    assert_true(c->fp16.enabled);
    config_destroy(c);
}

static void a_model_and_its_paths_merge(void **state)
{
    (void)state;
    config *c = new_config();
    assert_ok(load(c, "model.yml", TOY "deepspeed_extra_args: {comms_logger: {enabled: true}}\n"));
    assert_ok(load(c, "paths.yml",
                   "{\"data_path\": \"text_document\", \"save\": \"x\",\n"
                   " \"checkpoint-factor\": 5, \"use_comet\": True}"));
    assert_ok(config_resolve(c, 1));
    assert_string_equal(c->data_path, "text_document");
    assert_int_equal(c->num_layers, 4);
    assert_string_equal(config_remark(c, 0), "these keys have no effect here: use_comet, "
                                             "deepspeed_extra_args.comms_logger.enabled");
    config_destroy(c);
}

static void json_is_yaml(void **state)
{
    (void)state;
    config *c = new_config();
    assert_ok(load(c, "toy.json",
                   "{\"vocab-file\": \"data/v.json\", \"save\": \"checkpoints\",\n"
                   "\"checkpoint_validation_with_forward_pass\": false, \"log-dir\":\"logs\"}"));
    assert_string_equal(c->vocab_file, "data/v.json");
    assert_string_equal(c->log_dir, "logs");
    config_destroy(c);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    config *c = new_config();
    assert_fails(STATUS_ERR_CONFIG, "/nowhere/at/all.yml: No such file",
                 config_load_file(c, "/nowhere/at/all.yml", false));
    assert_fails(STATUS_ERR_CONFIG, "cannot read /: ", config_load_file(c, "/", false));
    config_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_a_number_gives_the_same_bits),
        cmocka_unit_test(what_is_no_number_is_a_named_error),
        cmocka_unit_test(whole_numbers_are_read_as_in_yaml_1_1),
        cmocka_unit_test(bools_are_those_of_yaml_1_1),
        cmocka_unit_test(unknown_keys_name_the_place_and_the_nearest_key),
        cmocka_unit_test(keys_that_files_have_by_mistake_say_what_is_meant),
        cmocka_unit_test(dashes_are_underscores_at_every_depth),
        cmocka_unit_test(a_key_set_twice_quotes_both_places),
        cmocka_unit_test(later_files_win_where_asked_and_it_is_told),
        cmocka_unit_test(set_overrides_any_key),
        cmocka_unit_test(errors_of_set_name_it),
        cmocka_unit_test(null_means_not_given),
        cmocka_unit_test(texts_and_choices_are_checked),
        cmocka_unit_test(broken_yaml_names_the_place),
        cmocka_unit_test(oddities_of_shipped_files_are_read),
        cmocka_unit_test(a_model_and_its_paths_merge),
        cmocka_unit_test(json_is_yaml),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
