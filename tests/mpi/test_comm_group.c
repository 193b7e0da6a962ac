// The world, groups, the agreement of the ranks, the statistics and the idle thread.
#include "comm_fixture.h"

#include <sys/resource.h>
#include <time.h>

#include "base/sizes.h"

static void the_world_is_seen_alike(void **state)
{
    (void)state;
    assert_true(rank >= 0 && rank < size && size <= RANKS_MAX);
    assert_int_equal(comm_local_size(world), size); // the tests run on one host
    assert_int_equal(comm_local_rank(world), rank);
    assert_int_equal(comm_group_rank(group), rank);
    assert_int_equal(comm_group_size(group), size);
    assert_string_equal(comm_dimension_str(COMM_ZERO), "zero");
    assert_string_equal(comm_kind_str(COMM_ACTIVATION_GRADIENTS), "activation-gradients");
}

static void groups_of_halves_work_beside_the_world(void **state)
{
    (void)state;
    enum { COUNT = 60001 };
    int members[RANKS_MAX], count = 0;
    // Even and odd ranks, in descending order: a group's rank is the place in the list.
    for (int r = size - 1; r >= 0; r--)
        if (r % 2 == rank % 2)
            members[count++] = r;
    comm_group *half;
    assert_ok(comm_group_create(world, COMM_TENSOR, members, count, &half));
    assert_int_equal(comm_group_size(half), count);
    assert_int_equal(members[comm_group_rank(half)], rank);
    assert_int_equal(comm_group_dimension(half), COMM_TENSOR);
    float *x = buffer_of(COUNT), *y = buffer_of(COUNT);
    fill(x, COUNT, rank, 12);
    fill(y, COUNT, rank, 13);
    comm_request a, b;
    assert_ok(comm_allreduce_begin(half, COMM_ACTIVATIONS, COMM_SUM, x, COUNT, DTYPE_F32, &a));
    assert_ok(comm_allreduce_begin(group, COMM_GRADIENTS, COMM_SUM, y, COUNT, DTYPE_F32, &b));
    assert_ok(comm_wait(&b));
    assert_ok(comm_wait(&a));
    bool ok = first_wrong_sum(y, COUNT, 13) == COUNT;
    for (size_t i = 0; i < COUNT; i++) {
        float sum = sample(members[0], i, 12);
        for (int k = 1; k < count; k++)
            sum += sample(members[k], i, 12);
        ok = ok && same_bits(x[i], sum);
    }
    assert_on_all(ok, "a sum of half the ranks is wrong");
    comm_group_destroy(half);
    memory_free(x);
    memory_free(y);
}

static void bad_groups_are_refused_on_all_ranks(void **state)
{
    (void)state;
    comm_group *none = NULL;
    int all[RANKS_MAX] = {0}, twice[] = {0, 0}, outside[] = {size};
    assert_fails(STATUS_ERR_COMM, "a group of 0",
                 comm_group_create(world, COMM_DATA, all, 0, &none));
    assert_fails(STATUS_ERR_COMM, "a group", comm_group_create(world, COMM_DATA, twice, 2, &none));
    assert_fails(STATUS_ERR_COMM, "a group with rank",
                 comm_group_create(world, COMM_DATA, outside, 1, &none));
    if (size > 1) {
        int others[] = {(rank + 1) % size};
        assert_fails(STATUS_ERR_COMM, "it is not in",
                     comm_group_create(world, COMM_DATA, others, 1, &none));
        // Rank 0 leaves the last rank out, all others name it.
        for (int r = 0; r < size; r++)
            all[r] = r;
        assert_fails(STATUS_ERR_COMM, "group",
                     comm_group_create(world, COMM_DATA, all, size - (rank == 0), &none));
        // Only rank 0 is wrong: the others must not wait for it.
        all[0] = rank == 0 ? 1 : 0;
        assert_fails(STATUS_ERR_COMM, "group",
                     comm_group_create(world, COMM_DATA, all, size, &none));
    }
    assert_null(none);
    assert_ok(comm_barrier(group));
}

static void all_ranks_agree_on_the_lowest_failure(void **state)
{
    (void)state;
    assert_ok(comm_agree(world, STATUS_OK));
    for (int failing = 0; failing < size; failing++) {
        status local =
            rank >= failing ? fail(STATUS_ERR_IO, "disk of %d is full", rank) : STATUS_OK;
        status result = comm_agree(world, local);
        char expected[64];
        snprintf(expected, sizeof expected, "rank %d: disk of %d is full", failing, failing);
        bool ok = result == STATUS_ERR_IO &&
                  strcmp(error_message(), size > 1 ? expected : "disk of 0 is full") == 0;
        error_clear();
        assert_on_all(ok, "agreed on something else than the failure of rank %d", failing);
    }
}

static void one_message_of_all_ranks_is_not_prefixed(void **state)
{
    (void)state;
    const char *text = "heads 6; must divide 64";
    status result = comm_agree(world, fail(STATUS_ERR_CONFIG, "%s", text));
    bool ok = result == STATUS_ERR_CONFIG && strcmp(error_message(), text) == 0;
    error_clear();
    assert_on_all(ok, "the common message changed");
}

static void traffic_counts_bytes_and_times_by_dimension(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    comm_traffic traffic[COMM_DIMENSION_COUNT];
    int all[RANKS_MAX];
    for (int r = 0; r < size; r++)
        all[r] = r;
    comm_group *zero;
    assert_ok(comm_group_create(world, COMM_ZERO, all, size, &zero));
    float *x = buffer_of(COUNT);
    comm_traffic_take(world, traffic);
    fill(x, COUNT, rank, 14);
    assert_ok(comm_allreduce(zero, COMM_GRADIENTS, COMM_SUM, x, COUNT, DTYPE_F32));
    comm_traffic_take(world, traffic);
    size_t begin, end;
    size_split(COUNT, (size_t)size, (size_t)rank, &begin, &end);
    // Contributions to the others' parts, and the own result to each of them.
    uint64_t bytes = 4 * (COUNT - (end - begin) + (end - begin) * (size_t)(size - 1));
    comm_traffic *t = &traffic[COMM_ZERO];
    bool ok = t->raw_bytes == bytes && t->wire_bytes == bytes && traffic[COMM_PIPE].raw_bytes == 0;
    if (size > 1)
        ok = ok && t->busy_ms > 0 && t->exposed_ms > 0;
    comm_traffic_take(world, traffic);
    ok = ok && t->raw_bytes == 0 && t->busy_ms <= 0 && t->exposed_ms <= 0;
    assert_on_all(ok, "the counters of the zero dimension are wrong");
    comm_group_destroy(zero);
    memory_free(x);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void an_idle_thread_uses_no_processor(void **state)
{
    (void)state;
    assert_ok(comm_barrier(group));
    struct timespec half_second = {.tv_nsec = 500000000};
    double begin = cpu_seconds();
    nanosleep(&half_second, NULL);
    double used = cpu_seconds() - begin;
    // A thread that polled would use up to 500 ms, one that napped 100 us at least 10 ms.
    assert_on_all(used < 0.005, "%.1f ms of processor time while idle", 1e3 * used);
}

// The peers wait for a late rank: they may look for it, but leave the cores to others.
static void a_waiting_thread_leaves_the_core(void **state)
{
    (void)state;
    comm_request request;
    uint8_t token = 0;
    struct timespec half_second = {.tv_nsec = 500000000};
    assert_ok(comm_barrier(group));
    double begin = cpu_seconds();
    if (rank == 0)
        nanosleep(&half_second, NULL);
    assert_ok(comm_allreduce_begin(group, COMM_CONTROL, COMM_MAX, &token, 1, DTYPE_U8, &request));
    assert_ok(comm_wait(&request));
    double used = cpu_seconds() - begin;
    // A thread that polled would use up to 500 ms, one that went on napping 100 us up to 170 ms;
    // here some 30 ms of such naps are followed by 470 of 1 ms, each with a poll of some
    // microseconds.
    assert_on_all(used < 0.15, "%.1f ms of processor time while waiting 500 ms", 1e3 * used);
}

int main(int argc, char **argv)
{
    comm_options bad = comm_options_defaults();
    bad.chunk_bytes = 0;
    if (comm_create(&bad, &world) != STATUS_ERR_CONFIG)
        return 1;
    error_clear();
    if (!world_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_world_is_seen_alike),
        cmocka_unit_test(groups_of_halves_work_beside_the_world),
        cmocka_unit_test(bad_groups_are_refused_on_all_ranks),
        cmocka_unit_test(all_ranks_agree_on_the_lowest_failure),
        cmocka_unit_test(one_message_of_all_ranks_is_not_prefixed),
        cmocka_unit_test(traffic_counts_bytes_and_times_by_dimension),
        cmocka_unit_test(an_idle_thread_uses_no_processor),
        cmocka_unit_test(a_waiting_thread_leaves_the_core),
    };
    int failures = cmocka_run_group_tests_name("comm_group", tests, NULL, NULL);
    comm_destroy(world);
    return failures;
}
