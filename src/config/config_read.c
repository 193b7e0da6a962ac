// Walking a YAML map along the table: which setting each key is, who set it before, what it holds.
#include "config/config_schema.h"

#include <string.h>
#include <strings.h>

typedef struct reader {
    config *c;
    unsigned load;   /* number of this file or --set */
    bool later_wins; /* replace what an earlier load set, with a remark */
    bool command;    /* --set: replace without a remark */
} reader;

static status add_remark(config *c, const char *text)
{
    void *memory;
    char *copy;
    TRY(arena_strndup(c->book->memory, text, strlen(text), &copy));
    TRY(arena_alloc(c->book->memory, 1, sizeof(config_remark_list), &memory));
    config_remark_list *remark = memory;
    remark->text = copy;
    if (c->book->last)
        c->book->last->next = remark;
    else
        c->book->first = remark;
    c->book->last = remark;
    return STATUS_OK;
}

static status unknown_key(const config_place *place, const char *shown_key, const char *path)
{
    char where[CONFIG_PLACE_MAX];
    const char *nearest = path ? config_setting_nearest(path) : NULL;
    const setting *known = path ? config_setting_find(path) : NULL;
    config_place_str(where, place);
    if (known && known->stance == STANCE_UNKNOWN)
        return fail(STATUS_ERR_CONFIG, "%s: unknown key %s; %s", where, shown_key, known->help);
    if (nearest)
        return fail(STATUS_ERR_CONFIG, "%s: unknown key %s; the nearest known key is \"%s\"", where,
                    shown_key, nearest);
    return fail(STATUS_ERR_CONFIG, "%s: unknown key %s; trifold train --help lists the known keys",
                where, shown_key);
}

// A setting that an earlier load gave, or this one: an error, or the loser is put back.
static status claim(const reader *r, const setting *s, const config_place *place)
{
    char here[CONFIG_PLACE_MAX], there[CONFIG_PLACE_MAX];
    config_origin *origin = config_setting_origin(r->c, s);
    if (origin->load == 0)
        return STATUS_OK;
    config_place_str(here, place);
    config_place_str(there, &origin->place);
    if (origin->load == r->load)
        return fail(STATUS_ERR_CONFIG, "%s: %s is set twice, before at %s; keep one", here, s->name,
                    there);
    if (!r->command && !r->later_wins)
        return fail(STATUS_ERR_CONFIG,
                    "%s: %s is already set at %s; keep one, or let later files win with --override",
                    here, s->name, there);
    if (!r->command) {
        char text[2 * CONFIG_PLACE_MAX + CONFIG_PATH_MAX + 32];
        snprintf(text, sizeof text, "%s: %s overrides the value of %s", here, s->name, there);
        TRY(add_remark(r->c, text));
    }
    return config_setting_reset(r->c, s);
}

static void mark_given(const reader *r, const setting *s, const config_place *place, bool null)
{
    config_origin *origin = config_setting_origin(r->c, s);
    origin->from = ORIGIN_GIVEN;
    origin->null = null;
    origin->load = r->load;
    origin->place = *place;
}

static bool is_null(config_node value)
{
    return value.node->type == YAML_SCALAR_NODE && config_scalar_is_null(config_node_scalar(value));
}

// A map that is empty, says `enabled: false` or `device: none`.
static bool is_map_off(config_node map)
{
    yaml_node_pair_t *pair = map.node->data.mapping.pairs.start;
    if (pair == map.node->data.mapping.pairs.top)
        return true;
    for (; pair < map.node->data.mapping.pairs.top; pair++) {
        config_node key = config_node_at(map, pair->key), value = config_node_at(map, pair->value);
        if (key.node->type != YAML_SCALAR_NODE || value.node->type != YAML_SCALAR_NODE)
            continue;
        const char *name = config_node_scalar(key).text;
        bool on = true;
        if (!strcmp(name, "enabled") &&
            config_scalar_bool(config_node_scalar(value), &on) == SCALAR_OK && !on)
            return true;
        if (!strcmp(name, "device") && !strcmp(config_node_scalar(value).text, "none"))
            return true;
    }
    return false;
}

// Whether the value of a refused setting switches it off.
static bool is_off(const setting *s, config_node value)
{
    if (value.node->type == YAML_MAPPING_NODE)
        return is_map_off(value);
    if (value.node->type != YAML_SCALAR_NODE || !s->off)
        return false;
    config_scalar scalar = config_node_scalar(value);
    bool truth;
    const char *text = scalar.text;
    size_t length = scalar.length;
    if (config_scalar_bool(scalar, &truth) == SCALAR_OK) {
        text = truth ? "true" : "false";
        length = strlen(text);
    }
    for (const char *word = s->off; word; word = strchr(word, '|')) {
        word += *word == '|';
        if (strcspn(word, "|") == length && !strncasecmp(word, text, length))
            return true;
    }
    return false;
}

// Keep the reason, with the value where it is one word, for config_resolve.
static status keep_refusal(const reader *r, const setting *s, config_node value, const char *reason)
{
    char quoted[CONFIG_QUOTE_MAX], text[CONFIG_QUOTE_MAX + 256];
    char *copy;
    if (value.node->type == YAML_SCALAR_NODE) {
        config_scalar scalar = config_node_scalar(value);
        snprintf(text, sizeof text, " %s: %s", config_quote(quoted, scalar.text, scalar.length),
                 reason);
    } else {
        snprintf(text, sizeof text, ": %s", reason);
    }
    TRY(arena_strndup(r->c->book->memory, text, strlen(text), &copy));
    config_setting_origin(r->c, s)->refusal = copy;
    return STATUS_OK;
}

static status read_map(const reader *r, const setting *map, config_node value);

static status store_value(const reader *r, const setting *s, config_node value)
{
    const char *refusal = NULL;
    switch (s->kind) {
    case SETTING_ANY:
        if (s->stance == STANCE_REFUSED && !is_off(s, value))
            refusal = s->help;
        break;
    case SETTING_MAP:
        if (value.node->type != YAML_MAPPING_NODE)
            return config_node_fail(value, s, "must be a map; write {key: value, ...}");
        TRY(read_map(r, s, value));
        break;
    case SETTING_INTS:
    case SETTING_FLOATS:
    case SETTING_STRINGS:
    case SETTING_ATTENTION:
        TRY(config_list_store(r->c, s, value, &refusal));
        break;
    default:
        if (value.node->type != YAML_SCALAR_NODE)
            return config_node_fail(value, s, "must be a single value, not a %s",
                                    value.node->type == YAML_MAPPING_NODE ? "map" : "list");
        TRY(config_scalar_store(r->c, s, value, config_node_scalar(value), &refusal));
    }
    return refusal ? keep_refusal(r, s, value, refusal) : STATUS_OK;
}

static status read_setting(const reader *r, const setting *s, const config_place *place,
                           config_node value)
{
    TRY(claim(r, s, place));
    mark_given(r, s, place, is_null(value));
    return is_null(value) ? STATUS_OK : store_value(r, s, value);
}

// The pairs of a map; `map` is NULL at the top level.
static status read_map(const reader *r, const setting *map, config_node value)
{
    char path[CONFIG_PATH_MAX], shown[CONFIG_QUOTE_MAX], where[CONFIG_PLACE_MAX];
    yaml_node_pair_t *end = value.node->data.mapping.pairs.top;
    for (yaml_node_pair_t *pair = value.node->data.mapping.pairs.start; pair < end; pair++) {
        config_node key = config_node_at(value, pair->key);
        if (key.node->type != YAML_SCALAR_NODE)
            return fail(STATUS_ERR_CONFIG, "%s: a key must be a word, not a list or map",
                        config_place_str(where, &key.place));
        config_scalar name = config_node_scalar(key);
        config_quote(shown, name.text, name.length);
        if (!config_path_join(path, map ? map->name : NULL, name.text, name.length))
            return unknown_key(&key.place, shown, NULL);
        const setting *s = memchr(name.text, '.', name.length) ? NULL : config_setting_find(path);
        if (!s || s->stance == STANCE_UNKNOWN)
            return unknown_key(&key.place, shown, path);
        TRY(read_setting(r, s, &key.place, config_node_at(value, pair->value)));
    }
    return STATUS_OK;
}

static status read_file_root(void *context, config_node root)
{
    char where[CONFIG_PLACE_MAX];
    if (root.node->type != YAML_MAPPING_NODE)
        return fail(STATUS_ERR_CONFIG, "%s: %s; a configuration is a map of keys",
                    config_place_str(where, &root.place),
                    is_null(root) ? "the file is empty" : "the file holds no map");
    return read_map(context, NULL, root);
}

status config_load_text(config *c, const char *name, const char *text, size_t bytes,
                        bool later_wins)
{
    char *source;
    TRY(arena_strndup(c->book->memory, name, strlen(name), &source));
    config_place origin = {.source = source, .line = 1, .column = 1};
    reader r = {.c = c, .load = ++c->book->loads, .later_wins = later_wins};
    return config_yaml_parse(text, bytes, &origin, read_file_root, &r);
}

typedef struct set_target {
    reader r;
    const setting *s;
    config_place place;
} set_target;

static status read_set_root(void *context, config_node root)
{
    set_target *target = context;
    // A value within a map says that the maps around it are there.
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *map = &config_settings[i];
        config_origin *origin = config_setting_origin(target->r.c, map);
        if (map->kind == SETTING_MAP && config_setting_inside(target->s, map) &&
            (origin->from == ORIGIN_DEFAULT || origin->null))
            mark_given(&target->r, map, &target->place, false);
    }
    return read_setting(&target->r, target->s, &target->place, root);
}

status config_set(config *c, const char *assignment)
{
    char path[CONFIG_PATH_MAX], shown[CONFIG_QUOTE_MAX];
    char *key;
    const char *equals = strchr(assignment, '=');
    size_t length = equals ? (size_t)(equals - assignment) : 0;
    if (!equals)
        return fail(STATUS_ERR_CONFIG, "--set %s has no value; write --set key=value",
                    config_quote(shown, assignment, strlen(assignment)));
    config_quote(shown, assignment, length);
    // The key inside the quotes, cut where it is long.
    TRY(arena_strndup(c->book->memory, shown + 1, strlen(shown) - 2, &key));
    set_target target = {.place = {.key = key}};
    if (!config_path_join(path, NULL, assignment, length))
        return unknown_key(&target.place, shown, NULL);
    target.s = config_setting_find(path);
    if (!target.s || target.s->stance == STANCE_UNKNOWN)
        return unknown_key(&target.place, shown, path);
    target.r = (reader){.c = c, .load = ++c->book->loads, .command = true};
    return config_yaml_parse(equals + 1, strlen(equals + 1), &target.place, read_set_root, &target);
}
