#include "train/line_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

status folder_create(const char *path)
{
    char *part = strdup(path);
    if (!part)
        return fail(STATUS_ERR_MEMORY, "no memory for the name of a folder");
    status result = STATUS_OK;
    for (char *end = part + 1; result == STATUS_OK && *part; end++) {
        const char kept = *end;
        if (kept != '/' && kept != '\0')
            continue;
        *end = '\0';
        struct stat info;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            result = fail_errno(STATUS_ERR_IO, "%s: cannot create the folder", part);
        else if (stat(part, &info) == 0 && !S_ISDIR(info.st_mode))
            result = fail(STATUS_ERR_CONFIG, "%s: is not a folder; name another one", part);
        *end = kept;
        if (kept == '\0')
            break;
    }
    free(part);
    return result;
}

const char *number_text(double value, char text[NUMBER_TEXT_BYTES])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_TEXT_BYTES, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

void text_line_add(text_line *line, const char *format, ...)
{
    const size_t room = sizeof line->text - line->used;
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(line->text + line->used, room, format, args);
    va_end(args);
    assert(length >= 0 && (size_t)length < room);
    line->used += (size_t)length;
}

static bool read_iteration(const char *line, const char *prefix, int64_t *iteration)
{
    const size_t length = strlen(prefix);
    if (strncmp(line, prefix, length) != 0)
        return false;
    const char *digits = line + length;
    char *end;
    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    *iteration = strtoll(digits, &end, 10);
    return errno == 0 && *end == ',';
}

// The kind of line `number`, or false; *keep tells whether it stays.
static bool check_line(const line_file_options *options, const char *line, int64_t number,
                       bool *keep)
{
    int64_t iteration;
    *keep = true;
    if (options->header && number == 1) {
        const size_t length = strlen(options->header);
        return strncmp(line, options->header, length) == 0 && line[length] == '\n';
    }
    if (!read_iteration(line, options->prefix, &iteration))
        return false;
    *keep = iteration <= options->keep;
    return true;
}

// Where the lines to keep end. Lines are in order, so the first later one ends them.
static status find_end(const line_file_options *options, const line_file *file, off_t *end)
{
    char line[LINE_FILE_MAX_LINE];
    *end = 0;
    for (int64_t number = 1; fgets(line, sizeof line, file->stream); number++) {
        const size_t length = strlen(line);
        bool keep;
        if (length > 0 && line[length - 1] != '\n' && feof(file->stream))
            return STATUS_OK;
        if (!check_line(options, line, number, &keep))
            return fail(STATUS_ERR_FORMAT,
                        "%s:%lld: is not a line of this kind of file; move the file away",
                        file->path, (long long)number);
        if (!keep) {
            log_info("%s: what an earlier run wrote after iteration %lld is dropped", file->path,
                     (long long)options->keep);
            return STATUS_OK;
        }
        *end += (off_t)length;
    }
    if (ferror(file->stream))
        return fail_errno(STATUS_ERR_IO, "%s: cannot read", file->path);
    return STATUS_OK;
}

static status open_locked(line_file *file)
{
    const int fd = open(file->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot open for writing", file->path);
    file->stream = fdopen(fd, "r+");
    if (!file->stream) {
        close(fd);
        return fail_errno(STATUS_ERR_IO, "%s: cannot open for writing", file->path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail(STATUS_ERR_CONFIG, "%s: another run writes it; give this one its own log-dir",
                    file->path);
    return STATUS_OK;
}

status line_file_open(const line_file_options *options, line_file *file)
{
    off_t end;
    if (asprintf(&file->path, "%s/%s", options->folder, options->name) < 0) {
        file->path = NULL;
        return fail(STATUS_ERR_MEMORY, "no memory for the name of %s", options->name);
    }
    TRY(open_locked(file));
    TRY(find_end(options, file, &end));
    if (ftruncate(fileno(file->stream), end) != 0 || fseeko(file->stream, end, SEEK_SET) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot set its end", file->path);
    return end == 0 && options->header ? line_file_write(file, options->header) : STATUS_OK;
}

status line_file_write(line_file *file, const char *line)
{
    if (fprintf(file->stream, "%s\n", line) < 0 || fflush(file->stream) != 0)
        return fail_errno(STATUS_ERR_IO, "%s: cannot write", file->path);
    return STATUS_OK;
}

void line_file_close(line_file *file)
{
    if (file->stream)
        fclose(file->stream);
    free(file->path);
    *file = (line_file){0};
}
