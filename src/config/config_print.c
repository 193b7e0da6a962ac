// Texts made from the table: the help of `trifold train`, the page of documentation, the list of
// settings in effect and the dump.
#include "config/config_schema.h"

#include <stdlib.h>
#include <string.h>

// --- settings in effect ---

static void describe_origin(char *text, size_t bytes, const config_origin *origin)
{
    if (origin->from == ORIGIN_DERIVED)
        snprintf(text, bytes, "derived");
    else if (origin->from == ORIGIN_DEFAULT || origin->null)
        snprintf(text, bytes, "default");
    else if (origin->place.source)
        snprintf(text, bytes, "%s:%zu", origin->place.source, origin->place.line);
    else
        snprintf(text, bytes, "--set");
}

static bool in_effect(const config *c, const setting *s)
{
    return s->kind != SETTING_SECTION && s->kind != SETTING_MAP && s->stance == STANCE_USED &&
           config_setting_has_value(c, s);
}

status config_list(const config *c, config_visitor visit, void *context)
{
    char source[1024];
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        char *value = NULL;
        size_t bytes = 0;
        if (!in_effect(c, s))
            continue;
        FILE *out = open_memstream(&value, &bytes);
        if (!out)
            return fail(STATUS_ERR_MEMORY, "no memory to list the configuration");
        config_value_print(c, s, out);
        if (fclose(out) != 0) {
            free(value);
            return fail(STATUS_ERR_MEMORY, "no memory to list the configuration");
        }
        describe_origin(source, sizeof source, config_setting_origin(c, s));
        visit(context, s->name, value, source);
        free(value);
    }
    return STATUS_OK;
}

// --- the dump ---

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

// Members of the map `map`, or of the top level: those whose path has no further part.
static bool is_member(const setting *s, const setting *map)
{
    if (s->kind == SETTING_SECTION || (map && !config_setting_inside(s, map)))
        return false;
    return !strchr(s->name + (map ? strlen(map->name) + 1 : 0), '.');
}

static bool holds_something(const config *c, const setting *map)
{
    for (size_t i = 0; i < config_setting_count; i++)
        if (config_setting_inside(&config_settings[i], map) && in_effect(c, &config_settings[i]))
            return true;
    return false;
}

// Depth is that of the table's names: at most four.
static void dump_map(const config *c, const setting *map, int depth, FILE *out)
{
    const char *separator = "";
    fputs("{", out);
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        bool is_map = s->kind == SETTING_MAP && holds_something(c, s);
        if (!is_member(s, map) || !(is_map || in_effect(c, s)))
            continue;
        fprintf(out, "%s\n%*s\"%s\": ", separator, 2 * depth + 2, "", last_name(s->name));
        if (is_map)
            dump_map(c, s, depth + 1, out);
        else
            config_value_print(c, s, out);
        separator = ",";
    }
    fprintf(out, "\n%*s}", 2 * depth, "");
}

status config_dump(const config *c, char **out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return fail(STATUS_ERR_MEMORY, "no memory to write the configuration");
    dump_map(c, NULL, 0, stream);
    putc('\n', stream);
    if (fclose(stream) != 0) {
        free(text);
        return fail(STATUS_ERR_MEMORY, "no memory to write the configuration");
    }
    *out = text;
    return STATUS_OK;
}

// --- help and documentation ---

// A bar would end the cell of a table.
static void print_cell(const char *text, FILE *out)
{
    for (; *text; text++)
        fputs(*text == '|' ? "\\|" : (char[]){*text, '\0'}, out);
}

static void print_type(const setting *s, const char *separator, FILE *out)
{
    bool cell = separator[0] == ',';
    static const char *const names[] = {
        [SETTING_BOOL] = "bool",
        [SETTING_INT] = "int",
        [SETTING_FLOAT] = "float",
        [SETTING_STRING] = "text",
        [SETTING_INTS] = "list of int",
        [SETTING_FLOATS] = "list of float",
        [SETTING_STRINGS] = "list of text",
        [SETTING_ATTENTION] = "list of [types, count]",
        [SETTING_MAP] = "map",
        [SETTING_ANY] = "any",
    };
    const char *between = "";
    if (s->kind != SETTING_CHOICE) {
        fputs(names[s->kind], out);
        return;
    }
    for (const setting_choice *choice = s->choices; choice->name; choice++) {
        if (choice->refusal)
            continue;
        fputs(between, out);
        if (cell)
            print_cell(choice->name, out);
        else
            fputs(choice->name, out);
        between = separator;
    }
}

static bool is_shown(const setting *s, setting_stance stance)
{
    return s->kind != SETTING_SECTION && !s->folded && s->stance == stance;
}

// The names of one stance, wrapped.
static void print_names(setting_stance stance, FILE *out)
{
    size_t column = 0;
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (!is_shown(s, stance))
            continue;
        size_t length = strlen(s->name) + 1;
        if (column + length > 96)
            column = 0;
        fprintf(out, "%s%s", column == 0 ? "\n  " : " ", s->name);
        column += length;
    }
    fputs("\n", out);
}

void config_print_help(FILE *out)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (s->kind == SETTING_SECTION)
            fprintf(out, "\n%s:\n", s->name);
        if (!is_shown(s, STANCE_USED))
            continue;
        fprintf(out, "  %s: ", s->name);
        print_type(s, "|", out);
        if (s->fallback)
            fprintf(out, ", default %s", s->fallback);
        if (s->range && s->kind != SETTING_BOOL)
            fprintf(out, ", %s", s->range->text);
        fprintf(out, "\n      %s\n", s->help);
    }
    fputs("\nAccepted without effect:", out);
    print_names(STANCE_IGNORED, out);
    fputs("\nKnown from GPT-NeoX and refused where switched on:", out);
    print_names(STANCE_REFUSED, out);
}

static void print_section(const setting *first, const setting *end, FILE *out)
{
    bool any = false;
    for (const setting *s = first + 1; s < end && s->kind != SETTING_SECTION; s++)
        any = any || is_shown(s, STANCE_USED);
    if (!any)
        return;
    fprintf(out, "\n### %s\n\n| key | type | default | meaning |\n|---|---|---|---|\n",
            first->name);
    for (const setting *s = first + 1; s < end && s->kind != SETTING_SECTION; s++) {
        if (!is_shown(s, STANCE_USED))
            continue;
        fprintf(out, "| `%s` | ", s->name);
        print_type(s, ", ", out);
        if (s->range)
            fprintf(out, ", %s", s->range->text);
        fputs(" | ", out);
        print_cell(s->fallback ? s->fallback : "", out);
        fprintf(out, " | %s |\n", s->help);
    }
}

static void print_known(setting_stance stance, FILE *out)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (!is_shown(s, stance))
            continue;
        fprintf(out, "| `%s` | ", s->name);
        for (const char *p = s->off ? s->off : ""; stance == STANCE_REFUSED && *p; p++)
            fputs(*p == '|' ? " or " : (char[]){*p, '\0'}, out);
        fprintf(out, "%s%s |\n", stance == STANCE_REFUSED ? " | " : "", s->help);
    }
}

void config_print_markdown(FILE *out)
{
    const setting *end = config_settings + config_setting_count;
    for (const setting *s = config_settings; s < end; s++)
        if (s->kind == SETTING_SECTION)
            print_section(s, end, out);
    fputs("\n### Accepted without effect\n\nOne line at the start of a run names those that a file "
          "sets.\n\n| key | why |\n|---|---|\n",
          out);
    print_known(STANCE_IGNORED, out);
    fputs("\n### Refused\n\nKeys of GPT-NeoX that are an error unless they are null, an empty map, "
          "a map with `enabled: false`,\nor have the value shown.\n\n"
          "| key | accepted | why |\n|---|---|---|\n",
          out);
    print_known(STANCE_REFUSED, out);
}
