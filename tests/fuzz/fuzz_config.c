// The configuration: an input is a file, then one --set a line after a line "===". What resolves
// must dump to a text that loads again and dumps to the same.
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"

static void ignore(void *context, const char *name, const char *value, const char *source)
{
    *(size_t *)context += strlen(name) + strlen(value) + strlen(source);
}

static void must(bool held)
{
    if (!held)
        abort();
}

// `text` is not ended by a NUL.
static status apply_sets(config *c, const char *text, size_t size)
{
    while (size > 0) {
        const char *newline = memchr(text, '\n', size);
        size_t length = newline ? (size_t)(newline - text) : size;
        char *line = strndup(text, length);
        must(line != NULL);
        status result = config_set(c, line);
        free(line);
        TRY(result);
        size -= newline ? length + 1 : length;
        text += newline ? length + 1 : length;
    }
    return STATUS_OK;
}

static void check_dump(const config *c, int world_size)
{
    char *first = NULL, *second = NULL;
    config *again = NULL;
    must(config_dump(c, &first) == STATUS_OK);
    must(config_create(&again) == STATUS_OK);
    must(config_load_text(again, "dump", first, strlen(first), false) == STATUS_OK);
    must(config_resolve(again, world_size) == STATUS_OK);
    must(config_dump(again, &second) == STATUS_OK);
    must(!strcmp(first, second));
    config_destroy(again);
    free(second);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char mark[] = "\n===\n";
    const char *text = (const char *)data;
    const char *cut = size ? memmem(text, size, mark, sizeof mark - 1) : NULL;
    size_t bytes = cut ? (size_t)(cut - text) : size;
    int world_size = 1 + (int)(size % 8);
    size_t seen = 0;
    config *c = NULL;
    must(config_create(&c) == STATUS_OK);
    status result = config_load_text(c, "input", text, bytes, true);
    if (result == STATUS_OK && cut)
        result = apply_sets(c, cut + sizeof mark - 1, size - bytes - (sizeof mark - 1));
    if (result == STATUS_OK)
        result = config_resolve(c, world_size);
    must((result == STATUS_OK) == (error_message()[0] == '\0'));
    must(strchr(error_message(), '\n') == NULL);
    if (result == STATUS_OK) {
        must(config_list(c, ignore, &seen) == STATUS_OK);
        check_dump(c, world_size);
    }
    config_destroy(c);
    error_clear();
    return 0;
}
