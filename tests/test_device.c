// Devices, memory and streams.
#include "device_fixture.h"

static device *create(int threads)
{
    device *d;
    assert_ok(device_create(
        &(device_options){.backend = "cpu", .threads = threads, .local_ranks = 1}, &d));
    return d;
}

static void unknown_backends_and_instruction_sets_are_refused(void **state)
{
    (void)state;
    device *d = NULL;
    assert_fails(STATUS_ERR_CONFIG, "\"tpu\"",
                 device_create(&(device_options){.backend = "tpu", .local_ranks = 1}, &d));
    assert_fails(
        STATUS_ERR_CONFIG, "\"mmx\"",
        device_create(&(device_options){.backend = "cpu", .local_ranks = 1, .isa = "mmx"}, &d));
    assert_null(d);
}

static void a_device_tells_what_it_is(void **state)
{
    (void)state;
    device *d;
    assert_ok(device_create(
        &(device_options){.backend = "cpu", .threads = 3, .local_ranks = 1, .isa = "base"}, &d));
    assert_int_equal(device_threads(d), 3);
    assert_non_null(strstr(device_describe(d), "cpu, 3 threads, base"));
    device_destroy(d);
}

static void many_ranks_get_a_thread_each(void **state)
{
    (void)state;
    device *d;
    assert_ok(device_create(&(device_options){.backend = "cpu", .local_ranks = 100000}, &d));
    assert_int_equal(device_threads(d), 1);
    device_destroy(d);
    assert_ok(device_create(&(device_options){.backend = "cpu", .local_ranks = 1}, &d));
    assert_true(device_threads(d) >= 1);
    device_destroy(d);
}

static void memory_is_zeroed_aligned_and_counted(void **state)
{
    (void)state;
    device *d = create(2);
    const size_t sizes[] = {0, 1, 4095, 4096, 5 << 20};
    void *blocks[5];
    size_t in_use, peak, total = 0;
    for (int i = 0; i < 5; i++) {
        assert_ok(device_malloc(d, sizes[i], "test", &blocks[i]));
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(((unsigned char *)blocks[i])[b], 0);
        total += sizes[i];
    }
    device_memory(d, &in_use, &peak);
    assert_int_equal(in_use, total);
    assert_int_equal(peak, total);
    for (int i = 0; i < 5; i++)
        device_free(d, blocks[i]);
    device_free(d, NULL);
    device_memory(d, &in_use, &peak);
    assert_int_equal(in_use, 0);
    assert_int_equal(peak, total);
    device_destroy(d);
}

static void too_much_memory_is_an_error_that_names_its_purpose(void **state)
{
    (void)state;
    device *d = create(1);
    void *block = NULL;
    assert_fails(STATUS_ERR_MEMORY, "gradients", device_malloc(d, SIZE_MAX, "gradients", &block));
    assert_fails(STATUS_ERR_MEMORY, "gradients",
                 device_malloc(d, SIZE_MAX / 4, "gradients", &block));
    assert_null(block);
    size_t in_use, peak;
    device_memory(d, &in_use, &peak);
    assert_int_equal(in_use, 0);
    assert_int_equal(peak, 0);
    device_destroy(d);
}

// Also sizes that are split over threads.
static void bytes_move_up_across_and_down(void **state)
{
    (void)state;
    device *d = create(3);
    device_stream *s;
    assert_ok(device_stream_create(d, &s));
    const size_t sizes[] = {0, 1, 65, 3000017};
    for (int i = 0; i < 4; i++) {
        const size_t n = sizes[i];
        unsigned char *from = malloc(n + 1), *to = malloc(n + 1);
        assert_non_null(from);
        assert_non_null(to);
        for (size_t b = 0; b < n; b++)
            from[b] = (unsigned char)(b * 31 + 7);
        void *x, *y;
        assert_ok(device_malloc(d, n + 1, "x", &x));
        assert_ok(device_malloc(d, n + 1, "y", &y));
        assert_ok(device_upload(s, x, from, n));
        assert_ok(device_copy(s, y, x, n));
        assert_ok(device_zero(s, x, n));
        assert_ok(device_stream_synchronize(s));
        assert_ok(device_download(s, to, y, n));
        assert_memory_equal(from, to, n);
        assert_ok(device_download(s, to, x, n));
        for (size_t b = 0; b < n; b++)
            assert_int_equal(to[b], 0);
        device_free(d, x);
        device_free(d, y);
        free(from);
        free(to);
    }
    device_stream_destroy(s);
    device_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_backends_and_instruction_sets_are_refused),
        cmocka_unit_test(a_device_tells_what_it_is),
        cmocka_unit_test(many_ranks_get_a_thread_each),
        cmocka_unit_test(memory_is_zeroed_aligned_and_counted),
        cmocka_unit_test(too_much_memory_is_an_error_that_names_its_purpose),
        cmocka_unit_test(bytes_move_up_across_and_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
