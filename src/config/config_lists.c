// Settings whose value is a list.
#include "config/config_schema.h"

#include <string.h>
#include <strings.h>

enum { ATTENTION_MAX = 1024 }; // entries of attention_config, and types of each

static size_t list_count(config_node list)
{
    return (size_t)(list.node->data.sequence.items.top - list.node->data.sequence.items.start);
}

static config_node list_item(config_node list, size_t index)
{
    return config_node_at(list, list.node->data.sequence.items.start[index]);
}

static status item_scalar(const setting *s, config_node item, config_scalar *scalar)
{
    if (item.node->type != YAML_SCALAR_NODE)
        return config_node_fail(item, s, "must be a flat list");
    *scalar = config_node_scalar(item);
    return STATUS_OK;
}

static status store_strings(config *c, const setting *s, config_node list)
{
    size_t n = list_count(list);
    void *items;
    TRY(arena_alloc(c->book->memory, n, sizeof(const char *), &items));
    config_strings value = {items, n};
    for (size_t i = 0; i < n; i++) {
        config_scalar scalar;
        TRY(item_scalar(s, list_item(list, i), &scalar));
        TRY(config_text_read(c, s, list_item(list, i), scalar, &value.items[i]));
    }
    if (s->stance == STANCE_USED)
        memcpy((char *)c + s->offset, &value, sizeof value);
    return STATUS_OK;
}

static status store_floats(config *c, const setting *s, config_node list)
{
    size_t n = list_count(list);
    void *items;
    TRY(arena_alloc(c->book->memory, n, sizeof(double), &items));
    config_floats value = {items, n};
    for (size_t i = 0; i < n; i++) {
        config_scalar scalar;
        TRY(item_scalar(s, list_item(list, i), &scalar));
        TRY(config_number_read(s, list_item(list, i), scalar, &value.items[i]));
    }
    memcpy((char *)c + s->offset, &value, sizeof value);
    return STATUS_OK;
}

static status store_ints(config *c, const setting *s, config_node list)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    size_t n = list_count(list);
    void *items;
    TRY(arena_alloc(c->book->memory, n, sizeof(int64_t), &items));
    config_ints value = {items, n};
    for (size_t i = 0; i < n; i++) {
        config_node item = list_item(list, i);
        config_scalar scalar;
        TRY(item_scalar(s, item, &scalar));
        config_scalar_describe(shown, scalar);
        if (config_scalar_int(scalar, &value.items[i]) != SCALAR_OK)
            return config_node_fail(item, s, "must hold whole numbers, not %s", shown);
        TRY(config_range_check(s, item, (double)value.items[i], shown + strlen("the number ")));
    }
    memcpy((char *)c + s->offset, &value, sizeof value);
    return STATUS_OK;
}

#define UNSUPPORTED(type)                                                         \
    {                                                                             \
        type, "attention of type " type " is not supported; global and flash are" \
    }

// Check one attention type; *refusal where GPT-NeoX knows it and Trifold does not.
static status check_type(const setting *s, config_node item, const char **refusal)
{
    static const struct {
        const char *name, *refusal;
    } types[] = {
        {"global", NULL},
        {"flash", NULL},
        UNSUPPORTED("local"),
        UNSUPPORTED("sparse_fixed"),
        UNSUPPORTED("sparse_variable"),
        UNSUPPORTED("bigbird"),
        UNSUPPORTED("bslongformer"),
        UNSUPPORTED("gmlp"),
        UNSUPPORTED("amlp"),
        UNSUPPORTED("mamba"),
        UNSUPPORTED("rwkv"),
    };
    char shown[CONFIG_QUOTE_MAX];
    if (item.node->type != YAML_SCALAR_NODE)
        return config_node_fail(item, s, "must name a type here; global or flash");
    config_scalar scalar = config_node_scalar(item);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strlen(types[i].name) == scalar.length &&
            !strncasecmp(types[i].name, scalar.text, scalar.length)) {
            if (types[i].refusal && !*refusal)
                *refusal = types[i].refusal;
            return STATUS_OK;
        }
    return config_node_fail(item, s, "does not know the type %s; global and flash are supported",
                            config_quote(shown, scalar.text, scalar.length));
}

static status check_types(const setting *s, config_node types, const char **refusal)
{
    if (types.node->type != YAML_SEQUENCE_NODE || list_count(types) == 0 ||
        list_count(types) > ATTENTION_MAX)
        return config_node_fail(types, s, "must have a list of types here; [[[\"flash\"], 6]]");
    for (size_t i = 0; i < list_count(types); i++)
        TRY(check_type(s, list_item(types, i), refusal));
    return STATUS_OK;
}

// One [[types], count].
static status read_run(const setting *s, config_node run, config_attention_run *value,
                       const char **refusal)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    if (run.node->type != YAML_SEQUENCE_NODE || list_count(run) != 2)
        return config_node_fail(run, s, "must hold pairs [[types], count]; [[[\"flash\"], 6]]");
    config_node types = list_item(run, 0), count = list_item(run, 1);
    TRY(check_types(s, types, refusal));
    value->length = (int64_t)list_count(types);
    config_scalar scalar;
    TRY(item_scalar(s, count, &scalar));
    value->count = 0;
    if (scalar.length == 3 && !memcmp(scalar.text, "all", 3))
        return STATUS_OK;
    if (config_scalar_int(scalar, &value->count) != SCALAR_OK || value->count < 1 ||
        value->count > INT32_MAX)
        return config_node_fail(count, s, "has the count %s; it must be \"all\" or at least 1",
                                config_scalar_describe(shown, scalar));
    return STATUS_OK;
}

// A list of runs, or one type a layer.
static status store_attention(config *c, const setting *s, config_node list, const char **refusal)
{
    size_t n = list_count(list);
    bool flat = n > 0 && list_item(list, 0).node->type == YAML_SCALAR_NODE;
    void *items;
    if (n > ATTENTION_MAX)
        return config_node_fail(list, s, "has %zu entries; at most %d are read", n, ATTENTION_MAX);
    TRY(arena_alloc(c->book->memory, flat ? 1 : n, sizeof(config_attention_run), &items));
    config_attention value = {items, flat ? 1 : n};
    if (flat) {
        TRY(check_types(s, list, refusal));
        value.items[0] = (config_attention_run){(int64_t)n, 1};
    }
    for (size_t i = 0; i < n && !flat; i++)
        TRY(read_run(s, list_item(list, i), &value.items[i], refusal));
    memcpy((char *)c + s->offset, &value, sizeof value);
    return STATUS_OK;
}

status config_list_store(config *c, const setting *s, config_node value, const char **refusal)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    if (value.node->type == YAML_SCALAR_NODE)
        return config_node_fail(value, s, "must be a list, not %s; write [ ... ]",
                                config_scalar_describe(shown, config_node_scalar(value)));
    if (value.node->type != YAML_SEQUENCE_NODE)
        return config_node_fail(value, s, "must be a list, not a map; write [ ... ]");
    switch (s->kind) {
    case SETTING_STRINGS:
        return store_strings(c, s, value);
    case SETTING_FLOATS:
        return store_floats(c, s, value);
    case SETTING_INTS:
        return store_ints(c, s, value);
    default:
        return store_attention(c, s, value, refusal);
    }
}
