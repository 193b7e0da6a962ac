// Splits, the order of samples and which rank reads what.
#include "data/sample_order.h"

#include "data/batch_order.h"
#include "data/split.h"
#include "data_fixture.h"
#include "data_golden.h"

static void splits_round_as_python_does(void **state)
{
    (void)state;
    FILE *file = golden_open("splits.txt");
    char split[64];
    int cases = 0;
    for (; fscanf(file, "%63s", split) == 1; cases++) {
        int64_t documents = golden_i64(file), bounds[4];
        assert_ok(split_bounds(split, documents, bounds));
        assert_int_equal(bounds[0], 0);
        for (int i = 1; i < 4; i++)
            assert_int_equal(bounds[i], golden_i64(file));
    }
    fclose(file);
    assert_int_equal(cases, 14 * 48);
}

static void a_split_is_read_with_care(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",   " ",   ",",   "1,",    ",1",   "1,,1", "1;1",   "a",          "1,-1",
        "-0", "nan", "inf", "1,inf", "0x10", "1 2",  "1e999", "969,30,1,x", "1,2/3",
    };
    int64_t bounds[4];
    assert_ok(split_bounds(" 969, 30 , 1 ", 1000, bounds));
    assert_int_equal(bounds[1], 969);
    assert_int_equal(bounds[2], 999);
    assert_int_equal(bounds[3], 1000);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(STATUS_ERR_CONFIG, "is no number of 0 or more; three shares like",
                     split_bounds(bad[i], 10, bounds));
    assert_fails(STATUS_ERR_CONFIG, "sum to 0", split_bounds("0,0,0", 10, bounds));
    assert_fails(STATUS_ERR_CONFIG, "sum to 0", split_bounds("0,0,0,5", 10, bounds));
    assert_fails(STATUS_ERR_CONFIG, "sum to inf", split_bounds("1e308,1e308", 10, bounds));
}

static void samples_wanted_follow_the_iterations(void **state)
{
    (void)state;
    int64_t wanted;
    assert_ok(split_samples_wanted(DATASET_TRAIN, 40, 0, 0, 8, &wanted));
    assert_int_equal(wanted, 320);
    assert_ok(split_samples_wanted(DATASET_VALID, 100, 30, 5, 8, &wanted));
    assert_int_equal(wanted, (3 + 1) * 5 * 8);
    assert_ok(split_samples_wanted(DATASET_TEST, 100, 30, 5, 8, &wanted));
    assert_int_equal(wanted, 40);
    assert_fails(STATUS_ERR_CONFIG,
                 "train: ", split_samples_wanted(DATASET_TRAIN, INT64_MAX / 4, 1, 1, 8, &wanted));
    assert_fails(STATUS_ERR_CONFIG,
                 "valid: ", split_samples_wanted(DATASET_VALID, INT64_MAX, 1, 1, 8, &wanted));
    assert_fails(STATUS_ERR_CONFIG,
                 "valid: ", split_samples_wanted(DATASET_VALID, INT64_MAX - 1, 1, 2, 8, &wanted));
}

static sample_order *make_order(const indexed_dataset *ds, int64_t seq, int64_t wanted,
                                uint32_t seed)
{
    sample_order *order = NULL;
    const sample_order_options options = {
        .name = "train",
        .end = indexed_dataset_documents(ds),
        .seq_length = seq,
        .wanted = wanted,
        .seed = seed,
    };
    assert_ok(sample_order_create(ds, &options, &order));
    return order;
}

static void the_worked_example_comes_out(void **state)
{
    (void)state;
    static const int64_t documents[] = {2, 1, 2, 0, 0, 1, 3, 3},
                         shuffled[] = {5, 0, 3, 4, 2, 6, 1, 7};
    static const int64_t starts[9][2] = {{0, 0}, {1, 0}, {2, 1}, {3, 1}, {4, 0},
                                         {4, 4}, {6, 0}, {6, 4}, {7, 2}};
    indexed_dataset *ds = NULL;
    fixture_dataset("four", (int32_t[]){5, 3, 4, 6}, 4);
    assert_ok(indexed_dataset_open(fixture_path("four"), 128, &ds));
    sample_order *order = make_order(ds, 4, 7, 1234);
    assert_int_equal(sample_order_epochs(order), 2);
    assert_int_equal(sample_order_samples(order), 8);
    assert_int_equal(sample_order_count(order), 7);
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(sample_order_document(order, i), documents[i]);
        assert_int_equal(sample_order_shuffled(order, i), shuffled[i]);
    }
    for (int64_t i = 0; i <= 8; i++) {
        int64_t place, token;
        sample_order_locate(order, i, &place, &token);
        assert_int_equal(place, starts[i][0]);
        assert_int_equal(token, starts[i][1]);
    }
    // Number 2 is sample 3: the last four tokens of document 0, and one of document 0 again.
    int32_t tokens[5], again[5];
    assert_ok(sample_order_read(order, 2, tokens));
    assert_memory_equal(tokens, ((int32_t[]){2, 3, 4, 5, 1}), sizeof tokens);
    // Seven are served; the eighth wraps to the first, the shuffle's last one never comes.
    assert_ok(sample_order_read(order, 0, tokens));
    assert_ok(sample_order_read(order, 7, again));
    assert_memory_equal(tokens, again, sizeof tokens);
    sample_order_destroy(order);
    indexed_dataset_close(ds);
}

static void check_order(const sample_order *order, int64_t documents, FILE *file)
{
    int64_t epochs = golden_i64(file), samples = golden_i64(file);
    uint64_t hash = GOLDEN_HASH_START;
    assert_int_equal(sample_order_epochs(order), epochs);
    assert_int_equal(sample_order_samples(order), samples);
    for (int64_t i = 0; i < epochs * documents; i++)
        golden_hash(&hash, (uint64_t)sample_order_document(order, i));
    assert_true(hash == golden_u64(file));
    hash = GOLDEN_HASH_START;
    for (int64_t i = 0; i <= samples; i++) {
        int64_t place, token;
        sample_order_locate(order, i, &place, &token);
        golden_hash(&hash, (uint64_t)place);
        golden_hash(&hash, (uint64_t)token);
    }
    assert_true(hash == golden_u64(file));
    hash = GOLDEN_HASH_START;
    for (int64_t i = 0; i < samples; i++)
        golden_hash(&hash, (uint64_t)sample_order_shuffled(order, i));
    assert_true(hash == golden_u64(file));
}

// Every sample must be seq + 1 tokens of the stream of documents, found here the slow way.
static void check_tokens(const sample_order *order, const indexed_dataset *ds, int64_t seq)
{
    int64_t total = sample_order_epochs(order) * indexed_dataset_tokens(ds);
    int32_t *stream = calloc((size_t)total, sizeof *stream);
    int32_t *tokens = calloc((size_t)seq + 1, sizeof *tokens);
    assert_non_null(stream);
    assert_non_null(tokens);
    for (int64_t place = 0, at = 0; at < total; place++) {
        int64_t document = sample_order_document(order, place);
        int64_t size = indexed_dataset_size(ds, document);
        assert_ok(indexed_dataset_read(ds, document, 0, size, stream + at));
        at += size;
    }
    for (int64_t i = 0; i < sample_order_count(order); i++) {
        assert_ok(sample_order_read(order, i, tokens));
        assert_memory_equal(tokens, stream + sample_order_shuffled(order, i) * seq,
                            (size_t)(seq + 1) * sizeof *tokens);
    }
    free(tokens);
    free(stream);
}

static void orders_equal_those_of_neox(void **state)
{
    (void)state;
    FILE *file = golden_open("orders.txt");
    uint64_t seq;
    int cases = 0;
    for (; golden_next(file, &seq); cases++) {
        int64_t wanted = golden_i64(file);
        uint32_t seed = (uint32_t)golden_u64(file);
        size_t documents = (size_t)golden_u64(file);
        int32_t sizes[64];
        indexed_dataset *ds = NULL;
        assert_in_range(documents, 1, 64);
        for (size_t i = 0; i < documents; i++)
            sizes[i] = (int32_t)golden_u64(file);
        fixture_dataset("order", sizes, documents);
        assert_ok(indexed_dataset_open(fixture_path("order"), 128, &ds));
        sample_order *order = make_order(ds, (int64_t)seq, wanted, seed);
        check_order(order, (int64_t)documents, file);
        check_tokens(order, ds, (int64_t)seq);
        sample_order_destroy(order);
        indexed_dataset_close(ds);
    }
    fclose(file);
    assert_int_equal(cases, 48);
}

static void an_order_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    indexed_dataset *ds = NULL;
    sample_order *order = NULL;
    fixture_dataset("small", (int32_t[]){9}, 1);
    assert_ok(indexed_dataset_open(fixture_path("small"), 128, &ds));
    sample_order_options options = {.name = "train", .end = 1, .seq_length = 8};
    options.wanted = INT64_MAX / 4;
    assert_fails(STATUS_ERR_CONFIG, "train: 2305843009213693951 samples of 8 tokens are more than",
                 sample_order_create(ds, &options, &order));
    options.wanted = INT64_MAX / 16;
    assert_fails(STATUS_ERR_CONFIG, "whose order does not fit",
                 sample_order_create(ds, &options, &order));
    options.wanted = (int64_t)1 << 50;
    assert_fails(STATUS_ERR_CONFIG, "fewer iterations, or give more data",
                 sample_order_create(ds, &options, &order));
    assert_null(order);
    sample_order_destroy(NULL);
    indexed_dataset_close(ds);
}

static void every_rank_takes_its_slice(void **state)
{
    (void)state;
    // Ten samples, micro-batch 2, three ranks: six a step, four are left out at the end of a pass.
    const batch_order order = {
        .samples = 10, .micro_batch = 2, .accumulation = 1, .data_parallel = 3};
    assert_int_equal(batch_order_batch(&order), 6);
    assert_int_equal(batch_order_batches(&order), 1);
    for (int64_t iteration = 0; iteration < 5; iteration++)
        for (int64_t rank = 0; rank < 3; rank++)
            for (int64_t item = 0; item < 2; item++)
                assert_int_equal(batch_order_sample(&order, iteration, 0, rank, item),
                                 rank * 2 + item);
    const batch_order two = {
        .samples = 25, .micro_batch = 2, .accumulation = 2, .data_parallel = 3};
    assert_int_equal(batch_order_sample(&two, 0, 1, 0, 0), 6);
    assert_int_equal(batch_order_sample(&two, 0, 1, 2, 1), 11);
    assert_int_equal(batch_order_sample(&two, 1, 0, 1, 0), 14);
    assert_int_equal(batch_order_sample(&two, 2, 0, 0, 0), 0);
    // Fewer samples than a batch: the data set wraps, the order does not fail.
    const batch_order few = {.samples = 3, .micro_batch = 2, .accumulation = 1, .data_parallel = 2};
    assert_int_equal(batch_order_sample(&few, 7, 0, 1, 1), 3);
}

static void an_iteration_reads_the_same_on_every_grid(void **state)
{
    (void)state;
    static const int64_t grids[][3] = {{16, 1, 1}, {8, 2, 1}, {4, 1, 4}, {1, 8, 2}, {2, 4, 2}};
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        const batch_order order = {.samples = 100,
                                   .micro_batch = grids[g][0],
                                   .accumulation = grids[g][1],
                                   .data_parallel = grids[g][2]};
        for (int64_t iteration = 0; iteration < 20; iteration++) {
            int64_t next = iteration % 6 * 16;
            for (int64_t k = 0; k < order.accumulation; k++)
                for (int64_t r = 0; r < order.data_parallel; r++)
                    for (int64_t i = 0; i < order.micro_batch; i++)
                        assert_int_equal(batch_order_sample(&order, iteration, k, r, i), next++);
        }
    }
}

static void evaluations_follow_one_another(void **state)
{
    (void)state;
    // Every 10 of 35 iterations, 3 batches each, then once at the end.
    assert_int_equal(batch_order_eval_start(10, 10, 3, false), 0);
    assert_int_equal(batch_order_eval_start(20, 10, 3, false), 3);
    assert_int_equal(batch_order_eval_start(30, 10, 3, false), 6);
    assert_int_equal(batch_order_eval_start(35, 10, 3, true), 9);
    assert_int_equal(batch_order_eval_start(40, 10, 3, true), 12);
    assert_int_equal(batch_order_eval_start(5, 10, 3, true), 0);
    assert_int_equal(batch_order_eval_start(0, 10, 3, false), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(splits_round_as_python_does),          CASE(a_split_is_read_with_care),
        CASE(samples_wanted_follow_the_iterations), CASE(the_worked_example_comes_out),
        CASE(orders_equal_those_of_neox),           CASE(an_order_that_does_not_fit_is_refused),
        CASE(every_rank_takes_its_slice),           CASE(an_iteration_reads_the_same_on_every_grid),
        CASE(evaluations_follow_one_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
