/* The configuration of a run: GPT-NeoX YAML read into a plain struct.
 *
 * One table (config_table.c) holds every key with its type, default, range and help; it drives the
 * parser, `trifold train --help`, docs/configuration.md, the echo at start and the dump kept in
 * checkpoints. The fields below are named as the keys; the table says what they mean. Values of
 * `const char *` and of lists are owned by the configuration; an absent text is NULL, an absent
 * list has count 0, an absent number without a default is 0 (config_is_set() tells it from 0).
 *
 * Use: config_create, config_load_file for each file, config_set for each --set, config_resolve.
 * Nothing here talks to other ranks, prints, or allocates by a number from a file. Errors read
 * "FILE:LINE:COL: KEY ...; what would be right", or "--set KEY: ...". */
#ifndef TRIFOLD_CONFIG_CONFIG_H
#define TRIFOLD_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

typedef enum config_norm {
    CONFIG_NORM_LAYERNORM,
    CONFIG_NORM_RMSNORM,
} config_norm;

typedef enum config_pos_emb {
    CONFIG_POS_EMB_LEARNED,
    CONFIG_POS_EMB_ROTARY,
    CONFIG_POS_EMB_NONE,
} config_pos_emb;

typedef enum config_activation {
    CONFIG_ACTIVATION_GELU,
} config_activation;

typedef enum config_init {
    CONFIG_INIT_NORMAL,
    CONFIG_INIT_SCALED_NORMAL,
    CONFIG_INIT_SINGLE_RESIDUAL_SCALED_NORMAL,
    CONFIG_INIT_SMALL,
    CONFIG_INIT_WANG,
    CONFIG_INIT_XAVIER_UNIFORM,
    CONFIG_INIT_XAVIER_NORMAL,
} config_init;

typedef enum config_partition {
    CONFIG_PARTITION_TRANSFORMER, /* "type:transformer|mlp": balance transformer layers */
    CONFIG_PARTITION_UNIFORM,
    CONFIG_PARTITION_PARAMETERS,
} config_partition;

typedef enum config_pipe_schedule {
    CONFIG_PIPE_GPIPE,
    CONFIG_PIPE_1F1B,
    CONFIG_PIPE_INTERLEAVED,
    CONFIG_PIPE_ZERO_BUBBLE,
} config_pipe_schedule;

typedef enum config_optimizer {
    CONFIG_OPTIMIZER_ADAM, /* decoupled decay, also under the name Adam, as GPT-NeoX does */
} config_optimizer;

typedef enum config_lr_style {
    CONFIG_LR_CONSTANT,
    CONFIG_LR_LINEAR,
    CONFIG_LR_COSINE,
    CONFIG_LR_EXPONENTIAL,
} config_lr_style;

typedef enum config_precision {
    CONFIG_PRECISION_FP32,
    CONFIG_PRECISION_FP16,
    CONFIG_PRECISION_BF16,
} config_precision;

typedef enum config_scale {
    CONFIG_SCALE_LINEAR,
    CONFIG_SCALE_LOG,
} config_scale;

typedef enum config_tokenizer {
    CONFIG_TOKENIZER_GPT2_BPE,
    CONFIG_TOKENIZER_HF,
    CONFIG_TOKENIZER_CHAR_LEVEL,
} config_tokenizer;

typedef enum config_scheme {
    CONFIG_SCHEME_NONE,
    CONFIG_SCHEME_NAIVE_ZFP,
    CONFIG_SCHEME_NAIVE_MPC,
    CONFIG_SCHEME_MZHYBRID,
    CONFIG_SCHEME_ZHYBRID,
    CONFIG_SCHEME_CUSTOM,
} config_scheme;

typedef enum config_codec_kind {
    CONFIG_CODEC_UNSET, /* the row is not given */
    CONFIG_CODEC_RAW,
    CONFIG_CODEC_ZFP,
    CONFIG_CODEC_MPC,
    CONFIG_CODEC_QUANT,
    CONFIG_CODEC_CAST,
} config_codec_kind;

typedef enum config_cast {
    CONFIG_CAST_BF16,
    CONFIG_CAST_FP16,
    CONFIG_CAST_FP8,
} config_cast;

typedef struct config_strings {
    const char **items;
    size_t count;
} config_strings;

typedef struct config_floats {
    double *items;
    size_t count;
} config_floats;

typedef struct config_ints {
    int64_t *items;
    size_t count;
} config_ints;

/* attention_config: runs of `count` repetitions of a pattern of `length` layers; a count of 0 says
 * "all": repeat it until all layers have one. Every type given is global or flash, which are the
 * same mathematics. */
typedef struct config_attention_run {
    int64_t length;
    int64_t count;
} config_attention_run;

typedef struct config_attention {
    config_attention_run *items;
    size_t count;
} config_attention;

/* How one kind of message is folded along one dimension. */
typedef struct config_codec {
    config_codec_kind codec;
    int64_t rate;  /* zfp: bits a value */
    int64_t bits;  /* quant: bits a value */
    int64_t block; /* quant: values a scale */
    config_cast type;
    bool error_feedback;
} config_codec;

typedef struct config_codec_rows {
    config_codec gradients, parameters, activations, activation_gradients, embeddings;
    config_codec optimizer_states;
} config_codec_rows;

typedef struct config_loss_scale {
    bool enabled;
    double loss_scale; /* 0: dynamic */
    int64_t initial_scale_power;
    int64_t loss_scale_window;
    int64_t hysteresis;
    bool consecutive_hysteresis;
    double min_loss_scale;
} config_loss_scale;

typedef struct config {
    struct config_book *book; /* internal: where each value came from, remarks, memory */

    /* model */
    int64_t num_layers;
    int64_t hidden_size;
    int64_t num_attention_heads;
    int64_t num_kv_heads;      /* after config_resolve: num_attention_heads */
    int64_t intermediate_size; /* after config_resolve: the width of the MLP */
    double expansion_factor;
    int64_t mlp_multiple_of;
    int64_t seq_length;
    int64_t max_position_embeddings;
    config_norm norm;
    double layernorm_epsilon;
    double rms_norm_epsilon;
    config_pos_emb pos_emb;
    double rotary_pct;
    double rotary_emb_base;
    bool no_weight_tying;
    bool gpt_j_residual;
    config_activation activation;
    bool bias_gelu_fusion; /* true: the tanh form of GELU, as in GPT-NeoX */
    bool use_bias_in_attn_linear;
    bool use_bias_in_mlp;
    config_attention attention_config;
    int64_t make_vocab_size_divisible_by;
    int64_t vocab_size;
    config_init init_method;
    config_init output_layer_init_method;
    double init_method_std;
    double hidden_dropout;
    double attention_dropout;

    /* parallel */
    int64_t pipe_parallel_size; /* after config_resolve: at least 1 */
    int64_t model_parallel_size;
    config_partition pipe_partition_method;
    config_pipe_schedule pipe_schedule;
    int64_t virtual_pipe_stages;
    bool sequence_parallel;
    bool checkpoint_activations;
    int64_t checkpoint_num_layers;
    int64_t threads; /* a rank; 0: cores divided by local ranks */
    struct {
        int64_t stage;
        bool reduce_scatter;
        bool allgather_partitions;
        int64_t reduce_bucket_size;    /* elements */
        int64_t allgather_bucket_size; /* elements */
        bool overlap_comm;
    } zero_optimization;

    /* optimizer and schedule */
    struct {
        config_optimizer type;
        struct {
            double lr;
            config_floats betas; /* always two */
            double eps;
        } params;
    } optimizer;
    double weight_decay;
    double gradient_clipping; /* 0: off */
    int64_t train_iters;      /* 0 with train_epochs, until the caller knows the data */
    int64_t train_epochs;
    int64_t lr_decay_iters; /* after config_resolve: set unless train_epochs leaves it open */
    double lr_decay_fraction;
    config_lr_style lr_decay_style;
    double min_lr;
    double warmup; /* fraction of lr_decay_iters */
    bool override_lr_scheduler;
    bool use_checkpoint_lr_scheduler;

    /* precision */
    config_precision precision;
    config_loss_scale fp16;
    struct {
        bool enabled;
    } bf16;
    struct {
        config_precision grad_accum_dtype; /* after config_resolve: fp32 unless given */
    } data_types;

    /* batch and data; the three sizes are all set after config_resolve */
    int64_t train_batch_size;
    int64_t train_micro_batch_size_per_gpu;
    int64_t gradient_accumulation_steps;
    const char *data_path;
    const char *split;
    config_strings train_data_paths, valid_data_paths, test_data_paths;
    config_floats train_data_weights, valid_data_weights, test_data_weights;
    bool weight_by_num_documents;
    double weighted_sampler_alpha;
    config_tokenizer tokenizer_type; /* counts only where vocab_file is given or it is char level */
    const char *vocab_file;
    const char *merge_file;
    bool eod_mask_loss;
    int64_t seed;
    int64_t eval_interval;
    int64_t eval_iters;

    /* checkpoints */
    const char *save;
    const char *load;
    bool load_if_present;
    int64_t iteration; /* with config_is_set(): the step to load */
    double checkpoint_factor;
    config_scale checkpoint_scale;
    config_ints extra_save_iters;
    int64_t keep_last_n_checkpoints; /* 0: all */
    bool no_save_optim;
    bool no_load_optim;
    bool finetune;
    int64_t exit_interval;

    /* reports */
    int64_t log_interval;
    const char *log_dir;
    const char *tensorboard_dir;
    bool metrics_csv;
    bool wall_clock_breakdown;
    double peak_theoretical_tflops;

    /* folding of messages */
    struct {
        config_scheme scheme;
        int64_t threshold; /* bytes */
        bool error_feedback;
        config_codec_rows data, zero, tensor, pipe;
    } comm_compression;

    /* set by config_resolve, no keys of their own */
    int64_t world_size;
    int64_t data_parallel_size;
} config;

/* A configuration with every default in place. The caller owns it. */
status config_create(config **out);
void config_destroy(config *c);

/* Read one YAML (or JSON) file on top of what is there. A key that an earlier file set is an error
 * that quotes both places, unless `later_wins`: then it is replaced (a map as a whole) and a remark
 * is kept. On failure the configuration is fit only for config_destroy(). */
status config_load_file(config *c, const char *path, bool later_wins);

/* The same for `bytes` bytes of text; `name` stands for the file in messages. */
status config_load_text(config *c, const char *name, const char *text, size_t bytes,
                        bool later_wins);

/* Apply one `key=value` of the command line: a dotted key in any spelling, the value read as YAML.
 * Replaces whatever is there; a map given as a value replaces the map as a whole. */
status config_set(config *c, const char *assignment);

/* Check the whole and derive what was left open, for a job of `world_size` ranks: the grid, the
 * batch sizes, the precision, the width of the MLP, the schedule. Pipelines, tensor ranks and ZeRO
 * stages resolve here whether or not the caller can run them. May be called again with another
 * size. */
status config_resolve(config *c, int world_size);

/* Whether a file or --set gave `key` (dotted, as in the table) a value other than null. */
bool config_is_set(const config *c, const char *key);

/* Record a configuration error about `key`, with the place that set it where there is one. */
status config_fail(const config *c, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the user should be told once: each override, and the keys that have no effect here (after
 * config_resolve). NULL past the last; lent. */
const char *config_remark(const config *c, size_t index);

/* Call `visit` for every setting in effect, in the order of the table: its dotted name, its value
 * as YAML, and where it came from ("FILE:LINE", "--set", "derived" or "default"). */
typedef void (*config_visitor)(void *context, const char *name, const char *value,
                               const char *source);
status config_list(const config *c, config_visitor visit, void *context);

/* The settings in effect as JSON in a fixed order and spelling: equal configurations give equal
 * texts, and the text loads again through config_load_text. The caller frees it with free(). */
status config_dump(const config *c, char **out);

/* The keys, types, defaults and meanings: for `trifold train --help`, and as Markdown for
 * docs/configuration.md. */
void config_print_help(FILE *out);
void config_print_markdown(FILE *out);

#endif
