#include "check.h"

#include <errno.h>
#include <string.h>

#include "base/dtype.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/sizes.h"

static void the_first_error_is_kept(void **state)
{
    (void)state;
    assert_int_equal(fail(STATUS_ERR_IO, "first %d", 1), STATUS_ERR_IO);
    assert_int_equal(fail(STATUS_ERR_MEMORY, "second"), STATUS_ERR_MEMORY);
    assert_string_equal(error_message(), "first 1");
    error_clear();
    assert_string_equal(error_message(), "");
}

static void the_system_says_why(void **state)
{
    (void)state;
    errno = ENOENT;
    assert_int_equal(fail_errno(STATUS_ERR_IO, "cannot open %s", "x"), STATUS_ERR_IO);
    assert_string_equal(error_message(), "cannot open x: No such file or directory");
    error_clear();
}

static void exit_codes_follow_the_contract(void **state)
{
    (void)state;
    assert_int_equal(status_exit_code(STATUS_OK), 0);
    assert_int_equal(status_exit_code(STATUS_ERR_IO), 1);
    assert_int_equal(status_exit_code(STATUS_ERR_CONFIG), 2);
    assert_int_equal(status_exit_code(STATUS_ERR_FORMAT), 2);
    assert_int_equal(status_exit_code(STATUS_CHECK_FAILED), 3);
    assert_int_equal(status_exit_code(STATUS_INTERRUPTED), 75);
}

static void every_fp16_value_survives_a_round_trip(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000u; bits++) {
        float value = f16_to_f32((f16)bits);
        if (isnan(value))
            assert_true(isnan(f16_to_f32(f32_to_f16(value))));
        else
            assert_int_equal(f32_to_f16(value), bits);
    }
}

static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(f32_to_f16(1.0f + 0x1p-11f), 0x3c00); // tie to even
    assert_int_equal(f32_to_f16(1.0f + 0x3p-11f), 0x3c02);
    assert_int_equal(f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(f32_to_f16(0x1p-25f), 0x0000);
    assert_int_equal(f32_to_f16(0x1.8p-25f), 0x0001);
    assert_int_equal(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(f32_to_bf16(1.0f + 0x3p-8f), 0x3f82);
    assert_true(isnan(bf16_to_f32(f32_to_bf16(NAN))));
    assert_int_equal(f32_to_bf16(INFINITY), 0x7f80);
}

static void splits_cover_all_elements_once(void **state)
{
    (void)state;
    for (size_t count = 0; count < 20; count++) {
        for (size_t parts = 1; parts < 9; parts++) {
            size_t expected = 0;
            for (size_t i = 0; i < parts; i++) {
                size_t begin, end;
                size_split(count, parts, i, &begin, &end);
                assert_int_equal(begin, expected);
                assert_true(end - begin <= count / parts + 1);
                expected = end;
            }
            assert_int_equal(expected, count);
        }
    }
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    size_t result;
    assert_false(size_mul(SIZE_MAX, 2, &result));
    assert_false(size_add(SIZE_MAX, 1, &result));
    void *pointer;
    assert_fails(STATUS_ERR_MEMORY, "exceed", memory_alloc(SIZE_MAX, 8, "test", &pointer));
}

static void arenas_serve_small_and_large_requests(void **state)
{
    (void)state;
    arena *a;
    assert_ok(arena_create(&a));
    for (size_t i = 1; i < 300; i++) {
        void *pointer;
        assert_ok(arena_alloc(a, i, 1000, &pointer));
        assert_int_equal((uintptr_t)pointer % 16, 0);
        memset(pointer, 0xff, i * 1000);
    }
    char *text;
    assert_ok(arena_strndup(a, "tensor", 3, &text));
    assert_string_equal(text, "ten");
    arena_destroy(a);
}

// The known answers published with Random123 (kat_vectors: philox4x32 10).
static void philox_gives_the_published_answers(void **state)
{
    (void)state;
    uint32_t words[4];
    philox_block(0, 0, 0, words);
    assert_int_equal(words[0], 0x6627e8d5u);
    assert_int_equal(words[1], 0xe169c58du);
    assert_int_equal(words[2], 0xbc57ac4cu);
    assert_int_equal(words[3], 0x9b00dbd8u);
    philox_block(UINT64_MAX, UINT64_MAX, UINT64_MAX, words);
    assert_int_equal(words[0], 0x408f276du);
    assert_int_equal(words[1], 0x41c83b0eu);
    assert_int_equal(words[2], 0xa20bc7c6u);
    assert_int_equal(words[3], 0x6d5451fdu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_is_kept),
        cmocka_unit_test(the_system_says_why),
        cmocka_unit_test(exit_codes_follow_the_contract),
        cmocka_unit_test(every_fp16_value_survives_a_round_trip),
        cmocka_unit_test(halves_round_to_nearest_even),
        cmocka_unit_test(splits_cover_all_elements_once),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(philox_gives_the_published_answers),
        cmocka_unit_test(arenas_serve_small_and_large_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
