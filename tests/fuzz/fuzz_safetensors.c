// A safetensors file. What opens must read, every tensor whole and in pieces, to the same values.
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"

static void read_tensor(const safetensors *st, const safetensors_entry *e)
{
    float *whole = malloc((e->count + 1) * sizeof *whole);
    float *piece = malloc((e->count + 1) * sizeof *piece);
    if (!whole || !piece)
        abort();
    if (safetensors_read(st, e, 0, e->count, whole) == STATUS_OK) {
        const size_t half = e->count / 2;
        if (safetensors_read(st, e, 0, half, piece) != STATUS_OK ||
            safetensors_read(st, e, half, e->count - half, piece + half) != STATUS_OK ||
            memcmp(whole, piece, e->count * sizeof *whole) != 0)
            abort();
    }
    free(whole);
    free(piece);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    safetensors *st;
    if (fd < 0)
        fd = memfd_create("safetensors", 0);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (safetensors_open(path, &st) == STATUS_OK) {
        for (size_t i = 0; i < safetensors_count(st); i++) {
            const safetensors_entry *e = safetensors_at(st, i);
            if (safetensors_find(st, e->name) != e)
                abort();
            read_tensor(st, e);
        }
        safetensors_close(st);
    }
    error_clear();
    return 0;
}
