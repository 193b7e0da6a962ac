// A part of the data as the loop reads it: the reference runs, blends, and what cannot be opened.
#include "data/dataset.h"

#include "data_fixture.h"
#include "data_golden.h"

enum { SEQ_MAX = 128 };

static dataset_options reference_options(const char *const *path, int64_t seq, int64_t seed)
{
    dataset_options o = dataset_options_defaults();
    o.paths = path;
    o.path_count = 1;
    o.split = "969,30,1";
    o.seq_length = seq;
    o.seed = seed;
    o.wanted = 320;
    return o;
}

// samples.npy holds the tokens of the 40 batches of 8 that the reference run trained on.
static void check_reference(const char *name, int64_t seq, int64_t seed)
{
    char prefix[512], samples[512];
    const char *path = prefix;
    dataset *ds = NULL;
    size_t bytes;
    snprintf(prefix, sizeof prefix, "%s/%s/data", TRIFOLD_GOLDEN, name);
    snprintf(samples, sizeof samples, "%s/%s/samples.npy", TRIFOLD_GOLDEN, name);
    uint8_t *file = fixture_read_file(samples, &bytes);
    size_t row = (size_t)(seq + 1) * sizeof(int32_t), header = 10 + file[8] + 256u * file[9];
    assert_int_equal(bytes, header + 320 * row);
    dataset_options o = reference_options(&path, seq, seed);
    assert_ok(dataset_open(&o, &ds));
    assert_true(dataset_count(ds) >= 319);
    assert_int_equal(dataset_unused_bytes(ds), 0);
    const batch_order order = {
        .samples = dataset_count(ds), .micro_batch = 2, .accumulation = 2, .data_parallel = 2};
    const uint8_t *expected = file + header;
    for (int64_t iteration = 0; iteration < 40; iteration++)
        for (int64_t k = 0; k < 2; k++)
            for (int64_t rank = 0; rank < 2; rank++, expected += 2 * row) {
                int32_t tokens[2 * (SEQ_MAX + 1)];
                assert_ok(dataset_batch(ds, &order, iteration, k, rank, tokens));
                assert_memory_equal(tokens, expected, 2 * row);
            }
    dataset_close(ds);
    free(file);
}

static void the_reference_runs_get_their_samples(void **state)
{
    (void)state;
    check_reference("par", 64, 1234);
    check_reference("seq", 96, 42);
}

static void parts_of_a_split_do_not_overlap(void **state)
{
    (void)state;
    static const int64_t bounds[] = {0, 30, 36, 40};
    indexed_writer *w = NULL;
    int32_t tokens[33];
    const char *path = fixture_path("d40");
    // Every token tells its document.
    assert_ok(indexed_writer_create(path, INDEXED_U16, &w));
    for (int32_t d = 0; d < 40; d++) {
        for (int32_t t = 0; t < 33; t++)
            assert_ok(indexed_writer_add(w, &d, 1));
        assert_ok(indexed_writer_end_document(w));
    }
    assert_ok(indexed_writer_finish(w));
    indexed_writer_destroy(w);
    dataset_options o = reference_options(&path, 32, 1);
    o.split = "30,6,4";
    o.vocab = 40;
    for (int part = 0; part < DATASET_PARTS; part++) {
        dataset *ds = NULL;
        int64_t documents = bounds[part + 1] - bounds[part];
        bool seen[40] = {false};
        o.part = (dataset_part)part;
        o.wanted = documents;
        assert_ok(dataset_open(&o, &ds));
        assert_int_equal(dataset_documents(ds), documents);
        assert_int_equal(dataset_epochs(ds), 1);
        for (int64_t i = 0; i < dataset_count(ds); i++) {
            assert_ok(dataset_sample(ds, i, tokens));
            for (int t = 0; t < 33; t++)
                seen[tokens[t]] = true;
        }
        for (int64_t d = 0; d < 40; d++)
            assert_true(!seen[d] || (d >= bounds[part] && d < bounds[part + 1]));
        dataset_close(ds);
    }
}

static void what_a_part_lacks_is_said(void **state)
{
    (void)state;
    dataset *ds = NULL;
    const char *path = fixture_path("d3");
    fixture_dataset("d3", (int32_t[]){4, 3, 2}, 3);
    dataset_options o = reference_options(&path, 32, 1);
    o.split = "100,0,0";
    assert_fails(STATUS_ERR_CONFIG,
                 "leaves it 3 documents with 9 tokens < 33 (seq-length + 1); give more text",
                 dataset_open(&o, &ds));
    o.part = DATASET_VALID;
    assert_fails(STATUS_ERR_CONFIG, "valid: split \"100,0,0\" of ", dataset_open(&o, &ds));
    assert_fails(STATUS_ERR_CONFIG, "0 documents with 0 tokens < 33", dataset_open(&o, &ds));
    o.part = DATASET_TEST;
    o.split = "50,50";
    assert_fails(STATUS_ERR_CONFIG, "or set eval-iters to 0", dataset_open(&o, &ds));
    o.split = NULL;
    assert_fails(STATUS_ERR_CONFIG, "d3 has 3 documents with 9 tokens < 33", dataset_open(&o, &ds));
    // One sample only: it is served again and again.
    int32_t tokens[9], again[9];
    o.seq_length = 9;
    assert_fails(STATUS_ERR_CONFIG, "9 tokens < 10", dataset_open(&o, &ds));
    o.seq_length = 8;
    o.wanted = 1;
    o.part = DATASET_TRAIN;
    o.split = "1";
    assert_ok(dataset_open(&o, &ds));
    assert_int_equal(dataset_count(ds), 1);
    assert_ok(dataset_sample(ds, 0, tokens));
    assert_ok(dataset_sample(ds, 1000000007, again));
    assert_memory_equal(tokens, again, sizeof tokens);
    dataset_close(ds);
    dataset_close(NULL);
}

static void bad_options_are_named(void **state)
{
    (void)state;
    dataset *ds = NULL;
    const char *paths[] = {fixture_path("d3"), fixture_path("absent")};
    const double weights[] = {1, -1, 0, 0};
    fixture_dataset("d3", (int32_t[]){40, 30, 20}, 3);
    dataset_options o = reference_options(paths, 8, 1);
#define EXPECT(field, value, text)                                        \
    do {                                                                  \
        dataset_options bad = o;                                          \
        bad.field = value;                                                \
        assert_fails(STATUS_ERR_CONFIG, (text), dataset_open(&bad, &ds)); \
    } while (0)
    EXPECT(path_count, 0, "train: 0 data paths");
    EXPECT(path_count, 70000, "train: 70000 data paths");
    EXPECT(path_count, 2, "a split cuts one data path; 2 are given");
    EXPECT(seq_length, 0, "sequence length 0");
    EXPECT(seq_length, (int64_t)1 << 40, "sequence length 1099511627776");
    EXPECT(seed, -1, "seed -1; 0 to 4294967295");
    EXPECT(seed, (int64_t)1 << 32, "seed 4294967296");
    EXPECT(wanted, -1, "-1 samples wanted");
    EXPECT(split, "x", "split \"x\": share 1");
    o.split = NULL;
    o.path_count = 2;
    EXPECT(weight_count, 3, "3 weights for 2 data paths");
    EXPECT(alpha, 1, "absent.idx: cannot open it");
    paths[1] = paths[0];
    o.weights = weights;
    EXPECT(weight_count, 2, "weight 2 is -1; 0 or more");
    o.weights = weights + 2;
    EXPECT(weight_count, 2, "the weights sum to 0");
    o.weights = (double[]){1, NAN};
    EXPECT(weight_count, 2, "weight 2 is nan");
    o.weights = (double[]){1, INFINITY};
    EXPECT(weight_count, 2, "weight 2 is inf");
#undef EXPECT
    // An id past the vocabulary shows when it is read.
    int32_t tokens[9];
    status result = STATUS_OK;
    o.weights = NULL;
    o.vocab = 30;
    assert_ok(dataset_open(&o, &ds));
    for (int64_t i = 0; i < dataset_count(ds) && result == STATUS_OK; i++)
        result = dataset_sample(ds, i, tokens);
    assert_fails(STATUS_ERR_FORMAT, " is 30; ids lie in 0 to 29", result);
    dataset_close(ds);
}

// Tokens of set k are those of one long document; set 1 has other ones than set 0.
static void blended_sets_serve_their_shares(void **state)
{
    (void)state;
    enum { SEQ = 4 };
    int32_t one[] = {30, 50}, other[1] = {100}, tokens[SEQ + 1], own[SEQ + 1];
    const double weights[] = {1, 6};
    dataset *mix = NULL, *alone[2] = {NULL, NULL};
    fixture_dataset("one", one, 2);
    fixture_dataset("other", other, 1);
    const char *paths[] = {fixture_path("one"), fixture_path("other")};
    dataset_options o = dataset_options_defaults();
    o.paths = paths;
    o.path_count = 2;
    o.weights = weights;
    o.weight_count = 2;
    o.seq_length = SEQ;
    o.seed = 7;
    o.wanted = 70;
    assert_ok(dataset_open(&o, &mix));
    for (int k = 0; k < 2; k++) {
        // As GPT-NeoX asks of each: ceil(70 * 1/7 * 1.005) and ceil(70 * 6/7 * 1.005).
        dataset_options single = o;
        single.paths = &paths[k];
        single.path_count = 1;
        single.weight_count = 0;
        single.split = "1";
        single.wanted = k == 0 ? 11 : 61;
        assert_ok(dataset_open(&single, &alone[k]));
    }
    assert_int_equal(dataset_count(mix), dataset_count(alone[0]) + dataset_count(alone[1]));
    int64_t served[2] = {0, 0};
    for (int64_t i = 0; i < 70; i++) {
        double position = i > 0 ? (double)i : 1;
        int k = 6.0 / 7 * position - (double)served[1] > 1.0 / 7 * position - (double)served[0];
        assert_ok(dataset_sample(mix, i, tokens));
        assert_ok(dataset_sample(alone[k], served[k]++, own));
        assert_memory_equal(tokens, own, sizeof tokens);
    }
    assert_in_range(served[0], 9, 11);
    // The order goes on past the end of the blend from its start.
    assert_ok(dataset_sample(mix, 3, own));
    assert_ok(dataset_sample(mix, 3 + dataset_count(mix), tokens));
    assert_memory_equal(tokens, own, sizeof tokens);
    for (int k = 0; k < 2; k++)
        dataset_close(alone[k]);
    dataset_close(mix);
}

static void a_single_path_and_weights_by_documents_work(void **state)
{
    (void)state;
    int32_t sizes[9], tokens[9];
    const char *paths[] = {fixture_path("a"), fixture_path("b")};
    dataset *ds = NULL;
    for (size_t i = 0; i < 9; i++)
        sizes[i] = 20;
    fixture_dataset("a", sizes, 9);
    fixture_dataset("b", sizes, 3);
    dataset_options o = dataset_options_defaults();
    o.paths = paths;
    o.path_count = 1;
    o.seq_length = 8;
    o.wanted = 100;
    assert_ok(dataset_open(&o, &ds));
    // ceil(100 * 1.005) = 101 samples take 5 epochs of 180 tokens: 112 samples, the last unserved.
    assert_int_equal(dataset_epochs(ds), 5);
    assert_int_equal(dataset_count(ds), 111);
    dataset_close(ds);
    o.weight_by_num_documents = true;
    assert_ok(dataset_open(&o, &ds));
    assert_int_equal(dataset_count(ds), 111);
    dataset_close(ds);
    // Shares 3/4 and 1/4, each times the other: both sets weigh the same.
    o.path_count = 2;
    assert_ok(dataset_open(&o, &ds));
    assert_int_equal(dataset_documents(ds), 12);
    // ceil(50.25) = 51 samples: 3 epochs of 180 tokens, 7 of 60; 67 - 1 and 52 - 1.
    assert_int_equal(dataset_count(ds), 66 + 51);
    for (int64_t i = 0; i < dataset_count(ds); i++)
        assert_ok(dataset_sample(ds, i, tokens));
    dataset_close(ds);
}

static void a_read_only_folder_is_enough(void **state)
{
    (void)state;
    dataset *ds = NULL;
    fixture_dataset("ro", (int32_t[]){100, 90}, 2);
    const char *path = fixture_path("ro");
    dataset_options o = reference_options(&path, 8, 1);
    DIR *folder;
    struct dirent *entry;
    int names = 0;
    o.split = "1";
    assert_ok(dataset_open(&o, &ds));
    folder = opendir(fixture_folder);
    assert_non_null(folder);
    while ((entry = readdir(folder)))
        names += entry->d_name[0] != '.';
    closedir(folder);
    // Nothing was written beside the two files.
    assert_int_equal(names, 2);
    dataset_close(ds);
}

static void the_mask_leaves_out_ends_of_documents(void **state)
{
    (void)state;
    static const int32_t inputs[] = {0, 5, 0, 7};
    float mask[4];
    dataset_mask_eod(mask, inputs, 4, 0);
    assert_memory_equal(mask, ((float[]){0, 1, 0, 1}), sizeof mask);
    dataset_mask_eod(mask, inputs, 4, 7);
    assert_memory_equal(mask, ((float[]){1, 1, 1, 0}), sizeof mask);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_reference_runs_get_their_samples),
        CASE(parts_of_a_split_do_not_overlap),
        CASE(what_a_part_lacks_is_said),
        CASE(bad_options_are_named),
        CASE(blended_sets_serve_their_shares),
        CASE(a_single_path_and_weights_by_documents_work),
        CASE(a_read_only_folder_is_enough),
        CASE(the_mask_leaves_out_ends_of_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
