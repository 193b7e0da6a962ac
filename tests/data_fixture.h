/* Small data sets in a temporary folder, for the tests of src/data. */
#ifndef TRIFOLD_TESTS_DATA_FIXTURE_H
#define TRIFOLD_TESTS_DATA_FIXTURE_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "data/indexed_dataset.h"

enum { PATH_BYTES = 512 };

static char fixture_folder[PATH_BYTES];

static int fixture_setup(void **state)
{
    const char *parent = getenv("TMPDIR");
    (void)state;
    snprintf(fixture_folder, sizeof fixture_folder, "%s/trifold-data-XXXXXX",
             parent ? parent : "/tmp");
    return mkdtemp(fixture_folder) ? 0 : -1;
}

/* The path of a name in the folder of the test; valid until four calls later. */
static inline const char *fixture_path(const char *name)
{
    static char paths[4][PATH_BYTES];
    static int next;
    char *path = paths[next++ % 4];
    size_t folder = strlen(fixture_folder);
    assert_true(folder + strlen(name) + 2 <= PATH_BYTES);
    memcpy(path, fixture_folder, folder);
    path[folder] = '/';
    strcpy(path + folder + 1, name);
    return path;
}

static int fixture_teardown(void **state)
{
    (void)state;
    DIR *folder = opendir(fixture_folder);
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            unlink(fixture_path(entry->d_name));
    if (folder)
        closedir(folder);
    error_clear();
    return rmdir(fixture_folder);
}

static inline void fixture_write(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(fixture_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* The whole file; the caller frees it. */
static inline uint8_t *fixture_read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    data[size] = '\0';
    *bytes = (size_t)size;
    return data;
}

/* A set of `documents` documents of the sizes given, written with the writer; token t of document d
 * is (d + t) % 127 + 1. */
static inline void fixture_dataset(const char *name, const int32_t *sizes, size_t documents)
{
    indexed_writer *w = NULL;
    assert_ok(indexed_writer_create(fixture_path(name), INDEXED_U16, &w));
    for (size_t d = 0; d < documents; d++) {
        for (int32_t t = 0; t < sizes[d]; t++) {
            int32_t token = ((int32_t)d + t) % 127 + 1;
            assert_ok(indexed_writer_add(w, &token, 1));
        }
        assert_ok(indexed_writer_end_document(w));
    }
    assert_ok(indexed_writer_finish(w));
    indexed_writer_destroy(w);
}

#endif
