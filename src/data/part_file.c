#include "data/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "data/indexed_format.h"

enum { PART_BUFFER_BYTES = 256 * 1024 };

static status write_failed(const char *path, size_t bytes)
{
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
        return fail_errno(STATUS_ERR_IO,
                          "%s: no room for %zu bytes more; free some, or choose another folder",
                          path, bytes);
    return fail_errno(STATUS_ERR_IO, "%s: cannot write %zu bytes", path, bytes);
}

status part_flush(part_file *part)
{
    const uint8_t *bytes = part->buffer;
    while (part->used > 0) {
        ssize_t written = write(part->fd, bytes, part->used);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return write_failed(part->path, part->used);
        bytes += written;
        part->used -= (size_t)written;
    }
    return STATUS_OK;
}

status part_write(part_file *part, const void *data, size_t bytes)
{
    const uint8_t *source = data;
    while (bytes > 0) {
        if (part->used == PART_BUFFER_BYTES)
            TRY(part_flush(part));
        size_t piece = size_min(bytes, PART_BUFFER_BYTES - part->used);
        memcpy(part->buffer + part->used, source, piece);
        part->used += piece;
        source += piece;
        bytes -= piece;
    }
    return STATUS_OK;
}

// The lock comes before the truncation: another writer's file must not be harmed. It counts only if
// the name still leads to the file, which the other writer may just have moved into place.
static bool lock_is_ours(const part_file *part)
{
    struct stat ours, named;
    if (flock(part->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(part->fd, &ours) == 0 && stat(part->path, &named) == 0 &&
           ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

status part_open(const char *prefix, const char *extension, part_file *part)
{
    void *buffer = NULL;
    part->fd = -1;
    TRY(indexed_path(prefix, extension, &part->path));
    TRY(memory_alloc(PART_BUFFER_BYTES, 1, part->path, &buffer));
    part->buffer = buffer;
    part->fd = open(part->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (part->fd < 0)
        return fail_errno(errno == ENOENT || errno == ENOTDIR ? STATUS_ERR_CONFIG : STATUS_ERR_IO,
                          "%s: cannot create it; the folder must exist and be writable",
                          part->path);
    if (!lock_is_ours(part)) {
        close(part->fd);
        part->fd = -1;
        return fail(STATUS_ERR_CONFIG, "%s: another run is writing it; choose another output",
                    part->path);
    }
    if (ftruncate(part->fd, 0) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot empty it", part->path);
    return STATUS_OK;
}

// Removes the file only where it is ours: another run may hold the same name.
void part_discard(part_file *part)
{
    if (part->fd >= 0) {
        unlink(part->path);
        close(part->fd);
        part->fd = -1;
    }
    memory_free(part->buffer);
    free(part->path);
}

status part_read(const part_file *part, void *out, size_t bytes, uint64_t offset)
{
    uint8_t *target = out;
    while (bytes > 0) {
        ssize_t got = pread(part->fd, target, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO; // somebody cut the file
        if (got <= 0)
            return fail_errno(STATUS_ERR_IO, "%s: cannot read %zu bytes back", part->path, bytes);
        target += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return STATUS_OK;
}

status part_rewrite(part_file *part, const void *data, size_t bytes)
{
    if (pwrite(part->fd, data, bytes, 0) != (ssize_t)bytes)
        return write_failed(part->path, bytes);
    return STATUS_OK;
}

status part_sync(part_file *part)
{
    TRY(part_flush(part));
    if (fsync(part->fd) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot sync it to the disk", part->path);
    return STATUS_OK;
}

status part_place(part_file *part, const char *path)
{
    if (rename(part->path, path) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot rename it to %s", part->path, path);
    close(part->fd);
    part->fd = -1;
    return STATUS_OK;
}

status part_sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder)
        return fail(STATUS_ERR_MEMORY, "%s: cannot allocate its name", path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Some file systems cannot sync a folder; the names are there all the same.
    status result = STATUS_OK;
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
        result = fail_errno(STATUS_ERR_IO, "%s: cannot sync the folder", folder);
    if (fd >= 0)
        close(fd);
    free(folder);
    return result;
}
