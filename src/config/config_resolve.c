// Checks of the whole, and what follows from what was given: one step after another, each with its
// own function.
#include "config/config_schema.h"

#include <string.h>

void config_mark_derived(config *c, const char *key)
{
    config_origin *origin = config_setting_origin(c, config_setting_find(key));
    if (origin->from != ORIGIN_GIVEN || origin->null)
        origin->from = ORIGIN_DERIVED;
}

// Forget what an earlier call derived for another number of ranks.
static status forget_derived(config *c)
{
    for (size_t i = 0; i < config_setting_count; i++)
        if (config_setting_origin(c, &config_settings[i])->from == ORIGIN_DERIVED)
            TRY(config_setting_reset(c, &config_settings[i]));
    return STATUS_OK;
}

// GPT-NeoX's widths of a gated MLP come from intermediate_size by two roundings that must agree;
// its own mistral/7B.yml fails here. Said before the refusal of gated activations, which would hide
// that the file is broken.
static status check_gated_widths(const config *c)
{
    const setting *s = config_setting_find("activation");
    const char *refusal = config_setting_origin(c, s)->refusal;
    if (!refusal || !strstr(refusal, "gated") || !config_is_set(c, "intermediate_size"))
        return STATUS_OK;
    int64_t k = c->mlp_multiple_of, width = c->intermediate_size * 2 / 3;
    int64_t linear1 = (width + 2 * k - 1) / (2 * k) * (2 * k);
    int64_t linear2 = (width / 2 + k - 1) / k * k;
    if (linear1 == 2 * linear2)
        return STATUS_OK;
    return config_fail(c, "intermediate_size",
                       "intermediate_size %lld gives a gated MLP whose halves of %lld do not fit "
                       "the %lld inputs of its second matrix, so GPT-NeoX fails too; it is three "
                       "times the real width, %lld for %lld (and gated activations are not "
                       "supported; gelu is)",
                       (long long)c->intermediate_size, (long long)linear1 / 2, (long long)linear2,
                       (long long)c->intermediate_size * 3, (long long)c->intermediate_size);
}

static bool comes_before(const config_origin *a, const config_origin *b)
{
    if (a->load != b->load)
        return a->load < b->load;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line;
    return a->place.column < b->place.column;
}

// The first value, in reading order, that a run cannot have.
static status check_refusals(const config *c)
{
    const setting *first = NULL;
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (config_setting_origin(c, s)->refusal &&
            (!first || comes_before(config_setting_origin(c, s), config_setting_origin(c, first))))
            first = s;
    }
    if (!first)
        return STATUS_OK;
    return config_fail(c, first->name, "%s%s", first->name,
                       config_setting_origin(c, first)->refusal);
}

static status check_required(const config *c)
{
    static const char *const keys[] = {
        "num_layers", "hidden_size", "num_attention_heads",
        "seq_length", "optimizer",   "max_position_embeddings",
    };
    static const struct {
        const char *map, *key;
    } inner[] = {
        {"optimizer", "optimizer.type"},
        {"optimizer", "optimizer.params"},
        {"fp16", "fp16.enabled"},
        {"bf16", "bf16.enabled"},
        {"zero_optimization", "zero_optimization.stage"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!config_is_set(c, keys[i]))
            return config_fail(c, keys[i], "%s is missing; the model and its training need it",
                               keys[i]);
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++)
        if (config_is_set(c, inner[i].map) && !config_is_set(c, inner[i].key))
            return config_fail(c, inner[i].map, "the map %s has no key \"%s\"; it needs one",
                               inner[i].map, strrchr(inner[i].key, '.') + 1);
    return STATUS_OK;
}

// What the maps say must agree with each other and with `precision`.
static status resolve_precision(config *c)
{
    bool given = config_is_set(c, "precision");
    const setting_choice *names = config_setting_find("precision")->choices;
    const char *name = given ? names[c->precision].name : "";
    if (c->fp16.enabled && c->bf16.enabled)
        return config_fail(c, "bf16.enabled", "fp16 and bf16 are both enabled; enable one");
    const struct {
        const char *map, *key;
        bool enabled;
        config_precision precision;
    } maps[] = {
        {"fp16", "fp16.enabled", c->fp16.enabled, CONFIG_PRECISION_FP16},
        {"bf16", "bf16.enabled", c->bf16.enabled, CONFIG_PRECISION_BF16},
    };
    for (size_t i = 0; i < 2; i++) {
        bool asked = c->precision == maps[i].precision;
        if (given && maps[i].enabled != asked && (maps[i].enabled || config_is_set(c, maps[i].key)))
            return config_fail(c, "precision",
                               "precision %s contradicts %s: {enabled: %s}; make them agree", name,
                               maps[i].map, maps[i].enabled ? "true" : "false");
        if (!given && maps[i].enabled)
            c->precision = maps[i].precision;
    }
    c->fp16.enabled = c->precision == CONFIG_PRECISION_FP16;
    c->bf16.enabled = c->precision == CONFIG_PRECISION_BF16;
    config_mark_derived(c, "precision");
    config_mark_derived(c, "fp16.enabled");
    config_mark_derived(c, "bf16.enabled");
    config_mark_derived(c, "data_types.grad_accum_dtype");
    return STATUS_OK;
}

// Round the width of the MLP as GPT-NeoX does, once for each of its matrices; they must agree.
static status round_width(const config *c, const char *key, double wide, int64_t *width)
{
    if (wide < 1 || wide > INT32_MAX)
        return config_fail(c, key, "the width of the MLP would be %.0f; it must be 1 to 2147483647",
                           wide);
    int64_t k = c->mlp_multiple_of, given = (int64_t)wide;
    int64_t linear1 = (given + 2 * k - 1) / (2 * k) * (2 * k);
    int64_t linear2 = (given + k - 1) / k * k;
    if (linear1 != linear2)
        return config_fail(c, key,
                           "the MLP's first matrix would be %lld wide and its second %lld; with "
                           "mlp_multiple_of %lld the width must be a multiple of %lld, so %lld",
                           (long long)linear1, (long long)linear2, (long long)k, (long long)(2 * k),
                           (long long)linear1);
    if (linear1 > INT32_MAX)
        return config_fail(c, key, "the width of the MLP rounds to %lld; at most 2147483647",
                           (long long)linear1);
    *width = linear1;
    return STATUS_OK;
}

static status resolve_width(config *c)
{
    int64_t by_factor = 0, width = 0;
    bool factor = config_is_set(c, "expansion_factor");
    if (factor)
        TRY(round_width(c, "expansion_factor", c->expansion_factor * (double)c->hidden_size,
                        &by_factor));
    if (config_is_set(c, "intermediate_size"))
        TRY(round_width(c, "intermediate_size", (double)c->intermediate_size, &width));
    else if (!factor)
        TRY(round_width(c, "hidden_size", 4.0 * (double)c->hidden_size, &width));
    if (width && factor && width != by_factor)
        return config_fail(c, "intermediate_size",
                           "intermediate_size gives a width of %lld and expansion_factor one of "
                           "%lld; give one of the two",
                           (long long)width, (long long)by_factor);
    c->intermediate_size = factor ? by_factor : width;
    config_mark_derived(c, "intermediate_size");
    return STATUS_OK;
}

// The runs of attention_config must cover the layers exactly.
static status check_attention(const config *c)
{
    int64_t layers = 0;
    for (size_t i = 0; i < c->attention_config.count; i++) {
        const config_attention_run *run = &c->attention_config.items[i];
        if (run->count == 0 && c->num_layers % run->length != 0)
            return config_fail(c, "attention_config",
                               "attention_config repeats %lld types over all layers, but "
                               "num_layers %lld is no multiple of %lld",
                               (long long)run->length, (long long)c->num_layers,
                               (long long)run->length);
        layers += run->count == 0 ? c->num_layers : run->count * run->length;
    }
    if (config_is_set(c, "attention_config") && layers != c->num_layers)
        return config_fail(c, "attention_config",
                           "attention_config names the types of %lld layers; num_layers is %lld",
                           (long long)layers, (long long)c->num_layers);
    return STATUS_OK;
}

static status check_heads(config *c)
{
    long long hidden = c->hidden_size, heads = c->num_attention_heads;
    if (hidden % heads != 0) {
        long long below = hidden / heads * heads;
        return config_fail(c, "hidden_size",
                           "hidden_size %lld is no multiple of num_attention_heads %lld; the "
                           "nearest are %lld and %lld",
                           hidden, heads, below ? below : heads, below ? below + heads : 2 * heads);
    }
    if (config_is_set(c, "num_kv_heads") && c->num_kv_heads != heads)
        return config_fail(c, "num_kv_heads",
                           "num_kv_heads %lld: grouped-query attention is not supported; leave it "
                           "out or say %lld as num_attention_heads",
                           (long long)c->num_kv_heads, heads);
    c->num_kv_heads = heads;
    config_mark_derived(c, "num_kv_heads");
    int64_t turned = (int64_t)((double)(hidden / heads) * c->rotary_pct);
    if (c->pos_emb == CONFIG_POS_EMB_ROTARY && (turned < 2 || turned % 2 != 0))
        return config_fail(c, "rotary_pct",
                           "rotary_pct %g turns %lld of the %lld dimensions of a head; it must be "
                           "an even number, at least 2",
                           c->rotary_pct, (long long)turned, hidden / heads);
    return STATUS_OK;
}

static status resolve_model(config *c)
{
    if (c->max_position_embeddings < c->seq_length)
        return config_fail(c, "max_position_embeddings",
                           "max_position_embeddings %lld is less than seq_length %lld; it must be "
                           "at least as large",
                           (long long)c->max_position_embeddings, (long long)c->seq_length);
    TRY(check_heads(c));
    TRY(check_attention(c));
    TRY(resolve_width(c));
    return config_check_tensor_split(c, "intermediate_size", c->intermediate_size);
}

static status resolve_schedule(config *c)
{
    bool iters = config_is_set(c, "train_iters"), epochs = config_is_set(c, "train_epochs");
    double lr = c->optimizer.params.lr;
    if (iters && epochs)
        return config_fail(c, "train_epochs",
                           "train_epochs and train_iters are both given; keep one");
    if (!iters && !epochs)
        return config_fail(c, "train_iters",
                           "train_iters is missing; it, or train_epochs, says how long to train");
    if (c->min_lr > lr)
        return config_fail(c, "min_lr",
                           "min_lr %g is greater than optimizer.params.lr %g; it is the floor",
                           c->min_lr, lr);
    if (c->optimizer.params.betas.count != 2)
        return config_fail(c, "optimizer.params.betas",
                           "optimizer.params.betas has %zu numbers; Adam has two, as [0.9, 0.95]",
                           c->optimizer.params.betas.count);
    if (config_is_set(c, "lr_decay_iters") || epochs)
        return STATUS_OK;
    double share = config_is_set(c, "lr_decay_fraction") ? c->lr_decay_fraction : 1.0;
    c->lr_decay_iters = (int64_t)((double)c->train_iters * share);
    if (c->lr_decay_iters < 1)
        c->lr_decay_iters = 1;
    config_mark_derived(c, "lr_decay_iters");
    return STATUS_OK;
}

// One sentence that names every key without effect.
static status note_ignored(config *c)
{
    static const char opening[] = "these keys have no effect here: ";
    size_t bytes = sizeof opening, used = sizeof opening - 1;
    void *memory;
    c->book->ignored = NULL;
    for (size_t i = 0; i < config_setting_count; i++)
        bytes += strlen(config_settings[i].name) + 2;
    TRY(arena_alloc(c->book->memory, bytes, 1, &memory));
    char *text = memory;
    memcpy(text, opening, used);
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (s->stance != STANCE_IGNORED || s->kind == SETTING_MAP || !config_is_set(c, s->name))
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", c->book->ignored ? ", " : "",
                                 s->name);
        c->book->ignored = text;
    }
    return STATUS_OK;
}

status config_resolve(config *c, int world_size)
{
    TRY(forget_derived(c));
    TRY(check_gated_widths(c));
    TRY(check_refusals(c));
    TRY(check_required(c));
    TRY(resolve_precision(c));
    TRY(config_derive_grid(c, world_size));
    TRY(resolve_model(c));
    TRY(config_derive_batch(c));
    TRY(resolve_schedule(c));
    TRY(config_check_data(c));
    TRY(config_check_saving(c));
    TRY(config_check_compression(c));
    return note_ignored(c);
}
