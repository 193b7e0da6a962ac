// The life of a configuration, and reading files.
#include "config/config_schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 4 << 20 }; // bytes; a configuration has a few thousand

status config_create(config **out)
{
    status result = STATUS_OK;
    void *memory = NULL;
    config *c = calloc(1, sizeof *c);
    if (!c)
        return fail(STATUS_ERR_MEMORY, "no memory for the configuration");
    c->book = calloc(1, sizeof *c->book);
    if (!c->book) {
        free(c);
        return fail(STATUS_ERR_MEMORY, "no memory for the configuration");
    }
    TRY_OUT(result, arena_create(&c->book->memory));
    TRY_OUT(result,
            arena_alloc(c->book->memory, config_setting_count, sizeof(config_origin), &memory));
    c->book->origins = memory;
    // Maps take what they hold along.
    for (size_t i = 0; i < config_setting_count; i++)
        if (!strchr(config_settings[i].name, '.'))
            TRY_OUT(result, config_setting_reset(c, &config_settings[i]));
    *out = c;
    c = NULL;
out:
    config_destroy(c);
    return result;
}

void config_destroy(config *c)
{
    if (!c)
        return;
    arena_destroy(c->book->memory);
    free(c->book);
    free(c);
}

static status read_file(FILE *file, const char *path, char **text, size_t *bytes)
{
    char *buffer = malloc((size_t)FILE_MAX + 1);
    if (!buffer)
        return fail(STATUS_ERR_MEMORY, "no memory to read %s", path);
    *bytes = fread(buffer, 1, (size_t)FILE_MAX + 1, file);
    if (ferror(file)) {
        free(buffer);
        return fail_errno(STATUS_ERR_CONFIG, "cannot read %s", path);
    }
    if (*bytes > FILE_MAX) {
        free(buffer);
        return fail(STATUS_ERR_CONFIG, "%s: larger than %d bytes; is it a configuration?", path,
                    FILE_MAX);
    }
    *text = buffer;
    return STATUS_OK;
}

status config_load_file(config *c, const char *path, bool later_wins)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return fail_errno(STATUS_ERR_CONFIG, "cannot open %s", path);
    status result = read_file(file, path, &text, &bytes);
    fclose(file);
    if (result == STATUS_OK)
        result = config_load_text(c, path, text, bytes, later_wins);
    free(text);
    return result;
}

bool config_is_set(const config *c, const char *key)
{
    const setting *s = config_setting_find(key);
    if (!s)
        return false;
    const config_origin *origin = config_setting_origin(c, s);
    return origin->from == ORIGIN_GIVEN && !origin->null;
}

status config_fail(const config *c, const char *key, const char *format, ...)
{
    char text[1500], place[CONFIG_PLACE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const setting *s = config_setting_find(key);
    const config_origin *origin = s ? config_setting_origin(c, s) : NULL;
    if (!origin || origin->from != ORIGIN_GIVEN)
        return fail(STATUS_ERR_CONFIG, "%s", text);
    return fail(STATUS_ERR_CONFIG, "%s: %s", config_place_str(place, &origin->place), text);
}

const char *config_remark(const config *c, size_t index)
{
    const config_remark_list *remark = c->book->first;
    for (; remark; remark = remark->next)
        if (index-- == 0)
            return remark->text;
    return index == 0 ? c->book->ignored : NULL;
}
