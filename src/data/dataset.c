#include "data/dataset.h"

#include <inttypes.h>
#include <math.h>

#include "base/log.h"
#include "base/memory.h"
#include "data/blend.h"
#include "data/indexed_dataset.h"
#include "data/sample_order.h"

typedef struct dataset_set {
    indexed_dataset *source;
    sample_order *order;
    int64_t documents; // of the part
} dataset_set;

struct dataset {
    int64_t seq_length;
    int64_t count;
    size_t set_count;
    dataset_set *sets;
    blend *mix; // NULL where a split cuts one path
};

dataset_options dataset_options_defaults(void)
{
    return (dataset_options){.alpha = 1};
}

static status check_options(const dataset_options *o)
{
    const char *name = dataset_part_str(o->part);
    if (o->path_count == 0 || o->path_count > BLEND_SETS_MAX)
        return fail(STATUS_ERR_CONFIG, "%s: %zu data paths; 1 to %d would be right", name,
                    o->path_count, BLEND_SETS_MAX);
    if (o->split && o->path_count != 1)
        return fail(STATUS_ERR_CONFIG, "%s: a split cuts one data path; %zu are given", name,
                    o->path_count);
    if (o->weight_count != 0 && o->weight_count != o->path_count)
        return fail(STATUS_ERR_CONFIG, "%s: %zu weights for %zu data paths; one each is needed",
                    name, o->weight_count, o->path_count);
    if (o->seq_length < 1 || o->seq_length > INT32_MAX)
        return fail(STATUS_ERR_CONFIG, "%s: sequence length %" PRId64 "; 1 or more is needed", name,
                    o->seq_length);
    if (o->seed < 0 || o->seed > UINT32_MAX)
        return fail(STATUS_ERR_CONFIG, "%s: seed %" PRId64 "; 0 to 4294967295 would be right", name,
                    o->seed);
    if (o->wanted < 0)
        return fail(STATUS_ERR_CONFIG, "%s: %" PRId64 " samples wanted; 0 or more would be right",
                    name, o->wanted);
    return STATUS_OK;
}

static status too_small(const dataset_options *o, const char *path, int64_t documents,
                        int64_t tokens)
{
    const char *name = dataset_part_str(o->part);
    const char *advice =
        o->part == DATASET_TRAIN ? "give more text" : "give more text, or set eval-iters to 0";
    if (o->split)
        return fail(STATUS_ERR_CONFIG,
                    "%s: split \"%s\" of %s leaves it %" PRId64 " documents with %" PRId64
                    " tokens < %" PRId64 " (seq-length + 1); %s",
                    name, o->split, path, documents, tokens, o->seq_length + 1, advice);
    return fail(STATUS_ERR_CONFIG,
                "%s: %s has %" PRId64 " documents with %" PRId64 " tokens < %" PRId64
                " (seq-length + 1); %s",
                name, path, documents, tokens, o->seq_length + 1, advice);
}

// The order of one set, whose documents are cut by the split where there is one.
static status order_set(const dataset_options *o, const char *path, int64_t wanted,
                        dataset_set *set)
{
    int64_t bounds[DATASET_PARTS + 1];
    int64_t documents = indexed_dataset_documents(set->source);
    sample_order_options order = {
        .name = dataset_part_str(o->part),
        .end = documents,
        .seq_length = o->seq_length,
        .wanted = wanted,
        .seed = (uint32_t)o->seed,
    };
    if (o->split) {
        TRY(split_bounds(o->split, documents, bounds));
        order.first = bounds[o->part];
        order.end = bounds[o->part + 1];
    }
    int64_t tokens = indexed_dataset_tokens_in(set->source, order.first, order.end);
    set->documents = order.end - order.first;
    if (tokens <= o->seq_length)
        return too_small(o, path, set->documents, tokens);
    return sample_order_create(set->source, &order, &set->order);
}

static status weigh_sets(const dataset *ds, const dataset_options *o, double *weights)
{
    const char *name = dataset_part_str(o->part);
    double sum = 0;
    if (o->weight_by_num_documents) {
        void *memory = NULL;
        TRY(memory_alloc(ds->set_count, sizeof(int64_t), "counts of documents", &memory));
        int64_t *documents = memory;
        for (size_t i = 0; i < ds->set_count; i++)
            documents[i] = indexed_dataset_documents(ds->sets[i].source);
        status result = blend_weigh_documents(name, documents, ds->set_count, o->alpha, weights);
        memory_free(documents);
        TRY(result);
    } else {
        for (size_t i = 0; i < ds->set_count; i++)
            weights[i] = o->weight_count ? o->weights[i] : 1;
    }
    TRY(blend_normalize(name, weights, ds->set_count, &sum));
    if (o->weight_count && !o->weight_by_num_documents && fabs(sum - 1) > 1e-6)
        log_info("%s: the weights of the data paths sum to %g, taken as shares of it", name, sum);
    return STATUS_OK;
}

static status mix_sets(dataset *ds, const dataset_options *o, double *weights)
{
    TRY(weigh_sets(ds, o, weights));
    for (size_t i = 0; i < ds->set_count; i++) {
        int64_t wanted = 0;
        TRY(blend_wanted(dataset_part_str(o->part), o->wanted, weights[i], &wanted));
        TRY(order_set(o, o->paths[i], wanted, &ds->sets[i]));
        ds->count += sample_order_count(ds->sets[i].order);
    }
    return blend_create(weights, ds->set_count, ds->count, &ds->mix);
}

static status build(dataset *ds, const dataset_options *o)
{
    void *memory = NULL;
    TRY(memory_alloc(o->path_count, sizeof(dataset_set), "data sets", &memory));
    ds->sets = memory;
    ds->set_count = o->path_count;
    for (size_t i = 0; i < ds->set_count; i++)
        TRY(indexed_dataset_open(o->paths[i], o->vocab, &ds->sets[i].source));
    if (o->split) {
        TRY(order_set(o, o->paths[0], o->wanted, &ds->sets[0]));
        ds->count = sample_order_count(ds->sets[0].order);
        return STATUS_OK;
    }
    memory = NULL;
    TRY(memory_alloc(ds->set_count, sizeof(double), "weights", &memory));
    status result = mix_sets(ds, o, memory);
    memory_free(memory);
    return result;
}

status dataset_open(const dataset_options *options, dataset **out)
{
    void *memory = NULL;
    TRY(check_options(options));
    TRY(memory_alloc(1, sizeof(dataset), "data set", &memory));
    dataset *ds = memory;
    ds->seq_length = options->seq_length;
    status result = build(ds, options);
    if (result != STATUS_OK) {
        dataset_close(ds);
        return result;
    }
    *out = ds;
    return STATUS_OK;
}

void dataset_close(dataset *ds)
{
    if (!ds)
        return;
    blend_destroy(ds->mix);
    for (size_t i = 0; i < ds->set_count; i++) {
        sample_order_destroy(ds->sets[i].order);
        indexed_dataset_close(ds->sets[i].source);
    }
    memory_free(ds->sets);
    memory_free(ds);
}

int64_t dataset_count(const dataset *ds)
{
    return ds->count;
}

int64_t dataset_documents(const dataset *ds)
{
    int64_t documents = 0;
    for (size_t i = 0; i < ds->set_count; i++)
        documents += ds->sets[i].documents;
    return documents;
}

int64_t dataset_epochs(const dataset *ds)
{
    int64_t most = 0;
    for (size_t i = 0; i < ds->set_count; i++) {
        int64_t epochs = sample_order_epochs(ds->sets[i].order);
        most = epochs > most ? epochs : most;
    }
    return most;
}

uint64_t dataset_unused_bytes(const dataset *ds)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < ds->set_count; i++)
        bytes += indexed_dataset_unused_bytes(ds->sets[i].source);
    return bytes;
}

status dataset_sample(const dataset *ds, int64_t index, int32_t *tokens)
{
    size_t set = 0;
    index %= ds->count;
    if (ds->mix)
        blend_locate(ds->mix, index, &set, &index);
    return sample_order_read(ds->sets[set].order, index, tokens);
}

status dataset_batch(const dataset *ds, const batch_order *order, int64_t iteration,
                     int64_t micro_step, int64_t rank, int32_t *tokens)
{
    for (int64_t item = 0; item < order->micro_batch; item++) {
        int64_t index = batch_order_sample(order, iteration, micro_step, rank, item);
        TRY(dataset_sample(ds, index, tokens + item * (ds->seq_length + 1)));
    }
    return STATUS_OK;
}

void dataset_mask_eod(float *mask, const int32_t *inputs, size_t count, int32_t eod)
{
    for (size_t i = 0; i < count; i++)
        mask[i] = inputs[i] == eod ? 0.0f : 1.0f;
}
