/* Inside the config module: the table of settings and what is done with one setting.
 *
 * A setting is found by its dotted path ("optimizer.params.lr"); a map is a setting of its own, its
 * children follow it in the table. */
#ifndef TRIFOLD_CONFIG_CONFIG_SCHEMA_H
#define TRIFOLD_CONFIG_CONFIG_SCHEMA_H

#include <yaml.h>

#include "base/memory.h"
#include "config/config.h"

typedef enum setting_kind {
    SETTING_SECTION, /* a heading for help and documentation, no key */
    SETTING_BOOL,
    SETTING_INT,
    SETTING_FLOAT,
    SETTING_STRING,
    SETTING_CHOICE,
    SETTING_INTS,
    SETTING_FLOATS,
    SETTING_STRINGS,
    SETTING_ATTENTION,
    SETTING_MAP,
    SETTING_ANY, /* read over, whatever it holds */
} setting_kind;

typedef enum setting_stance {
    STANCE_USED,
    STANCE_IGNORED, /* GPT-NeoX knows it, it has no effect here: one remark names it */
    STANCE_REFUSED, /* an error unless it has a value that switches it off */
    STANCE_UNKNOWN, /* no key, in GPT-NeoX neither, but found in its files: help says what is meant
                     */
} setting_stance;

typedef struct setting_choice {
    const char *name;
    int value;
    const char *refusal; /* NULL, or why a run cannot have it */
} setting_choice;

/* The values a number may have: lo <= x <= hi, without the ends where they are open. */
typedef struct setting_range {
    const char *text; /* "at least 1" */
    double lo, hi;
    bool lo_open, hi_open;
} setting_range;

typedef struct setting {
    const char *name; /* dotted path, underscores */
    setting_kind kind;
    setting_stance stance;
    size_t offset;        /* in struct config; of what a used setting sets */
    const char *fallback; /* default as YAML, NULL: none */
    const setting_range *range;
    const setting_choice *choices; /* ends with a NULL name */
    const char *help;              /* meaning; of a refused setting: the reason */
    const char *off;               /* refused: values that are accepted, parted by '|' */
    bool folded; /* a repetition that help and documentation show once, as another setting */
} setting;

extern const setting config_settings[];
extern const size_t config_setting_count;

/* Where a value stands. */
typedef struct config_place {
    const char *source; /* file name; of --set: NULL */
    const char *key;    /* of --set, as typed */
    size_t line, column;
} config_place;

/* What is known of one setting's value; parallel to config_settings. */
typedef struct config_origin {
    enum { ORIGIN_DEFAULT, ORIGIN_GIVEN, ORIGIN_DERIVED } from;
    bool null;           /* given as null: counts as absent */
    unsigned load;       /* the file or --set that gave it, from 1 */
    config_place place;  /* of the key */
    const char *refusal; /* why a run cannot have the value, or NULL */
} config_origin;

typedef struct config_remark_list {
    const char *text;
    struct config_remark_list *next;
} config_remark_list;

typedef struct config_book {
    arena *memory;
    config_origin *origins;
    unsigned loads;            /* files and --set so far */
    config_remark_list *first; /* overrides in the order they came */
    config_remark_list *last;
    const char *ignored; /* the remark on keys without effect, made by config_resolve */
} config_book;

/* --- names (config_names.c) --- */

enum {
    CONFIG_PATH_MAX = 192,  /* bytes of a dotted path with the NUL */
    CONFIG_QUOTE_MAX = 96,  /* bytes of a quoted value in a message */
    CONFIG_PLACE_MAX = 320, /* bytes of a place in a message */
};

/* Write "`prefix`.`key`" with dashes as underscores; without a prefix the key alone. False where it
 * does not fit or holds a NUL. */
bool config_path_join(char path[CONFIG_PATH_MAX], const char *prefix, const char *key,
                      size_t length);

/* The setting with this path, or NULL. */
const setting *config_setting_find(const char *path);

/* Whether `child` lies inside the map `parent`, at any depth. */
bool config_setting_inside(const setting *child, const setting *parent);

/* The known path that the unknown `path` most likely means, or NULL. */
const char *config_setting_nearest(const char *path);

/* `text` between double quotes, one line, cut where it is long. */
const char *config_quote(char out[CONFIG_QUOTE_MAX], const char *text, size_t length);

/* "FILE:LINE:COL" or "--set KEY". */
const char *config_place_str(char out[CONFIG_PLACE_MAX], const config_place *place);

/* --- scalars (config_scalar.c) --- */

typedef struct config_scalar {
    const char *text;
    size_t length;
    bool plain; /* unquoted, so that it may be a number, a bool or null */
} config_scalar;

typedef enum scalar_result {
    SCALAR_OK,
    SCALAR_OTHER,      /* not of this type */
    SCALAR_TOO_LARGE,  /* of this type, but it does not fit */
    SCALAR_NOT_FINITE, /* nan or inf */
} scalar_result;

bool config_scalar_is_null(config_scalar s);
scalar_result config_scalar_bool(config_scalar s, bool *value);
scalar_result config_scalar_int(config_scalar s, int64_t *value);
scalar_result config_scalar_float(config_scalar s, double *value);

/* What a scalar is, for messages: "the text \"fast\"", "true", "the number 3". */
const char *config_scalar_describe(char out[CONFIG_QUOTE_MAX + 16], config_scalar s);

/* --- reading (config_yaml.c) --- */

/* A value in a parsed document. */
typedef struct config_node {
    yaml_document_t *document;
    yaml_node_t *node;
    config_place place;
} config_node;

/* Parse `text` as one YAML document and hand its root to `read`; an empty text has the root null.
 * `origin` names the source. */
status config_yaml_parse(const char *text, size_t bytes, const config_place *origin,
                         status (*read)(void *context, config_node root), void *context);

/* Node `item` of the document that `from` lies in. */
config_node config_node_at(config_node from, yaml_node_item_t item);

/* The text of a scalar node; lives as long as the document. */
config_scalar config_node_scalar(config_node node);

/* --- values (config_value.c, config_lists.c) --- */

config_origin *config_setting_origin(const config *c, const setting *s);

/* Record "PLACE: KEY message". */
status config_node_fail(config_node at, const setting *s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Put a setting, or a map with all it holds, back to its default and forget its origin. */
status config_setting_reset(config *c, const setting *s);

/* Convert a scalar, or a list, and store it. *refusal is set where a run cannot have the value. */
status config_scalar_store(config *c, const setting *s, config_node at, config_scalar scalar,
                           const char **refusal);
status config_list_store(config *c, const setting *s, config_node value, const char **refusal);

/* The parts of which these are made. */
status config_text_read(config *c, const setting *s, config_node at, config_scalar scalar,
                        const char **value);
status config_number_read(const setting *s, config_node at, config_scalar scalar, double *value);
status config_range_check(const setting *s, config_node at, double value, const char *shown);

/* Whether the setting has a value: a default, or one given or derived. */
bool config_setting_has_value(const config *c, const setting *s);

/* Write the value as JSON; null where it has none. */
void config_value_print(const config *c, const setting *s, FILE *out);

/* --- resolving (config_resolve.c, config_check.c, config_grid.c) --- */

/* Note that config_resolve set the field of `key`, unless it was given. */
void config_mark_derived(config *c, const char *key);

/* Data, checkpoint and compression keys by themselves. */
status config_check_data(const config *c);
status config_check_saving(const config *c);
status config_check_compression(const config *c);

/* Find data_parallel_size; heads and layers must suffice for the grid. */
status config_derive_grid(config *c, int world_size);

/* Whether tensor ranks can share out `value`, which is called `key`. */
status config_check_tensor_split(const config *c, const char *key, int64_t value);

/* The batch sizes from those given. */
status config_derive_batch(config *c);

#endif
