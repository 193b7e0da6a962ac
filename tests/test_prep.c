// Corpus preparation: documents, counts, cuts, order and bad lines, with any number of workers.
#include "data/prep.h"
#include "tokenizer_fixture.h"

typedef struct run {
    tokenizer *t;
    prep_options o;
    prep_report reports[PREP_KEYS_MAX];
} run;

static const char *input_path;

// One input file in the folder of the test, to the set "out".
static run make_run(tokenizer_kind kind, const char *name, const void *text, size_t bytes)
{
    run r = {.o = prep_options_defaults()};
    r.t = kind == TOKENIZER_CHAR_LEVEL ? open_tokenizer(kind, NULL, NULL)
                                       : open_tokenizer(kind, golden_path("tokenizer.json"), NULL);
    static char path[PATH_BYTES], output[PATH_BYTES];
    fixture_write(name, text, bytes);
    strcpy(path, fixture_path(name));
    strcpy(output, fixture_path("out"));
    input_path = path;
    r.o.inputs = &input_path;
    r.o.input_count = 1;
    r.o.output = output;
    return r;
}

static status do_run(run *r)
{
    const status result = prep_run(r->t, &r->o, r->reports);
    tokenizer_close(r->t);
    return result;
}

// The set has these documents of bytes, joined with '|', a 0 at the end of a document shown as '$'.
static void check_documents(const char *name, const char *expected)
{
    indexed_dataset *ds = NULL;
    char text[4096];
    size_t used = 0;
    assert_ok(indexed_dataset_open(fixture_path(name), 512, &ds));
    for (int64_t d = 0; d < indexed_dataset_documents(ds); d++) {
        int32_t ids[1024];
        const int64_t size = indexed_dataset_size(ds, d);
        assert_true(size <= 1024 && used + (size_t)size + 2 < sizeof text);
        assert_ok(indexed_dataset_read(ds, d, 0, size, ids));
        if (d > 0)
            text[used++] = '|';
        for (int64_t i = 0; i < size; i++)
            text[used++] = ids[i] == 0 ? '$' : (char)ids[i];
    }
    text[used] = '\0';
    assert_string_equal(text, expected);
    indexed_dataset_close(ds);
}

static void lines_of_json_are_documents(void **state)
{
    (void)state;
    static const char text[] =
        "{\"text\": \"a\", \"n\": 1}\n{\"text\": \"\"}\r\n  \n{\"text\": \"b\\n\"}";
    run r = make_run(TOKENIZER_CHAR_LEVEL, "in.jsonl", text, sizeof text - 1);
    r.o.append_eod = true;
    assert_ok(do_run(&r));
    check_documents("out", "a$|b\n$");
    assert_int_equal(r.reports[0].documents, 2);
    assert_int_equal(r.reports[0].skipped, 1);
    assert_int_equal(r.reports[0].tokens, 5);
    assert_int_equal(r.reports[0].eod, 2);
    assert_int_equal(r.reports[0].bytes, 3);
    assert_int_equal(r.reports[0].dtype, INDEXED_U16);
}

static void bad_lines_are_named_by_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"text\": \"a\"}\n{\"text\": oops}\n{", "in.jsonl:2:"},
        {"{\"text\": \"a\"}\n\n\n{\"other\": \"a\"}\n", "in.jsonl:4:1: no key \"text\""},
        {"{\"text\": 5}\n", "in.jsonl:1:1: no text under the key \"text\""},
        {"[\"text\"]\n", "in.jsonl:1:1: no key \"text\""},
        {"{\"text\": \"\xff\"}\n", "in.jsonl:1:"},
        {"{\"text\": \"a\"} {}\n", "in.jsonl:1:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = make_run(TOKENIZER_CHAR_LEVEL, "in.jsonl", cases[i].text, strlen(cases[i].text));
        r.o.workers = 2;
        assert_fails(STATUS_ERR_FORMAT, cases[i].message, do_run(&r));
        assert_int_not_equal(access(fixture_path("out.idx"), F_OK), 0);
        assert_int_not_equal(access(fixture_path("out.bin.part"), F_OK), 0);
    }
}

static void the_first_bad_line_is_named_whatever_the_workers_do(void **state)
{
    (void)state;
    enum { LINES = 100000 };
    char *text = malloc(LINES * 16);
    size_t bytes = 0;
    assert_non_null(text);
    for (int i = 1; i <= LINES; i++)
        bytes += (size_t)sprintf(text + bytes, "%s",
                                 i == 40000 || i > 60000 ? "{\"text\":\n" : "{\"text\":\"a\"}\n");
    for (int repeat = 0; repeat < 5; repeat++) {
        run r = make_run(TOKENIZER_CHAR_LEVEL, "in.jsonl", text, bytes);
        r.o.workers = 4;
        assert_fails(STATUS_ERR_FORMAT, "in.jsonl:40000:", do_run(&r));
    }
    free(text);
}

static void several_keys_give_several_sets(void **state)
{
    (void)state;
    static const char text[] = "{\"q\": \"x\", \"a\": \"1\"}\n{\"q\": \"\", \"a\": \"2\"}\n";
    static const char *const keys[] = {"q", "a"};
    run r = make_run(TOKENIZER_CHAR_LEVEL, "in.jsonl", text, sizeof text - 1);
    r.o.keys = keys;
    r.o.key_count = 2;
    assert_ok(do_run(&r));
    check_documents("out_q", "x");
    check_documents("out_a", "1|2");
    assert_int_equal(r.reports[0].skipped, 1);
    assert_int_equal(r.reports[1].documents, 2);
}

static void a_text_file_is_cut_as_asked(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf\n \na b\nc\r\n\t\r\n\r\nd\n\n";
    static const struct {
        prep_split split;
        const char *expected;
        int64_t skipped;
    } cases[] = {
        {PREP_SPLIT_NONE, "\n \na b\nc\r\n\t\r\n\r\nd\n\n", 0},
        {PREP_SPLIT_PARAGRAPHS, "a b\nc\r|d", 0},
        {PREP_SPLIT_LINES, " |a b|c|\t|d", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r = make_run(TOKENIZER_CHAR_LEVEL, "in.txt", text, sizeof text - 1);
        r.o.split = cases[i].split;
        assert_ok(do_run(&r));
        check_documents("out", cases[i].expected);
        assert_int_equal(r.reports[0].skipped, cases[i].skipped);
    }
}

static void empty_files_give_an_empty_set(void **state)
{
    (void)state;
    static const char *const names[] = {"in.txt", "in.jsonl"};
    for (size_t i = 0; i < 2; i++) {
        run r = make_run(TOKENIZER_CHAR_LEVEL, names[i], "", 0);
        assert_ok(do_run(&r));
        assert_int_equal(r.reports[0].documents, 0);
        check_documents("out", "");
    }
}

static uint8_t *read_set(size_t bytes[2])
{
    uint8_t *bin = fixture_read_file(fixture_path("out.bin"), &bytes[0]);
    uint8_t *idx = fixture_read_file(fixture_path("out.idx"), &bytes[1]);
    bin = realloc(bin, bytes[0] + bytes[1]);
    assert_non_null(bin);
    memcpy(bin + bytes[0], idx, bytes[1]);
    free(idx);
    return bin;
}

// Text with words, blanks and lines, no place without a newline for long.
static char *make_text(size_t bytes, uint32_t seed)
{
    static const char *const words[] = {"the", " heaven", "\n",       "  ",  "\n\n", " and",
                                        "'s",  ", ",      "\xc3\xa9", " 12", "\r\n", "God",
                                        " ",   "x\ny",    "\n ",      "a"};
    char *text = malloc(bytes + 16);
    assert_non_null(text);
    for (size_t used = 0; used < bytes;) {
        seed = seed * 1664525 + 1013904223;
        const char *word = words[seed >> 28];
        memcpy(text + used, word, strlen(word));
        used += strlen(word);
    }
    return text;
}

// The set "out" is one document with the ids of the text.
static void check_whole(const tokenizer *t, const char *text, size_t bytes)
{
    size_t set_bytes[2];
    tokenizer_encoder *e = NULL;
    token_list ids = {0};
    uint8_t *set = read_set(set_bytes);
    assert_ok(tokenizer_encoder_create(t, &e));
    assert_ok(tokenizer_encode(e, text, bytes, false, &ids));
    assert_int_equal(set_bytes[0], 2 * ids.count);
    for (size_t i = 0; i < ids.count; i++)
        assert_int_equal(ids.ids[i], set[2 * i] + 256 * set[2 * i + 1]);
    token_list_fini(&ids);
    tokenizer_encoder_destroy(e);
    free(set);
}

// Cut where no token reaches over, or not at all: with a template, a space before each part, or an
// added token that takes the space around it the parts would not be the whole.
static void a_long_document_is_encoded_as_a_whole(void **state)
{
    (void)state;
    enum { BYTES = 2 << 20 };
    static const char *const files[] = {"tokenizer.json", "gpt2.json", "prefix.json", "gpt4.json",
                                        "added.json"};
    char *text = make_text(BYTES, 2);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        run r = make_run(TOKENIZER_CHAR_LEVEL, "in.txt", text, BYTES);
        tokenizer_close(r.t);
        r.t = open_tokenizer(TOKENIZER_HF, golden_path(files[i]), NULL);
        r.o.workers = 2;
        assert_ok(prep_run(r.t, &r.o, r.reports));
        check_whole(r.t, text, BYTES);
        tokenizer_close(r.t);
    }
    free(text);
}

// Newlines that merge to one token must stay together.
static void a_cut_keeps_runs_of_newlines(void **state)
{
    (void)state;
    enum { BYTES = 1500000 };
    static const char vocab[] =
        "{\"a\":0,\"\xc4\x8a\":1,\"\xc4\x8a\xc4\x8a\":2,\"\xc4\x8a\xc4\x8a\xc4\x8a\":3}";
    static const char merges[] = "\xc4\x8a \xc4\x8a\n\xc4\x8a\xc4\x8a \xc4\x8a\n";
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = i % 11 == 0 ? 'a' : '\n';
    run r = make_run(TOKENIZER_CHAR_LEVEL, "in.txt", text, BYTES);
    tokenizer_close(r.t);
    fixture_write("vocab.json", vocab, sizeof vocab - 1);
    fixture_write("merges.txt", merges, sizeof merges - 1);
    r.t =
        open_tokenizer(TOKENIZER_GPT2_BPE, fixture_path("vocab.json"), fixture_path("merges.txt"));
    assert_ok(prep_run(r.t, &r.o, r.reports));
    check_whole(r.t, text, BYTES);
    tokenizer_close(r.t);
    free(text);
}

// What is cut at work, and encoded by several, does not depend on how many they are.
static void workers_leave_no_trace_in_a_set(void **state)
{
    (void)state;
    enum { BYTES = 2 << 20 };
    char *text = make_text(BYTES, 1);
    for (int split = PREP_SPLIT_NONE; split <= PREP_SPLIT_LINES; split++) {
        uint8_t *first = NULL;
        size_t first_bytes[2], bytes[2];
        for (int workers = 1; workers <= 3; workers += 2) {
            run r = make_run(TOKENIZER_HF, "in.txt", text, BYTES);
            r.o.split = (prep_split)split;
            r.o.workers = workers;
            r.o.append_eod = true;
            assert_ok(do_run(&r));
            assert_int_equal(r.reports[0].eod, r.reports[0].documents);
            uint8_t *set = read_set(bytes);
            if (first) {
                assert_memory_equal(bytes, first_bytes, sizeof bytes);
                assert_memory_equal(set, first, bytes[0] + bytes[1]);
                free(set);
            } else {
                first = set;
                memcpy(first_bytes, bytes, sizeof bytes);
            }
        }
        free(first);
    }
    free(text);
}

static void inputs_follow_each_other_like_merged_sets(void **state)
{
    (void)state;
    static char paths[2][PATH_BYTES];
    const char *inputs[] = {paths[0], paths[1]};
    size_t together[2], merged[2];
    run r = make_run(TOKENIZER_CHAR_LEVEL, "a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"bc\"}", 26);
    strcpy(paths[0], fixture_path("a.jsonl"));
    strcpy(paths[1], fixture_path("b.txt"));
    fixture_write("b.txt", "text", 4);
    assert_ok(prep_run(r.t, &r.o, r.reports));
    assert_int_equal(rename(fixture_path("out.bin"), fixture_path("x.bin")), 0);
    assert_int_equal(rename(fixture_path("out.idx"), fixture_path("x.idx")), 0);
    r.o.inputs = &inputs[1];
    assert_ok(prep_run(r.t, &r.o, r.reports));
    assert_int_equal(rename(fixture_path("out.bin"), fixture_path("y.bin")), 0);
    assert_int_equal(rename(fixture_path("out.idx"), fixture_path("y.idx")), 0);
    r.o.inputs = inputs;
    r.o.input_count = 2;
    assert_ok(do_run(&r));
    check_documents("out", "a|bc|text");
    uint8_t *one = read_set(together);
    indexed_writer *w = NULL;
    assert_ok(indexed_writer_create(fixture_path("out"), INDEXED_U16, &w));
    assert_ok(indexed_writer_merge(w, fixture_path("x")));
    assert_ok(indexed_writer_merge(w, fixture_path("y")));
    assert_ok(indexed_writer_finish(w));
    indexed_writer_destroy(w);
    uint8_t *other = read_set(merged);
    assert_memory_equal(together, merged, sizeof merged);
    assert_memory_equal(one, other, merged[0] + merged[1]);
    free(one);
    free(other);
}

static void special_text_is_plain_unless_asked_for(void **state)
{
    (void)state;
    static const char text[] = "a<|endoftext|>";
    for (int parse = 0; parse < 2; parse++) {
        run r = make_run(TOKENIZER_HF, "in.txt", text, sizeof text - 1);
        r.o.parse_special = parse;
        r.o.append_eod = true;
        assert_ok(do_run(&r));
        assert_int_equal(r.reports[0].eod, 1 + parse);
        assert_int_equal(r.reports[0].documents, 1);
    }
}

static void a_large_vocabulary_takes_32_bits(void **state)
{
    (void)state;
    run r = make_run(TOKENIZER_CHAR_LEVEL, "in.txt", "a", 1);
    FILE *file = fopen(fixture_path("vocab.json"), "w");
    assert_non_null(file);
    fputs("{\"a\":0", file);
    for (int id = 1; id < 65500; id++)
        fprintf(file, ",\"t%d\":%d", id, id);
    fputs("}", file);
    fclose(file);
    fixture_write("merges.txt", "", 0);
    tokenizer_close(r.t);
    r.t =
        open_tokenizer(TOKENIZER_GPT2_BPE, fixture_path("vocab.json"), fixture_path("merges.txt"));
    assert_ok(do_run(&r));
    assert_int_equal(r.reports[0].dtype, INDEXED_I32);
    check_documents("out", "$"); // id 0
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    static const char *const twice[] = {"text", "text"};
    run r = make_run(TOKENIZER_CHAR_LEVEL, "in.txt", "a", 1);
    r.o.workers = 0;
    assert_fails(STATUS_ERR_CONFIG, "0 workers", prep_run(r.t, &r.o, r.reports));
    r.o.workers = 1;
    r.o.key_count = 0;
    assert_fails(STATUS_ERR_CONFIG, "0 keys", prep_run(r.t, &r.o, r.reports));
    r.o.keys = twice;
    r.o.key_count = 2;
    assert_fails(STATUS_ERR_CONFIG, "given twice", prep_run(r.t, &r.o, r.reports));
    r.o.key_count = 1;
    r.o.input_count = 0;
    assert_fails(STATUS_ERR_CONFIG, "no input", prep_run(r.t, &r.o, r.reports));
    r.o.input_count = 1;
    input_path = "/nowhere.txt";
    assert_fails(STATUS_ERR_CONFIG, "/nowhere.txt", prep_run(r.t, &r.o, r.reports));
    input_path = fixture_folder;
    assert_fails(STATUS_ERR_CONFIG, "is a folder", prep_run(r.t, &r.o, r.reports));
    input_path = "some.txt.zst";
    assert_fails(STATUS_ERR_CONFIG, "is packed", prep_run(r.t, &r.o, r.reports));
    r.o.output = "/nowhere/out";
    input_path = "/dev/null";
    assert_fails(STATUS_ERR_CONFIG, "/nowhere/out", do_run(&r));
}

static void no_end_of_document_token_is_named(void **state)
{
    (void)state;
    run r = make_run(TOKENIZER_CHAR_LEVEL, "in.txt", "a", 1);
    fixture_write("vocab.json", "{\"a\":0}", 7);
    fixture_write("merges.txt", "", 0);
    tokenizer_close(r.t);
    r.t =
        open_tokenizer(TOKENIZER_GPT2_BPE, fixture_path("vocab.json"), fixture_path("merges.txt"));
    r.o.append_eod = true;
    assert_fails(STATUS_ERR_CONFIG, "<|endoftext|>", do_run(&r));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_of_json_are_documents),
        TEST(bad_lines_are_named_by_number),
        TEST(the_first_bad_line_is_named_whatever_the_workers_do),
        TEST(several_keys_give_several_sets),
        TEST(a_text_file_is_cut_as_asked),
        TEST(empty_files_give_an_empty_set),
        TEST(a_long_document_is_encoded_as_a_whole),
        TEST(a_cut_keeps_runs_of_newlines),
        TEST(workers_leave_no_trace_in_a_set),
        TEST(inputs_follow_each_other_like_merged_sets),
        TEST(special_text_is_plain_unless_asked_for),
        TEST(a_large_vocabulary_takes_32_bits),
        TEST(bad_options_are_refused),
        TEST(no_end_of_document_token_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
