// The one table of settings. Names, defaults and meanings of GPT-NeoX's keys are as in that
// project; docs/configuration.md is generated from here.
#include "config/config_schema.h"

#include <math.h>

#define LARGEST_COUNT 2147483647.0 // products of two counts fit into 64 bits
#define LARGEST_BYTES 0x1p53       // every integer up to here is exact in a double

static const setting_range any_number = {"a finite number", -INFINITY, INFINITY, true, true};
static const setting_range count = {"1 to 2147483647", 1, LARGEST_COUNT, false, false};
static const setting_range count0 = {"0 to 2147483647", 0, LARGEST_COUNT, false, false};
static const setting_range large = {"1 to 2^53", 1, LARGEST_BYTES, false, false};
static const setting_range large0 = {"0 to 2^53", 0, LARGEST_BYTES, false, false};
static const setting_range threads = {"0 to 4096", 0, 4096, false, false};
static const setting_range positive = {"greater than 0", 0, INFINITY, true, true};
static const setting_range not_negative = {"at least 0", 0, INFINITY, false, true};
static const setting_range fraction = {"0 to 1", 0, 1, false, false};
static const setting_range part = {"greater than 0, at most 1", 0, 1, true, false};
static const setting_range below_one = {"at least 0 and below 1", 0, 1, false, true};
static const setting_range at_least_one = {"at least 1", 1, INFINITY, false, true};
static const setting_range stage = {"0, 1, 2 or 3", 0, 3, false, false};
static const setting_range seeds = {"1 to 4294967295", 1, 4294967295.0, false, false};
static const setting_range power = {"0 to 64", 0, 64, false, false};
static const setting_range zfp_rate = {"4 to 32 (lower rates cannot carry a mantissa)", 4, 32,
                                       false, false};
static const setting_range quant_bits = {"4 or 8", 4, 8, false, false};

static const setting_choice norms[] = {
    {"layernorm", CONFIG_NORM_LAYERNORM, NULL},
    {"rmsnorm", CONFIG_NORM_RMSNORM, NULL},
    {"non_parametric_layernorm", 0, "this norm is not supported; layernorm or rmsnorm are"},
    {"scalenorm", 0, "this norm is not supported; layernorm or rmsnorm are"},
    {"te_rmsnorm", 0, "TransformerEngine is not used here; rmsnorm is the same norm"},
    {"te_layernorm", 0, "TransformerEngine is not used here; layernorm is the same norm"},
    {NULL, 0, NULL},
};

#define POSITIONS "these positions are not supported; rotary, learned and none are"
static const setting_choice positions[] = {
    {"learned", CONFIG_POS_EMB_LEARNED, NULL},
    {"rotary", CONFIG_POS_EMB_ROTARY, NULL},
    {"none", CONFIG_POS_EMB_NONE, NULL},
    {"sinusoidal", 0, POSITIONS},
    {"rpe", 0, POSITIONS},
    {"alibi", 0, POSITIONS},
    {NULL, 0, NULL},
};

#define GATED "gated activations are not supported; gelu is"
#define UNGATED "this activation is not supported; gelu is"
static const setting_choice activations[] = {
    {"gelu", CONFIG_ACTIVATION_GELU, NULL},
    {"swiglu", 0, GATED},
    {"geglu", 0, GATED},
    {"reglu", 0, GATED},
    {"bilinear", 0, GATED},
    {"glu", 0, GATED},
    {"relu", 0, UNGATED},
    {"softsign", 0, UNGATED},
    {"swish", 0, UNGATED},
    {"mish", 0, UNGATED},
    {"silu", 0, UNGATED},
    {NULL, 0, NULL},
};

static const setting_choice inits[] = {
    {"normal", CONFIG_INIT_NORMAL, NULL},
    {"scaled_normal", CONFIG_INIT_SCALED_NORMAL, NULL},
    {"single_residual_scaled_normal", CONFIG_INIT_SINGLE_RESIDUAL_SCALED_NORMAL, NULL},
    {"small_init", CONFIG_INIT_SMALL, NULL},
    {"wang_init", CONFIG_INIT_WANG, NULL},
    {"xavier_uniform", CONFIG_INIT_XAVIER_UNIFORM, NULL},
    {"xavier_normal", CONFIG_INIT_XAVIER_NORMAL, NULL},
    {"orthogonal", 0, "GPT-NeoX itself fails in it; normal, small_init and others work"},
    {"scaled_orthogonal", 0, "GPT-NeoX itself fails in it; scaled_normal and others work"},
    {NULL, 0, NULL},
};

static const setting_choice partitions[] = {
    {"type:transformer|mlp", CONFIG_PARTITION_TRANSFORMER, NULL},
    {"type:transformer", CONFIG_PARTITION_TRANSFORMER, NULL},
    {"uniform", CONFIG_PARTITION_UNIFORM, NULL},
    {"parameters", CONFIG_PARTITION_PARAMETERS, NULL},
    {NULL, 0, NULL},
};

static const setting_choice pipe_schedules[] = {
    {"gpipe", CONFIG_PIPE_GPIPE, NULL},
    {"1f1b", CONFIG_PIPE_1F1B, NULL},
    {"interleaved", CONFIG_PIPE_INTERLEAVED, NULL},
    {"zero-bubble", CONFIG_PIPE_ZERO_BUBBLE, NULL},
    {NULL, 0, NULL},
};

#define OPTIMIZERS "this optimizer is not supported; Adam (with decoupled decay) is"
static const setting_choice optimizers[] = {
    {"adam", CONFIG_OPTIMIZER_ADAM, NULL},
    {"adamw", CONFIG_OPTIMIZER_ADAM, NULL},
    {"onebitadam", 0, OPTIMIZERS},
    {"zerooneadam", 0, OPTIMIZERS},
    {"cpu_adam", 0, OPTIMIZERS},
    {"cpu_torch_adam", 0, OPTIMIZERS},
    {"sm3", 0, OPTIMIZERS},
    {"madgrad_wd", 0, OPTIMIZERS},
    {"sgd", 0, OPTIMIZERS},
    {"lion", 0, OPTIMIZERS},
    {"lamb", 0, OPTIMIZERS},
    {"adafactor", 0, OPTIMIZERS},
    {NULL, 0, NULL},
};

static const setting_choice lr_styles[] = {
    {"constant", CONFIG_LR_CONSTANT, NULL},
    {"linear", CONFIG_LR_LINEAR, NULL},
    {"cosine", CONFIG_LR_COSINE, NULL},
    {"exponential", CONFIG_LR_EXPONENTIAL, NULL},
    {NULL, 0, NULL},
};

static const setting_choice precisions[] = {
    {"fp32", CONFIG_PRECISION_FP32, NULL},
    {"fp16", CONFIG_PRECISION_FP16, NULL},
    {"bfloat16", CONFIG_PRECISION_BF16, NULL},
    {NULL, 0, NULL},
};

static const setting_choice accumulations[] = {
    {"fp32", CONFIG_PRECISION_FP32, NULL},
    {"bf16", CONFIG_PRECISION_BF16, "gradients accumulate in fp32 here; leave it out or say fp32"},
    {"fp16", CONFIG_PRECISION_FP16, "gradients accumulate in fp32 here; leave it out or say fp32"},
    {NULL, 0, NULL},
};

static const setting_choice scales[] = {
    {"linear", CONFIG_SCALE_LINEAR, NULL},
    {"log", CONFIG_SCALE_LOG, NULL},
    {NULL, 0, NULL},
};

#define TOKENIZERS \
    "this tokenizer is not supported; GPT2BPETokenizer, HFTokenizer and CharLevelTokenizer are"
static const setting_choice tokenizers[] = {
    {"GPT2BPETokenizer", CONFIG_TOKENIZER_GPT2_BPE, NULL},
    {"HFTokenizer", CONFIG_TOKENIZER_HF, NULL},
    {"CharLevelTokenizer", CONFIG_TOKENIZER_CHAR_LEVEL, NULL},
    {"HFGPT2Tokenizer", 0, TOKENIZERS},
    {"SPMTokenizer", 0, TOKENIZERS},
    {"TiktokenTokenizer", 0, TOKENIZERS},
    {NULL, 0, NULL},
};

static const setting_choice data_impls[] = {
    {"mmap", 0, NULL},
    {"infer", 0, NULL},
    {"cached", 0, "the old TNTIDX format is not read; prepare the text anew as mmap"},
    {NULL, 0, NULL},
};

static const setting_choice packings[] = {
    {"packed", 0, NULL},
    {"pack_until_overflow", 0, "only packed samples are supported"},
    {"unpacked", 0, "only packed samples are supported"},
    {NULL, 0, NULL},
};

static const setting_choice columns[] = {
    {"column", 0, NULL},
    {NULL, 0, NULL},
};

static const setting_choice schemes[] = {
    {"none", CONFIG_SCHEME_NONE, NULL},
    {"naive-zfp", CONFIG_SCHEME_NAIVE_ZFP, NULL},
    {"naive-mpc", CONFIG_SCHEME_NAIVE_MPC, NULL},
    {"mzhybrid", CONFIG_SCHEME_MZHYBRID, NULL},
    {"zhybrid", CONFIG_SCHEME_ZHYBRID, NULL},
    {"custom", CONFIG_SCHEME_CUSTOM, NULL},
    {NULL, 0, NULL},
};

static const setting_choice codecs[] = {
    {"raw", CONFIG_CODEC_RAW, NULL},   {"zfp", CONFIG_CODEC_ZFP, NULL},
    {"mpc", CONFIG_CODEC_MPC, NULL},   {"quant", CONFIG_CODEC_QUANT, NULL},
    {"cast", CONFIG_CODEC_CAST, NULL}, {NULL, 0, NULL},
};

static const setting_choice casts[] = {
    {"bf16", CONFIG_CAST_BF16, NULL},
    {"fp16", CONFIG_CAST_FP16, NULL},
    {"fp8", CONFIG_CAST_FP8, NULL},
    {NULL, 0, NULL},
};

// clang-format off
#define SECTION(title) {.name = title, .kind = SETTING_SECTION}
#define MAP(key, text) {.name = key, .kind = SETTING_MAP, .help = text}
#define VALUE(type, key, fallback_, text) \
    .name = #key, .kind = type, .offset = offsetof(config, key), .fallback = fallback_, .help = text
#define BOOL(key, fallback_, text) {VALUE(SETTING_BOOL, key, fallback_, text)}
#define INT(key, fallback_, range_, text) {VALUE(SETTING_INT, key, fallback_, text), .range = &range_}
#define FLOAT(key, fallback_, range_, text) {VALUE(SETTING_FLOAT, key, fallback_, text), .range = &range_}
#define STRING(key, fallback_, text) {VALUE(SETTING_STRING, key, fallback_, text)}
#define CHOICE(key, fallback_, list, text) {VALUE(SETTING_CHOICE, key, fallback_, text), .choices = list}
#define INTS(key, range_, text) {VALUE(SETTING_INTS, key, NULL, text), .range = &range_}
#define FLOATS(key, fallback_, range_, text) {VALUE(SETTING_FLOATS, key, fallback_, text), .range = &range_}
#define STRINGS(key, text) {VALUE(SETTING_STRINGS, key, NULL, text)}
// A key without effect here; its type is still checked.
#define IGNORED(key, kind_, text) \
    {.name = key, .kind = SETTING_##kind_, .stance = STANCE_IGNORED, .range = &any_number, .help = text}
#define IGNORED_CHOICE(key, list, text) \
    {.name = key, .kind = SETTING_CHOICE, .stance = STANCE_IGNORED, .choices = list, .help = text}
// A key that is an error unless it has one of the values `off_`.
#define REFUSED(key, off_, reason) \
    {.name = key, .kind = SETTING_ANY, .stance = STANCE_REFUSED, .off = off_, .help = reason}
// What some files say though it is no key.
#define UNKNOWN(key, text) \
    {.name = key, .kind = SETTING_ANY, .stance = STANCE_UNKNOWN, .help = text}

// One kind of message along one dimension; all but the first are shown once, as the first.
#define CODEC_ROW(dimension, kind_, folded_) \
    {.name = "comm_compression." #dimension "." #kind_, .kind = SETTING_MAP, .folded = folded_, \
     .help = "how this kind of message travels: gradients, parameters, activations, activation_gradients, embeddings or optimizer_states"}, \
    {VALUE(SETTING_CHOICE, comm_compression.dimension.kind_.codec, NULL, "codec of the row"), .choices = codecs, .folded = folded_}, \
    {VALUE(SETTING_INT, comm_compression.dimension.kind_.rate, NULL, "zfp: bits a value"), .range = &zfp_rate, .folded = folded_}, \
    {VALUE(SETTING_INT, comm_compression.dimension.kind_.bits, NULL, "quant: bits a value"), .range = &quant_bits, .folded = folded_}, \
    {VALUE(SETTING_INT, comm_compression.dimension.kind_.block, NULL, "quant: values that share a scale"), .range = &count, .folded = folded_}, \
    {VALUE(SETTING_CHOICE, comm_compression.dimension.kind_.type, NULL, "cast: type on the wire"), .choices = casts, .folded = folded_}, \
    {VALUE(SETTING_BOOL, comm_compression.dimension.kind_.error_feedback, NULL, "carry this row's residual to the next step"), .folded = folded_}
#define CODEC_ROWS(dimension, first_folded) \
    CODEC_ROW(dimension, gradients, first_folded), \
    CODEC_ROW(dimension, parameters, true), \
    CODEC_ROW(dimension, activations, true), \
    CODEC_ROW(dimension, activation_gradients, true), \
    CODEC_ROW(dimension, embeddings, true), \
    CODEC_ROW(dimension, optimizer_states, true)

// DeepSpeed's log of its collectives.
#define COMMS_LOGGER(key) \
    IGNORED(key, MAP, TRAFFIC), \
    IGNORED(key ".enabled", BOOL, TRAFFIC), \
    IGNORED(key ".verbose", BOOL, TRAFFIC), \
    IGNORED(key ".prof_all", BOOL, TRAFFIC), \
    IGNORED(key ".prof_ops", STRINGS, TRAFFIC), \
    IGNORED(key ".debug", BOOL, TRAFFIC)

#define TRAFFIC "traffic is always reported"
#define LAUNCHER "belongs to GPT-NeoX's launcher; mpirun starts the ranks here"
#define TRACKER "belongs to an outside experiment tracker"
#define KERNEL "chooses a kernel of the same mathematics"
#define ENGINE "tunes TransformerEngine's kernels"
#define SAMPLING "belongs to text generation"
#define STAGE3 "tunes DeepSpeed's parameter partitioning"
#define SCALER "DeepSpeed keeps no loss scale in bf16"
#define POST "post-training is not supported; train_impl normal is"
#define NO_MOE "mixture of experts is not supported"
#define NO_MUP "muP is not supported"
#define NO_OUTSIDE "only DeepSpeed has it"

const setting config_settings[] = {
SECTION("Model"),
INT(num_layers, NULL, count, "transformer layers"),
INT(hidden_size, NULL, count, "width of the residual stream"),
INT(num_attention_heads, NULL, count, "attention heads; must divide hidden_size"),
INT(num_kv_heads, NULL, count, "key and value heads; only as many as num_attention_heads are supported"),
INT(intermediate_size, NULL, count, "width of the MLP; by default expansion_factor * hidden_size, or 4 * hidden_size"),
FLOAT(expansion_factor, NULL, positive, "width of the MLP over hidden_size"),
INT(mlp_multiple_of, "1", count, "the width of the MLP is rounded up to a multiple of twice this"),
INT(seq_length, NULL, count, "tokens of a sample"),
INT(max_position_embeddings, NULL, count, "limit of the positions, at least seq_length; rows of learned positions"),
CHOICE(norm, "layernorm", norms, "kind of norm"),
FLOAT(layernorm_epsilon, "1e-05", positive, "epsilon of layernorm"),
FLOAT(rms_norm_epsilon, "1e-08", positive, "epsilon of rmsnorm"),
CHOICE(pos_emb, "learned", positions, "kind of positions"),
FLOAT(rotary_pct, "1.0", part, "share of each head's dimensions that rotary positions turn"),
FLOAT(rotary_emb_base, "10000", positive, "base of the rotary frequencies"),
BOOL(no_weight_tying, "false", "true: the output matrix is not the embedding"),
BOOL(gpt_j_residual, "false", "true: attention and MLP side by side on the same input"),
CHOICE(activation, "gelu", activations, "activation of the MLP"),
BOOL(bias_gelu_fusion, "false", "true: the tanh form of GELU, as in GPT-NeoX; false: the erf form"),
BOOL(use_bias_in_attn_linear, "true", "biases of query_key_value and dense"),
BOOL(use_bias_in_mlp, "true", "biases of the MLP"),
{VALUE(SETTING_ATTENTION, attention_config, NULL, "runs of [[types], count] over the layers, count may be \"all\"; types global and flash, which are the same mathematics")},
INT(make_vocab_size_divisible_by, "128", count, "the padded vocabulary is a multiple of this times model_parallel_size"),
INT(vocab_size, NULL, count, "true vocabulary where no tokenizer is named (a key of Trifold)"),
CHOICE(init_method, "normal", inits, "initial weights"),
CHOICE(output_layer_init_method, "scaled_normal", inits, "initial weights of the two matrices that write to the residual stream"),
FLOAT(init_method_std, "0.02", positive, "standard deviation of the normal methods"),
FLOAT(hidden_dropout, "0.0", below_one, "dropout on embeddings and on what layers add"),
FLOAT(attention_dropout, "0.0", below_one, "dropout on attention probabilities"),
IGNORED_CHOICE("output_layer_parallelism", columns, "the head is split over its rows, the only way GPT-NeoX has"),
IGNORED("use_bias_in_norms", BOOL, "GPT-NeoX reads it nowhere: LayerNorm has a bias, RMSNorm none"),
IGNORED("scaled_upper_triang_masked_softmax_fusion", BOOL, KERNEL),
IGNORED("scaled_masked_softmax_fusion", BOOL, KERNEL),
IGNORED("rope_fusion", BOOL, KERNEL),
IGNORED("layernorm_fusion", BOOL, KERNEL),
IGNORED("rmsnorm_fusion", BOOL, KERNEL),
IGNORED("bias_dropout_fusion", BOOL, KERNEL),
IGNORED("use_flashattn_swiglu", BOOL, KERNEL),
IGNORED("attention_softmax_in_fp32", BOOL, "softmax is always computed in fp32"),
IGNORED("apply_query_key_layer_scaling", BOOL, "guards fp16 scores; the mathematics is the same"),
IGNORED("rotary_save_freqs_buffer", BOOL, "frequencies are computed anew"),
IGNORED("use_cpu_initialization", BOOL, "initial weights do not depend on the device"),
IGNORED("gmlp_attn_dim", INT, "belongs to gMLP layers"),
IGNORED("mamba_selective_scan_fusion", BOOL, "belongs to Mamba layers"),
IGNORED("mamba_causal_conv_fusion", BOOL, "belongs to Mamba layers"),
IGNORED("mamba_inner_func_fusion", BOOL, "belongs to Mamba layers"),
IGNORED("te_columnparallel", BOOL, ENGINE),
IGNORED("te_rowparallel", BOOL, ENGINE),
IGNORED("te_layernorm_mlp", BOOL, ENGINE),
IGNORED("te_mha", BOOL, ENGINE),
IGNORED("te_fp8_format", STRING, ENGINE),
IGNORED("te_fp8_wgrad", BOOL, ENGINE),
IGNORED("te_fp8_amax_history_len", INT, ENGINE),
IGNORED("te_fp8_amax_compute_algo", STRING, ENGINE),
IGNORED("te_fp8_margin", INT, ENGINE),
REFUSED("te_fp8_mha", "false", "attention in fp8 is not supported"),
REFUSED("sliding_window_width", NULL, "sliding-window attention is not supported"),
REFUSED("gpt_j_tied", "false", "one norm for both branches is not supported"),
REFUSED("use_qk_layernorm", "false", "norms of queries and keys are not supported"),
REFUSED("num_unique_layers", NULL, "sharing of layers is not supported"),
REFUSED("sparsity_config", NULL, "sparse attention is not supported"),
REFUSED("sparse_attention", NULL, "sparse attention is not supported"),
REFUSED("opt_pos_emb_offset", "0", "OPT's position offset is not supported"),
REFUSED("soft_prompt_tuning", NULL, "soft prompts are not supported"),
REFUSED("fp16_lm_cross_entropy", "false", "the loss is always computed in fp32"),
REFUSED("z_loss", "0|0.0", "the z-loss is not supported"),
UNKNOWN("attention_type", "GPT-NeoX refuses it too; attention_config names the types"),
REFUSED("moe_num_experts", "0|1", NO_MOE),
REFUSED("moe_expert_interval", "1", NO_MOE),
REFUSED("moe_top_k", "1", NO_MOE),
REFUSED("moe_router_type", "sinkhorn", NO_MOE),
REFUSED("moe_lbl_in_fp32", "false", NO_MOE),
REFUSED("moe_jitter_eps", NULL, NO_MOE),
REFUSED("use_mup", "false", NO_MUP),
REFUSED("coord_check", "false", NO_MUP),
REFUSED("save_base_shapes", "false", NO_MUP),
REFUSED("base_shapes_file", NULL, NO_MUP),

SECTION("Parallelism"),
INT(pipe_parallel_size, "0", count0, "pipeline stages; 0 and 1 both mean one"),
INT(model_parallel_size, "1", count, "tensor-parallel ranks"),
CHOICE(pipe_partition_method, "type:transformer|mlp", partitions, "what the stages share out evenly: transformer layers, all layers, or parameters"),
CHOICE(pipe_schedule, "1f1b", pipe_schedules, "order of the stages' work: gpipe, 1f1b, interleaved (needs virtual_pipe_stages), zero-bubble (a key of Trifold)"),
INT(virtual_pipe_stages, "1", count, "parts of the model on each pipeline stage; more than 1 with pipe_schedule interleaved (a key of Trifold)"),
BOOL(sequence_parallel, "false", "tensor ranks share out the rows of norms, dropout and residuals"),
BOOL(checkpoint_activations, "false", "compute the layers' insides again in the backward pass instead of keeping them"),
INT(checkpoint_num_layers, "1", count, "layers of one recomputed piece"),
INT(threads, "0", threads, "threads of a rank; 0: the host's cores over its ranks (a key of Trifold)"),
MAP("zero_optimization", "sharding over data-parallel ranks; absent: stage 0. The map needs `stage`"),
INT(zero_optimization.stage, "0", stage, "1 shards optimizer states, 2 gradients too, 3 parameters too"),
BOOL(zero_optimization.reduce_scatter, "true", "reduce-scatter instead of all-reduce"),
BOOL(zero_optimization.allgather_partitions, "true", "all-gather updated parameters"),
INT(zero_optimization.reduce_bucket_size, "500000000", large, "gradient elements of one message"),
INT(zero_optimization.allgather_bucket_size, "500000000", large, "parameter elements of one message"),
BOOL(zero_optimization.overlap_comm, "false", "reduce during the backward pass"),
IGNORED("zero_optimization.contiguous_gradients", BOOL, "gradients always lie in one buffer"),
IGNORED("zero_optimization.load_from_fp32_weights", BOOL, "checkpoints always hold fp32 weights"),
IGNORED("zero_optimization.round_robin_gradients", BOOL, STAGE3),
IGNORED("zero_optimization.stage3_max_live_parameters", INT, STAGE3),
IGNORED("zero_optimization.stage3_max_reuse_distance", INT, STAGE3),
IGNORED("zero_optimization.stage3_prefetch_bucket_size", INT, STAGE3),
IGNORED("zero_optimization.stage3_param_persistence_threshold", INT, STAGE3),
IGNORED("zero_optimization.stage3_gather_16bit_weights_on_model_save", BOOL, STAGE3),
IGNORED("zero_optimization.sub_group_size", INT, STAGE3),
REFUSED("zero_optimization.cpu_offload", "false", "offloading to the host is not supported"),
REFUSED("zero_optimization.offload_param", NULL, "offloading is not supported"),
REFUSED("zero_optimization.offload_optimizer", NULL, "offloading is not supported"),
REFUSED("zero_optimization.zero_quantized_weights", "false", "comm_compression folds messages here"),
REFUSED("zero_optimization.zero_quantized_gradients", "false", "comm_compression folds messages here"),
REFUSED("zero_optimization.zero_hpz_partition_size", "1", "hierarchical partitions are not supported"),
IGNORED("partition_activations", BOOL, "kept activations are not spread over tensor ranks"),
IGNORED("synchronize_each_layer", BOOL, "there is nothing to synchronize"),
IGNORED("contiguous_checkpointing", BOOL, "kept activations are always contiguous"),
IGNORED("deepspeed_activation_checkpointing", BOOL, "DeepSpeed is not used"),
REFUSED("checkpoint_in_cpu", "false", "offloading is not supported"),

SECTION("Optimizer and schedule"),
MAP("optimizer", "the optimizer, `type` and `params`; required"),
CHOICE(optimizer.type, "adam", optimizers, "Adam and AdamW both mean Adam with decoupled decay, as in GPT-NeoX"),
MAP("optimizer.params", "its numbers"),
FLOAT(optimizer.params.lr, "0.001", not_negative, "peak learning rate"),
FLOATS(optimizer.params.betas, "[0.9, 0.999]", below_one, "decay of the first and second moment"),
FLOAT(optimizer.params.eps, "1e-08", positive, "epsilon of Adam"),
REFUSED("optimizer.params.weight_decay", NULL, "GPT-NeoX fails on it too; weight_decay at the top level is the decay"),
REFUSED("optimizer.params.max_grad_norm", NULL, "it is no number of Adam; gradient_clipping at the top level clips"),
FLOAT(weight_decay, "0.1", not_negative, "decoupled decay of matrices and embeddings; biases and norms have none"),
FLOAT(gradient_clipping, "1.0", not_negative, "limit of the global gradient norm; 0: none"),
INT(train_iters, NULL, count0, "optimizer steps, skipped ones included"),
INT(train_epochs, NULL, count, "passes over the training data, instead of train_iters"),
INT(lr_decay_iters, NULL, count, "length of the schedule; by default lr_decay_fraction * train_iters, or train_iters"),
FLOAT(lr_decay_fraction, NULL, part, "length of the schedule over train_iters"),
CHOICE(lr_decay_style, "linear", lr_styles, "how the rate falls after warm-up"),
FLOAT(min_lr, "0.0", not_negative, "floor of the rate, and the rate past lr_decay_iters"),
FLOAT(warmup, "0.01", fraction, "share of lr_decay_iters over which the rate rises"),
BOOL(override_lr_scheduler, "false", "on resume take the schedule from here, not from the checkpoint"),
BOOL(use_checkpoint_lr_scheduler, "false", "on resume take the schedule from the checkpoint without comparing"),
REFUSED("use_bnb_optimizer", "false", "8-bit Adam is not supported"),
REFUSED("scheduler", NULL, "lr_decay_style and its neighbours describe the schedule"),
REFUSED("curriculum_learning", NULL, "curricula are not supported"),
REFUSED("curriculum_seqlen", "0", "curricula are not supported"),
REFUSED("clip_grad", NULL, "GPT-NeoX overwrites it; gradient_clipping sets the limit"),
UNKNOWN("decay_lr_to", "GPT-NeoX refuses it too; min_lr is the floor of the rate"),
UNKNOWN("warmup_iters", "GPT-NeoX refuses it too; warmup is a fraction of lr_decay_iters"),
REFUSED("lr", NULL, "GPT-NeoX overwrites it; optimizer.params.lr sets the rate"),
REFUSED("optimizer_type", NULL, "GPT-NeoX overwrites it; optimizer.type names the optimizer"),
REFUSED("zero_stage", NULL, "GPT-NeoX overwrites it; zero_optimization.stage sets the stage"),

SECTION("Precision"),
CHOICE(precision, NULL, precisions, "type of the arithmetic; absent: fp16 or bf16 where their map is enabled, else fp32"),
MAP("fp16", "half precision with loss scaling. The map needs `enabled`"),
BOOL(fp16.enabled, "false", "train in fp16"),
FLOAT(fp16.loss_scale, "0", not_negative, "fixed loss scale; 0: dynamic"),
INT(fp16.initial_scale_power, "16", power, "the dynamic scale starts at 2 to this power"),
INT(fp16.loss_scale_window, "1000", count, "good steps before the scale doubles"),
INT(fp16.hysteresis, "2", count, "overflows before the scale halves"),
BOOL(fp16.consecutive_hysteresis, "false", "a good step forgives earlier overflows"),
FLOAT(fp16.min_loss_scale, "1", positive, "floor of the dynamic scale"),
IGNORED("fp16.fp16", BOOL, "DeepSpeed reads `enabled` only"),
IGNORED("fp16.type", STRING, "DeepSpeed reads `enabled` only"),
IGNORED("fp16.auto_cast", BOOL, "inputs are token numbers"),
MAP("bf16", "bfloat16 with fp32 master weights. The map needs `enabled`"),
BOOL(bf16.enabled, "false", "train in bfloat16"),
IGNORED("bf16.bf16", BOOL, "DeepSpeed reads `enabled` only"),
IGNORED("bf16.loss_scale", FLOAT, SCALER),
IGNORED("bf16.initial_scale_power", INT, SCALER),
IGNORED("bf16.loss_scale_window", INT, SCALER),
IGNORED("bf16.hysteresis", INT, SCALER),
IGNORED("bf16.min_loss_scale", FLOAT, SCALER),
MAP("data_types", "types of intermediate sums"),
CHOICE(data_types.grad_accum_dtype, NULL, accumulations, "type in which gradients accumulate"),
IGNORED("fp32_allreduce", BOOL, "sums are always made in fp32"),
IGNORED("prescale_gradients", BOOL, "sums are always made in fp32"),
IGNORED("gradient_predivide_factor", FLOAT, "sums are always made in fp32"),
REFUSED("communication_data_type", NULL, "comm_compression chooses what travels"),
REFUSED("amp", NULL, "apex amp is not supported; precision chooses the type"),
REFUSED("loss_scale", NULL, "GPT-NeoX reads it nowhere; fp16.loss_scale sets the scale"),
REFUSED("loss_scale_window", NULL, "GPT-NeoX reads it nowhere; fp16.loss_scale_window sets the window"),
REFUSED("hysteresis", NULL, "GPT-NeoX reads it nowhere; fp16.hysteresis sets it"),
REFUSED("min_scale", NULL, "GPT-NeoX reads it nowhere; fp16.min_loss_scale sets the floor"),
REFUSED("dynamic_loss_scale", NULL, "GPT-NeoX overwrites it; fp16.loss_scale 0 means dynamic"),

SECTION("Batch and data"),
INT(train_batch_size, NULL, count, "samples of a step over all ranks = micro batch * accumulation * data-parallel ranks"),
INT(train_micro_batch_size_per_gpu, NULL, count, "samples a rank works on at a time"),
INT(gradient_accumulation_steps, NULL, count, "micro batches of a step; any two of the three sizes give the third, one alone has accumulation 1"),
REFUSED("batch_size", NULL, "GPT-NeoX overwrites it; train_micro_batch_size_per_gpu sets the micro batch"),
STRING(data_path, NULL, "prefix of one .bin/.idx pair, cut by split"),
STRING(split, "969, 30, 1", "shares of training, validation and test documents of data_path"),
STRINGS(train_data_paths, "prefixes for training; then all three lists are needed"),
STRINGS(valid_data_paths, "prefixes for validation"),
STRINGS(test_data_paths, "prefixes for testing"),
FLOATS(train_data_weights, NULL, not_negative, "share of each training prefix; by default equal"),
FLOATS(valid_data_weights, NULL, not_negative, "share of each validation prefix"),
FLOATS(test_data_weights, NULL, not_negative, "share of each test prefix"),
BOOL(weight_by_num_documents, "false", "weights from the counts of documents, instead of the lists"),
FLOAT(weighted_sampler_alpha, "1.0", not_negative, "exponent of the document shares"),
CHOICE(tokenizer_type, "GPT2BPETokenizer", tokenizers, "kind of tokenizer; fixes the vocabulary and the end-of-document token"),
STRING(vocab_file, NULL, "vocab.json, or tokenizer.json for HFTokenizer"),
STRING(merge_file, NULL, "merges.txt of GPT2BPETokenizer"),
BOOL(eod_mask_loss, "false", "leave positions after an end of document out of the loss"),
INT(seed, "1234", seeds, "seed of weights, sample order and dropout"),
INT(eval_interval, "1000", count, "steps between evaluations"),
INT(eval_iters, "100", count0, "steps of one evaluation; 0: none"),
IGNORED_CHOICE("data_impl", data_impls, "only mmap files are read"),
IGNORED_CHOICE("pack_impl", packings, "samples are packed"),
IGNORED("num_workers", INT, "samples are read where they are used"),
IGNORED("mmap_warmup", BOOL, "the system reads ahead"),
IGNORED("use_shared_fs", BOOL, "each rank finds the sample order by itself"),
REFUSED("allow_chopped", "true", "samples are always cut from the stream of documents"),
REFUSED("dataset_impl", "gpt2", "only GPT datasets are supported"),
REFUSED("train_impl", "normal", POST),
REFUSED("train_label_data_paths", NULL, POST),
REFUSED("valid_label_data_paths", NULL, POST),
REFUSED("test_label_data_paths", NULL, POST),
REFUSED("train_reward_data_paths", NULL, POST),
REFUSED("valid_reward_data_paths", NULL, POST),
REFUSED("test_reward_data_paths", NULL, POST),
REFUSED("pos_train_data_paths", NULL, POST),
REFUSED("neg_train_data_paths", NULL, POST),
REFUSED("pos_valid_data_paths", NULL, POST),
REFUSED("neg_valid_data_paths", NULL, POST),
REFUSED("pos_test_data_paths", NULL, POST),
REFUSED("neg_test_data_paths", NULL, POST),
REFUSED("pos_train_label_data_paths", NULL, POST),
REFUSED("neg_train_label_data_paths", NULL, POST),
REFUSED("pos_valid_label_data_paths", NULL, POST),
REFUSED("neg_valid_label_data_paths", NULL, POST),
REFUSED("pos_test_label_data_paths", NULL, POST),
REFUSED("neg_test_label_data_paths", NULL, POST),
REFUSED("dpo_beta", NULL, POST),
REFUSED("dpo_fp32", NULL, POST),
REFUSED("dpo_reference_free", NULL, POST),
REFUSED("kto_beta", NULL, POST),
REFUSED("kto_fp32", NULL, POST),
REFUSED("kto_desirable_weight", NULL, POST),
REFUSED("kto_undesirable_weight", NULL, POST),
REFUSED("fp32_reinforce", NULL, POST),
REFUSED("kl_impl", NULL, POST),
REFUSED("kl_div_beta", NULL, POST),
REFUSED("reinforce_leave_one_out", NULL, POST),

SECTION("Checkpoints"),
STRING(save, NULL, "folder to save checkpoints to; needs checkpoint_factor or extra_save_iters"),
STRING(load, NULL, "folder to load the newest checkpoint from"),
BOOL(load_if_present, "false", "start anew where load holds no checkpoint, instead of failing (a key of Trifold)"),
INT(iteration, NULL, count0, "the step to load, instead of the newest"),
FLOAT(checkpoint_factor, NULL, at_least_one, "save every so many steps, or at its powers with checkpoint_scale log"),
CHOICE(checkpoint_scale, "linear", scales, "how checkpoint_factor counts"),
INTS(extra_save_iters, count0, "more steps to save at; never pruned"),
INT(keep_last_n_checkpoints, NULL, count, "keep only so many of the newest; absent: all"),
BOOL(no_save_optim, "false", "save weights only"),
BOOL(no_load_optim, "false", "load weights only"),
BOOL(finetune, "false", "load weights only and start at iteration 0"),
INT(exit_interval, NULL, count, "stop after a step that is a multiple of this"),
IGNORED("checkpoint_validation_with_forward_pass", BOOL, "checksums guard checkpoints"),
IGNORED("no_save_rng", BOOL, "no random state is kept: it follows from seed and step"),
IGNORED("no_load_rng", BOOL, "no random state is kept: it follows from seed and step"),
REFUSED("s3_path", NULL, "object stores are not supported; save names a folder"),

SECTION("Reports"),
INT(log_interval, "100", count, "steps between lines of progress"),
STRING(log_dir, NULL, "folder of metrics.jsonl"),
STRING(tensorboard_dir, NULL, "folder of TensorBoard event files"),
BOOL(metrics_csv, "false", "write metrics.csv beside metrics.jsonl (a key of Trifold)"),
BOOL(wall_clock_breakdown, "false", "tell the time of each phase with the lines of progress"),
FLOAT(peak_theoretical_tflops, NULL, positive, "peak of one rank, for utilization"),
IGNORED("steps_per_print", INT, "DeepSpeed's own line; log_interval sets the pace here"),
IGNORED("log_grad_norm", BOOL, "the global norm is always reported"),
IGNORED("log_param_norm", BOOL, "norms of single parameters are not reported"),
IGNORED("log_grad_pct_zeros", BOOL, "zeros are not counted"),
IGNORED("log_optimizer_states", BOOL, "optimizer states are not reported"),
IGNORED("log_gradient_noise_scale", BOOL, "the noise scale is not reported"),
IGNORED("gradient_noise_scale_n_batches", INT, "the noise scale is not reported"),
IGNORED("gradient_noise_scale_cpu_offload", BOOL, "the noise scale is not reported"),
IGNORED("char_level_ppl", BOOL, "perplexity is a token's"),
IGNORED("profile", BOOL, "belongs to PyTorch's profiler"),
IGNORED("profile_backward", BOOL, "belongs to PyTorch's profiler"),
IGNORED("profile_step_start", INT, "belongs to PyTorch's profiler"),
IGNORED("profile_step_stop", INT, "belongs to PyTorch's profiler"),
IGNORED("memory_profiling", BOOL, "belongs to PyTorch's profiler"),
IGNORED("memory_profiling_path", STRING, "belongs to PyTorch's profiler"),
IGNORED("dump_state", BOOL, NO_OUTSIDE),
IGNORED("flops_profiler", ANY, NO_OUTSIDE),
COMMS_LOGGER("comms_logger"),
IGNORED("tensorboard", ANY, NO_OUTSIDE),
IGNORED("csv_monitor", ANY, NO_OUTSIDE),
IGNORED("wandb", ANY, TRACKER),
IGNORED("use_wandb", BOOL, TRACKER),
IGNORED("wandb_group", STRING, TRACKER),
IGNORED("wandb_project", STRING, TRACKER),
IGNORED("wandb_team", STRING, TRACKER),
IGNORED("wandb_host", STRING, TRACKER),
IGNORED("wandb_run_name", STRING, TRACKER),
IGNORED("wandb_init_all_ranks", BOOL, TRACKER),
IGNORED("use_comet", BOOL, TRACKER),
IGNORED("comet_workspace", STRING, TRACKER),
IGNORED("comet_project", STRING, TRACKER),
IGNORED("comet_experiment_name", STRING, TRACKER),
IGNORED("comet_tags", STRINGS, TRACKER),
IGNORED("comet_others", ANY, TRACKER),

SECTION("Folding of messages"),
MAP("comm_compression", "how messages are folded (keys of Trifold)"),
CHOICE(comm_compression.scheme, "none", schemes, "a named set of the rows below; custom: only the rows given"),
INT(comm_compression.threshold, "65536", large0, "messages of fewer bytes travel raw"),
BOOL(comm_compression.error_feedback, "false", "rows carry their residual to the next step where they can"),
MAP("comm_compression.data", "messages between data-parallel ranks"),
CODEC_ROWS(data, false),
MAP("comm_compression.zero", "messages of sharded states; rows as for data"),
CODEC_ROWS(zero, true),
MAP("comm_compression.tensor", "messages between tensor-parallel ranks; rows as for data"),
CODEC_ROWS(tensor, true),
MAP("comm_compression.pipe", "messages between pipeline stages; rows as for data"),
CODEC_ROWS(pipe, true),

SECTION("Launching and other programs"),
IGNORED("global_num_gpus", INT, LAUNCHER),
IGNORED("distributed_backend", STRING, LAUNCHER),
IGNORED("hostfile", STRING, LAUNCHER),
IGNORED("launcher", STRING, LAUNCHER),
IGNORED("deepspeed", BOOL, "DeepSpeed is not used"),
IGNORED("deepspeed_slurm", BOOL, LAUNCHER),
IGNORED("deepspeed_mpi", BOOL, LAUNCHER),
IGNORED("include", STRING, LAUNCHER),
IGNORED("exclude", STRING, LAUNCHER),
IGNORED("num_nodes", INT, LAUNCHER),
IGNORED("num_gpus", INT, LAUNCHER),
IGNORED("master_addr", STRING, LAUNCHER),
IGNORED("master_port", INT, LAUNCHER),
IGNORED("force_multi", BOOL, LAUNCHER),
IGNORED("no_ssh_check", BOOL, LAUNCHER),
IGNORED("comment", STRING, LAUNCHER),
IGNORED("account", STRING, LAUNCHER),
MAP("deepspeed_extra_args", "DeepSpeed's own settings; only a log of its collectives is known"),
COMMS_LOGGER("deepspeed_extra_args.comms_logger"),
REFUSED("autotuning", NULL, NO_OUTSIDE),
REFUSED("data_efficiency", NULL, NO_OUTSIDE),
REFUSED("elasticity", NULL, NO_OUTSIDE),
REFUSED("compression_training", NULL, NO_OUTSIDE),
IGNORED("text_gen_type", STRING, SAMPLING),
IGNORED("maximum_tokens", INT, SAMPLING),
IGNORED("prompt_end", STRING, SAMPLING),
IGNORED("temperature", FLOAT, SAMPLING),
IGNORED("top_p", FLOAT, SAMPLING),
IGNORED("top_k", INT, SAMPLING),
IGNORED("recompute", BOOL, SAMPLING),
IGNORED("return_logits", BOOL, SAMPLING),
IGNORED("num_samples", INT, SAMPLING),
IGNORED("sample_input_file", STRING, SAMPLING),
IGNORED("sample_output_file", STRING, SAMPLING),
IGNORED("eval_results_prefix", STRING, SAMPLING),
IGNORED("eval_tasks", STRINGS, SAMPLING),
};
// clang-format on

const size_t config_setting_count = sizeof config_settings / sizeof config_settings[0];
