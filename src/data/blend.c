#include "data/blend.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/sizes.h"

enum { COUNT_STRIDE = 4096 };

struct blend {
    size_t sets;
    uint16_t *set_of; // (samples)
    int64_t *served;  // (samples / COUNT_STRIDE + 1, sets): before that sample
};

static double sum_in_order(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum;
}

static void scale_to_one(double *values, size_t count, double sum)
{
    for (size_t i = 0; i < count; i++)
        values[i] /= sum;
}

// numpy.sum() of contiguous doubles: eight running sums, and halves where there are more than 128.
static double sum_as_numpy(const double *values, size_t count)
{
    if (count < 8)
        return sum_in_order(values, count);
    if (count > 128) {
        size_t half = count / 2 - count / 2 % 8;
        return sum_as_numpy(values, half) + sum_as_numpy(values + half, count - half);
    }
    double r[8];
    size_t i = 8;
    memcpy(r, values, sizeof r);
    for (; i + 8 <= count; i += 8)
        for (size_t k = 0; k < 8; k++)
            r[k] += values[i + k];
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < count; i++)
        sum += values[i];
    return sum;
}

status blend_normalize(const char *name, double *weights, size_t sets, double *sum)
{
    for (size_t i = 0; i < sets; i++)
        if (!isfinite(weights[i]) || weights[i] < 0)
            return fail(STATUS_ERR_CONFIG, "%s: weight %zu is %g; 0 or more would be right", name,
                        i + 1, weights[i]);
    *sum = sum_in_order(weights, sets);
    if (!(*sum > 0) || !isfinite(*sum))
        return fail(STATUS_ERR_CONFIG, "%s: the weights sum to %g; more than 0 is needed", name,
                    *sum);
    scale_to_one(weights, sets, *sum);
    return STATUS_OK;
}

status blend_weigh_documents(const char *name, const int64_t *documents, size_t sets, double alpha,
                             double *weights)
{
    int64_t total = 0;
    double sum = 0;
    for (size_t i = 0; i < sets; i++)
        total += documents[i];
    if (total == 0)
        return fail(STATUS_ERR_CONFIG, "%s: no documents in any of %zu sets; give some text", name,
                    sets);
    if (sets == 1) {
        weights[0] = 1;
        return STATUS_OK;
    }
    for (size_t i = 0; i < sets; i++)
        weights[i] = pow((double)documents[i] / (double)total, alpha);
    scale_to_one(weights, sets, sum_in_order(weights, sets));
    for (size_t i = 0; i < sets; i++)
        weights[i] *= 1 - (double)documents[i] / (double)total;
    return blend_normalize(name, weights, sets, &sum);
}

status blend_wanted(const char *name, int64_t wanted, double weight, int64_t *out)
{
    double samples = ceil((double)wanted * weight * 1.005);
    if (!(samples < 0x1p62))
        return fail(STATUS_ERR_CONFIG, "%s: %" PRId64 " samples are too many; ask for fewer", name,
                    wanted);
    *out = (int64_t)samples;
    return STATUS_OK;
}

static void choose(blend *b, const double *weights, int64_t samples, int64_t *served)
{
    for (int64_t i = 0; i < samples; i++) {
        double position = i > 0 ? (double)i : 1;
        size_t best = 0;
        double best_lack = weights[0] * position - (double)served[0];
        for (size_t k = 1; k < b->sets; k++) {
            double lack = weights[k] * position - (double)served[k];
            if (lack > best_lack) {
                best_lack = lack;
                best = k;
            }
        }
        if (i % COUNT_STRIDE == 0)
            memcpy(b->served + (size_t)(i / COUNT_STRIDE) * b->sets, served,
                   b->sets * sizeof served[0]);
        b->set_of[i] = (uint16_t)best;
        served[best]++;
    }
}

static status build(blend *b, const double *weights, int64_t samples)
{
    void *set_of = NULL, *served = NULL, *work = NULL;
    size_t rows = (size_t)samples / COUNT_STRIDE + 1, counts;
    if (!size_mul(rows, b->sets, &counts))
        return fail(STATUS_ERR_MEMORY, "blend: %" PRId64 " samples of %zu sets are too many",
                    samples, b->sets);
    TRY(memory_alloc((size_t)samples, sizeof(uint16_t), "blend", &set_of));
    b->set_of = set_of;
    TRY(memory_alloc(counts, sizeof(int64_t), "blend", &served));
    b->served = served;
    TRY(memory_alloc(b->sets, sizeof(int64_t) + sizeof(double), "blend", &work));
    int64_t *running = work;
    double *scaled = (double *)(running + b->sets);
    memcpy(scaled, weights, b->sets * sizeof weights[0]);
    scale_to_one(scaled, b->sets, sum_as_numpy(weights, b->sets));
    choose(b, scaled, samples, running);
    memory_free(work);
    return STATUS_OK;
}

status blend_create(const double *weights, size_t sets, int64_t samples, blend **out)
{
    void *memory = NULL;
    TRY(memory_alloc(1, sizeof(blend), "blend", &memory));
    blend *b = memory;
    b->sets = sets;
    status result = build(b, weights, samples);
    if (result != STATUS_OK) {
        blend_destroy(b);
        return result;
    }
    *out = b;
    return STATUS_OK;
}

void blend_destroy(blend *b)
{
    if (!b)
        return;
    memory_free(b->served);
    memory_free(b->set_of);
    memory_free(b);
}

void blend_locate(const blend *b, int64_t index, size_t *set, int64_t *sample)
{
    uint16_t chosen = b->set_of[index];
    int64_t served = b->served[(size_t)(index / COUNT_STRIDE) * b->sets + chosen];
    for (int64_t i = index - index % COUNT_STRIDE; i < index; i++)
        served += b->set_of[i] == chosen;
    *set = chosen;
    *sample = served;
}
