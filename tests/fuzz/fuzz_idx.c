// The index of a data set: an input is two bytes, the length of the .bin, two that choose sequence
// length and samples wanted, and then the .idx. What opens must read, merge and sample.
#include "fuzz.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/indexed_dataset.h"

enum { OPTION_BYTES = 4, READ_TOKENS = 1 << 16 };

static char folder[64], prefix[96], merged[96];

static void must(bool held)
{
    if (!held)
        abort();
}

static void path_of(char *path, size_t bytes, const char *stem, const char *extension)
{
    must(snprintf(path, bytes, "%s%s", stem, extension) < (int)bytes);
}

static void remove_folder(void)
{
    char path[128];
    static const char *const stems[] = {prefix, merged};
    for (int i = 0; i < 2; i++) {
        path_of(path, sizeof path, stems[i], ".idx");
        unlink(path);
        path_of(path, sizeof path, stems[i], ".bin");
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void)
{
    if (folder[0])
        return;
    snprintf(folder, sizeof folder, "%s/trifold-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(folder) != NULL);
    path_of(prefix, sizeof prefix, folder, "/input");
    path_of(merged, sizeof merged, folder, "/merged");
    atexit(remove_folder);
}

static void write_file(const char *extension, const uint8_t *data, size_t bytes)
{
    char path[128];
    path_of(path, sizeof path, prefix, extension);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0);
    must(write(fd, data, bytes) == (ssize_t)bytes);
    close(fd);
}

// A sequence has fewer tokens than the .bin has bytes, so that the array always does.
static status read_all(const indexed_dataset *ds, int32_t *tokens, int64_t *total)
{
    *total = 0;
    for (int64_t d = 0; d < indexed_dataset_documents(ds); d++) {
        int64_t size = indexed_dataset_size(ds, d);
        must(size >= 0 && size < READ_TOKENS);
        TRY(indexed_dataset_read(ds, d, 0, size, tokens));
        *total += size;
    }
    must(*total == indexed_dataset_tokens(ds));
    return STATUS_OK;
}

static void check_merge(const indexed_dataset *ds, int32_t *tokens)
{
    indexed_writer *w = NULL;
    indexed_dataset *twice = NULL;
    int64_t total = 0;
    must(indexed_writer_create(merged, indexed_dataset_dtype(ds), &w) == STATUS_OK);
    must(indexed_writer_merge(w, prefix) == STATUS_OK);
    must(indexed_writer_merge(w, prefix) == STATUS_OK);
    must(indexed_writer_finish(w) == STATUS_OK);
    indexed_writer_destroy(w);
    must(indexed_dataset_open(merged, 0, &twice) == STATUS_OK);
    must(indexed_dataset_documents(twice) == 2 * indexed_dataset_documents(ds));
    must(indexed_dataset_tokens(twice) == 2 * indexed_dataset_tokens(ds));
    must(indexed_dataset_unused_bytes(twice) == 0);
    must(read_all(twice, tokens, &total) == STATUS_OK);
    indexed_dataset_close(twice);
}

static void check_samples(int64_t seq_length, int64_t wanted, int32_t *tokens)
{
    dataset *ds = NULL;
    const char *path = prefix;
    dataset_options o = dataset_options_defaults();
    o.paths = &path;
    o.path_count = 1;
    o.split = "8,1,1";
    o.seq_length = seq_length;
    o.wanted = wanted;
    if (dataset_open(&o, &ds) == STATUS_OK) {
        must(dataset_count(ds) >= wanted - 1 && dataset_count(ds) > 0);
        for (int64_t i = 0; i <= dataset_count(ds) && i < 100; i++)
            must(dataset_sample(ds, i, tokens) == STATUS_OK);
    }
    dataset_close(ds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bin[READ_TOKENS];
    static int32_t tokens[READ_TOKENS];
    indexed_dataset *ds = NULL;
    int64_t total = 0;
    if (size < OPTION_BYTES)
        return 0;
    make_folder();
    size_t bin_bytes = data[0] + 256u * data[1];
    for (size_t i = 0; i < bin_bytes; i++)
        bin[i] = (uint8_t)(i % 8 == 0 ? i / 8 : 0);
    write_file(".bin", bin, bin_bytes);
    write_file(".idx", data + OPTION_BYTES, size - OPTION_BYTES);
    status result = indexed_dataset_open(prefix, 0, &ds);
    must((result == STATUS_OK) == (error_message()[0] == '\0'));
    must(strchr(error_message(), '\n') == NULL);
    if (result == STATUS_OK && read_all(ds, tokens, &total) == STATUS_OK) {
        check_merge(ds, tokens);
        check_samples(1 + data[2], data[3], tokens);
    }
    indexed_dataset_close(ds);
    error_clear();
    return 0;
}
