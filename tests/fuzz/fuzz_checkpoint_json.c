// state.json and Hugging Face's config.json, which share a reader of JSON: both are tried on every
// input. A state that is read must be written and read back to the same text.
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/checkpoint_internal.h"
#include "checkpoint/hf_config.h"

static int fd = -1;
static char path[64];

static void put(const void *data, size_t size)
{
    if (fd < 0) {
        fd = memfd_create("checkpoint", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    checkpoint_state state;
    model_shape shape;
    char *text, *again;
    put(data, size);
    if (hf_config_read(path, &shape) == STATUS_OK && model_shape_check(&shape) != STATUS_OK)
        abort();
    if (checkpoint_state_parse(path, &state) == STATUS_OK) {
        if (checkpoint_state_format(&state, &text) != STATUS_OK)
            abort();
        put(text, strlen(text));
        if (checkpoint_state_parse(path, &state) != STATUS_OK ||
            checkpoint_state_format(&state, &again) != STATUS_OK || strcmp(text, again) != 0)
            abort();
        free(text);
        free(again);
    }
    error_clear();
    return 0;
}
