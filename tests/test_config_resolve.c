// Resolving configurations: required keys, the grid, batch sizes, precision, what is refused.
#include "config_fixture.h"

#include <stdlib.h>

static void three_typing_errors_say_what_was_meant(void **state)
{
    (void)state;
    load_fails(TOY "train_micro_batch_size_per_gpus: 4\n",
               "toy.yml:13:1: unknown key \"train_micro_batch_size_per_gpus\"; the nearest known "
               "key is \"train_micro_batch_size_per_gpu\"");
    load_fails(TOY_MODEL TOY_BATCH "optimizer: {type: Adam, params: {lr: 1e-3, beta: [0.9,0.95]}}",
               "toy.yml:12:44: unknown key \"beta\"; the nearest known key is "
               "\"optimizer.params.betas\"");
    resolve_fails(TOY "fp16: {fp16: true}\n", 1,
                  "toy.yml:13:1: the map fp16 has no key \"enabled\"; it needs one");
}

static void a_run_needs_its_keys(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "num_layers", "hidden_size", "num_attention_heads", "seq_length", "max_position_embeddings",
        "optimizer",  "train_iters"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char text[64], message[64];
        snprintf(text, sizeof text, "%s=null", keys[i]);
        snprintf(message, sizeof message, "%s is missing", keys[i]);
        set_resolve_fails(text, 1, message);
    }
    set_resolve_fails("optimizer={type: Adam}", 1, "--set optimizer: the map optimizer has no key");
    set_resolve_fails("optimizer={params: {lr: 1}}", 1, "\"type\"");
    set_resolve_fails("zero_optimization={overlap_comm: true}", 1, "\"stage\"");
    set_resolve_fails("bf16={}", 1, "\"enabled\"");
    set_resolve_fails("train_epochs=2", 1, "train_epochs and train_iters are both given");
    set_resolve_fails("max_position_embeddings=31", 1,
                      "max_position_embeddings 31 is less than seq_length 32");
    set_resolve_fails("min_lr=0.0011", 1,
                      "min_lr 0.0011 is greater than optimizer.params.lr 0.001");
    set_resolve_fails("optimizer.params.betas=[0.9]", 1, "betas has 1 numbers; Adam has two");
}

static void training_for_no_steps_is_allowed(void **state)
{
    (void)state;
    config *c = new_config();
    assert_ok(load(c, "toy.yml", TOY));
    assert_ok(config_set(c, "train-iters=0"));
    assert_ok(config_resolve(c, 1));
    assert_int_equal(c->train_iters, 0);
    assert_int_equal(c->lr_decay_iters, 1);
    config_destroy(c);
}

typedef struct batch_case {
    const char *keys;
    int world;
    int64_t batch, micro, steps; /* expected */
} batch_case;

static void two_batch_sizes_give_the_third(void **state)
{
    (void)state;
    static const batch_case cases[] = {
        {"train_micro_batch_size_per_gpu: 2\ngradient_accumulation_steps: 3\n", 2, 12, 2, 3},
        {"train_batch_size: 12\ntrain_micro_batch_size_per_gpu: 2\n", 2, 12, 2, 3},
        {"train_batch_size: 12\ngradient_accumulation_steps: 3\n", 2, 12, 2, 3},
        {"train_batch_size: 12\n", 2, 12, 6, 1},
        {"train_micro_batch_size_per_gpu: 4\n", 3, 12, 4, 1},
        {"train_batch_size: 12\ntrain_micro_batch_size_per_gpu: 3\n"
         "gradient_accumulation_steps: 2\n",
         2, 12, 3, 2},
        {"train_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: null\n", 1, 4, 4, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, TOY_MODEL TOY_OPTIMIZER "%s", cases[i].keys);
        config *c = resolved(text, cases[i].world);
        assert_int_equal(c->train_batch_size, cases[i].batch);
        assert_int_equal(c->train_micro_batch_size_per_gpu, cases[i].micro);
        assert_int_equal(c->gradient_accumulation_steps, cases[i].steps);
        assert_int_equal(c->data_parallel_size, cases[i].world);
        config_destroy(c);
    }
}

static void batch_sizes_that_do_not_fit_show_the_equation(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *messages[3];
    } cases[] = {
        {"train_batch_size: 10\ntrain_micro_batch_size_per_gpu: 2\n",
         {"train_batch_size 10 = train_micro_batch_size_per_gpu 2 x gradient_accumulation_steps x "
          "2 "
          "data-parallel ranks",
          "would be 10 / 4 = 2.5", "8 or 12 would do"}},
        {"train_batch_size: 4\ntrain_micro_batch_size_per_gpu: 4\n",
         {"toy.yml:12:1", "4 / 8 = 0.5", "a train_batch_size of 8 would do"}},
        {"train_batch_size: 7\ngradient_accumulation_steps: 2\n",
         {"train_micro_batch_size_per_gpu would be 7 / 4 = 1.75", "4 or 8 would do", "7"}},
        {"train_batch_size: 7\n", {"7 / 2 = 3.5", "6 or 8 would do", "7"}},
        {"gradient_accumulation_steps: 3\n",
         {"gradient_accumulation_steps alone does not fix the batch; give "
          "train_micro_batch_size_per_gpu or train_batch_size too",
          "", ""}},
        {"seed: 1\n", {"no batch size is given", "", ""}},
        {"train_batch_size: 12\ntrain_micro_batch_size_per_gpu: 2\n"
         "gradient_accumulation_steps: 4\n",
         {"train_batch_size 12 is not train_micro_batch_size_per_gpu 2 x "
          "gradient_accumulation_steps 4 x 2 data-parallel ranks = 16",
          "say 16", "null"}},
        {"train_micro_batch_size_per_gpu: 2000000000\ngradient_accumulation_steps: 2000000000\n",
         {"is too large", "", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t j = 0; j < 3; j++) {
            char text[1024];
            snprintf(text, sizeof text, TOY_MODEL TOY_OPTIMIZER "%s", cases[i].keys);
            resolve_fails(text, 2, cases[i].messages[j]);
        }
    load_fails("train_batch_size: 0", "it must be 1 to");
    load_fails("gradient_accumulation_steps: -1", "it must be 1 to");
}

static void grids_that_do_not_fit_name_the_factor(void **state)
{
    (void)state;
    resolve_fails(TOY "pipe_parallel_size: 4\nmodel_parallel_size: 2\n", 4,
                  "toy.yml:14:1: world size 4 is no multiple of pipe_parallel_size 4 x "
                  "model_parallel_size 2 = 8: pipe_parallel_size 4 leaves 1, which "
                  "model_parallel_size 2 does not divide; start 8, 16 or 24 ranks");
    resolve_fails(TOY "pipe_parallel_size: 2\n", 3,
                  "pipe_parallel_size 2 does not divide 3; start "
                  "2, 4 or 6 ranks with mpirun -n");
    resolve_fails(TOY "pipe_parallel_size: 2\n", 1, "world size 1 is no multiple");
    resolve_fails(TOY "model_parallel_size: 2\n", 3, "model_parallel_size 2 does not divide 3");
    load_fails("model_parallel_size: 0", "model_parallel_size is 0; it must be 1 to");
    load_fails("pipe_parallel_size: -1", "pipe_parallel_size is -1; it must be 0 to");
    set_resolve_fails("num_layers=4", 0, "world size 0");
}

static void models_that_cannot_be_split_name_the_sizes_that_would_do(void **state)
{
    (void)state;
    resolve_fails(
        "num_layers: 2\nhidden_size: 60\nnum_attention_heads: 6\nseq_length: 8\n"
        "max_position_embeddings: 8\ntrain_iters: 1\nmodel_parallel_size: 4\n" TOY_OPTIMIZER
            TOY_BATCH,
        4,
        "toy.yml:7:1: num_attention_heads 6 is no multiple of model_parallel_size 4; "
        "this model can be split into 1, 2, 3, 6");
    set_resolve_fails("num_attention_heads=6", 1, "hidden_size 64 is no multiple");
    resolve_fails(TOY "intermediate_size: 50\nmodel_parallel_size: 4\n", 4,
                  "intermediate_size 50 is no multiple of model_parallel_size 4; this model can "
                  "be split into 1, 2");
    set_resolve_fails("hidden_size=62", 1,
                      "--set hidden_size: hidden_size 62 is no multiple of num_attention_heads 4; "
                      "the nearest are 60 and 64");
    set_resolve_fails("hidden_size=3", 1, "the nearest are 4 and 8");
    resolve_fails(TOY "pipe_parallel_size: 8\n", 8,
                  "pipe_parallel_size 8 is more than num_layers 4");
}

static void grids_resolve_whatever_the_program_can_run(void **state)
{
    (void)state;
    config *c = resolved(TOY "pipe_parallel_size: 2\nmodel_parallel_size: 2\n"
                             "zero_optimization: {stage: 3}\n",
                         8);
    assert_int_equal(c->data_parallel_size, 2);
    assert_int_equal(c->world_size, 8);
    assert_int_equal(c->train_batch_size, 4);
    assert_int_equal(c->zero_optimization.stage, 3);
    // Again for another job.
    assert_ok(config_resolve(c, 4));
    assert_int_equal(c->data_parallel_size, 1);
    assert_int_equal(c->train_batch_size, 2);
    config_destroy(c);
    c = resolved(TOY "pipe_parallel_size: 0\n", 1);
    assert_int_equal(c->pipe_parallel_size, 1);
    config_destroy(c);
    c = new_config();
    assert_ok(load(c, "toy.yml", TOY "pipe_parallel_size: 2\n"));
    assert_ok(config_set(c, "num_layers=5"));
    assert_ok(config_resolve(c, 2));
    config_destroy(c);
}

static config_precision precision_of(const char *keys)
{
    char text[1024];
    snprintf(text, sizeof text, TOY "%s", keys);
    config *c = resolved(text, 1);
    config_precision precision = c->precision;
    assert_int_equal(c->fp16.enabled, precision == CONFIG_PRECISION_FP16);
    assert_int_equal(c->bf16.enabled, precision == CONFIG_PRECISION_BF16);
    config_destroy(c);
    return precision;
}

static void precision_follows_from_what_is_said(void **state)
{
    (void)state;
    assert_int_equal(precision_of(""), CONFIG_PRECISION_FP32);
    assert_int_equal(precision_of("precision: fp32\n"), CONFIG_PRECISION_FP32);
    assert_int_equal(precision_of("precision: FP16\n"), CONFIG_PRECISION_FP16);
    assert_int_equal(precision_of("precision: bfloat16\n"), CONFIG_PRECISION_BF16);
    assert_int_equal(precision_of("fp16: {enabled: true}\n"), CONFIG_PRECISION_FP16);
    assert_int_equal(precision_of("fp16: {enabled: false}\n"), CONFIG_PRECISION_FP32);
    assert_int_equal(precision_of("bf16: {enabled: true}\nprecision: bfloat16\n"),
                     CONFIG_PRECISION_BF16);
    assert_int_equal(precision_of("fp16: {enabled: false}\nbf16: {enabled: true}\n"),
                     CONFIG_PRECISION_BF16);
    resolve_fails(TOY "precision: fp32\nfp16: {enabled: true}\n", 1,
                  "precision fp32 contradicts fp16: {enabled: true}");
    resolve_fails(TOY "precision: fp16\nbf16: {enabled: true}\n", 1,
                  "contradicts bf16: {enabled: true}");
    resolve_fails(TOY "precision: bfloat16\nbf16: {enabled: false}\n", 1,
                  "contradicts bf16: {enabled: false}");
    resolve_fails(TOY "fp16: {enabled: true}\nbf16: {enabled: true}\n", 1, "both enabled");
    load_fails("precision: bf32", "known are fp32, fp16, bfloat16");
}

static void the_width_of_the_mlp_follows_gpt_neox(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int64_t width;
    } cases[] = {
        {"", 256},
        {"intermediate_size: 100\n", 100},
        {"expansion_factor: 2.5\n", 160},
        {"intermediate_size: 90\nmlp_multiple_of: 8\n", 96},
        {"intermediate_size: 160\nexpansion_factor: 2.5\n", 160},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, TOY "%s", cases[i].keys);
        config *c = resolved(text, 1);
        assert_int_equal(c->intermediate_size, cases[i].width);
        config_destroy(c);
    }
    resolve_fails(TOY "intermediate_size: 101\n", 1,
                  "first matrix would be 102 wide and its second 101");
    resolve_fails(TOY "intermediate_size: 100\nexpansion_factor: 2.5\n", 1, "give one of the two");
    resolve_fails(TOY "intermediate_size: 2000000000\nmlp_multiple_of: 1073741824\n", 1,
                  "rounds to 2147483648");
    resolve_fails(TOY "expansion_factor: 1e-3\n", 1, "the width of the MLP would be 0");
    resolve_fails(TOY "expansion_factor: 1e300\n", 1, "it must be 1 to 2147483647");
}

static void attention_types_must_cover_the_layers(void **state)
{
    (void)state;
    static const char *const right[] = {"[[[flash], 4]]",
                                        "[[[global, flash], all]]",
                                        "[[[\"global\"], \"all\"]]",
                                        "[[[global], 1], [[flash], 3]]",
                                        "[global, flash, GLOBAL, Flash]",
                                        "null"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, TOY "attention_config: %s\n", right[i]);
        config_destroy(resolved(text, 1));
    }
    resolve_fails(TOY "attention_config: [[[flash], 5]]\n", 1,
                  "attention_config names the types of 5 layers; num_layers is 4");
    resolve_fails(TOY "attention_config: [[[flash, flash, flash], all]]\n", 1,
                  "num_layers 4 is no multiple of 3");
    resolve_fails(TOY "attention_config: []\n", 1, "the types of 0 layers");
    resolve_fails(TOY "attention_config: [[[global, local], all]]\n", 1,
                  "attention of type local is not supported");
    resolve_fails(TOY "attention_config: [mamba, mamba, mamba, mamba]\n", 1,
                  "attention of type mamba is not supported");
    load_fails("attention_config: [[[flush], 4]]", "does not know the type \"flush\"");
    load_fails("attention_config: [[flash, 4]]", "must have a list of types");
    load_fails("attention_config: [[[flash], 0]]",
               "has the count the number 0; it must be \"all\"");
    load_fails("attention_config: [[[flash]]]", "must hold pairs");
    load_fails("attention_config: flash", "must be a list");
}

static void what_is_out_of_scope_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *key, *message;
    } cases[] = {
        {"moe_num_experts: 8", "toy.yml:13:1: moe_num_experts \"8\": mixture of experts"},
        {"activation: swiglu", "activation \"swiglu\": gated activations are not supported"},
        {"activation: ReLU", "activation \"ReLU\": this activation is not supported; gelu is"},
        {"norm: scalenorm", "layernorm or rmsnorm are"},
        {"num_kv_heads: 2", "grouped-query attention is not supported"},
        {"sliding_window_width: 16", "sliding-window"},
        {"sparsity_config: {block: 16}", "sparsity_config: sparse attention"},
        {"te_fp8_mha: true", "fp8"},
        {"train_impl: dpo", "train_impl \"dpo\": post-training"},
        {"dataset_impl: pairwise", "only GPT datasets"},
        {"pos_train_data_paths: [a]", "pos_train_data_paths: post-training"},
        {"use_mup: true", "muP"},
        {"soft_prompt_tuning: {enabled: true}", "soft prompts"},
        {"curriculum_learning: {enabled: true}", "curricula"},
        {"gpt_j_tied: true", "one norm"},
        {"use_bnb_optimizer: true", "8-bit Adam"},
        {"init_method: orthogonal", "init_method \"orthogonal\": GPT-NeoX itself fails"},
        {"tokenizer_type: SPMTokenizer", "this tokenizer is not supported"},
        {"pack_impl: unpacked", "only packed"},
        {"data_impl: cached", "TNTIDX"},
        {"loss_scale: 3", "fp16.loss_scale"},
        {"batch_size: 3", "train_micro_batch_size_per_gpu"},
        {"clip_grad: 1.0", "gradient_clipping"},
        {"data_types: {grad_accum_dtype: bf16}", "accumulate in fp32"},
        {"zero_optimization: {stage: 1, cpu_offload: true}", "zero_optimization.cpu_offload"},
        {"zero_optimization: {stage: 3, offload_param: {device: cpu}}", "offload"},
        {"amp: {enabled: true}", "apex"},
        {"fp16_lm_cross_entropy: true", "fp32"},
        {"z_loss: 1e-4", "z-loss"},
        {"allow_chopped: false", "allow_chopped"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, TOY "%s\n", cases[i].key);
        resolve_fails(text, 1, cases[i].message);
    }
    static const char *const optimizers[] = {"onebitadam", "sm3", "lion", "SGD", "cpu_adam"};
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++) {
        char text[64], message[128];
        snprintf(text, sizeof text, "optimizer.type=%s", optimizers[i]);
        snprintf(message, sizeof message, "optimizer.type \"%s\": this optimizer is not supported",
                 optimizers[i]);
        set_resolve_fails(text, 1, message);
    }
    set_resolve_fails("pos_emb=alibi", 1, "--set pos_emb: pos_emb \"alibi\": these positions");
    set_resolve_fails("optimizer.params.weight_decay=0.1", 1, "weight_decay at the top level");
    set_resolve_fails("optimizer.params.max_grad_norm=1", 1, "gradient_clipping");
}

static void what_is_out_of_scope_may_be_switched_off(void **state)
{
    (void)state;
    config *c = resolved(TOY "moe_num_experts: 1\nsparsity_config: {}\nte_fp8_mha: No\n"
                             "train_impl: Normal\nuse_mup: false\nnum_kv_heads: 4\n"
                             "soft_prompt_tuning: {enabled: false, num_tokens: 10}\n"
                             "sliding_window_width: null\nallow_chopped: true\nz_loss: 0.0\n"
                             "zero_optimization: {stage: 1, offload_param: {device: none}}\n",
                         1);
    assert_null(config_remark(c, 0));
    config_destroy(c);
    // A value that a later one replaces does not matter.
    c = new_config();
    assert_ok(load(c, "toy.yml", TOY "activation: swiglu\n"));
    assert_ok(config_set(c, "activation=gelu"));
    assert_ok(config_resolve(c, 1));
    config_destroy(c);
}

static void the_first_refusal_of_a_file_is_told(void **state)
{
    (void)state;
    resolve_fails(TOY "use_mup: true\nactivation: swiglu\n", 1, "toy.yml:13:1: use_mup");
    resolve_fails(TOY "activation: swiglu\nuse_mup: true\n", 1, "toy.yml:13:1: activation");
    // Files whose gated MLP cannot work are called broken first.
    resolve_fails(TOY "use_mup: true\nactivation: swiglu\nintermediate_size: 14336\n", 1,
                  "halves of 4779 do not fit the 4778 inputs");
    resolve_fails(TOY "activation: swiglu\nintermediate_size: 43008\n", 1, "gated activations");
}

static void keys_without_effect_are_told_once(void **state)
{
    (void)state;
    config *c = resolved(TOY "hostfile: /mock_path\nuse_wandb: false\nwandb_team: null\n"
                             "fp16: {enabled: true, fp16: true}\n",
                         1);
    assert_string_equal(config_remark(c, 0),
                        "these keys have no effect here: fp16.fp16, use_wandb, hostfile");
    assert_null(config_remark(c, 1));
    config_destroy(c);
}

static void paths_and_weights_go_together(void **state)
{
    (void)state;
#define LISTS "train_data_paths: [a, b]\nvalid_data_paths: [c]\ntest_data_paths: [d]\n"
    config *c = resolved(TOY LISTS "train_data_weights: [1, 2.5]\n", 1);
    assert_string_equal(c->train_data_paths.items[1], "b");
    assert_true(c->train_data_weights.items[1] == 2.5);
    config_destroy(c);
    resolve_fails(TOY LISTS "data_path: e\n", 1, "data_path are both given");
    resolve_fails(TOY "train_data_paths: [a]\nvalid_data_paths: [c]\n", 1,
                  "is given without test_data_paths");
    resolve_fails(TOY "train_data_paths: []\nvalid_data_paths: [c]\ntest_data_paths: [d]\n", 1,
                  "train_data_paths is empty");
    resolve_fails(TOY LISTS "train_data_weights: [1]\n", 1,
                  "train_data_weights has 1 entries and train_data_paths 2");
    resolve_fails(TOY LISTS "train_data_weights: [0, 0]\n", 1, "sums to 0");
    resolve_fails(TOY "train_data_weights: [1]\n", 1, "train_data_paths 0");
    load_fails("train_data_weights: [1, -1]", "at least 0");
}

static void saving_needs_a_time(void **state)
{
    (void)state;
    resolve_fails(TOY "save: x\n", 1, "checkpoint_factor or extra_save_iters");
    config_destroy(resolved(TOY "save: x\ncheckpoint_factor: 10\n", 1));
    config_destroy(resolved(TOY "save: x\nextra_save_iters: [0]\n", 1));
    config_destroy(resolved(TOY "save: x\ncheckpoint_factor: 1.5\ncheckpoint_scale: log\n", 1));
    resolve_fails(TOY "checkpoint_factor: 1.5\n", 1, "whole number of steps");
    resolve_fails(TOY "checkpoint_factor: 1\ncheckpoint_scale: log\n", 1, "greater than 1");
    resolve_fails(TOY "load_if_present: true\n", 1, "load_if_present needs load");
    load_fails("checkpoint_factor: 0", "at least 1");
    load_fails("keep_last_n_checkpoints: 0", "it must be 1 to");
    load_fails("keep_last_n_checkpoints: -3", "it must be 1 to");
}

static void the_schedule_has_a_length(void **state)
{
    (void)state;
    config *c = resolved(TOY, 1);
    assert_int_equal(c->lr_decay_iters, 20);
    config_destroy(c);
    config_destroy(resolved(TOY "min_lr: 0.001\n", 1));
    c = resolved(TOY "lr_decay_fraction: 0.55\n", 1);
    assert_int_equal(c->lr_decay_iters, 11);
    config_destroy(c);
    c = resolved(TOY "lr_decay_iters: 40\n", 1);
    assert_int_equal(c->lr_decay_iters, 40);
    config_destroy(c);
}

static void rows_of_folding_are_checked(void **state)
{
    (void)state;
#define FOLD(scheme, rows) TOY "comm-compression: {scheme: " scheme ", " rows "}\n"
    resolve_fails(TOY "comm-compression: {scheme: zhybrid}\n", 1,
                  "comm_compression.scheme zhybrid is not available in this version; none is");
    resolve_fails(TOY "comm-compression: {scheme: naive_mpc}\n", 1, "scheme naive-mpc is not");
    resolve_fails(FOLD("none", "data: {gradients: {codec: mpc}}"), 1,
                  "while comm_compression.scheme is none");
    resolve_fails(FOLD("custom", "data: {gradients: {rate: 8}}"), 1, "has no codec");
    resolve_fails(FOLD("custom", "pipe: {activations: {codec: zfp}}"), 1,
                  "comm_compression.pipe.activations: codec zfp needs \"rate\"");
    resolve_fails(FOLD("custom", "zero: {parameters: {codec: mpc, rate: 8}}"), 1,
                  "codec mpc has no \"rate\"");
    resolve_fails(FOLD("custom", "data: {gradients: {codec: quant, bits: 8}}"), 1, "\"block\"");
    resolve_fails(FOLD("custom", "data: {gradients: {codec: quant, bits: 5, block: 64}}"), 1,
                  "bits is 5; it must be 4 or 8");
    resolve_fails(FOLD("custom", "tensor: {embeddings: {codec: cast}}"), 1, "\"type\"");
    load_fails("comm-compression: {data: {gradients: {codec: zfp, rate: 3}}}",
               "rate is 3; it must be 4 to 32");
    load_fails("comm-compression: {data: {gradients: {codec: gzip}}}",
               "known are raw, zfp, mpc, quant, cast");
    config_destroy(resolved(TOY "comm-compression: {scheme: none, threshold: 0}\n", 1));
}

static void every_init_method_is_known(void **state)
{
    (void)state;
    static const char *const names[] = {
        "normal",       "scaled_normal", "single_residual_scaled_normal",
        "small_init",   "wang_init",     "xavier_uniform",
        "xavier_normal"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, TOY "init_method: %s\n", names[i]);
        config *c = resolved(text, 1);
        assert_int_equal(c->init_method, i);
        config_destroy(c);
    }
}

static void rotary_turns_an_even_number_of_dimensions(void **state)
{
    (void)state;
    set_resolve_fails("rotary_pct=0.2", 1, "turns 3 of the 16 dimensions");
    set_resolve_fails("rotary_pct=0.01", 1, "turns 0 of the 16");
    load_fails("rotary_pct: 1.5", "greater than 0, at most 1");
}

typedef struct seen_setting {
    const char *name;
    char value[64], source[64];
    int times, all;
} seen_setting;

static void note_setting(void *context, const char *name, const char *value, const char *source)
{
    seen_setting *seen = context;
    seen->all++;
    if (strcmp(seen->name, name) != 0)
        return;
    snprintf(seen->value, sizeof seen->value, "%s", value);
    snprintf(seen->source, sizeof seen->source, "%s", source);
    seen->times++;
}

static void settings_in_effect_tell_where_they_come_from(void **state)
{
    (void)state;
    config *c = new_config();
    assert_ok(load(c, "toy.yml", TOY));
    assert_ok(config_set(c, "min_lr=1e-4"));
    assert_ok(config_resolve(c, 2));
    static const seen_setting expected[] = {
        {"num_layers", "4", "toy.yml:1", 1, 0},
        {"min_lr", "0.0001", "--set", 1, 0},
        {"train_batch_size", "4", "derived", 1, 0},
        {"norm", "\"layernorm\"", "default", 1, 0},
        {"optimizer.params.betas", "[0.9, 0.999]", "default", 1, 0},
        {"optimizer.params.lr", "0.001", "toy.yml:11", 1, 0},
        {"save", "", "", 0, 0},
        {"comm_compression.data.gradients.codec", "", "", 0, 0},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        seen_setting seen = {.name = expected[i].name};
        assert_ok(config_list(c, note_setting, &seen));
        assert_int_equal(seen.times, expected[i].times);
        assert_string_equal(seen.value, expected[i].value);
        assert_string_equal(seen.source, expected[i].source);
        assert_true(seen.all > 50);
    }
    config_destroy(c);
}

static void a_dump_loads_again_and_dumps_the_same(void **state)
{
    (void)state;
    config *c = resolved(TOY "train_data_paths: [\"a\\n\\\"\\\\b\\u2028\", 'é']\n"
                             "valid_data_paths: [c]\ntest_data_paths: [d]\n"
                             "attention_config: [[[flash, global], all]]\n"
                             "fp16: {enabled: true}\nexpansion_factor: 2.5\n"
                             "zero_optimization: {stage: 1}\nwarmup: 0.1\nhostfile: x\n",
                         2);
    char *first = NULL, *second = NULL;
    assert_ok(config_dump(c, &first));
    config *again = new_config();
    assert_ok(load(again, "dump.json", first));
    assert_ok(config_resolve(again, 2));
    assert_ok(config_dump(again, &second));
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "\"lr\": 0.001"));
    assert_null(strstr(first, "hostfile"));
    assert_string_equal(c->train_data_paths.items[0], again->train_data_paths.items[0]);
    // Equal settings, however written, give equal texts.
    assert_ok(config_set(again, "optimizer.params.lr=1.0E-3"));
    assert_ok(config_resolve(again, 2));
    free(second);
    assert_ok(config_dump(again, &second));
    assert_string_equal(first, second);
    free(first);
    free(second);
    config_destroy(again);
    config_destroy(c);
}

static void defaults_are_those_of_gpt_neox(void **state)
{
    (void)state;
    config *c = resolved(TOY_MODEL TOY_OPTIMIZER TOY_BATCH, 1);
    assert_int_equal(c->seed, 1234);
    assert_true(c->weight_decay == 0.1);
    assert_true(c->optimizer.params.eps == 1e-8);
    assert_true(c->layernorm_epsilon == 1e-5);
    assert_true(c->warmup == 0.01);
    assert_int_equal(c->lr_decay_style, CONFIG_LR_LINEAR);
    assert_int_equal(c->init_method, CONFIG_INIT_NORMAL);
    assert_int_equal(c->output_layer_init_method, CONFIG_INIT_SCALED_NORMAL);
    assert_false(c->no_weight_tying);
    assert_false(c->gpt_j_residual);
    assert_true(c->rotary_pct == 1.0);
    assert_int_equal(c->eval_interval, 1000);
    assert_int_equal(c->eval_iters, 100);
    assert_string_equal(c->split, "969, 30, 1");
    assert_int_equal(c->make_vocab_size_divisible_by, 128);
    assert_int_equal(c->fp16.initial_scale_power, 16);
    assert_int_equal(c->zero_optimization.stage, 0);
    assert_int_equal(c->zero_optimization.reduce_bucket_size, 500000000);
    config_destroy(c);
    c = new_config();
    assert_int_equal(c->pos_emb, CONFIG_POS_EMB_LEARNED);
    config_destroy(c);
}

static void the_configurations_of_the_project_resolve(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t batch, parameters; // with 512 or 50304 rows of vocabulary
    } files[] = {
        {"quickstart", 16, 3421696},
        {"pythia-14m", 1024, 14067712},
        {"pythia-70m", 1024, 70426624},
        {"pythia-160m", 1024, 162322944},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, TRIFOLD_CONFIGS "/%s.yml", files[i].name);
        config *c = new_config();
        assert_ok(config_load_file(c, path, false));
        assert_ok(config_resolve(c, 2));
        assert_int_equal(c->train_batch_size, files[i].batch);
        int64_t h = c->hidden_size, vocab = i == 0 ? 512 : 50304;
        assert_int_equal(2 * vocab * h + c->num_layers * (12 * h * h + 13 * h) + 2 * h,
                         files[i].parameters);
        assert_int_equal(c->intermediate_size, 4 * h);
        assert_null(config_remark(c, 0));
        config_destroy(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_typing_errors_say_what_was_meant),
        cmocka_unit_test(a_run_needs_its_keys),
        cmocka_unit_test(training_for_no_steps_is_allowed),
        cmocka_unit_test(two_batch_sizes_give_the_third),
        cmocka_unit_test(batch_sizes_that_do_not_fit_show_the_equation),
        cmocka_unit_test(grids_that_do_not_fit_name_the_factor),
        cmocka_unit_test(models_that_cannot_be_split_name_the_sizes_that_would_do),
        cmocka_unit_test(grids_resolve_whatever_the_program_can_run),
        cmocka_unit_test(precision_follows_from_what_is_said),
        cmocka_unit_test(the_width_of_the_mlp_follows_gpt_neox),
        cmocka_unit_test(attention_types_must_cover_the_layers),
        cmocka_unit_test(what_is_out_of_scope_is_refused_by_name),
        cmocka_unit_test(what_is_out_of_scope_may_be_switched_off),
        cmocka_unit_test(the_first_refusal_of_a_file_is_told),
        cmocka_unit_test(keys_without_effect_are_told_once),
        cmocka_unit_test(paths_and_weights_go_together),
        cmocka_unit_test(saving_needs_a_time),
        cmocka_unit_test(the_schedule_has_a_length),
        cmocka_unit_test(rows_of_folding_are_checked),
        cmocka_unit_test(every_init_method_is_known),
        cmocka_unit_test(rotary_turns_an_even_number_of_dimensions),
        cmocka_unit_test(settings_in_effect_tell_where_they_come_from),
        cmocka_unit_test(a_dump_loads_again_and_dumps_the_same),
        cmocka_unit_test(defaults_are_those_of_gpt_neox),
        cmocka_unit_test(the_configurations_of_the_project_resolve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
