// Names of settings: their one spelling, looking them up, and guessing what a wrong one meant.
#include "config/config_schema.h"

#include <string.h>

bool config_path_join(char path[CONFIG_PATH_MAX], const char *prefix, const char *key,
                      size_t length)
{
    size_t at = 0;
    if (prefix && prefix[0]) {
        at = strlen(prefix);
        if (at + 1 >= CONFIG_PATH_MAX)
            return false;
        memcpy(path, prefix, at);
        path[at++] = '.';
    }
    if (length == 0 || length >= CONFIG_PATH_MAX - at || memchr(key, '\0', length))
        return false;
    for (size_t i = 0; i < length; i++)
        path[at + i] = key[i] == '-' ? '_' : key[i];
    path[at + length] = '\0';
    return true;
}

const setting *config_setting_find(const char *path)
{
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (s->kind != SETTING_SECTION && !strcmp(s->name, path))
            return s;
    }
    return NULL;
}

bool config_setting_inside(const setting *child, const setting *parent)
{
    size_t length = strlen(parent->name);
    return child->kind != SETTING_SECTION && !strncmp(child->name, parent->name, length) &&
           child->name[length] == '.';
}

// Bytes of `path` before its last component.
static size_t parent_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? (size_t)(dot - path) + 1 : 0;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`; both shorter than
// CONFIG_PATH_MAX.
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned rows[3][CONFIG_PATH_MAX];
    size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        rows[0][j] = (unsigned)j;
    size_t i = 0;
    for (; a[i]; i++) {
        unsigned *before = rows[(i + 2) % 3], *last = rows[i % 3], *row = rows[(i + 1) % 3];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < n; j++) {
            row[j + 1] = min3(last[j + 1] + 1, row[j] + 1, last[j] + (a[i] != b[j]));
            if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] &&
                before[j - 1] + 1 < row[j + 1])
                row[j + 1] = before[j - 1] + 1;
        }
    }
    return rows[i % 3][n];
}

// The first nearest name of the same map within `least` edits.
static const char *nearest_sibling(const char *path, unsigned least)
{
    size_t parent = parent_length(path);
    const char *name = path + parent;
    const char *best = NULL;
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        if (s->kind == SETTING_SECTION || s->stance >= STANCE_REFUSED ||
            parent_length(s->name) != parent || strncmp(s->name, path, parent))
            continue;
        unsigned distance = edit_distance(name, s->name + parent);
        if (distance < least || (distance == least && !best)) {
            least = distance;
            best = s->name;
        }
    }
    return best;
}

// A setting of the same name on another level: `lr` at the top means optimizer.params.lr,
// `weight_decay` inside optimizer the one at the top.
static const char *namesake(const char *path)
{
    const char *name = path + parent_length(path);
    for (size_t i = 0; i < config_setting_count; i++) {
        const setting *s = &config_settings[i];
        bool other_level = parent_length(s->name) == 0 || name == path;
        if (s->kind != SETTING_SECTION && s->stance < STANCE_REFUSED && !s->folded && other_level &&
            !strcmp(s->name + parent_length(s->name), name))
            return s->name;
    }
    return NULL;
}

const char *config_setting_nearest(const char *path)
{
    unsigned far = (unsigned)strlen(path + parent_length(path)) / 3;
    const char *found = nearest_sibling(path, 1);
    if (!found)
        found = namesake(path);
    return found ? found : nearest_sibling(path, far < 2 ? 2 : far);
}

const char *config_quote(char out[CONFIG_QUOTE_MAX], const char *text, size_t length)
{
    size_t at = 0;
    out[at++] = '"';
    for (size_t i = 0; i < length; i++) {
        if (at >= CONFIG_QUOTE_MAX - 5) {
            // Never end inside a UTF-8 sequence.
            while (at > 1 && ((unsigned char)out[at - 1] & 0xc0) == 0x80)
                at--;
            if (at > 1 && (unsigned char)out[at - 1] >= 0xc0)
                at--;
            memcpy(out + at, "...", 3);
            at += 3;
            break;
        }
        unsigned char c = (unsigned char)text[i];
        out[at++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

const char *config_place_str(char out[CONFIG_PLACE_MAX], const config_place *place)
{
    if (!place->source) {
        snprintf(out, CONFIG_PLACE_MAX, "--set %s", place->key ? place->key : "");
        return out;
    }
    // Of a very long path the end tells more.
    size_t length = strlen(place->source), shown = CONFIG_PLACE_MAX - 64;
    const char *tail = length > shown ? place->source + length - shown : place->source;
    snprintf(out, CONFIG_PLACE_MAX, "%s%s:%zu:%zu", tail == place->source ? "" : "...", tail,
             place->line, place->column);
    return out;
}
