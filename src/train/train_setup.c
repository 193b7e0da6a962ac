// Everything before the first iteration: checks, description, memory, data, weights.
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "data/tokenizer.h"
#include "train/train_internal.h"

// What this version does not run, by name, though it is read and described.
static status check_supported(const config *c)
{
    if (c->train_epochs > 0)
        return config_fail(c, "train_epochs",
                           "train_epochs is not available in this version; set train_iters");
    if (c->zero_optimization.stage > 0)
        return config_fail(c, "zero_optimization.stage",
                           "zero stage %lld is not available in this version; 0 is",
                           (long long)c->zero_optimization.stage);
    return STATUS_OK;
}

static status vocabulary_of_tokenizer(const config *c, size_t *vocab, int32_t *eod)
{
    tokenizer *tok;
    const tokenizer_options options = {.kind = (tokenizer_kind)c->tokenizer_type,
                                       .vocab_file = c->vocab_file,
                                       .merges_file = c->merge_file};
    TRY(tokenizer_open(&options, &tok));
    *vocab = tokenizer_vocab_size(tok);
    *eod = tokenizer_eod(tok);
    tokenizer_close(tok);
    return STATUS_OK;
}

static status vocabulary_of_checkpoint(const config *c, size_t *vocab)
{
    char *path = NULL;
    checkpoint_state state;
    if (!c->load)
        return fail(STATUS_ERR_CONFIG, "the size of the vocabulary is not known; name a tokenizer "
                                       "with vocab-file, or set vocab-size");
    TRY(checkpoint_find(c->load, &path));
    const status result = checkpoint_load_state(path, &state);
    if (result == STATUS_OK)
        *vocab = state.shape.vocab;
    free(path);
    return result;
}

status train_vocabulary(const config *c, size_t *vocab, int32_t *eod)
{
    *eod = -1;
    if (c->vocab_size > 0)
        *vocab = (size_t)c->vocab_size;
    const bool char_level = c->tokenizer_type == CONFIG_TOKENIZER_CHAR_LEVEL;
    if (c->vocab_file || char_level) {
        size_t size;
        TRY(vocabulary_of_tokenizer(c, &size, eod));
        if (c->vocab_size > 0 && size != (size_t)c->vocab_size)
            return config_fail(c, "vocab_size",
                               "vocab_size is %lld, but the tokenizer has %zu tokens",
                               (long long)c->vocab_size, size);
        *vocab = size;
        return STATUS_OK;
    }
    return c->vocab_size > 0 ? STATUS_OK : vocabulary_of_checkpoint(c, vocab);
}

static status open_part(train_state *t, dataset_part part, const config_strings *paths,
                        const config_floats *weights, int64_t wanted)
{
    const config *c = t->config;
    dataset_options o = dataset_options_defaults();
    o.part = part;
    o.seq_length = c->seq_length;
    o.seed = c->seed;
    o.wanted = wanted;
    o.vocab = (int64_t)t->plan.model.shape.vocab;
    if (c->data_path) {
        o.paths = &c->data_path;
        o.path_count = 1;
        o.split = c->split;
    } else {
        o.paths = paths->items;
        o.path_count = paths->count;
        o.weights = weights->items;
        o.weight_count = weights->count;
        o.weight_by_num_documents = c->weight_by_num_documents;
        o.alpha = c->weighted_sampler_alpha;
    }
    TRY(dataset_open(&o, &t->parts[part]));
    log_info("%s data: %lld samples of %lld documents, %lld epoch%s", dataset_part_str(part),
             (long long)dataset_count(t->parts[part]), (long long)dataset_documents(t->parts[part]),
             (long long)dataset_epochs(t->parts[part]),
             dataset_epochs(t->parts[part]) == 1 ? "" : "s");
    if (dataset_unused_bytes(t->parts[part]) > 0)
        log_info("warning: %llu bytes of the %s data belong to no document; is its index whole?",
                 (unsigned long long)dataset_unused_bytes(t->parts[part]), dataset_part_str(part));
    return STATUS_OK;
}

// Whether the run reads a part: training always; validation wherever it is to be evaluated, and
// then a part without documents is an error; test where there is one.
static bool is_needed(const train_state *t, dataset_part part, const config_strings *paths)
{
    const config *c = t->config;
    if (t->evaluating)
        return part == t->only_part;
    if (part == DATASET_TRAIN || c->eval_iters == 0)
        return part == DATASET_TRAIN;
    return c->data_path || paths->count > 0;
}

static status open_data(train_state *t, bool dry_run)
{
    const config *c = t->config;
    const config_strings *paths[DATASET_PARTS] = {&c->train_data_paths, &c->valid_data_paths,
                                                  &c->test_data_paths};
    const config_floats *weights[DATASET_PARTS] = {&c->train_data_weights, &c->valid_data_weights,
                                                   &c->test_data_weights};
    if (!c->data_path && c->train_data_paths.count == 0)
        return fail(STATUS_ERR_CONFIG,
                    "no data is named; set data-path, or train-data-paths and the like");
    if (t->evaluating && c->eval_iters == 0)
        return config_fail(c, "eval_iters", "eval_iters is 0, so there is nothing to evaluate");
    for (int i = 0; i < DATASET_PARTS; i++) {
        const dataset_part part = (dataset_part)i;
        int64_t wanted;
        if (!is_needed(t, part, paths[i]))
            continue;
        TRY(split_samples_wanted(part, t->train_iters, c->eval_interval, c->eval_iters,
                                 t->plan.global_batch, &wanted));
        // A dry run checks that the part can be read; the order of all samples may take minutes.
        if (dry_run && wanted > t->plan.global_batch)
            wanted = t->plan.global_batch;
        const status result = open_part(t, part, paths[i], weights[i], wanted);
        // GPT-NeoX's usual split leaves small sets without a test part; it goes without, and so do
        // we, but say it.
        const bool optional = part == DATASET_TEST && c->data_path && !t->evaluating;
        if (result == STATUS_ERR_CONFIG && optional) {
            log_info("note: no test part: %s", error_message());
            error_clear();
            continue;
        }
        TRY(result);
    }
    return STATUS_OK;
}

static status create_device(train_state *t, const train_options *options)
{
    const device_options o = {.backend = options->device,
                              .threads = (int)t->config->threads,
                              .local_ranks = comm_local_size(t->comm)};
    TRY(device_create(&o, &t->device));
    return device_stream_create(t->device, &t->stream);
}

static status create_reports(train_state *t)
{
    const size_t ranks = (size_t)comm_world_size(t->comm);
    void *memory;
    TRY(memory_alloc(ranks, sizeof(rank_report), "reports", &memory));
    t->reports = memory;
    TRY(memory_alloc(ranks, sizeof(size_t), "reports", &memory));
    t->report_counts = memory;
    TRY(memory_alloc(ranks, sizeof(double), "reports", &memory));
    t->square_sums = memory;
    TRY(memory_alloc(ranks, sizeof(size_t), "reports", &memory));
    t->square_counts = memory;
    for (size_t r = 0; r < ranks; r++) {
        t->report_counts[r] = sizeof(rank_report);
        t->square_counts[r] = sizeof(double);
    }
    return STATUS_OK;
}

static status create_buckets(train_state *t)
{
    void *memory;
    TRY(memory_alloc(t->table.count, sizeof(size_t), "gradient buckets", &memory));
    size_t *offsets = memory;
    for (size_t i = 0; i < t->table.count; i++)
        offsets[i] = t->table.tensors[i].offset;
    // GPT-NeoX's usual bucket holds a whole model, which would leave nothing to overlap.
    const size_t asked = (size_t)t->config->zero_optimization.reduce_bucket_size;
    const size_t bucket = size_min(size_max(asked, 1), GRAD_BUCKET_ELEMENTS_DEFAULT);
    const status result = grad_buckets_create(t->grid.data, t->grads, offsets, t->table.count,
                                              t->table.elements, bucket, &t->buckets);
    memory_free(offsets);
    return result;
}

static status gradient_ready(void *context, device_stream *s, size_t index)
{
    TRY(device_stream_synchronize(s)); // the message reads what the device wrote
    return grad_buckets_ready(context, index);
}

static status create_pipeline(train_state *t)
{
    const pipeline_options options = {.shape = t->plan.pipe,
                                      .stage = t->grid.place.pipe,
                                      .parts = t->chunks,
                                      .table = &t->table,
                                      .tensor = t->grid.tensor,
                                      .forward = t->grid.pipe,
                                      .backward = t->grid.pipe_back};
    return pipeline_create(t->device, &options, &t->pipeline);
}

static status place_tensors(train_state *t)
{
    void *memory;
    TRY(memory_alloc(t->table.count, sizeof(void *), "parameters", &memory));
    t->params = memory;
    TRY(memory_alloc(t->table.count, sizeof(void *), "gradients", &memory));
    t->gradients = memory;
    tensor_table_places(&t->table, optimizer_params(t->optimizer), dtype_size(t->plan.model.type),
                        t->params);
    tensor_table_places(&t->table, t->grads, sizeof(float), t->gradients);
    t->storage = (model_storage){.params = (const void *const *)t->params,
                                 .gradients = (float *const *)t->gradients,
                                 .context = t->buckets,
                                 .ready = gradient_ready};
    return STATUS_OK;
}

static status allocate(train_state *t)
{
    void *memory;
    TRY(optimizer_create(t->device, &t->table, &t->plan.optimizer, &t->optimizer));
    TRY(device_malloc(t->device, t->table.elements * sizeof(float), "gradients", &memory));
    t->grads = memory;
    TRY(create_pipeline(t));
    TRY(batch_create(t));
    TRY(create_reports(t));
    TRY(create_buckets(t));
    return place_tensors(t);
}

static status open_metrics(train_state *t)
{
    const config *c = t->config;
    if (comm_world_rank(t->comm) != 0 || t->evaluating)
        return STATUS_OK;
    const metrics_options options = {.log_dir = c->log_dir,
                                     .csv = c->metrics_csv,
                                     .tensorboard_dir = c->tensorboard_dir,
                                     .log_interval = c->log_interval,
                                     .iteration = t->iteration,
                                     .distributed = comm_world_size(t->comm) > 1,
                                     .scaled = c->precision == CONFIG_PRECISION_FP16};
    return metrics_create(&options, &t->metrics);
}

// What each rank does for itself.
static status prepare(train_state *t, const train_options *options)
{
    size_t vocab = 0;
    const config *c = t->config;
    t->train_iters = c->train_iters;
    TRY(train_vocabulary(c, &vocab, &t->eod));
    if (c->eod_mask_loss && t->eod < 0)
        return config_fail(c, "eod_mask_loss",
                           "eod_mask_loss needs a tokenizer with an end-of-document token");
    TRY(run_plan_make(c, vocab, &t->plan));
    t->scaler = t->plan.scaler;
    t->plan.model.training = !t->evaluating;
    const grid_place place = grid_place_of(&t->plan.grid, comm_world_rank(t->comm));
    const model_part whole = model_part_whole(&t->plan.model.shape);
    void *memory;
    TRY(memory_alloc((size_t)t->plan.pipe.chunks, sizeof(model_options), "model", &memory));
    t->chunks = memory;
    TRY(run_plan_parts(&t->plan, place, t->chunks));
    TRY(model_shape_tensors(&t->plan.model.shape, &t->plan.init, &whole, &t->whole));
    TRY(run_plan_table(&t->plan, place, &t->table));
    TRY(create_device(t, options));
    TRY(train_describe(t, options));
    if (!options->dry_run)
        TRY(check_supported(c));
    return open_data(t, options->dry_run);
}

status train_setup(train_state *t, const train_options *options)
{
    TRY(comm_agree(t->comm, prepare(t, options)));
    if (options->dry_run)
        return STATUS_OK;
    TRY(grid_create(t->comm, &t->plan.grid, &t->grid));
    TRY(allocate(t));
    TRY(train_load(t));
    return open_metrics(t);
}

void train_teardown(train_state *t)
{
    metrics_destroy(t->metrics);
    grad_buckets_destroy(t->buckets);
    memory_free(t->reports);
    memory_free(t->report_counts);
    memory_free(t->square_sums);
    memory_free(t->square_counts);
    memory_free(t->params);
    memory_free(t->gradients);
    if (t->device)
        batch_destroy(t);
    pipeline_destroy(t->pipeline);
    memory_free(t->chunks);
    if (t->grads)
        device_free(t->device, t->grads);
    optimizer_destroy(t->optimizer);
    for (int part = 0; part < DATASET_PARTS; part++)
        dataset_close(t->parts[part]);
    grid_destroy(&t->grid);
    device_stream_destroy(t->stream);
    device_destroy(t->device);
    tensor_table_fini(&t->table);
    tensor_table_fini(&t->whole);
}
