// Reading the inputs into chunks of whole documents, or of parts of long ones.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sizes.h"
#include "data/prep_internal.h"

enum { BLOCK_BYTES = 256 << 10 };

void prep_reader_init(prep_reader *r, const prep_options *o, bool can_cut)
{
    *r = (prep_reader){.o = o, .can_cut = can_cut, .fd = -1};
}

void prep_reader_fini(prep_reader *r)
{
    if (r->fd > STDIN_FILENO)
        close(r->fd);
    free(r->rest.data);
}

void prep_chunk_fini(prep_chunk *c)
{
    free(c->text.data);
    free(c->pieces);
    free(c->id_counts);
    token_list_fini(&c->ids);
}

static bool has_ending(const char *path, const char *ending)
{
    const size_t length = strlen(path), tail = strlen(ending);
    return length > tail && !strcasecmp(path + length - tail, ending);
}

static bool is_json(const prep_options *o, const char *path)
{
    if (o->format != PREP_AUTO)
        return o->format == PREP_JSON_LINES;
    return has_ending(path, ".jsonl") || has_ending(path, ".ndjson") || has_ending(path, ".json");
}

static status check_input(const prep_options *o, const char *path, uint64_t *bytes, bool *sized)
{
    static const char *const packed[] = {".gz", ".zst", ".xz", ".bz2", ".zip", ".tar"};
    struct stat info;
    const bool standard = !strcmp(path, "-");
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (o->format == PREP_AUTO && has_ending(path, packed[i]))
            return fail(STATUS_ERR_CONFIG,
                        "%s: is packed; unpack it, or pipe its text into --input -", path);
    if (standard ? fstat(STDIN_FILENO, &info) : stat(path, &info))
        return fail_errno(STATUS_ERR_CONFIG, "cannot open %s", path);
    if (S_ISDIR(info.st_mode))
        return fail(STATUS_ERR_CONFIG, "%s: is a folder; a file would be right", path);
    if (!standard && access(path, R_OK))
        return fail_errno(STATUS_ERR_CONFIG, "cannot open %s", path);
    *bytes += S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    *sized = *sized && S_ISREG(info.st_mode);
    return STATUS_OK;
}

status prep_inputs_check(const prep_options *o, uint64_t *bytes_total)
{
    bool sized = true;
    *bytes_total = 0;
    for (size_t i = 0; i < o->input_count; i++)
        TRY(check_input(o, o->inputs[i], bytes_total, &sized));
    if (!sized)
        *bytes_total = 0;
    return STATUS_OK;
}

static status open_next(prep_reader *r)
{
    r->path = r->o->inputs[r->next_input++];
    r->json = is_json(r->o, r->path);
    r->fd = strcmp(r->path, "-") ? open(r->path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (r->fd < 0)
        return fail_errno(STATUS_ERR_CONFIG, "cannot open %s", r->path);
    r->begun = false;
    r->in_paragraph = false;
    r->start = r->scan = r->end = r->searched = 0;
    r->line = 1;
    return STATUS_OK;
}

static void close_input(prep_reader *r)
{
    if (r->fd > STDIN_FILENO)
        close(r->fd);
    r->fd = -1;
}

static status add_piece(prep_reader *r, prep_chunk *c, size_t start, size_t end, bool last)
{
    if (c->count == c->capacity) {
        void *pieces = c->pieces;
        TRY(buffer_grow(&pieces, &c->capacity, c->count, 1, sizeof *c->pieces));
        c->pieces = pieces;
    }
    c->pieces[c->count++] = (prep_piece){start, end - start, r->line, last};
    return STATUS_OK;
}

static bool is_blank(const uint8_t *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

// One line, without its end.
static status take_line(prep_reader *r, prep_chunk *c, size_t start, size_t end)
{
    const uint8_t *text = c->text.data;
    const bool blank = is_blank(text + start, end - start);
    if (r->json)
        return blank ? STATUS_OK : add_piece(r, c, start, end, true);
    if (r->o->split == PREP_SPLIT_LINES) {
        if (end > start && text[end - 1] == '\r')
            end--;
        return add_piece(r, c, start, end, true);
    }
    if (!blank) {
        if (!r->in_paragraph)
            r->start = start;
        r->in_paragraph = true;
        r->end = end;
        return STATUS_OK;
    }
    if (!r->in_paragraph)
        return STATUS_OK;
    r->in_paragraph = false;
    return add_piece(r, c, r->start, r->end, true);
}

static bool is_full(const prep_chunk *c, size_t used)
{
    return c->count > 0 && (used >= PREP_CHUNK_BYTES || c->count >= PREP_CHUNK_PIECES);
}

static bool whole_file(const prep_reader *r)
{
    return !r->json && r->o->split == PREP_SPLIT_NONE;
}

// The lines that are there whole.
static status take_lines(prep_reader *r, prep_chunk *c)
{
    while (!whole_file(r) && r->scan < c->text.count && !is_full(c, r->scan)) {
        const uint8_t *line = c->text.data + r->scan;
        const uint8_t *end = memchr(line, '\n', c->text.count - r->scan);
        if (!end)
            break;
        TRY(take_line(r, c, r->scan, (size_t)(end - c->text.data)));
        r->scan = (size_t)(end - c->text.data) + 1;
        r->line++;
    }
    if (whole_file(r))
        r->scan = c->text.count;
    return STATUS_OK;
}

static bool is_plain(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9');
}

// Cut a long document before the last newline after a letter or digit; tokenizer_can_cut() says
// that no token reaches over it.
static status cut_document(prep_reader *r, prep_chunk *c)
{
    const uint8_t *text = c->text.data;
    const bool open = whole_file(r) || r->in_paragraph;
    if (!r->can_cut || !open || r->scan - r->start < PREP_CHUNK_BYTES)
        return STATUS_OK;
    const size_t from = size_max(r->searched, r->start + 1);
    for (size_t at = r->scan - 1; at-- > from;) {
        if (text[at] != '\n' || !is_plain(text[at - 1]))
            continue;
        TRY(add_piece(r, c, r->start, at, false));
        r->start = at;
        return STATUS_OK;
    }
    r->searched = r->scan - 1;
    return STATUS_OK;
}

// The file is at its end: so is what is at work.
static status end_input(prep_reader *r, prep_chunk *c)
{
    if (whole_file(r))
        TRY(add_piece(r, c, r->start, c->text.count, true));
    else if (r->scan < c->text.count)
        TRY(take_line(r, c, r->scan, c->text.count));
    if (r->in_paragraph)
        TRY(add_piece(r, c, r->start, r->end, true));
    close_input(r);
    return STATUS_OK;
}

static status read_block(prep_reader *r, prep_chunk *c, size_t *got)
{
    ssize_t bytes;
    TRY(byte_buffer_reserve(&c->text, BLOCK_BYTES));
    do {
        bytes = read(r->fd, c->text.data + c->text.count, BLOCK_BYTES);
    } while (bytes < 0 && errno == EINTR);
    if (bytes < 0)
        return fail_errno(STATUS_ERR_IO, "cannot read %s", r->path);
    *got = (size_t)bytes;
    c->text.count += *got;
    r->bytes_read += *got;
    return STATUS_OK;
}

// A byte-order mark at the start of a file is no text.
static void skip_mark(prep_reader *r, const prep_chunk *c)
{
    if (r->begun || c->text.count < 3)
        return;
    r->begun = true;
    if (!memcmp(c->text.data, "\xef\xbb\xbf", 3))
        r->start = r->scan = 3;
}

// Keep for the next chunk what belongs to none of the pieces.
static status keep_rest(prep_reader *r, prep_chunk *c)
{
    const size_t used = whole_file(r) || r->in_paragraph ? r->start : r->scan;
    r->rest.count = 0;
    TRY(byte_buffer_append(&r->rest, c->text.data + used, c->text.count - used));
    r->start = 0;
    r->searched = 0;
    r->scan -= used;
    r->end = r->end > used ? r->end - used : 0;
    return STATUS_OK;
}

status prep_reader_fill(prep_reader *r, prep_chunk *c, bool *done)
{
    c->count = 0;
    c->text.count = 0;
    while (c->count == 0) {
        size_t got = 0;
        if (r->fd < 0 && r->next_input == r->o->input_count)
            break;
        if (r->fd < 0)
            TRY(open_next(r));
        c->path = r->path;
        c->json = r->json;
        c->text.count = 0;
        TRY(byte_buffer_append(&c->text, r->rest.data, r->rest.count));
        r->rest.count = 0;
        TRY(take_lines(r, c));
        while (!is_full(c, r->scan)) {
            TRY(read_block(r, c, &got));
            if (got == 0)
                break;
            skip_mark(r, c);
            TRY(take_lines(r, c));
            TRY(cut_document(r, c));
        }
        if (is_full(c, r->scan))
            TRY(keep_rest(r, c));
        else
            TRY(end_input(r, c));
    }
    *done = c->count == 0;
    return STATUS_OK;
}
