// Rules over several keys of data, checkpoints and compression.
#include "config/config_schema.h"

#include <math.h>
#include <string.h>

// Each weights list stands beside a paths list of the same length.
static status check_weights(const config *c, const char *part, const config_strings *paths,
                            const config_floats *weights)
{
    char path_key[64], weight_key[64];
    double sum = 0;
    snprintf(path_key, sizeof path_key, "%s_data_paths", part);
    snprintf(weight_key, sizeof weight_key, "%s_data_weights", part);
    if (!config_is_set(c, weight_key))
        return STATUS_OK;
    if (weights->count != paths->count)
        return config_fail(c, weight_key, "%s has %zu entries and %s %zu; one weight a path",
                           weight_key, weights->count, path_key, paths->count);
    for (size_t i = 0; i < weights->count; i++)
        sum += weights->items[i];
    if (!(sum > 0) || !isfinite(sum))
        return config_fail(c, weight_key, "%s sums to %g; at least one must be greater than 0",
                           weight_key, sum);
    return STATUS_OK;
}

status config_check_data(const config *c)
{
    static const char *const keys[] = {"train_data_paths", "valid_data_paths", "test_data_paths"};
    const config_strings *lists[] = {&c->train_data_paths, &c->valid_data_paths,
                                     &c->test_data_paths};
    const char *given = NULL, *missing = NULL;
    for (size_t i = 0; i < 3; i++) {
        if (!config_is_set(c, keys[i]))
            missing = keys[i];
        else
            given = keys[i];
        if (config_is_set(c, keys[i]) && lists[i]->count == 0)
            return config_fail(c, keys[i], "%s is empty; name at least one prefix", keys[i]);
    }
    if (given && config_is_set(c, "data_path"))
        return config_fail(c, given, "%s and data_path are both given; keep one way", given);
    if (given && missing)
        return config_fail(c, given,
                           "%s is given without %s; the lists for train, valid and test come "
                           "together",
                           given, missing);
    TRY(check_weights(c, "train", &c->train_data_paths, &c->train_data_weights));
    TRY(check_weights(c, "valid", &c->valid_data_paths, &c->valid_data_weights));
    return check_weights(c, "test", &c->test_data_paths, &c->test_data_weights);
}

status config_check_saving(const config *c)
{
    bool factor = config_is_set(c, "checkpoint_factor");
    if (c->save && !factor && !config_is_set(c, "extra_save_iters"))
        return config_fail(c, "save",
                           "save needs to know when; give checkpoint_factor or extra_save_iters");
    if (factor && c->checkpoint_scale == CONFIG_SCALE_LINEAR &&
        (c->checkpoint_factor != floor(c->checkpoint_factor) || c->checkpoint_factor > INT32_MAX))
        return config_fail(c, "checkpoint_factor",
                           "checkpoint_factor %g must be a whole number of steps with "
                           "checkpoint_scale linear",
                           c->checkpoint_factor);
    if (factor && c->checkpoint_scale == CONFIG_SCALE_LOG && c->checkpoint_factor <= 1)
        return config_fail(c, "checkpoint_factor",
                           "checkpoint_factor %g must be greater than 1 with checkpoint_scale log",
                           c->checkpoint_factor);
    if (c->load_if_present && !c->load)
        return config_fail(c, "load_if_present", "load_if_present needs load; name the folder");
    return STATUS_OK;
}

// Which numbers each codec has: `needs` must be given, all others must not.
static const struct {
    config_codec_kind codec;
    const char *name;
    const char *needs[2];
} codec_keys[] = {
    {CONFIG_CODEC_RAW, "raw", {NULL, NULL}},     {CONFIG_CODEC_ZFP, "zfp", {"rate", NULL}},
    {CONFIG_CODEC_MPC, "mpc", {NULL, NULL}},     {CONFIG_CODEC_QUANT, "quant", {"bits", "block"}},
    {CONFIG_CODEC_CAST, "cast", {"type", NULL}},
};

static bool row_has(const config *c, const char *row, const char *key)
{
    char path[CONFIG_PATH_MAX];
    return config_path_join(path, row, key, strlen(key)) && config_is_set(c, path);
}

static bool codec_needs(config_codec_kind codec, const char *key)
{
    const char *const *needs = codec_keys[codec - 1].needs;
    return (needs[0] && !strcmp(needs[0], key)) || (needs[1] && !strcmp(needs[1], key));
}

static status check_row(const config *c, const char *row, const config_codec *codec)
{
    static const char *const keys[] = {"rate", "bits", "block", "type"};
    if (codec->codec == CONFIG_CODEC_UNSET)
        return config_fail(c, row, "%s has no codec; one of raw, zfp, mpc, quant, cast", row);
    const char *name = codec_keys[codec->codec - 1].name;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        bool needed = codec_needs(codec->codec, keys[i]);
        if (needed && !row_has(c, row, keys[i]))
            return config_fail(c, row, "%s: codec %s needs \"%s\"", row, name, keys[i]);
        if (!needed && row_has(c, row, keys[i]))
            return config_fail(c, row, "%s: codec %s has no \"%s\"; leave it out", row, name,
                               keys[i]);
    }
    if (codec->codec == CONFIG_CODEC_QUANT && codec->bits != 4 && codec->bits != 8)
        return config_fail(c, row, "%s: bits is %lld; it must be 4 or 8", row,
                           (long long)codec->bits);
    return STATUS_OK;
}

status config_check_compression(const config *c)
{
    config_scheme scheme = c->comm_compression.scheme;
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        // A row is the map before its codec.
        if (s->kind != SETTING_MAP || strncmp(s->name, "comm_compression.", 17) ||
            config_settings[i + 1].kind != SETTING_CHOICE || !config_is_set(c, s->name))
            continue;
        TRY(check_row(c, s->name,
                      (const config_codec *)((const char *)c + config_settings[i + 1].offset)));
        if (scheme == CONFIG_SCHEME_NONE)
            return config_fail(c, s->name,
                               "%s is given while comm_compression.scheme is none; say custom, or "
                               "the scheme whose row it replaces",
                               s->name);
    }
    if (scheme == CONFIG_SCHEME_NONE)
        return STATUS_OK;
    return config_fail(c, "comm_compression.scheme",
                       "comm_compression.scheme %s is not available in this version; none is",
                       config_setting_find("comm_compression.scheme")->choices[scheme].name);
}
