// Files of tensors: what is written is read back bit for bit, and every damaged file is told apart.
#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/dtype.h"
#include "checkpoint/safetensors.h"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/test_safetensors_XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void put_file(uint64_t length, const char *header, const void *data, size_t bytes)
{
    unsigned char prefix[8];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)(length >> (8 * i));
    assert_int_equal(fwrite(prefix, 1, 8, f), 8);
    assert_int_equal(fwrite(header, 1, strlen(header), f), strlen(header));
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void test_values_return_bit_for_bit(void **state)
{
    enum { N = 9000 }; // more than one chunk of the conversion
    (void)state;
    const safetensors_entry entries[] = {
        {.name = "a", .type = SAFETENSORS_F32, .n_dims = 2, .dims = {3, 3000}, .count = N},
        {.name = "empty", .type = SAFETENSORS_F32, .n_dims = 2, .dims = {0, 5}, .count = 0},
        {.name = "half", .type = SAFETENSORS_F16, .n_dims = 1, .dims = {N}, .count = N},
        {.name = "\"quoted\" \\ name",
         .type = SAFETENSORS_BF16,
         .n_dims = 1,
         .dims = {N},
         .count = N},
        {.name = "scalar", .type = SAFETENSORS_F32, .n_dims = 0, .count = 1},
    };
    float *values = malloc(N * sizeof *values), *back = malloc(N * sizeof *back);
    safetensors_writer *w;
    safetensors *st;
    uint64_t bytes, hash;
    const float scalar = -0.0f;
    assert_true(values && back);
    for (size_t i = 0; i < N; i++) {
        const uint32_t bits = (uint32_t)(i * 2654435761u) & 0x7f7fffffu; // finite
        memcpy(&values[i], &bits, sizeof bits);
    }
    assert_ok(safetensors_writer_create(path, entries, 5, &w));
    assert_ok(safetensors_writer_put(w, values, 17)); // in uneven pieces
    assert_ok(safetensors_writer_put(w, values + 17, N - 17));
    assert_ok(safetensors_writer_put(w, values, N));
    assert_ok(safetensors_writer_put(w, values, N));
    assert_ok(safetensors_writer_put(w, &scalar, 1));
    assert_ok(safetensors_writer_finish(w, &bytes, &hash));
    safetensors_writer_destroy(w);

    assert_ok(safetensors_open(path, &st));
    assert_int_equal(safetensors_count(st), 5);
    assert_null(safetensors_find(st, "__metadata__"));
    assert_null(safetensors_find(st, "b"));
    for (size_t t = 0; t < 5; t++) {
        const safetensors_entry *e = safetensors_find(st, entries[t].name);
        assert_non_null(e);
        assert_int_equal(e->type, entries[t].type);
        assert_int_equal(e->n_dims, entries[t].n_dims);
        assert_memory_equal(e->dims, entries[t].dims, sizeof e->dims);
        assert_ok(safetensors_read(st, e, 0, e->count, back));
        for (size_t i = 0; i < e->count; i++) {
            float expected = e->count == 1 ? scalar : values[i];
            if (e->type == SAFETENSORS_F16)
                expected = f16_to_f32(f32_to_f16(expected));
            else if (e->type == SAFETENSORS_BF16)
                expected = bf16_to_f32(f32_to_bf16(expected));
            assert_memory_equal(&back[i], &expected, sizeof expected);
        }
    }
    assert_ok(safetensors_read(st, safetensors_find(st, "a"), 8990, 10, back));
    assert_memory_equal(back, values + 8990, 10 * sizeof *back);
    safetensors_close(st);
    free(values);
    free(back);
}

static void test_a_writer_takes_as_many_values_as_listed_and_leaves_no_part_of_a_file(void **state)
{
    (void)state;
    const safetensors_entry e = {
        .name = "a", .type = SAFETENSORS_F32, .n_dims = 1, .dims = {2}, .count = 2};
    const float values[3] = {1, 2, 3};
    safetensors_writer *w;
    uint64_t bytes, hash;
    assert_ok(safetensors_writer_create(path, &e, 1, &w));
    assert_ok(safetensors_writer_put(w, values, 1));
    assert_fails(STATUS_ERR_IO, "\"a\" lacks 1 values",
                 safetensors_writer_finish(w, &bytes, &hash));
    assert_fails(STATUS_ERR_IO, "2 values more", safetensors_writer_put(w, values, 3));
    safetensors_writer_destroy(w);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_fails(STATUS_ERR_FORMAT, "cannot be opened",
                 safetensors_open(path, &(safetensors *){0}));
    assert_int_equal(make_path(NULL), 0);
}

static void test_doubles_metadata_and_any_order_of_the_header_are_read(void **state)
{
    (void)state;
    const char header[] = "{\"wide\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]},"
                          "\"__metadata__\":{\"format\":\"np\"},"
                          "\"whole\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ";
    unsigned char data[24] = {0};
    const double wide[2] = {0.1, -1e-3};
    float back[2];
    safetensors *st;
    memcpy(data + 8, wide, sizeof wide);
    put_file(strlen(header), header, data, sizeof data);
    assert_ok(safetensors_open(path, &st));
    assert_int_equal(safetensors_count(st), 2);
    assert_string_equal(safetensors_at(st, 0)->name, "whole"); // by position
    assert_ok(safetensors_read(st, safetensors_find(st, "wide"), 0, 2, back));
    assert_true(back[0] == 0.1f && back[1] == -1e-3f);
    assert_fails(STATUS_ERR_FORMAT, "tensor \"whole\" holds integers",
                 safetensors_read(st, safetensors_find(st, "whole"), 0, 2, back));
    safetensors_close(st);
}

static void test_a_file_that_becomes_shorter_while_open_is_told(void **state)
{
    (void)state;
    const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    float back[2];
    safetensors *st;
    put_file(strlen(header), header, "12345678", 8);
    assert_ok(safetensors_open(path, &st));
    assert_int_equal(truncate(path, (off_t)(8 + strlen(header) + 4)), 0);
    assert_fails(STATUS_ERR_FORMAT, "it became shorter",
                 safetensors_read(st, safetensors_at(st, 0), 0, 2, back));
    safetensors_close(st);
}

static void assert_damaged(const char *text)
{
    safetensors *st;
    status result = safetensors_open(path, &st);
    if (result == STATUS_OK)
        fail_msg("opened a file that should fail with \"%s\"", text);
    assert_non_null(strstr(error_message(), path)); // names the file
    assert_fails(STATUS_ERR_FORMAT, text, result);
}

static void test_a_damaged_start_is_a_named_error(void **state)
{
    (void)state;
    put_file(0, "", "", 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_damaged("it has 0 bytes");
    put_file(0, "", "", 0);
    assert_int_equal(truncate(path, 7), 0);
    assert_damaged("it has 7 bytes");
    put_file(0, "", "", 0);
    assert_damaged("not a JSON map");
    put_file(3, "{}", "", 0);
    assert_damaged("a header of 3 bytes in a file of 10");
    put_file(UINT64_MAX, "{}", "", 0);
    assert_damaged("a header of 18446744073709551615 bytes");
    put_file(UINT64_MAX - 7, "{}", "", 0);
    assert_damaged("a header of 18446744073709551608 bytes");
    put_file(4, "{{{{", "", 0);
    assert_damaged("not a JSON map");
    put_file(2, "[]", "", 0);
    assert_damaged("not a JSON map: another value");
}

// Headers over 8 bytes of data, and what is said of each.
static const struct {
    const char *header, *error;
} damaged[] = {
    {"{\"a\":[]}", "tensor \"a\" is not described by a map"},
    {"{\"a\":{}}", "unknown type \"\""},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", "unknown type \"F31\""},
    {"{\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}}", "unknown type \"\""},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", "has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1,1,1,1,1,1,1,1],\"data_offsets\":[0,8]}}",
     "at most 8 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", "impossible shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", "impossible shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", "impossible shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}",
     "impossible shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387906],\"data_offsets\":[0,8]}}",
     "has 8 bytes of data"}, // times 4 it would wrap to 8
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "lies at bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "lies at bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", "lies at bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0.0,8]}}", "lies at bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", "bytes -8 to 0 of 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", "bytes 8 to 0 of 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", "bytes 8 to 16 of 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", "its shape says 3 values"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[2,8]}}",
     "begins at byte 2, expected 4"},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     "begins at byte 4, expected 2"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     "begins at byte 4, expected 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     "has 8 bytes of data, its tensors 4"},
    {"{}", "has 8 bytes of data, its tensors 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     "duplicate"},
};

static void test_every_damaged_header_is_a_named_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        put_file(strlen(damaged[i].header), damaged[i].header, "12345678", 8);
        assert_damaged(damaged[i].error);
    }
}

static void test_data_cut_short_is_a_named_error_at_every_length(void **state)
{
    (void)state;
    const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    const size_t whole = 8 + strlen(header) + 8;
    for (size_t bytes = 0; bytes < whole; bytes++) {
        put_file(strlen(header), header, "12345678", 8);
        assert_int_equal(truncate(path, (off_t)bytes), 0);
        assert_damaged(bytes < 8                    ? "is no safetensors file"
                       : bytes < 8 + strlen(header) ? "or cut short"
                                                    : "the file is damaged");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_return_bit_for_bit),
        cmocka_unit_test(test_a_writer_takes_as_many_values_as_listed_and_leaves_no_part_of_a_file),
        cmocka_unit_test(test_doubles_metadata_and_any_order_of_the_header_are_read),
        cmocka_unit_test(test_a_file_that_becomes_shorter_while_open_is_told),
        cmocka_unit_test(test_a_damaged_start_is_a_named_error),
        cmocka_unit_test(test_every_damaged_header_is_a_named_error),
        cmocka_unit_test(test_data_cut_short_is_a_named_error_at_every_length),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
