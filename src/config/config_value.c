// One setting's value: from a scalar into the struct, and back into text.
#include "config/config_schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TEXT_MAX = 4096 }; // bytes of a text value

config_origin *config_setting_origin(const config *c, const setting *s)
{
    return &c->book->origins[s - config_settings];
}

static void *field_of(config *c, const setting *s)
{
    return s->stance == STANCE_USED ? (char *)c + s->offset : NULL;
}

static const void *const_field_of(const config *c, const setting *s)
{
    return (const char *)c + s->offset;
}

status config_node_fail(config_node at, const setting *s, const char *format, ...)
{
    char text[1024];
    char place[CONFIG_PLACE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    config_place_str(place, &at.place);
    return fail(STATUS_ERR_CONFIG, "%s: %s %s", place, s->name, text);
}

status config_range_check(const setting *s, config_node at, double value, const char *shown)
{
    const setting_range *r = s->range;
    bool above = r->lo_open ? value > r->lo : value >= r->lo;
    bool below = r->hi_open ? value < r->hi : value <= r->hi;
    if (above && below)
        return STATUS_OK;
    return config_node_fail(at, s, "is %s; it must be %s", shown, r->text);
}

static status store_bool(config *c, const setting *s, config_node at, config_scalar scalar)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    bool value;
    if (config_scalar_bool(scalar, &value) != SCALAR_OK)
        return config_node_fail(at, s, "must be true or false, not %s",
                                config_scalar_describe(shown, scalar));
    bool *field = field_of(c, s);
    if (field)
        *field = value;
    return STATUS_OK;
}

static status store_int(config *c, const setting *s, config_node at, config_scalar scalar)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    int64_t value = 0;
    double number;
    config_scalar_describe(shown, scalar);
    switch (config_scalar_int(scalar, &value)) {
    case SCALAR_OK:
        break;
    case SCALAR_TOO_LARGE:
        return config_node_fail(at, s, "is %s, which is too large; it must be %s", shown,
                                s->range->text);
    default:
        if (config_scalar_float(scalar, &number) == SCALAR_OK && number == floor(number) &&
            fabs(number) < 0x1p53)
            return config_node_fail(at, s, "must be a whole number, not %s; write %.0f", shown,
                                    number);
        return config_node_fail(at, s, "must be a whole number (%s), not %s", s->range->text,
                                shown);
    }
    TRY(config_range_check(s, at, (double)value, shown + strlen("the number ")));
    int64_t *field = field_of(c, s);
    if (field)
        *field = value;
    return STATUS_OK;
}

status config_number_read(const setting *s, config_node at, config_scalar scalar, double *value)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    config_scalar_describe(shown, scalar);
    switch (config_scalar_float(scalar, value)) {
    case SCALAR_OK:
        return config_range_check(s, at, *value, shown + strlen("the number "));
    case SCALAR_TOO_LARGE:
        return config_node_fail(at, s, "is %s, which is too large; it must be %s", shown,
                                s->range->text);
    case SCALAR_NOT_FINITE:
        return config_node_fail(at, s, "must be a finite number, not %.*s", (int)scalar.length,
                                scalar.text);
    default:
        return config_node_fail(at, s, "must be a decimal number (%s), not %s", s->range->text,
                                shown);
    }
}

static status store_float(config *c, const setting *s, config_node at, config_scalar scalar)
{
    double value = 0;
    TRY(config_number_read(s, at, scalar, &value));
    double *field = field_of(c, s);
    if (field)
        *field = value;
    return STATUS_OK;
}

// Whether YAML 1.1 reads an unquoted scalar as something else than text.
static bool is_typed(config_scalar scalar)
{
    bool truth;
    int64_t whole;
    double number;
    return config_scalar_bool(scalar, &truth) == SCALAR_OK ||
           config_scalar_int(scalar, &whole) != SCALAR_OTHER ||
           (memchr(scalar.text, '.', scalar.length) &&
            config_scalar_float(scalar, &number) == SCALAR_OK);
}

status config_text_read(config *c, const setting *s, config_node at, config_scalar scalar,
                        const char **value)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    char *copy;
    if (config_scalar_is_null(scalar) || is_typed(scalar))
        return config_node_fail(at, s, "must be text, not %s; quote it",
                                config_scalar_describe(shown, scalar));
    if (memchr(scalar.text, '\0', scalar.length))
        return config_node_fail(at, s, "holds a NUL character; it must be plain text");
    if (scalar.length >= TEXT_MAX)
        return config_node_fail(at, s, "is %zu bytes long; at most %d are read", scalar.length,
                                TEXT_MAX - 1);
    TRY(arena_strndup(c->book->memory, scalar.text, scalar.length, &copy));
    *value = copy;
    return STATUS_OK;
}

static status store_string(config *c, const setting *s, config_node at, config_scalar scalar)
{
    const char *value = NULL;
    TRY(config_text_read(c, s, at, scalar, &value));
    const char **field = field_of(c, s);
    if (field)
        *field = value;
    return STATUS_OK;
}

// Letters in either case, dashes as underscores.
static bool same_word(const char *name, config_scalar scalar)
{
    if (strlen(name) != scalar.length)
        return false;
    for (size_t i = 0; i < scalar.length; i++) {
        char a = name[i] == '-' ? '_' : name[i];
        char b = scalar.text[i] == '-' ? '_' : scalar.text[i];
        if (strncasecmp(&a, &b, 1))
            return false;
    }
    return true;
}

static status store_choice(config *c, const setting *s, config_node at, config_scalar scalar,
                           const char **refusal)
{
    char shown[CONFIG_QUOTE_MAX + 16];
    char known[512] = "";
    for (const setting_choice *choice = s->choices; choice->name; choice++) {
        if (same_word(choice->name, scalar)) {
            int *field = field_of(c, s);
            if (field)
                *field = choice->value;
            *refusal = choice->refusal;
            return STATUS_OK;
        }
        if (!choice->refusal) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", choice->name);
        }
    }
    return config_node_fail(at, s, "cannot be %s; known are %s",
                            config_scalar_describe(shown, scalar), known);
}

status config_scalar_store(config *c, const setting *s, config_node at, config_scalar scalar,
                           const char **refusal)
{
    switch (s->kind) {
    case SETTING_BOOL:
        return store_bool(c, s, at, scalar);
    case SETTING_INT:
        return store_int(c, s, at, scalar);
    case SETTING_FLOAT:
        return store_float(c, s, at, scalar);
    case SETTING_STRING:
        return store_string(c, s, at, scalar);
    case SETTING_CHOICE:
        return store_choice(c, s, at, scalar, refusal);
    default:
        return STATUS_OK;
    }
}

// Bytes of the field.
static size_t field_bytes(const setting *s)
{
    switch (s->kind) {
    case SETTING_BOOL:
        return sizeof(bool);
    case SETTING_INT:
        return sizeof(int64_t);
    case SETTING_FLOAT:
        return sizeof(double);
    case SETTING_STRING:
        return sizeof(const char *);
    case SETTING_CHOICE:
        return sizeof(int);
    case SETTING_INTS:
        return sizeof(config_ints);
    case SETTING_FLOATS:
        return sizeof(config_floats);
    case SETTING_STRINGS:
        return sizeof(config_strings);
    case SETTING_ATTENTION:
        return sizeof(config_attention);
    default:
        return 0;
    }
}

typedef struct fallback_target {
    config *c;
    const setting *s;
} fallback_target;

static status store_fallback_list(void *context, config_node root)
{
    const char *refusal;
    fallback_target *target = context;
    return config_list_store(target->c, target->s, root, &refusal);
}

static status reset_one(config *c, const setting *s)
{
    const char *refusal = NULL;
    memset(config_setting_origin(c, s), 0, sizeof(config_origin));
    if (s->stance != STANCE_USED || s->kind == SETTING_MAP || s->kind == SETTING_SECTION)
        return STATUS_OK;
    memset(field_of(c, s), 0, field_bytes(s));
    if (!s->fallback)
        return STATUS_OK;
    config_place place = {.source = "default", .line = 1, .column = 1};
    size_t length = strlen(s->fallback);
    if (s->kind == SETTING_FLOATS) {
        fallback_target target = {c, s};
        return config_yaml_parse(s->fallback, length, &place, store_fallback_list, &target);
    }
    config_node at = {.place = place};
    config_scalar scalar = {s->fallback, length, s->kind != SETTING_STRING};
    return config_scalar_store(c, s, at, scalar, &refusal);
}

status config_setting_reset(config *c, const setting *s)
{
    TRY(reset_one(c, s));
    if (s->kind == SETTING_MAP)
        for (size_t i = 0; i < config_setting_count; i++)
            if (config_setting_inside(&config_settings[i], s))
                TRY(reset_one(c, &config_settings[i]));
    return STATUS_OK;
}

// --- printing ---

// Whether a code point must be escaped to survive inside double quotes.
static bool needs_escape(unsigned point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x2028 || point == 0x2029 ||
           point == 0xfeff || point == 0xfffe || point == 0xffff;
}

// The code point at `text` of valid UTF-8 and its bytes.
static unsigned code_point(const char *text, size_t *bytes)
{
    const unsigned char *t = (const unsigned char *)text;
    size_t n = t[0] < 0x80 ? 1 : t[0] < 0xe0 ? 2 : t[0] < 0xf0 ? 3 : 4;
    unsigned point = n == 1 ? t[0] : t[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((t[i] & 0xc0) != 0x80) {
            *bytes = 1;
            return t[0];
        }
        point = point << 6 | (t[i] & 0x3fu);
    }
    *bytes = n;
    return point;
}

static void print_string(const char *text, FILE *out)
{
    putc('"', out);
    while (*text) {
        size_t bytes;
        unsigned point = code_point(text, &bytes);
        if (point == '"' || point == '\\')
            fprintf(out, "\\%c", (char)point);
        else if (needs_escape(point))
            fprintf(out, "\\u%04x", point);
        else
            fwrite(text, 1, bytes, out);
        text += bytes;
    }
    putc('"', out);
}

// The shortest text that strtod reads back to the same bits.
static void print_float(double value, FILE *out)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, out);
}

static void print_choice(const setting *s, int value, FILE *out)
{
    for (const setting_choice *choice = s->choices; choice->name; choice++)
        if (choice->value == value && !choice->refusal) {
            print_string(choice->name, out);
            return;
        }
    fputs("null", out);
}

static void print_attention(const config_attention *list, FILE *out)
{
    putc('[', out);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i ? ", [[" : "[[", out);
        for (int64_t j = 0; j < list->items[i].length; j++)
            fputs(j ? ", \"global\"" : "\"global\"", out);
        if (list->items[i].count > 0)
            fprintf(out, "], %lld]", (long long)list->items[i].count);
        else
            fputs("], \"all\"]", out);
    }
    putc(']', out);
}

static void print_list(const setting *s, const void *field, FILE *out)
{
    const config_strings *strings = field;
    const config_floats *floats = field;
    const config_ints *ints = field;
    size_t n = s->kind == SETTING_STRINGS  ? strings->count
               : s->kind == SETTING_FLOATS ? floats->count
                                           : ints->count;
    putc('[', out);
    for (size_t i = 0; i < n; i++) {
        if (i)
            fputs(", ", out);
        if (s->kind == SETTING_STRINGS)
            print_string(strings->items[i], out);
        else if (s->kind == SETTING_FLOATS)
            print_float(floats->items[i], out);
        else
            fprintf(out, "%lld", (long long)ints->items[i]);
    }
    putc(']', out);
}

// Whether the setting has a value at all: a default, or one given or derived.
bool config_setting_has_value(const config *c, const setting *s)
{
    const config_origin *origin = config_setting_origin(c, s);
    return s->fallback || (origin->from != ORIGIN_DEFAULT && !origin->null);
}

void config_value_print(const config *c, const setting *s, FILE *out)
{
    const void *field = const_field_of(c, s);
    if (!config_setting_has_value(c, s)) {
        fputs("null", out);
        return;
    }
    switch (s->kind) {
    case SETTING_BOOL:
        fputs(*(const bool *)field ? "true" : "false", out);
        break;
    case SETTING_INT:
        fprintf(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case SETTING_FLOAT:
        print_float(*(const double *)field, out);
        break;
    case SETTING_STRING:
        print_string(*(const char *const *)field, out);
        break;
    case SETTING_CHOICE:
        print_choice(s, *(const int *)field, out);
        break;
    case SETTING_ATTENTION:
        print_attention(field, out);
        break;
    case SETTING_INTS:
    case SETTING_FLOATS:
    case SETTING_STRINGS:
        print_list(s, field, out);
        break;
    default:
        break;
    }
}
