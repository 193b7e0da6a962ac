// The .bin/.idx pair: what is written, what is read, and every way in which it can be damaged.
#include "data_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "data/indexed_format.h"

// Three documents, [1,2,3,0] [4,5,0] [6,0], as GPT-NeoX's own tools write them.
enum { D3_IDX_BYTES = 102, D3_BIN_BYTES = 18, AT_SIZES = 34, AT_POINTERS = 46, AT_DOCS = 70 };

static const uint8_t d3_bin[D3_BIN_BYTES] = {1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 5, 0, 0, 0, 6, 0, 0, 0};

static void put(uint8_t *idx, size_t at, uint64_t value, size_t bytes)
{
    memcpy(idx + at, &value, bytes);
}

static void d3_index(uint8_t idx[D3_IDX_BYTES])
{
    static const int32_t sizes[] = {4, 3, 2};
    static const int64_t pointers[] = {0, 8, 14}, docs[] = {0, 1, 2, 3};
    memcpy(idx, "MMIDIDX\0\0", 9);
    put(idx, 9, 1, 8);
    idx[17] = 8;
    put(idx, 18, 3, 8);
    put(idx, 26, 4, 8);
    memcpy(idx + AT_SIZES, sizes, sizeof sizes);
    memcpy(idx + AT_POINTERS, pointers, sizeof pointers);
    memcpy(idx + AT_DOCS, docs, sizeof docs);
}

static void write_d3(const char *name)
{
    uint8_t idx[D3_IDX_BYTES];
    char file[64];
    d3_index(idx);
    snprintf(file, sizeof file, "%s.idx", name);
    fixture_write(file, idx, sizeof idx);
    snprintf(file, sizeof file, "%s.bin", name);
    fixture_write(file, d3_bin, sizeof d3_bin);
}

static void expect_document(const indexed_dataset *ds, int64_t document, const int32_t *tokens,
                            int64_t count)
{
    int32_t got[64];
    assert_int_equal(indexed_dataset_size(ds, document), count);
    assert_ok(indexed_dataset_read(ds, document, 0, count, got));
    assert_memory_equal(got, tokens, (size_t)count * sizeof tokens[0]);
}

static void reads_what_neox_wrote(void **state)
{
    (void)state;
    indexed_dataset *ds = NULL;
    int32_t got[2];
    write_d3("d3");
    assert_ok(indexed_dataset_open(fixture_path("d3"), 128, &ds));
    assert_int_equal(indexed_dataset_documents(ds), 3);
    assert_int_equal(indexed_dataset_tokens(ds), 9);
    assert_int_equal(indexed_dataset_dtype(ds), INDEXED_U16);
    assert_int_equal(indexed_dataset_unused_bytes(ds), 0);
    expect_document(ds, 0, (int32_t[]){1, 2, 3, 0}, 4);
    expect_document(ds, 1, (int32_t[]){4, 5, 0}, 3);
    expect_document(ds, 2, (int32_t[]){6, 0}, 2);
    assert_ok(indexed_dataset_read(ds, 0, 2, 2, got));
    assert_int_equal(got[0], 3);
    assert_ok(indexed_dataset_read(ds, 0, 4, 0, got));
    assert_fails(STATUS_ERR_CONFIG, "no document 3", indexed_dataset_read(ds, 3, 0, 1, got));
    assert_fails(STATUS_ERR_CONFIG, "no document -1", indexed_dataset_read(ds, -1, 0, 1, got));
    assert_fails(STATUS_ERR_CONFIG, "has no 2 tokens from 2",
                 indexed_dataset_read(ds, 1, 2, 2, got));
    assert_fails(STATUS_ERR_CONFIG, "tokens from", indexed_dataset_read(ds, 1, -1, 1, got));
    assert_fails(STATUS_ERR_CONFIG, "tokens from", indexed_dataset_read(ds, 1, 0, -1, got));
    assert_fails(STATUS_ERR_CONFIG, "tokens from", indexed_dataset_read(ds, 1, 1, INT64_MAX, got));
    indexed_dataset_close(ds);
}

static void writes_the_bytes_that_neox_writes(void **state)
{
    (void)state;
    static const int32_t tokens[] = {1, 2, 3, 0, 4, 5, 0, 6, 0};
    uint8_t expected[D3_IDX_BYTES];
    indexed_writer *w = NULL;
    size_t bytes = 0;
    d3_index(expected);
    assert_ok(indexed_writer_create(fixture_path("own"), INDEXED_U16, &w));
    // In pieces: they join to one sequence.
    assert_ok(indexed_writer_add(w, tokens, 1));
    assert_ok(indexed_writer_add(w, tokens + 1, 3));
    assert_ok(indexed_writer_end_document(w));
    assert_ok(indexed_writer_add(w, tokens + 4, 3));
    assert_ok(indexed_writer_end_document(w));
    assert_ok(indexed_writer_add(w, tokens + 7, 2));
    assert_ok(indexed_writer_end_document(w));
    assert_int_equal(indexed_writer_documents(w), 3);
    assert_int_equal(indexed_writer_tokens(w), 9);
    assert_int_equal(access(fixture_path("own.bin"), F_OK), -1);
    assert_ok(indexed_writer_finish(w));
    indexed_writer_destroy(w);
    uint8_t *idx = fixture_read_file(fixture_path("own.idx"), &bytes);
    assert_int_equal(bytes, D3_IDX_BYTES);
    assert_memory_equal(idx, expected, D3_IDX_BYTES);
    free(idx);
    uint8_t *bin = fixture_read_file(fixture_path("own.bin"), &bytes);
    assert_int_equal(bytes, D3_BIN_BYTES);
    assert_memory_equal(bin, d3_bin, D3_BIN_BYTES);
    free(bin);
    assert_int_equal(access(fixture_path("own.doc.part"), F_OK), -1);
    assert_int_equal(access(fixture_path("own.idx.part"), F_OK), -1);
    assert_int_equal(access(fixture_path("own.bin.part"), F_OK), -1);
}

static void every_token_type_keeps_its_ends(void **state)
{
    (void)state;
    static const struct {
        indexed_dtype dtype;
        int32_t last;
    } cases[] = {
        {INDEXED_U8, 255},    {INDEXED_I8, 127},        {INDEXED_I16, 32767},
        {INDEXED_U16, 65535}, {INDEXED_I32, INT32_MAX}, {INDEXED_I64, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t tokens[] = {0, 1, cases[i].last}, beyond = cases[i].last + (i < 4), got[3];
        indexed_writer *w = NULL;
        indexed_dataset *ds = NULL;
        assert_ok(indexed_writer_create(fixture_path("types"), cases[i].dtype, &w));
        assert_ok(indexed_writer_add(w, tokens, 3));
        assert_ok(indexed_writer_end_document(w));
        assert_ok(indexed_writer_finish(w));
        indexed_writer_destroy(w);
        assert_ok(indexed_dataset_open(fixture_path("types"), 0, &ds));
        assert_int_equal(indexed_dataset_dtype(ds), cases[i].dtype);
        assert_ok(indexed_dataset_read(ds, 0, 0, 3, got));
        assert_memory_equal(got, tokens, sizeof tokens);
        indexed_dataset_close(ds);
        assert_ok(indexed_writer_create(fixture_path("types"), cases[i].dtype, &w));
        if (beyond == cases[i].last)
            beyond = -1;
        assert_fails(STATUS_ERR_CONFIG, "token 0 of document 0 is",
                     indexed_writer_add(w, &beyond, 1));
        assert_fails(STATUS_ERR_IO, "start again", indexed_writer_finish(w));
        indexed_writer_destroy(w);
    }
    indexed_writer *w = NULL;
    assert_fails(STATUS_ERR_CONFIG, "type code 6", indexed_writer_create("x", 6, &w));
    assert_fails(STATUS_ERR_CONFIG, "type code -1",
                 indexed_writer_create("x", (indexed_dtype)-1, &w));
    assert_int_equal(indexed_dtype_for_vocab(65499), INDEXED_U16);
    assert_int_equal(indexed_dtype_for_vocab(65500), INDEXED_I32);
}

static void an_id_outside_the_vocabulary_is_named(void **state)
{
    (void)state;
    indexed_dataset *ds = NULL;
    int32_t got[4];
    write_d3("d3");
    assert_ok(indexed_dataset_open(fixture_path("d3"), 5, &ds));
    assert_ok(indexed_dataset_read(ds, 0, 0, 4, got));
    assert_fails(STATUS_ERR_FORMAT, "d3.bin: token 1 of document 1 is 5; ids lie in 0 to 4",
                 indexed_dataset_read(ds, 1, 0, 3, got));
    assert_ok(indexed_dataset_read(ds, 1, 2, 1, got));
    indexed_dataset_close(ds);
    // Signed types: what is negative is never an id, whatever the vocabulary.
    uint8_t idx[D3_IDX_BYTES], bin[D3_BIN_BYTES] = {0xff, 0xff};
    d3_index(idx);
    idx[17] = INDEXED_I16;
    fixture_write("d3.idx", idx, sizeof idx);
    fixture_write("d3.bin", bin, sizeof bin);
    assert_ok(indexed_dataset_open(fixture_path("d3"), 0, &ds));
    assert_fails(STATUS_ERR_FORMAT, "token 0 of document 0 is -1",
                 indexed_dataset_read(ds, 0, 0, 1, got));
    indexed_dataset_close(ds);
}

static void truncation_at_every_byte_is_refused(void **state)
{
    (void)state;
    uint8_t idx[D3_IDX_BYTES];
    indexed_dataset *ds = NULL;
    d3_index(idx);
    fixture_write("cut.bin", d3_bin, sizeof d3_bin);
    for (size_t bytes = 0; bytes < D3_IDX_BYTES; bytes++) {
        fixture_write("cut.idx", idx, bytes);
        const char *text = bytes < 9 ? "cut.idx: not an index of a data set" : "cut.idx: cut short";
        assert_fails(STATUS_ERR_FORMAT, text, indexed_dataset_open(fixture_path("cut"), 0, &ds));
        assert_null(ds);
    }
    fixture_write("cut.idx", idx, sizeof idx);
    for (size_t bytes = 0; bytes < D3_BIN_BYTES; bytes++) {
        fixture_write("cut.bin", d3_bin, bytes);
        assert_fails(STATUS_ERR_FORMAT, "cut.idx: sequence ",
                     indexed_dataset_open(fixture_path("cut"), 0, &ds));
    }
}

typedef struct damage {
    size_t at, bytes;
    uint64_t value;
    status code;
    const char *text;
} damage;

static void every_damaged_field_is_named(void **state)
{
    (void)state;
    const status bad = STATUS_ERR_FORMAT;
    const damage cases[] = {
        {0, 1, 'X', bad, "d.idx: not an index of a data set"},
        {8, 1, 1, bad, "d.idx: not an index of a data set"},
        {0, 8, 0x0000584449544e54, STATUS_ERR_UNSUPPORTED, "d.idx: this is the older \"cached\""},
        {9, 8, 0, bad, "version 0; only version 1"},
        {9, 8, 2, bad, "version 2; only version 1"},
        {9, 8, 0x0100000000000000, bad, "version 72057594037927936"},
        {17, 1, 0, bad, "unknown type code 0"},
        {17, 1, 6, bad, "floating-point numbers (type code 6)"},
        {17, 1, 7, bad, "floating-point numbers (type code 7)"},
        {17, 1, 9, bad, "unknown type code 9"},
        {17, 1, 255, bad, "unknown type code 255"},
        {17, 1, INDEXED_I32, bad, "sequence 1 starts at byte 8; the one before it ends at 16"},
        {17, 1, INDEXED_I64, bad, "sequence 0 takes 32 bytes from byte 0; the .bin has 18"},
        {18, 8, 2, bad, "12 bytes follow the document index"},
        {18, 8, 4, bad, "cut short at 102 bytes; 4 sequences"},
        {18, 8, 0, bad, "36 bytes follow the document index"},
        {18, 8, UINT64_MAX, bad, "cut short"},
        {18, 8, 0x1555555555555556, bad, "cut short"}, // 12 times it wraps to 8
        {18, 8, (uint64_t)1 << 63, bad, "cut short"},
        {26, 8, 3, bad, "8 bytes follow the document index"},
        {26, 8, 5, bad, "cut short"},
        {26, 8, UINT64_MAX, bad, "cut short"},
        {26, 8, (uint64_t)1 << 61, bad, "cut short"}, // 8 times it wraps to 0
        {26, 8, (uint64_t)1 << 63, bad, "cut short"},
        {AT_SIZES, 4, 0xffffffff, bad, "sequence 0 has size -1"},
        {AT_SIZES, 4, 0x80000000, bad, "sequence 0 has size -2147483648"},
        {AT_SIZES, 4, 5, bad, "sequence 1 starts at byte 8; the one before it ends at 10"},
        {AT_SIZES, 4, 0x7fffffff, bad, "sequence 0 takes 4294967294 bytes"},
        {AT_SIZES + 8, 4, 3, bad, "sequence 2 takes 6 bytes from byte 14; the .bin has 18"},
        {AT_POINTERS, 8, 2, bad, "sequence 1 starts at byte 8; the one before it ends at 10"},
        {AT_POINTERS, 8, UINT64_MAX - 1, bad, "sequence 0 starts at byte -2"},
        {AT_POINTERS + 8, 8, 9, bad, "sequence 1 starts at byte 9; a multiple of 2"},
        {AT_POINTERS + 8, 8, 6, bad, "sequence 1 starts at byte 6; the one before it ends at 8"},
        {AT_POINTERS + 16, 8, 16, bad, "sequence 2 takes 4 bytes from byte 16; the .bin has 18"},
        {AT_POINTERS + 16, 8, 0x7ffffffffffffffe, bad, "sequence 2 takes 4 bytes"},
        {AT_DOCS, 8, 1, bad, "the document index starts with 1"},
        {AT_DOCS, 8, UINT64_MAX, bad, "the document index starts with -1"},
        {AT_DOCS + 8, 8, 3, bad, "entry 2 of the document index is 2 after 3"},
        {AT_DOCS + 24, 8, 2, bad, "the document index ends with 2; 3"},
        {AT_DOCS + 24, 8, 4, bad, "the document index ends with 4; 3"},
        {AT_DOCS + 24, 8, UINT64_MAX, bad, "entry 3 of the document index is -1 after 2"},
    };
    fixture_write("d.bin", d3_bin, sizeof d3_bin);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t idx[D3_IDX_BYTES];
        indexed_dataset *ds = NULL;
        d3_index(idx);
        put(idx, cases[i].at, cases[i].value, cases[i].bytes);
        fixture_write("d.idx", idx, sizeof idx);
        assert_fails(cases[i].code, cases[i].text, indexed_dataset_open(fixture_path("d"), 0, &ds));
    }
    // Tokens of one byte may lie anywhere, but for one that is another sequence's.
    uint8_t idx[D3_IDX_BYTES];
    indexed_dataset *ds = NULL;
    d3_index(idx);
    idx[17] = INDEXED_U8;
    put(idx, AT_POINTERS + 8, 3, 8);
    fixture_write("d.idx", idx, sizeof idx);
    assert_fails(bad, "sequence 1 starts at byte 3; the one before it ends at 4",
                 indexed_dataset_open(fixture_path("d"), 0, &ds));
    uint8_t bare[AT_SIZES] = {0};
    memcpy(bare, "MMIDIDX\0\0\1", 10);
    bare[17] = 8;
    fixture_write("d.idx", bare, sizeof bare);
    assert_fails(bad, "the document index is empty",
                 indexed_dataset_open(fixture_path("d"), 0, &ds));
}

static void trailing_bytes_count_only_as_modes(void **state)
{
    (void)state;
    uint8_t idx[D3_IDX_BYTES + 8] = {0};
    indexed_dataset *ds = NULL;
    d3_index(idx);
    fixture_write("t.bin", d3_bin, sizeof d3_bin);
    for (size_t extra = 1; extra <= 8; extra++) {
        fixture_write("t.idx", idx, D3_IDX_BYTES + extra);
        if (extra == 3) {
            assert_ok(indexed_dataset_open(fixture_path("t"), 0, &ds));
            expect_document(ds, 2, (int32_t[]){6, 0}, 2);
            indexed_dataset_close(ds);
            continue;
        }
        assert_fails(STATUS_ERR_FORMAT, "bytes follow the document index; none, or one for each",
                     indexed_dataset_open(fixture_path("t"), 0, &ds));
    }
}

static void files_that_cannot_be_opened_are_named(void **state)
{
    (void)state;
    indexed_dataset *ds = NULL;
    indexed_writer *w = NULL;
    assert_fails(STATUS_ERR_CONFIG, "nothing.idx: cannot open it",
                 indexed_dataset_open(fixture_path("nothing"), 0, &ds));
    write_d3("half");
    assert_int_equal(unlink(fixture_path("half.bin")), 0);
    assert_fails(STATUS_ERR_CONFIG, "half.bin: cannot open it",
                 indexed_dataset_open(fixture_path("half"), 0, &ds));
    assert_int_equal(mkdir(fixture_path("half.bin"), 0700), 0);
    assert_fails(STATUS_ERR_CONFIG, "half.bin: not a file",
                 indexed_dataset_open(fixture_path("half"), 0, &ds));
    assert_int_equal(rmdir(fixture_path("half.bin")), 0);
    assert_fails(STATUS_ERR_CONFIG, "none/x.bin.part: cannot create it; the folder must exist",
                 indexed_writer_create(fixture_path("none/x"), INDEXED_U16, &w));
}

// A hole costs no disk: the .bin ends past 2^33 but holds a few tokens.
static void pointers_past_2_33_read_the_right_tokens(void **state)
{
    (void)state;
    static const int64_t places[] = {0, ((int64_t)1 << 31) + 6, ((int64_t)1 << 33) + 10};
    uint8_t idx[D3_IDX_BYTES];
    indexed_dataset *ds = NULL;
    d3_index(idx);
    memcpy(idx + AT_POINTERS, places, sizeof places);
    fixture_write("big.idx", idx, sizeof idx);
    int fd = open(fixture_path("big.bin"), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    for (size_t i = 0, at = 0; i < 3; at += (size_t)(4 - i) * 2, i++)
        assert_int_equal(pwrite(fd, d3_bin + at, (4 - i) * 2, places[i]), (4 - i) * 2);
    close(fd);
    assert_ok(indexed_dataset_open(fixture_path("big"), 7, &ds));
    expect_document(ds, 0, (int32_t[]){1, 2, 3, 0}, 4);
    expect_document(ds, 1, (int32_t[]){4, 5, 0}, 3);
    expect_document(ds, 2, (int32_t[]){6, 0}, 2);
    assert_int_equal(indexed_dataset_unused_bytes(ds), places[2] + 4 - D3_BIN_BYTES);
    indexed_dataset_close(ds);
    // One byte less, and the last sequence does not fit.
    assert_int_equal(truncate(fixture_path("big.bin"), places[2] + 3), 0);
    assert_fails(STATUS_ERR_FORMAT, "sequence 2 takes 4 bytes from byte 8589934602",
                 indexed_dataset_open(fixture_path("big"), 7, &ds));
}

static void merging_appends_documents_in_order(void **state)
{
    (void)state;
    indexed_dataset *ds = NULL;
    indexed_writer *w = NULL;
    size_t bytes;
    write_d3("a");
    assert_ok(indexed_writer_create(fixture_path("ab"), INDEXED_U16, &w));
    assert_ok(indexed_writer_merge(w, fixture_path("a")));
    assert_ok(indexed_writer_end_document(w)); // an empty document between the two
    assert_ok(indexed_writer_merge(w, fixture_path("a")));
    assert_ok(indexed_writer_finish(w));
    indexed_writer_destroy(w);
    assert_ok(indexed_dataset_open(fixture_path("ab"), 7, &ds));
    assert_int_equal(indexed_dataset_documents(ds), 7);
    assert_int_equal(indexed_dataset_tokens(ds), 18);
    for (int64_t half = 0; half < 8; half += 4) {
        expect_document(ds, half, (int32_t[]){1, 2, 3, 0}, 4);
        expect_document(ds, half + 1, (int32_t[]){4, 5, 0}, 3);
        expect_document(ds, half + 2, (int32_t[]){6, 0}, 2);
    }
    assert_int_equal(indexed_dataset_size(ds, 3), 0);
    indexed_dataset_close(ds);
    // D documents of several sequences stay so: the index of the first set is 0, 3.
    uint8_t idx[D3_IDX_BYTES];
    d3_index(idx);
    put(idx, 26, 2, 8);
    put(idx, AT_DOCS + 8, 3, 8);
    fixture_write("a.idx", idx, D3_IDX_BYTES - 16);
    assert_ok(indexed_writer_create(fixture_path("ab"), INDEXED_U16, &w));
    assert_ok(indexed_writer_merge(w, fixture_path("a")));
    assert_ok(indexed_writer_merge(w, fixture_path("a")));
    assert_ok(indexed_writer_finish(w));
    indexed_writer_destroy(w);
    uint8_t *merged = fixture_read_file(fixture_path("ab.idx"), &bytes);
    assert_int_equal(bytes, 34 + 6 * 12 + 3 * 8);
    assert_memory_equal(merged + bytes - 24, ((int64_t[]){0, 3, 6}), 24);
    free(merged);
    assert_ok(indexed_writer_create(fixture_path("ab"), INDEXED_I32, &w));
    assert_fails(STATUS_ERR_CONFIG, "a.idx: holds uint16, the output int32",
                 indexed_writer_merge(w, fixture_path("a")));
    indexed_writer_destroy(w);
}

static void many_documents_pass_through_the_buffers(void **state)
{
    (void)state;
    enum { DOCUMENTS = 300000 };
    indexed_dataset *ds = NULL;
    indexed_writer *w = NULL;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    assert_ok(indexed_writer_create(fixture_path("many"), INDEXED_I32, &w));
    for (int32_t d = 0; d < DOCUMENTS; d++) {
        assert_ok(indexed_writer_add(w, &d, d % 3 != 0));
        assert_ok(indexed_writer_end_document(w));
    }
    assert_ok(indexed_writer_finish(w));
    indexed_writer_destroy(w);
    getrusage(RUSAGE_SELF, &after);
    // Kibibytes. The .idx has 6 MB, the three buffers 0.8; the rest is for the sanitizer.
    assert_true(after.ru_maxrss - before.ru_maxrss < 4096);
    assert_ok(indexed_dataset_open(fixture_path("many"), 0, &ds));
    assert_int_equal(indexed_dataset_documents(ds), DOCUMENTS);
    for (int32_t d = 0; d < DOCUMENTS; d++) {
        int32_t token = -1;
        assert_int_equal(indexed_dataset_size(ds, d), d % 3 != 0);
        assert_ok(indexed_dataset_read(ds, d, 0, d % 3 != 0, &token));
        assert_int_equal(token, d % 3 != 0 ? d : -1);
    }
    indexed_dataset_close(ds);
}

static void an_unfinished_writer_leaves_the_old_files(void **state)
{
    (void)state;
    indexed_dataset *ds = NULL;
    indexed_writer *w = NULL, *second = NULL;
    int32_t token = 9;
    write_d3("old");
    assert_ok(indexed_writer_create(fixture_path("old"), INDEXED_U16, &w));
    assert_ok(indexed_writer_add(w, &token, 1));
    assert_fails(STATUS_ERR_CONFIG, "old.bin.part: another run is writing it",
                 indexed_writer_create(fixture_path("old"), INDEXED_U16, &second));
    indexed_writer_destroy(w);
    assert_int_equal(access(fixture_path("old.bin.part"), F_OK), -1);
    assert_ok(indexed_dataset_open(fixture_path("old"), 0, &ds));
    expect_document(ds, 2, (int32_t[]){6, 0}, 2);
    indexed_dataset_close(ds);
    // What a killed run left under the temporary name is no hindrance.
    fixture_write("old.bin.part", "rubbish", 7);
    fixture_dataset("old", (int32_t[]){2}, 1);
    assert_ok(indexed_dataset_open(fixture_path("old"), 0, &ds));
    expect_document(ds, 0, (int32_t[]){1, 2}, 2);
    indexed_dataset_close(ds);
}

static void a_full_disk_is_named(void **state)
{
    (void)state;
    struct rlimit limit, before;
    indexed_writer *w = NULL;
    static int32_t tokens[200000];
    write_d3("full");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_ok(indexed_writer_create(fixture_path("full"), INDEXED_I32, &w));
    limit = before;
    limit.rlim_cur = 300000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    status result = indexed_writer_add(w, tokens, 200000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_fails(STATUS_ERR_IO, "full.bin.part: no room for", result);
    assert_fails(STATUS_ERR_IO, "start again", indexed_writer_end_document(w));
    indexed_writer_destroy(w);
    assert_int_equal(access(fixture_path("full.bin.part"), F_OK), -1);
    indexed_dataset *ds = NULL;
    assert_ok(indexed_dataset_open(fixture_path("full"), 0, &ds));
    indexed_dataset_close(ds);
}

static void an_empty_set_is_valid(void **state)
{
    (void)state;
    indexed_dataset *ds = NULL;
    fixture_dataset("empty", NULL, 0);
    assert_ok(indexed_dataset_open(fixture_path("empty"), 0, &ds));
    assert_int_equal(indexed_dataset_documents(ds), 0);
    assert_int_equal(indexed_dataset_tokens(ds), 0);
    indexed_dataset_close(ds);
    indexed_dataset_close(NULL);
    indexed_writer_destroy(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(reads_what_neox_wrote),
        CASE(writes_the_bytes_that_neox_writes),
        CASE(every_token_type_keeps_its_ends),
        CASE(an_id_outside_the_vocabulary_is_named),
        CASE(truncation_at_every_byte_is_refused),
        CASE(every_damaged_field_is_named),
        CASE(trailing_bytes_count_only_as_modes),
        CASE(files_that_cannot_be_opened_are_named),
        CASE(pointers_past_2_33_read_the_right_tokens),
        CASE(merging_appends_documents_in_order),
        CASE(many_documents_pass_through_the_buffers),
        CASE(an_unfinished_writer_leaves_the_old_files),
        CASE(a_full_disk_is_named),
        CASE(an_empty_set_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
