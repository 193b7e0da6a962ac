#include "checkpoint/hashed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/memory.h"

enum {
    CHUNK = 1 << 20, // bytes a read
};

struct hashed_file {
    char *path;
    int fd;
    bool finished;
    uint64_t bytes;
    XXH3_state_t *state;
};

status hashed_file_create(const char *path, hashed_file **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(hashed_file), "file", &memory));
    hashed_file *f = memory;
    f->fd = -1;
    status result = STATUS_OK;
    f->path = strdup(path);
    f->state = XXH3_createState();
    if (!f->path || !f->state)
        result = fail(STATUS_ERR_MEMORY, "%s: out of memory", path);
    if (result == STATUS_OK) {
        XXH3_64bits_reset(f->state);
        f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (f->fd < 0)
            result = fail_errno(STATUS_ERR_IO, "%s: cannot be created", path);
    }
    if (result == STATUS_OK)
        *out = f;
    else
        hashed_file_destroy(f);
    return result;
}

status hashed_file_write(hashed_file *f, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    XXH3_64bits_update(f->state, data, bytes);
    f->bytes += bytes;
    while (bytes > 0) {
        const ssize_t written = write(f->fd, p, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail_errno(STATUS_ERR_IO, "%s: cannot be written at byte %llu", f->path,
                              (unsigned long long)(f->bytes - bytes));
        p += written;
        bytes -= (size_t)written;
    }
    return STATUS_OK;
}

status hashed_file_finish(hashed_file *f, uint64_t *bytes, uint64_t *hash)
{
    if (fsync(f->fd) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be synced", f->path);
    f->finished = true;
    *bytes = f->bytes;
    *hash = XXH3_64bits_digest(f->state);
    return STATUS_OK;
}

void hashed_file_destroy(hashed_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->fd >= 0 && !f->finished)
        unlink(f->path);
    XXH3_freeState(f->state);
    free(f->path);
    memory_free(f);
}

static status hash_all(int fd, const char *path, void *buffer, XXH3_state_t *state, uint64_t *bytes)
{
    *bytes = 0;
    for (;;) {
        const ssize_t got = read(fd, buffer, CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(STATUS_ERR_IO, "%s: cannot be read", path);
        if (got == 0)
            return STATUS_OK;
        XXH3_64bits_update(state, buffer, (size_t)got);
        *bytes += (uint64_t)got;
    }
}

status hashed_file_check(const char *path, uint64_t *bytes, uint64_t *hash)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(STATUS_ERR_FORMAT, "%s: cannot be opened", path);
    void *buffer = NULL;
    XXH3_state_t *state = XXH3_createState();
    status result = memory_alloc(CHUNK, 1, "file buffer", &buffer);
    if (result == STATUS_OK && !state)
        result = fail(STATUS_ERR_MEMORY, "%s: out of memory", path);
    if (result == STATUS_OK) {
        XXH3_64bits_reset(state);
        result = hash_all(fd, path, buffer, state, bytes);
        *hash = XXH3_64bits_digest(state);
    }
    XXH3_freeState(state);
    memory_free(buffer);
    close(fd);
    return result;
}

status hashed_file_put(const char *path, const char *text, uint64_t *bytes, uint64_t *hash)
{
    hashed_file *f;
    TRY(hashed_file_create(path, &f));
    status result = hashed_file_write(f, text, strlen(text));
    if (result == STATUS_OK)
        result = hashed_file_finish(f, bytes, hash);
    hashed_file_destroy(f);
    return result;
}

status hashed_file_sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be opened", folder);
    const int code = fsync(fd);
    const int error = errno;
    close(fd);
    errno = error;
    // Some network file systems cannot sync a folder; there is no more to do then.
    if (code != 0 && error != EINVAL && error != ENOTSUP)
        return fail_errno(STATUS_ERR_IO, "%s: cannot be synced", folder);
    return STATUS_OK;
}
