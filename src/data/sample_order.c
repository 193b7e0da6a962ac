#include "data/sample_order.h"

#include <inttypes.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "data/indexed_format.h"
#include "data/random_state.h"

enum {
    START_STRIDE = 8, // of so many samples one start is kept; a walk leads to the others
    PREFETCH_PLACES = 32,
};

typedef struct sample_start {
    int64_t place;
    int64_t token;
} sample_start;

struct sample_order {
    const indexed_dataset *source;
    const indexed_index *index; // its sizes
    int64_t seq_length;
    int64_t epochs;
    int64_t samples;
    int64_t places;        // epochs * documents
    int32_t *documents;    // (places)
    sample_start *starts;  // (samples / START_STRIDE + 1)
    uint32_t *shuffle_u32; // (samples), or
    int64_t *shuffle_i64;  // where they are too many
};

// The least E with (E * tokens - 1) / seq >= wanted, and the samples N of so many epochs.
static bool count_samples(sample_order *order, int64_t documents, int64_t tokens, int64_t wanted)
{
    int64_t stream;
    if (__builtin_mul_overflow(wanted, order->seq_length, &stream))
        return false;
    order->epochs = stream / tokens + 1;
    if (__builtin_mul_overflow(order->epochs, tokens, &stream) ||
        __builtin_mul_overflow(order->epochs, documents, &order->places))
        return false;
    order->samples = (stream - 1) / order->seq_length;
    return true;
}

static bool needs_64_bits(const sample_order *order)
{
    // GPT-NeoX's own limit; the order is the same either way.
    return order->samples >= (int64_t)UINT32_MAX - 1;
}

static status check_memory(const sample_order *order, const sample_order_options *options)
{
    size_t shuffle = needs_64_bits(order) ? sizeof(int64_t) : sizeof(uint32_t);
    size_t documents, samples, starts, total;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t limit = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    bool fits =
        size_mul((size_t)order->places, sizeof(int32_t), &documents) &&
        size_mul((size_t)order->samples, shuffle, &samples) &&
        size_mul((size_t)order->samples / START_STRIDE + 1, sizeof(sample_start), &starts) &&
        size_add(documents, samples, &total) && size_add(total, starts, &total) && total <= limit;
    if (!fits)
        return fail(STATUS_ERR_CONFIG,
                    "%s: %" PRId64 " samples take %" PRId64 " epochs of %" PRId64
                    " documents, whose order does not fit the %zu bytes of this machine; ask for "
                    "fewer iterations, or give more data",
                    options->name, options->wanted, order->epochs, options->end - options->first,
                    limit);
    return STATUS_OK;
}

static status allocate(sample_order *order, const sample_order_options *options)
{
    void *documents = NULL, *starts = NULL, *shuffle = NULL;
    size_t samples = (size_t)order->samples;
    TRY(check_memory(order, options));
    TRY(memory_alloc((size_t)order->places, sizeof(int32_t), "order of documents", &documents));
    order->documents = documents;
    TRY(memory_alloc(samples / START_STRIDE + 1, sizeof(sample_start), "starts of samples",
                     &starts));
    order->starts = starts;
    if (needs_64_bits(order)) {
        TRY(memory_alloc(samples, sizeof(int64_t), "order of samples", &shuffle));
        order->shuffle_i64 = shuffle;
    } else {
        TRY(memory_alloc(samples, sizeof(uint32_t), "order of samples", &shuffle));
        order->shuffle_u32 = shuffle;
    }
    return STATUS_OK;
}

static void shuffle_documents(sample_order *order, random_state *rng, int64_t first, int64_t end)
{
    int64_t place = 0;
    for (int64_t epoch = 0; epoch < order->epochs; epoch++)
        for (int64_t d = first; d < end; d++)
            order->documents[place++] = (int32_t)d;
    random_state_shuffle_i32(rng, order->documents, (size_t)order->places);
}

static void shuffle_samples(sample_order *order, random_state *rng)
{
    size_t samples = (size_t)order->samples;
    if (order->shuffle_i64) {
        for (size_t i = 0; i < samples; i++)
            order->shuffle_i64[i] = (int64_t)i;
        random_state_shuffle_i64(rng, order->shuffle_i64, samples);
        return;
    }
    for (size_t i = 0; i < samples; i++)
        order->shuffle_u32[i] = (uint32_t)i;
    random_state_shuffle_u32(rng, order->shuffle_u32, samples);
}

static int64_t place_size(const sample_order *order, int64_t place)
{
    return indexed_index_size(order->index, (uint64_t)order->documents[place]);
}

// One pass over the stream. The sizes lie scattered, so they are asked for some places ahead.
static void find_starts(sample_order *order)
{
    int64_t step = START_STRIDE * order->seq_length, last = order->samples / START_STRIDE;
    int64_t begin = 0, i = 0;
    for (int64_t place = 0; place < order->places && i <= last; place++) {
        if (place + PREFETCH_PLACES < order->places)
            __builtin_prefetch(order->index->sizes +
                               4 * (size_t)order->documents[place + PREFETCH_PLACES]);
        int64_t end = begin + place_size(order, place);
        for (; i <= last && i * step < end; i++)
            order->starts[i] = (sample_start){place, i * step - begin};
        begin = end;
    }
}

static status build(sample_order *order, const sample_order_options *options)
{
    random_state rng;
    int64_t documents = options->end - options->first;
    int64_t tokens = indexed_dataset_tokens_in(order->source, options->first, options->end);
    if (!count_samples(order, documents, tokens, options->wanted))
        return fail(STATUS_ERR_CONFIG,
                    "%s: %" PRId64 " samples of %" PRId64
                    " tokens are more than 64 bits count; ask for fewer iterations",
                    options->name, options->wanted, options->seq_length);
    if (options->end > (int64_t)INT32_MAX + 1)
        return fail(STATUS_ERR_UNSUPPORTED,
                    "%s: document %" PRId64 " is past 2^31; split the data into several sets",
                    options->name, options->end - 1);
    TRY(allocate(order, options));
    // One generator makes both shuffles, documents first.
    random_state_seed(&rng, options->seed);
    shuffle_documents(order, &rng, options->first, options->end);
    find_starts(order);
    shuffle_samples(order, &rng);
    return STATUS_OK;
}

status sample_order_create(const indexed_dataset *source, const sample_order_options *options,
                           sample_order **out)
{
    void *memory = NULL;
    TRY(memory_alloc(1, sizeof(sample_order), "order of samples", &memory));
    sample_order *order = memory;
    order->source = source;
    order->index = indexed_dataset_index(source);
    order->seq_length = options->seq_length;
    status result = build(order, options);
    if (result != STATUS_OK) {
        sample_order_destroy(order);
        return result;
    }
    *out = order;
    return STATUS_OK;
}

void sample_order_destroy(sample_order *order)
{
    if (!order)
        return;
    memory_free(order->shuffle_i64);
    memory_free(order->shuffle_u32);
    memory_free(order->starts);
    memory_free(order->documents);
    memory_free(order);
}

int64_t sample_order_count(const sample_order *order)
{
    return order->samples > 1 ? order->samples - 1 : 1;
}

int64_t sample_order_epochs(const sample_order *order)
{
    return order->epochs;
}

int64_t sample_order_samples(const sample_order *order)
{
    return order->samples;
}

int64_t sample_order_document(const sample_order *order, int64_t place)
{
    return order->documents[place];
}

void sample_order_locate(const sample_order *order, int64_t sample, int64_t *place, int64_t *token)
{
    sample_start at = order->starts[sample / START_STRIDE];
    at.token += sample % START_STRIDE * order->seq_length;
    for (int64_t size; at.token >= (size = place_size(order, at.place)); at.place++)
        at.token -= size;
    *place = at.place;
    *token = at.token;
}

int64_t sample_order_shuffled(const sample_order *order, int64_t index)
{
    return order->shuffle_i64 ? order->shuffle_i64[index] : (int64_t)order->shuffle_u32[index];
}

status sample_order_read(const sample_order *order, int64_t index, int32_t *tokens)
{
    int64_t place, token;
    int64_t left = order->seq_length + 1;
    sample_order_locate(order, sample_order_shuffled(order, index % sample_order_count(order)),
                        &place, &token);
    // The stream has seq + 1 tokens from every start on: N is counted so.
    while (left > 0) {
        int64_t count = place_size(order, place) - token;
        if (count > left)
            count = left;
        TRY(indexed_dataset_read(order->source, order->documents[place], token, count, tokens));
        tokens += count;
        left -= count;
        token = 0;
        place++;
    }
    return STATUS_OK;
}
