// Tokenizer files that are damaged, or that ask for what is not supported: each is a named error.
#include "tokenizer_fixture.h"

// A whole file that works; the tests change one part of it.
static const char model[] =
    "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}";
static const char byte_level[] =
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}";

static void write_json(const char *normalizer, const char *pre, const char *post, const char *added,
                       const char *the_model)
{
    char text[4096];
    const int bytes =
        snprintf(text, sizeof text,
                 "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":%s,"
                 "\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":null,"
                 "\"model\":%s}",
                 added, normalizer, pre, post, the_model);
    assert_true(bytes > 0 && (size_t)bytes < sizeof text);
    fixture_write("t.json", text, (size_t)bytes);
}

static status open_json(void)
{
    tokenizer *t = NULL;
    const tokenizer_options o = {TOKENIZER_HF, fixture_path("t.json"), NULL};
    const status result = tokenizer_open(&o, &t);
    tokenizer_close(t);
    return result;
}

static void a_small_file_works(void **state)
{
    (void)state;
    tokenizer_encoder *e = NULL;
    write_json("null", byte_level, "null", "[]", model);
    tokenizer *t = open_tokenizer(TOKENIZER_HF, fixture_path("t.json"), NULL);
    assert_ok(tokenizer_encoder_create(t, &e));
    check_ids(e, "abba", 4, false, (int32_t[]){2, 1, 0}, 3);
    check_ids(e, "a?b", 3, false, (int32_t[]){0, 1}, 2); // no token for it, no unk_token
    assert_int_equal(tokenizer_eod(t), -1);
    tokenizer_encoder_destroy(e);
    tokenizer_close(t);
}

static void damaged_json_is_named_by_line_and_column(void **state)
{
    (void)state;
    fixture_write("t.json", "{\"model\":\n  oops}", 17);
    assert_fails(STATUS_ERR_FORMAT, "t.json:2:", open_json());
    fixture_write("t.json", "", 0);
    assert_fails(STATUS_ERR_FORMAT, "t.json:1:", open_json());
    fixture_write("t.json", "[1]", 3);
    assert_fails(STATUS_ERR_FORMAT, "not a JSON object", open_json());
    fixture_write("t.json", "{\"a\":1,\"a\":2}", 13);
    assert_fails(STATUS_ERR_FORMAT, "t.json:1:", open_json());
    fixture_write("t.json", "{}", 2);
    assert_fails(STATUS_ERR_FORMAT, "model is not an object", open_json());
}

typedef struct bad_part {
    status code;
    const char *value;
    const char *message;
} bad_part;

static void bad_normalizers_are_refused(void **state)
{
    (void)state;
    static const bad_part parts[] = {
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"BertNormalizer\"}",
         "normalizer: kind \"BertNormalizer\" is not supported; supported: NFC,"},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"NFC\",\"form\":1}", "key \"form\" is not supported"},
        {STATUS_ERR_FORMAT, "{\"type\":\"Strip\",\"strip_left\":1}", "neither true nor false"},
        {STATUS_ERR_FORMAT, "{\"type\":\"Prepend\"}", "\"prepend\" is not a text"},
        {STATUS_ERR_FORMAT, "{\"type\":\"Sequence\"}", "\"normalizers\" is not a list"},
        {STATUS_ERR_FORMAT, "{\"type\":3}", "\"type\" is not a text"},
        {STATUS_ERR_FORMAT, "\"NFC\"", "normalizer is not an object"},
        {STATUS_ERR_FORMAT, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}",
         "is empty"},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"Replace\",\"pattern\":\"x\",\"content\":\"\"}",
         "the pattern is not supported"},
        {STATUS_ERR_UNSUPPORTED,
         "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}",
         "does not compile"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        write_json(parts[i].value, byte_level, "null", "[]", model);
        assert_fails(parts[i].code, parts[i].message, open_json());
    }
}

static void bad_pre_tokenizers_are_refused(void **state)
{
    (void)state;
    static const bad_part parts[] = {
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"Metaspace\"}",
         "pre_tokenizer: kind \"Metaspace\" is not supported; supported: ByteLevel,"},
        {STATUS_ERR_UNSUPPORTED, "null", "there is no ByteLevel"},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"Digits\"}", "there is no ByteLevel"},
        {STATUS_ERR_UNSUPPORTED,
         "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]"
         "}",
         "comes after ByteLevel"},
        {STATUS_ERR_UNSUPPORTED,
         "{\"type\":\"Split\",\"behavior\":\"Gone\",\"pattern\":{\"String\":\"x\"}}",
         "behavior \"Gone\" is not supported"},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"Split\",\"behavior\":\"Removed\",\"pattern\":{}}",
         "the pattern is not supported"},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"ByteLevel\",\"fancy\":true}",
         "key \"fancy\" is not supported"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        write_json("null", parts[i].value, "null", "[]", model);
        assert_fails(parts[i].code, parts[i].message, open_json());
    }
}

static void expressions_that_mean_something_else_are_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "\\\\b",  "\\\\G",   "[a[b]]",    "[a&&b]",      "[\\\\S]",       "x{1,2}+",
        "(?m:x)", "(?<n>x)", "(*ACCEPT)", "[[:alpha:]]", "\\\\1",         "[x",
        "x\\\\",  "\\\\p{L", "(?R)",      "\\\\Qx\\\\E", "\\\\p{Nowhere}"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char value[256];
        snprintf(value, sizeof value,
                 "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":"
                 "\"Isolated\",\"pattern\":{\"Regex\":\"%s\"}},%s]}",
                 patterns[i], byte_level);
        write_json("null", value, "null", "[]", model);
        assert_fails(STATUS_ERR_UNSUPPORTED, "t.json: pre_tokenizer: the expression", open_json());
    }
}

static void bad_post_processors_are_refused(void **state)
{
    (void)state;
    static const bad_part parts[] = {
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"RobertaProcessing\"}",
         "post_processor: kind \"RobertaProcessing\" is not supported; supported: ByteLevel,"},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"TemplateProcessing\",\"single\":[]}",
         "around one sequence"},
        {STATUS_ERR_FORMAT,
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},"
         "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{}}",
         "no special token \"x\""},
        {STATUS_ERR_FORMAT,
         "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}},"
         "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"x\":{\"ids\":[99]}}}",
         "id 99"},
        {STATUS_ERR_FORMAT, "{\"type\":\"Sequence\",\"processors\":1}", "is not a list"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        write_json("null", byte_level, parts[i].value, "[]", model);
        assert_fails(parts[i].code, parts[i].message, open_json());
    }
}

static void bad_added_tokens_are_refused(void **state)
{
    (void)state;
    static const bad_part parts[] = {
        {STATUS_ERR_FORMAT, "{}", "is not a list"},
        {STATUS_ERR_FORMAT, "[{\"id\":3}]", "\"content\" is not a text"},
        {STATUS_ERR_FORMAT, "[{\"id\":3,\"content\":\"\"}]", "is empty"},
        {STATUS_ERR_FORMAT, "[{\"id\":4,\"content\":\"x\"}]", "the id of \"x\" is not 3"},
        {STATUS_ERR_FORMAT, "[{\"id\":3,\"content\":\"ab\"}]", "the id of \"ab\" is not 2"},
        {STATUS_ERR_FORMAT, "[{\"id\":3,\"content\":\"x\"},{\"id\":3,\"content\":\"x\"}]",
         "stands twice"},
        {STATUS_ERR_UNSUPPORTED, "[{\"id\":3,\"content\":\"x\",\"regex\":true}]",
         "key \"regex\" is not supported"},
        {STATUS_ERR_UNSUPPORTED, "[{\"id\":3,\"content\":\" \"}]", "normalizes to nothing"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        write_json("{\"type\":\"Strip\"}", byte_level, "null", parts[i].value, model);
        assert_fails(parts[i].code, parts[i].message, open_json());
    }
}

static void bad_models_are_refused(void **state)
{
    (void)state;
    static const bad_part parts[] = {
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"Unigram\"}",
         "model: kind \"Unigram\" is not supported; supported: BPE"},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"BPE\",\"dropout\":0.1}", "\"dropout\""},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"BPE\",\"byte_fallback\":true}", "\"byte_fallback\""},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"BPE\",\"end_of_word_suffix\":\"</w>\"}",
         "\"end_of_word_suffix\""},
        {STATUS_ERR_UNSUPPORTED, "{\"type\":\"BPE\",\"new\":true}", "key \"new\""},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{}}", "tokens and their ids"},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}", "the id of \"a\""},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":2147483648}}", "the id of \"a\""},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"}}", "the id of \"a\""},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":2147483646}}",
         "but an id of 2147483646"},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0}}",
         "two tokens have the id 0"},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":0}}", "\"merges\" is not a list"},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}",
         "merge 0 is neither"},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",1]]}",
         "merge 0 is neither"},
        {STATUS_ERR_FORMAT, "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}",
         "\"a a\", has a part or a result that is not in the vocabulary"},
        {STATUS_ERR_FORMAT,
         "{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"a\":0},\"merges\":[]}",
         "the unk_token \"?\" is not in the vocabulary"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        write_json("null", byte_level, "null", "[]", parts[i].value);
        assert_fails(parts[i].code, parts[i].message, open_json());
    }
}

static void what_the_whole_file_switches_on_is_refused(void **state)
{
    (void)state;
    static const bad_part parts[] = {
        {STATUS_ERR_UNSUPPORTED, "{\"truncation\":{\"max_length\":4}}", "\"truncation\""},
        {STATUS_ERR_UNSUPPORTED, "{\"padding\":{\"pad_id\":4}}", "\"padding\""},
        {STATUS_ERR_UNSUPPORTED, "{\"extra\":true}", "key \"extra\""},
        {STATUS_ERR_UNSUPPORTED, "{\"two\\nlines\":true}", "key \"two?lines\""},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        fixture_write("t.json", parts[i].value, strlen(parts[i].value));
        assert_fails(parts[i].code, parts[i].message, open_json());
    }
}

static status open_gpt2(const char *vocab, const char *merges)
{
    tokenizer *t = NULL;
    fixture_write("vocab.json", vocab, strlen(vocab));
    fixture_write("merges.txt", merges, strlen(merges));
    const tokenizer_options o = {TOKENIZER_GPT2_BPE, fixture_path("vocab.json"),
                                 fixture_path("merges.txt")};
    const status result = tokenizer_open(&o, &t);
    tokenizer_close(t);
    return result;
}

static void gpt2_files_are_checked(void **state)
{
    (void)state;
    static const char vocab[] = "{\"a\":0,\"b\":1,\"ab\":2}";
    assert_ok(open_gpt2(vocab, "#version: 0.2\r\na b\r\n\r\n"));
    assert_ok(open_gpt2(vocab, ""));
    assert_fails(STATUS_ERR_FORMAT, "merges.txt:2:1: not a merge", open_gpt2(vocab, "a b\na\n"));
    assert_fails(STATUS_ERR_FORMAT, "merges.txt:1:1: not a merge", open_gpt2(vocab, "a b c"));
    assert_fails(STATUS_ERR_FORMAT, "merges.txt:1:1: not a merge", open_gpt2(vocab, " b"));
    assert_fails(STATUS_ERR_FORMAT, "merges.txt:3:1: \"b a\" has a part",
                 open_gpt2(vocab, "#version: 0.2\na b\nb a\n"));
    assert_fails(STATUS_ERR_FORMAT, "vocab.json:1:", open_gpt2("{\"a\":0", ""));
}

static void missing_files_are_named(void **state)
{
    (void)state;
    tokenizer *t = NULL;
    tokenizer_kind kind;
    tokenizer_options o = {TOKENIZER_HF, fixture_path("absent.json"), NULL};
    assert_fails(STATUS_ERR_CONFIG, "absent.json", tokenizer_open(&o, &t));
    o.vocab_file = fixture_folder;
    assert_fails(STATUS_ERR_IO, fixture_folder, tokenizer_open(&o, &t));
    o.vocab_file = NULL;
    assert_fails(STATUS_ERR_CONFIG, "a tokenizer.json would be right", tokenizer_open(&o, &t));
    o = (tokenizer_options){TOKENIZER_GPT2_BPE, "vocab.json", NULL};
    assert_fails(STATUS_ERR_CONFIG, "a merges.txt would be right", tokenizer_open(&o, &t));
    assert_fails(STATUS_ERR_CONFIG, "there is no tokenizer \"SPM\"",
                 tokenizer_kind_parse("SPM", &kind));
    assert_ok(tokenizer_kind_parse("hftokenizer", &kind));
    assert_int_equal(kind, TOKENIZER_HF);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_small_file_works),
        TEST(damaged_json_is_named_by_line_and_column),
        TEST(bad_normalizers_are_refused),
        TEST(bad_pre_tokenizers_are_refused),
        TEST(expressions_that_mean_something_else_are_refused),
        TEST(bad_post_processors_are_refused),
        TEST(bad_added_tokens_are_refused),
        TEST(bad_models_are_refused),
        TEST(what_the_whole_file_switches_on_is_refused),
        TEST(gpt2_files_are_checked),
        TEST(missing_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
