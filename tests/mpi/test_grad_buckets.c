// Gradient buckets against the sums in rank order, for bucket sizes from one tensor to all.
#include "comm_fixture.h"

#include <time.h>

#include "zero/grad_buckets.h"

enum {
    TENSORS = 9,
    TOTAL = 30000,
};

static const size_t offsets[TENSORS] = {0, 16, 32, 5000, 5008, 12000, 12016, 25000, 29984};

static void check_steps(size_t bucket_elements, size_t expected_buckets)
{
    grad_buckets *b;
    float *grads = buffer_of(TOTAL);
    assert_ok(grad_buckets_create(group, grads, offsets, TENSORS, TOTAL, bucket_elements, &b));
    assert_int_equal(grad_buckets_count(b), expected_buckets);
    for (unsigned step = 0; step < 3; step++) {
        fill(grads, TOTAL, rank, step);
        for (size_t i = TENSORS; i-- > 0;)
            assert_ok(grad_buckets_ready(b, i));
        assert_ok(grad_buckets_finish(b));
        assert_on_all(first_wrong_sum(grads, TOTAL, step) == TOTAL,
                      "buckets of %zu: element %zu is wrong", bucket_elements,
                      first_wrong_sum(grads, TOTAL, step));
    }
    grad_buckets_destroy(b);
    memory_free(grads);
}

static void buckets_of_any_size_give_the_sums(void **state)
{
    (void)state;
    check_steps(1, TENSORS);   // every tensor is larger
    check_steps(5000, 6);      // 0 | 1 2 3 | 4 | 5 | 6 | 7 8
    check_steps(TOTAL - 1, 2); // all but the first tensor
    check_steps(TOTAL, 1);
    check_steps(SIZE_MAX, 1);
}

static void tensors_may_finish_in_another_order(void **state)
{
    (void)state;
    grad_buckets *b;
    float *grads = buffer_of(TOTAL);
    assert_ok(grad_buckets_create(group, grads, offsets, TENSORS, TOTAL, 6000, &b));
    fill(grads, TOTAL, rank, 3);
    // Other orders on other ranks: messages still begin in the order of the buckets.
    for (size_t i = 0; i < TENSORS; i++)
        assert_ok(grad_buckets_ready(b, (i + (size_t)rank) % TENSORS));
    assert_ok(grad_buckets_finish(b));
    assert_on_all(first_wrong_sum(grads, TOTAL, 3) == TOTAL, "element %zu is wrong",
                  first_wrong_sum(grads, TOTAL, 3));
    grad_buckets_destroy(b);
    memory_free(grads);
}

static void a_complete_bucket_travels_before_the_others_are_ready(void **state)
{
    (void)state;
    if (size == 1)
        return; // nothing travels
    grad_buckets *b;
    comm_traffic traffic[COMM_DIMENSION_COUNT];
    float *grads = buffer_of(TOTAL);
    assert_ok(grad_buckets_create(group, grads, offsets, TENSORS, TOTAL, 5000, &b));
    fill(grads, TOTAL, rank, 4);
    comm_traffic_take(world, traffic);
    assert_ok(grad_buckets_ready(b, 8));
    assert_ok(grad_buckets_ready(b, 7)); // 5000 elements from 25000: the first bucket
    uint64_t sent = 0;
    struct timespec pause = {.tv_nsec = 10000000};
    for (int i = 0; i < 1000 && sent == 0; i++) {
        nanosleep(&pause, NULL);
        comm_traffic_take(world, traffic);
        sent = traffic[COMM_DATA].raw_bytes;
    }
    for (size_t i = 7; i-- > 0;)
        assert_ok(grad_buckets_ready(b, i));
    assert_ok(grad_buckets_finish(b));
    assert_on_all(sent > 0, "nothing was sent before the last tensor was ready");
    grad_buckets_destroy(b);
    memory_free(grads);
}

static void more_buckets_than_messages_may_fly(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    static size_t places[MANY];
    grad_buckets *b;
    float *grads = buffer_of(MANY);
    for (size_t i = 0; i < MANY; i++)
        places[i] = i;
    assert_ok(grad_buckets_create(group, grads, places, MANY, MANY, 1, &b));
    fill(grads, MANY, rank, 5);
    for (size_t i = MANY; i-- > 0;)
        assert_ok(grad_buckets_ready(b, i));
    assert_ok(grad_buckets_finish(b));
    assert_on_all(first_wrong_sum(grads, MANY, 5) == MANY, "a sum is wrong");
    grad_buckets_destroy(b);
    memory_free(grads);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    grad_buckets *b = NULL;
    float *grads = buffer_of(TOTAL);
    const size_t late[] = {16, 32}, back[] = {0, 64, 32};
    assert_fails(STATUS_ERR_CONFIG, "of 0 elements",
                 grad_buckets_create(group, grads, offsets, TENSORS, TOTAL, 0, &b));
    assert_fails(STATUS_ERR_CONFIG, "there must be one at 0",
                 grad_buckets_create(group, grads, late, 2, TOTAL, 64, &b));
    assert_fails(STATUS_ERR_CONFIG, "there must be one at 0",
                 grad_buckets_create(group, grads, late, 0, TOTAL, 64, &b));
    assert_fails(STATUS_ERR_CONFIG, "offsets must ascend",
                 grad_buckets_create(group, grads, back, 3, TOTAL, 64, &b));
    assert_fails(STATUS_ERR_CONFIG, "offsets must ascend",
                 grad_buckets_create(group, grads, offsets, TENSORS, 29984, 64, &b));
    assert_null(b);
    assert_ok(grad_buckets_create(group, grads, offsets, TENSORS, TOTAL, 64, &b));
    assert_fails(STATUS_ERR_COMM, "there are 9", grad_buckets_ready(b, TENSORS));
    assert_ok(grad_buckets_ready(b, 8));
    assert_fails(STATUS_ERR_COMM, "ready twice", grad_buckets_ready(b, 8));
    assert_fails(STATUS_ERR_COMM, "tensor 0 of 9 was never ready", grad_buckets_finish(b));
    for (size_t i = 8; i-- > 0;)
        assert_ok(grad_buckets_ready(b, i));
    assert_ok(grad_buckets_finish(b));
    grad_buckets_destroy(b);
    memory_free(grads);
}

int main(int argc, char **argv)
{
    if (!world_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_of_any_size_give_the_sums),
        cmocka_unit_test(tensors_may_finish_in_another_order),
        cmocka_unit_test(a_complete_bucket_travels_before_the_others_are_ready),
        cmocka_unit_test(more_buckets_than_messages_may_fly),
        cmocka_unit_test(misuse_is_refused),
    };
    int failures = cmocka_run_group_tests_name("grad_buckets", tests, NULL, NULL);
    comm_destroy(world);
    return failures;
}
