#include "train/run_plan.h"

#include "base/memory.h"
#include "base/sizes.h"
#include "parallel/pipe_partition.h"

static dtype model_type(config_precision precision)
{
    switch (precision) {
    case CONFIG_PRECISION_FP32:
        return DTYPE_F32;
    case CONFIG_PRECISION_FP16:
        return DTYPE_F16;
    case CONFIG_PRECISION_BF16:
        return DTYPE_BF16;
    }
    return DTYPE_F32;
}

static init_method init_of(config_init init)
{
    switch (init) {
    case CONFIG_INIT_NORMAL:
        return INIT_NORMAL;
    case CONFIG_INIT_SCALED_NORMAL:
        return INIT_SCALED_NORMAL;
    case CONFIG_INIT_SINGLE_RESIDUAL_SCALED_NORMAL:
        return INIT_SINGLE_RESIDUAL_SCALED;
    case CONFIG_INIT_SMALL:
        return INIT_SMALL;
    case CONFIG_INIT_WANG:
        return INIT_WANG;
    case CONFIG_INIT_XAVIER_UNIFORM:
        return INIT_XAVIER_UNIFORM;
    case CONFIG_INIT_XAVIER_NORMAL:
        return INIT_XAVIER_NORMAL;
    }
    return INIT_NORMAL;
}

static position_kind position_of(config_pos_emb position)
{
    switch (position) {
    case CONFIG_POS_EMB_ROTARY:
        return POSITION_ROTARY;
    case CONFIG_POS_EMB_LEARNED:
        return POSITION_LEARNED;
    case CONFIG_POS_EMB_NONE:
        return POSITION_NONE;
    }
    return POSITION_NONE;
}

static lr_style style_of(config_lr_style style)
{
    switch (style) {
    case CONFIG_LR_CONSTANT:
        return LR_CONSTANT;
    case CONFIG_LR_LINEAR:
        return LR_LINEAR;
    case CONFIG_LR_COSINE:
        return LR_COSINE;
    case CONFIG_LR_EXPONENTIAL:
        return LR_EXPONENTIAL;
    }
    return LR_CONSTANT;
}

static model_shape shape_of(const config *c, size_t vocab)
{
    const bool rms = c->norm == CONFIG_NORM_RMSNORM;
    const bool rotary = c->pos_emb == CONFIG_POS_EMB_ROTARY;
    const double head_dim = (double)(c->hidden_size / c->num_attention_heads);
    return (model_shape){
        .n_layers = (size_t)c->num_layers,
        .hidden = (size_t)c->hidden_size,
        .n_heads = (size_t)c->num_attention_heads,
        .ffn = (size_t)c->intermediate_size,
        .vocab = vocab,
        .max_positions = (size_t)c->max_position_embeddings,
        .position = position_of(c->pos_emb),
        .rotary_dims = rotary ? (size_t)(head_dim * c->rotary_pct) : 0,
        .rotary_base = c->rotary_emb_base,
        .norm = rms ? NORM_RMSNORM : NORM_LAYERNORM,
        .norm_epsilon = (float)(rms ? c->rms_norm_epsilon : c->layernorm_epsilon),
        .gelu = c->bias_gelu_fusion ? GELU_TANH : GELU_ERF,
        .parallel_residual = c->gpt_j_residual,
        .tied = !c->no_weight_tying,
        .attention_bias = c->use_bias_in_attn_linear,
        .mlp_bias = c->use_bias_in_mlp,
    };
}

static loss_scaler scaler_of(const config *c)
{
    if (c->precision != CONFIG_PRECISION_FP16)
        return loss_scaler_none();
    const config_loss_scale *s = &c->fp16;
    if (s->loss_scale > 0) {
        loss_scaler constant = loss_scaler_none();
        constant.scale = s->loss_scale;
        return constant;
    }
    double scale = 1;
    for (int64_t i = 0; i < s->initial_scale_power; i++)
        scale *= 2;
    return (loss_scaler){.dynamic = true,
                         .scale = scale,
                         .minimum = s->min_loss_scale,
                         .window = s->loss_scale_window,
                         .hysteresis = s->hysteresis,
                         .refill_always = s->consecutive_hysteresis,
                         .credit = s->hysteresis};
}

static model_options model_options_of(const config *c, size_t vocab)
{
    return (model_options){
        .shape = shape_of(c, vocab),
        .batch = (size_t)c->train_micro_batch_size_per_gpu,
        .tokens = (size_t)c->seq_length,
        .type = model_type(c->precision),
        .hidden_dropout = (float)c->hidden_dropout,
        .attention_dropout = (float)c->attention_dropout,
        .seed = (uint64_t)c->seed,
        .checkpoint_layers = c->checkpoint_activations ? (size_t)c->checkpoint_num_layers : 0,
        .sets = 1,
        .sequence_parallel = c->sequence_parallel,
        .training = true,
    };
}

// One stage has nothing to put in order.
static pipe_shape pipe_of(const config *c)
{
    static const pipe_kind kinds[] = {[CONFIG_PIPE_GPIPE] = PIPE_GPIPE,
                                      [CONFIG_PIPE_1F1B] = PIPE_1F1B,
                                      [CONFIG_PIPE_INTERLEAVED] = PIPE_INTERLEAVED,
                                      [CONFIG_PIPE_ZERO_BUBBLE] = PIPE_ZERO_BUBBLE};
    const pipe_kind kind = kinds[c->pipe_schedule];
    const bool one = c->pipe_parallel_size == 1 && kind != PIPE_INTERLEAVED;
    return (pipe_shape){.kind = one ? PIPE_1F1B : kind,
                        .stages = (int)c->pipe_parallel_size,
                        .chunks = (int)c->virtual_pipe_stages,
                        .micro_batches = (int)c->gradient_accumulation_steps};
}

status run_plan_make(const config *c, size_t vocab, run_plan *plan)
{
    const size_t unit = (size_t)(c->make_vocab_size_divisible_by * c->model_parallel_size);
    *plan = (run_plan){
        .grid = {.pipe = (int)c->pipe_parallel_size,
                 .data = (int)c->data_parallel_size,
                 .tensor = (int)c->model_parallel_size},
        .pipe = pipe_of(c),
        .partition = c->pipe_partition_method,
        .model = model_options_of(c, vocab),
        .init = {.weights = init_of(c->init_method),
                 .output = init_of(c->output_layer_init_method),
                 .std = c->init_method_std},
        .padded_vocab = size_round_up(vocab, unit),
        .optimizer = {.beta1 = (float)c->optimizer.params.betas.items[0],
                      .beta2 = (float)c->optimizer.params.betas.items[1],
                      .epsilon = (float)c->optimizer.params.eps,
                      .weight_decay = (float)c->weight_decay,
                      .type = model_type(c->precision)},
        .schedule = {.style = style_of(c->lr_decay_style),
                     .lr = c->optimizer.params.lr,
                     .min_lr = c->min_lr,
                     .warmup = c->warmup,
                     .decay_iters = c->lr_decay_iters},
        .scaler = scaler_of(c),
        .clip = c->gradient_clipping,
        .accumulation = c->gradient_accumulation_steps,
        .data_ranks = c->data_parallel_size,
        .global_batch = c->train_batch_size,
        .tokens_per_iteration = c->train_batch_size * c->seq_length,
    };
    TRY(pipe_shape_check(&plan->pipe));
    return model_shape_check(&plan->model.shape);
}

// What a layer weighs when layers are dealt out. Ends weigh more where embedding and head count:
// `uniform` counts them as GPT-NeoX's list of layers does, two entries before and three behind.
static status layer_weights(const run_plan *plan, size_t *weights)
{
    const model_shape *shape = &plan->model.shape;
    const size_t last = shape->n_layers - 1;
    const size_t hidden = shape->hidden;
    const size_t a_layer = 4 * hidden * hidden + 2 * hidden * shape->ffn;
    const size_t vocabulary = shape->vocab * hidden;
    const bool parameters = plan->partition == CONFIG_PARTITION_PARAMETERS;
    for (size_t i = 0; i <= last; i++)
        weights[i] = parameters ? a_layer : 1;
    if (plan->partition == CONFIG_PARTITION_TRANSFORMER)
        return STATUS_OK;
    weights[0] += parameters ? vocabulary : 2;
    weights[last] += parameters ? vocabulary : 3;
    return STATUS_OK;
}

static status deal_layers(const run_plan *plan, size_t parts, size_t *bounds)
{
    const size_t layers = plan->model.shape.n_layers;
    void *memory;
    TRY(memory_alloc(layers, sizeof(size_t), "layers", &memory));
    size_t *weights = memory;
    status result = layer_weights(plan, weights);
    if (result == STATUS_OK)
        result = pipe_partition(weights, layers, parts, bounds);
    memory_free(weights);
    return result;
}

static status sets_of(const run_plan *plan, int stage, size_t *sets)
{
    pipe_schedule schedule;
    // Without training only what travels needs a set of its own.
    *sets = 2;
    if (!plan->model.training)
        return STATUS_OK;
    TRY(pipe_schedule_create(&plan->pipe, stage, &schedule));
    *sets = (size_t)schedule.slots;
    pipe_schedule_destroy(&schedule);
    return STATUS_OK;
}

status run_plan_parts(const run_plan *plan, grid_place place, model_options *parts)
{
    const size_t stages = (size_t)plan->pipe.stages, chunks = (size_t)plan->pipe.chunks;
    const size_t total = stages * chunks;
    size_t sets, unit = 0;
    void *memory;
    TRY(sets_of(plan, place.pipe, &sets));
    TRY(memory_alloc(total + 1, sizeof(size_t), "layers", &memory));
    size_t *bounds = memory;
    const status result = deal_layers(plan, total, bounds);
    for (size_t c = 0; c < chunks && result == STATUS_OK; c++) {
        const size_t v = c * stages + (size_t)place.pipe;
        parts[c] = plan->model;
        parts[c].sets = sets;
        parts[c].split_backward = plan->pipe.kind == PIPE_ZERO_BUBBLE && plan->model.training;
        parts[c].part = (model_part){.tensor_rank = (size_t)place.tensor,
                                     .tensor_size = (size_t)plan->grid.tensor,
                                     .first_layer = bounds[v],
                                     .end_layer = bounds[v + 1],
                                     .embedding = v == 0,
                                     .head = v + 1 == total,
                                     .first_unit = unit};
        unit += model_part_units(&parts[c].part);
    }
    memory_free(bounds);
    return result;
}

status run_plan_table(const run_plan *plan, grid_place place, tensor_table *table)
{
    void *memory;
    tensor_table_init(table);
    TRY(memory_alloc((size_t)plan->pipe.chunks, sizeof(model_options), "model", &memory));
    model_options *parts = memory;
    status result = run_plan_parts(plan, place, parts);
    for (int c = 0; c < plan->pipe.chunks && result == STATUS_OK; c++)
        result = model_shape_tensors(&plan->model.shape, &plan->init, &parts[c].part, table);
    memory_free(parts);
    return result;
}
