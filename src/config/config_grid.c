// The grid of ranks and the batch sizes that follow from it.
#include "config/config_schema.h"

#include <string.h>

// Append to a list in words: "1, 2, 3".
static void list_add(char *text, size_t bytes, long long value)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%lld", used ? ", " : "", value);
}

// Which of the two sizes does not fit is told apart, and what would do.
static status grid_misfit(const config *c, long long world, long long pp, long long mp)
{
    long long unit = pp * mp;
    const char *key = world % pp != 0 ? "pipe_parallel_size" : "model_parallel_size";
    char reason[160];
    if (world % pp != 0)
        snprintf(reason, sizeof reason, "pipe_parallel_size %lld does not divide %lld", pp, world);
    else if (world % mp != 0)
        snprintf(reason, sizeof reason, "model_parallel_size %lld does not divide %lld", mp, world);
    else
        snprintf(reason, sizeof reason,
                 "pipe_parallel_size %lld leaves %lld, which model_parallel_size %lld does not "
                 "divide",
                 pp, world / pp, mp);
    return config_fail(c, key,
                       "world size %lld is no multiple of pipe_parallel_size %lld x "
                       "model_parallel_size %lld = %lld: %s; start %lld, %lld or %lld ranks with "
                       "mpirun -n",
                       world, pp, mp, unit, reason, unit, 2 * unit, 3 * unit);
}

// The sizes that divide the heads and, where it is known, the width of the MLP; the first dozen.
static const char *legal_tensor_sizes(const config *c, char *text, size_t bytes)
{
    text[0] = '\0';
    for (int64_t size = 1, found = 0; size <= c->num_attention_heads && found < 12; size++)
        if (c->num_attention_heads % size == 0 && c->intermediate_size % size == 0) {
            list_add(text, bytes, (long long)size);
            found++;
        }
    return text;
}

status config_check_tensor_split(const config *c, const char *key, int64_t value)
{
    char legal[256];
    if (value % c->model_parallel_size == 0)
        return STATUS_OK;
    return config_fail(c, "model_parallel_size",
                       "%s %lld is no multiple of model_parallel_size %lld; this model can be "
                       "split into %s",
                       key, (long long)value, (long long)c->model_parallel_size,
                       legal_tensor_sizes(c, legal, sizeof legal));
}

status config_derive_grid(config *c, int world_size)
{
    if (c->pipe_parallel_size == 0) {
        c->pipe_parallel_size = 1;
        config_mark_derived(c, "pipe_parallel_size");
    }
    long long pp = c->pipe_parallel_size, mp = c->model_parallel_size;
    if (world_size < 1)
        return fail(STATUS_ERR_CONFIG, "world size %d; a job has at least one rank", world_size);
    if (world_size % (pp * mp) != 0)
        return grid_misfit(c, world_size, pp, mp);
    TRY(config_check_tensor_split(c, "num_attention_heads", c->num_attention_heads));
    if (c->num_layers < pp)
        return config_fail(c, "pipe_parallel_size",
                           "pipe_parallel_size %lld is more than num_layers %lld; each stage "
                           "needs a layer",
                           pp, (long long)c->num_layers);
    c->world_size = world_size;
    c->data_parallel_size = world_size / (pp * mp);
    return STATUS_OK;
}

#define BATCH "train_batch_size"
#define MICRO "train_micro_batch_size_per_gpu"
#define STEPS "gradient_accumulation_steps"

// The part of the batch that is `known` micro batch or accumulation, the other follows.
static status divide_batch(const config *c, const char *known_key, long long known,
                           const char *wanted_key, int64_t *wanted)
{
    long long batch = c->train_batch_size, ranks = c->data_parallel_size;
    long long unit = known * ranks;
    if (batch % unit == 0) {
        *wanted = batch / unit;
        return STATUS_OK;
    }
    long long below = batch / unit * unit;
    char nearest[64] = "";
    if (below > 0)
        list_add(nearest, sizeof nearest, below);
    snprintf(nearest + strlen(nearest), sizeof nearest - strlen(nearest), "%s%lld",
             below > 0 ? " or " : "", below + unit);
    return config_fail(c, BATCH,
                       "train_batch_size %lld = %s %lld x %s x %lld data-parallel ranks: %s would "
                       "be %lld / %lld = %g; a train_batch_size of %s would do",
                       batch, known_key, known, wanted_key, ranks, wanted_key, batch, unit,
                       (double)batch / (double)unit, nearest);
}

// The product of the parts, which the batch must be.
static status multiply_batch(const config *c, int64_t *batch)
{
    int64_t product = c->train_micro_batch_size_per_gpu * c->gradient_accumulation_steps;
    if (__builtin_mul_overflow(product, c->data_parallel_size, &product) || product > INT32_MAX)
        return config_fail(
            c, MICRO, "train_batch_size = %lld x %lld x %lld is too large; at most 2147483647",
            (long long)c->train_micro_batch_size_per_gpu, (long long)c->gradient_accumulation_steps,
            (long long)c->data_parallel_size);
    *batch = product;
    return STATUS_OK;
}

// With all three given, their equation must hold.
static status check_batch(const config *c)
{
    int64_t product = 0;
    TRY(multiply_batch(c, &product));
    if (product == c->train_batch_size)
        return STATUS_OK;
    return config_fail(c, BATCH,
                       "train_batch_size %lld is not %s %lld x %s %lld x %lld data-parallel ranks "
                       "= %lld; say %lld, or set one of the three to null to derive it",
                       (long long)c->train_batch_size, MICRO,
                       (long long)c->train_micro_batch_size_per_gpu, STEPS,
                       (long long)c->gradient_accumulation_steps, (long long)c->data_parallel_size,
                       (long long)product, (long long)product);
}

status config_derive_batch(config *c)
{
    bool batch = config_is_set(c, BATCH), micro = config_is_set(c, MICRO);
    bool steps = config_is_set(c, STEPS);
    if (batch && micro && steps)
        return check_batch(c);
    if (!batch && !micro)
        return config_fail(c, STEPS,
                           "%s; give train_micro_batch_size_per_gpu or train_batch_size too",
                           steps ? "gradient_accumulation_steps alone does not fix the batch"
                                 : "no batch size is given");
    if (!steps && !(batch && micro))
        c->gradient_accumulation_steps = 1;
    if (!batch)
        TRY(multiply_batch(c, &c->train_batch_size));
    else if (!micro)
        TRY(divide_batch(c, STEPS, c->gradient_accumulation_steps, MICRO,
                         &c->train_micro_batch_size_per_gpu));
    else
        TRY(divide_batch(c, MICRO, c->train_micro_batch_size_per_gpu, STEPS,
                         &c->gradient_accumulation_steps));
    config_mark_derived(c, BATCH);
    config_mark_derived(c, MICRO);
    config_mark_derived(c, STEPS);
    return STATUS_OK;
}
