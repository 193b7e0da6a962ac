// Collectives and point-to-point messages against references that every rank computes by itself.
#include "comm_fixture.h"

enum {
    COUNT_MAX = 300000,
};

static void check_allreduce(float *x, size_t count, unsigned salt)
{
    fill(x, count, rank, salt);
    x[count] = 12345; // what lies behind stays
    status result = comm_allreduce(group, COMM_GRADIENTS, COMM_SUM, x, count, DTYPE_F32);
    size_t wrong = result == STATUS_OK ? first_wrong_sum(x, count, salt) : 0;
    assert_on_all(result == STATUS_OK && wrong == count && x[count] == 12345,
                  "allreduce of %zu: element %zu is wrong", count, wrong);
}

static void allreduce_sums_uneven_counts_in_rank_order(void **state)
{
    (void)state;
    float *x = buffer_of(COUNT_MAX + 1);
    for (size_t count = 0; count <= 70; count++)
        check_allreduce(x, count, 1);
    for (size_t count = 4095; count <= 4099; count++)
        check_allreduce(x, count, 2);
    for (size_t count = 1023; count <= 1026; count++) // from gathering to direct exchange
        check_allreduce(x, count, 3);
    check_allreduce(x, COUNT_MAX, 4);
    memory_free(x);
}

static void allreduce_takes_buffers_at_any_element(void **state)
{
    (void)state;
    float *x = buffer_of(5000 + 20);
    for (size_t offset = 0; offset < 16; offset += 3)
        check_allreduce(x + offset + (size_t)rank % 3, 4999, (unsigned)offset);
    memory_free(x);
}

static void allreduce_repeats_its_bits(void **state)
{
    (void)state;
    enum { COUNT = 100003 };
    float *first = buffer_of(COUNT), *again = buffer_of(COUNT);
    fill(first, COUNT, rank, 5);
    assert_ok(comm_allreduce(group, COMM_GRADIENTS, COMM_SUM, first, COUNT, DTYPE_F32));
    for (int repeat = 0; repeat < 5; repeat++) {
        fill(again, COUNT, rank, 5);
        assert_ok(comm_allreduce(group, COMM_GRADIENTS, COMM_SUM, again, COUNT, DTYPE_F32));
        assert_on_all(memcmp(first, again, COUNT * sizeof *first) == 0, "repeat %d differs",
                      repeat);
    }
    memory_free(first);
    memory_free(again);
}

static void allreduce_of_parts_gives_the_bits_of_the_whole(void **state)
{
    (void)state;
    enum { COUNT = 50001, CUT = 20007 };
    float *x = buffer_of(COUNT);
    fill(x, COUNT, rank, 6);
    assert_ok(comm_allreduce(group, COMM_GRADIENTS, COMM_SUM, x, CUT, DTYPE_F32));
    assert_ok(comm_allreduce(group, COMM_GRADIENTS, COMM_SUM, x + CUT, COUNT - CUT, DTYPE_F32));
    assert_on_all(first_wrong_sum(x, COUNT, 6) == COUNT, "the parts differ from the whole");
    memory_free(x);
}

static double ulp_of(dtype type, double value)
{
    int exponent;
    frexp(value, &exponent);
    if (type == DTYPE_BF16)
        return ldexp(1.0, exponent - 8);
    return ldexp(1.0, exponent - 11 > -24 ? exponent - 11 : -24);
}

static float from_half(dtype type, uint16_t bits)
{
    return type == DTYPE_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

static uint16_t to_half(dtype type, float value)
{
    return type == DTYPE_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
}

static void check_half_sums(dtype type)
{
    enum { COUNT = 9001 };
    uint16_t *x;
    assert_ok(memory_alloc(COUNT, sizeof *x, "test", (void **)&x));
    for (size_t i = 0; i < COUNT; i++)
        x[i] = to_half(type, sample(rank, i, 7));
    assert_ok(comm_allreduce(group, COMM_GRADIENTS, COMM_SUM, x, COUNT, type));
    size_t wrong = COUNT;
    for (size_t i = 0; i < COUNT && wrong == COUNT; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++)
            sum += (double)from_half(type, to_half(type, sample(r, i, 7)));
        // One unit in the last place: half of it is the one rounding, the rest the fp32 sums.
        if (!(fabs((double)from_half(type, x[i]) - sum) <= ulp_of(type, sum)))
            wrong = i;
    }
    assert_on_all(wrong == COUNT, "%s: the sum at %zu is off by more than one ulp", dtype_str(type),
                  wrong);
    memory_free(x);
}

static void half_precision_sums_are_within_one_ulp_of_fp64(void **state)
{
    (void)state;
    check_half_sums(DTYPE_BF16);
    check_half_sums(DTYPE_F16);
}

static void allreduce_adds_and_compares_every_type(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static int64_t big[COUNT];
    static int32_t medium[COUNT];
    static uint8_t small[COUNT];
    static float real[COUNT];
    for (int i = 0; i < COUNT; i++) {
        big[i] = ((int64_t)1 << 40) * (rank + 1) + i;
        medium[i] = (rank + i) % size - 3;
        small[i] = (uint8_t)((rank * 7 + i) % 200);
        real[i] = -sample(rank, (size_t)i, 8);
    }
    assert_ok(comm_allreduce(group, COMM_CONTROL, COMM_SUM, big, COUNT, DTYPE_I64));
    assert_ok(comm_allreduce(group, COMM_CONTROL, COMM_MAX, medium, COUNT, DTYPE_I32));
    assert_ok(comm_allreduce(group, COMM_CONTROL, COMM_MAX, small, COUNT, DTYPE_U8));
    assert_ok(comm_allreduce(group, COMM_CONTROL, COMM_MAX, real, COUNT, DTYPE_F32));
    bool ok = true;
    for (int i = 0; i < COUNT; i++) {
        int largest = 0;
        float least = sample(0, (size_t)i, 8);
        for (int r = 0; r < size; r++) {
            largest = (r * 7 + i) % 200 > largest ? (r * 7 + i) % 200 : largest;
            least = fminf(least, sample(r, (size_t)i, 8));
        }
        ok = ok && big[i] == ((int64_t)1 << 40) * (size * (size + 1) / 2) + (int64_t)size * i;
        ok = ok && medium[i] == size - 4 && small[i] == largest && real[i] == -least;
    }
    assert_on_all(ok, "a sum or maximum is wrong");
}

static void a_nan_of_one_rank_reaches_all(void **state)
{
    (void)state;
    for (int from = 0; from < size; from++) {
        float x[2] = {1, 2};
        if (rank == from)
            x[1] = NAN;
        assert_ok(comm_allreduce(group, COMM_CONTROL, COMM_MAX, x, 2, DTYPE_F32));
        assert_on_all(x[0] == 1 && isnan(x[1]), "the NaN of rank %d is lost in a maximum", from);
    }
}

static void many_messages_may_be_in_flight(void **state)
{
    (void)state;
    enum { MESSAGES = 40, COUNT = 7001 };
    float *x = buffer_of((size_t)MESSAGES * COUNT);
    comm_request requests[MESSAGES];
    for (unsigned m = 0; m < MESSAGES; m++) {
        fill(x + m * COUNT, COUNT, rank, m);
        assert_ok(comm_allreduce_begin(group, COMM_GRADIENTS, COMM_SUM, x + m * COUNT,
                                       m % 4 ? COUNT : m, DTYPE_F32, &requests[m]));
    }
    for (unsigned m = MESSAGES; m-- > 0;)
        assert_ok(comm_wait(&requests[m]));
    size_t wrong = 0;
    for (unsigned m = 0; m < MESSAGES; m++) {
        size_t count = m % 4 ? COUNT : m;
        wrong += first_wrong_sum(x + m * COUNT, count, m) != count;
    }
    assert_on_all(wrong == 0, "%zu of %d messages are wrong", wrong, (int)MESSAGES);
    assert_ok(comm_wait(&requests[0])); // an idle request is no error
    memory_free(x);
}

static void too_many_messages_are_refused(void **state)
{
    (void)state;
    enum { LIMIT = 1024 };
    static comm_request requests[LIMIT];
    static uint8_t bytes[LIMIT + 1];
    comm_request extra;
    if (size == 1)
        return; // nothing travels
    for (int i = 0; i < LIMIT; i++)
        assert_ok(comm_allreduce_begin(group, COMM_CONTROL, COMM_MAX, &bytes[i], 1, DTYPE_U8,
                                       &requests[i]));
    assert_fails(
        STATUS_ERR_COMM, "1024 messages are in flight",
        comm_allreduce_begin(group, COMM_CONTROL, COMM_MAX, &bytes[LIMIT], 1, DTYPE_U8, &extra));
    for (int i = 0; i < LIMIT; i++)
        assert_ok(comm_wait(&requests[i]));
}

// Parts of uneven sizes, one of them empty; *begin is where the caller's starts.
static size_t uneven(size_t scale, size_t counts[RANKS_MAX], size_t *begin)
{
    size_t total = 0;
    for (int r = 0; r < size; r++) {
        if (r == rank)
            *begin = total;
        counts[r] = size > 1 && r == 1 ? 0 : scale * (size_t)(r + 1) + (size_t)(r % 3);
        total += counts[r];
    }
    return total;
}

static const size_t scales[] = {1, 17, 5000, 40001};

static void reduce_scatter_gives_each_rank_its_part(void **state)
{
    (void)state;
    float *x = buffer_of(40001 * 36 + 64);
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        size_t counts[RANKS_MAX], begin = 0;
        size_t total = uneven(scales[s], counts, &begin);
        fill(x, total, rank, 9);
        comm_request request;
        assert_ok(comm_reduce_scatter_begin(group, COMM_GRADIENTS, COMM_SUM, x, counts, DTYPE_F32,
                                            &request));
        assert_ok(comm_wait(&request));
        bool ok = true;
        for (size_t i = begin; i < begin + counts[rank]; i++)
            ok = ok && same_bits(x[i], expected_sum(i, 9));
        assert_on_all(ok, "a part of scale %zu is wrong", scales[s]);
    }
    memory_free(x);
}

static void allgather_gives_all_parts_to_all(void **state)
{
    (void)state;
    float *x = buffer_of(40001 * 36 + 64);
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        size_t counts[RANKS_MAX], begin = 0;
        size_t total = uneven(scales[s], counts, &begin);
        memset(x, 0xff, total * sizeof *x);
        for (size_t i = begin; i < begin + counts[rank]; i++)
            x[i] = sample(0, i, 10);
        comm_request request;
        assert_ok(comm_allgather_begin(group, COMM_PARAMETERS, x, counts, DTYPE_F32, &request));
        assert_ok(comm_wait(&request));
        bool ok = true;
        for (size_t i = 0; i < total; i++)
            ok = ok && same_bits(x[i], sample(0, i, 10));
        assert_on_all(ok, "an allgather of scale %zu is wrong", scales[s]);
    }
    memory_free(x);
}

static void broadcast_reaches_all_from_every_root(void **state)
{
    (void)state;
    const size_t counts[] = {0, 1, 5, 4096, COUNT_MAX};
    float *x = buffer_of(COUNT_MAX);
    for (int root = 0; root < size; root++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            fill(x, counts[k], rank, 11 + (unsigned)root);
            assert_ok(comm_broadcast(group, COMM_PARAMETERS, x, counts[k], DTYPE_F32, root));
            bool ok = true;
            for (size_t i = 0; i < counts[k]; i++)
                ok = ok && same_bits(x[i], sample(root, i, 11 + (unsigned)root));
            assert_on_all(ok, "a broadcast of %zu from %d is wrong", counts[k], root);
        }
    memory_free(x);
}

// Each rank sends to the next and receives from the one before, several messages deep, receives
// begun first: no order of starts may lock up.
static void point_to_point_messages_arrive_in_order(void **state)
{
    (void)state;
    enum { MESSAGES = 12, COUNT = 30011 };
    if (size == 1)
        return; // there is nobody to send to
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    float *out = buffer_of((size_t)MESSAGES * COUNT), *in = buffer_of((size_t)MESSAGES * COUNT);
    comm_request sends[MESSAGES], receives[MESSAGES];
    for (unsigned m = 0; m < MESSAGES; m++)
        assert_ok(comm_recv_begin(group, COMM_ACTIVATIONS, in + m * COUNT, m % 3 ? COUNT : m,
                                  DTYPE_F32, before, &receives[m]));
    for (unsigned m = 0; m < MESSAGES; m++) {
        fill(out + m * COUNT, COUNT, rank, m);
        assert_ok(comm_send_begin(group, COMM_ACTIVATIONS, out + m * COUNT, m % 3 ? COUNT : m,
                                  DTYPE_F32, next, &sends[m]));
    }
    bool ok = true;
    for (unsigned m = 0; m < MESSAGES; m++) {
        assert_ok(comm_wait(&receives[m]));
        assert_ok(comm_wait(&sends[m]));
        for (size_t i = 0; i < (m % 3 ? COUNT : m); i++)
            ok = ok && same_bits(in[m * COUNT + i], sample(before, i, m));
    }
    assert_on_all(ok, "a message from rank %d is wrong", before);
    memory_free(out);
    memory_free(in);
}

static void bad_messages_are_refused(void **state)
{
    (void)state;
    float x = 0;
    comm_request request;
    assert_fails(STATUS_ERR_COMM, "broadcast of rank",
                 comm_broadcast(group, COMM_CONTROL, &x, 1, DTYPE_F32, size));
    assert_fails(STATUS_ERR_COMM, "send to rank",
                 comm_send_begin(group, COMM_CONTROL, &x, 1, DTYPE_F32, rank, &request));
    assert_fails(STATUS_ERR_COMM, "receive from rank",
                 comm_recv_begin(group, COMM_CONTROL, &x, 1, DTYPE_F32, -1, &request));
    assert_fails(STATUS_ERR_COMM, "exceed the address space",
                 comm_allreduce(group, COMM_CONTROL, COMM_SUM, &x, SIZE_MAX / 2, DTYPE_F32));
    size_t counts[RANKS_MAX] = {SIZE_MAX, 1};
    if (size > 1)
        assert_fails(STATUS_ERR_COMM, "exceed the address space",
                     comm_allgather_begin(group, COMM_CONTROL, &x, counts, DTYPE_F32, &request));
}

int main(int argc, char **argv)
{
    if (!world_begin(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_sums_uneven_counts_in_rank_order),
        cmocka_unit_test(allreduce_takes_buffers_at_any_element),
        cmocka_unit_test(allreduce_repeats_its_bits),
        cmocka_unit_test(allreduce_of_parts_gives_the_bits_of_the_whole),
        cmocka_unit_test(half_precision_sums_are_within_one_ulp_of_fp64),
        cmocka_unit_test(allreduce_adds_and_compares_every_type),
        cmocka_unit_test(a_nan_of_one_rank_reaches_all),
        cmocka_unit_test(many_messages_may_be_in_flight),
        cmocka_unit_test(too_many_messages_are_refused),
        cmocka_unit_test(reduce_scatter_gives_each_rank_its_part),
        cmocka_unit_test(allgather_gives_all_parts_to_all),
        cmocka_unit_test(broadcast_reaches_all_from_every_root),
        cmocka_unit_test(point_to_point_messages_arrive_in_order),
        cmocka_unit_test(bad_messages_are_refused),
    };
    int failures = cmocka_run_group_tests_name("comm", tests, NULL, NULL);
    comm_destroy(world);
    return failures;
}
