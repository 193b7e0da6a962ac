// Tokenizers against the ids of the `tokenizers` package, and what the package does not promise:
// round trips of any bytes, long words, plain text where special tokens are not asked for.
#include <unistd.h>

#include "tokenizer_fixture.h"

typedef struct codec {
    tokenizer *t;
    tokenizer_encoder *e;
} codec;

static codec open_codec(tokenizer_kind kind, const char *vocab, const char *merges)
{
    codec c = {open_tokenizer(kind, vocab, merges), NULL};
    assert_ok(tokenizer_encoder_create(c.t, &c.e));
    return c;
}

static void close_codec(codec *c)
{
    tokenizer_encoder_destroy(c->e);
    tokenizer_close(c->t);
}

static token_list encode(codec *c, const char *text, size_t bytes, bool special)
{
    token_list list = {0};
    assert_ok(tokenizer_encode(c->e, text, bytes, special, &list));
    return list;
}

static void check_round_trip(codec *c, const char *text, size_t bytes, bool special)
{
    char *back;
    size_t back_bytes;
    token_list list = encode(c, text, bytes, special);
    for (size_t i = 0; i < list.count; i++)
        assert_in_range(list.ids[i], 0, tokenizer_vocab_size(c->t) - 1);
    assert_ok(tokenizer_decode(c->t, list.ids, list.count, &back, &back_bytes));
    if (back_bytes != bytes || (bytes > 0 && memcmp(back, text, bytes)))
        fail_msg("\"%.*s\" came back as \"%s\"", (int)bytes, text, back);
    free(back);
    token_list_fini(&list);
}

static void check_case(const json_t *line, void *context)
{
    codec *c = context;
    int32_t *ids;
    const json_t *text = json_object_get(line, "text");
    const json_t *decoded = json_object_get(line, "decoded");
    const json_t *special = json_object_get(line, "special");
    const size_t count = golden_ids(line, &ids);
    check_ids(c->e, json_string_value(text), json_string_length(text),
              !special || json_is_true(special), ids, count);
    if (decoded) {
        char *back;
        size_t bytes;
        assert_ok(tokenizer_decode(c->t, ids, count, &back, &bytes));
        assert_string_equal(back, json_string_value(decoded));
        free(back);
    }
    free(ids);
}

static void ids_equal_those_of_the_tokenizers_package(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",        "prefix",   "gpt4",       "added",
                                        "added_lower", "normal",   "nfd_digits", "digits",
                                        "removed",     "previous", "next",       "contiguous",
                                        "empty_match", "missing",  "unknown",    "unknown_fused"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s.json", names[i]);
        codec c = open_codec(TOKENIZER_HF, golden_path(file), NULL);
        strcat(file, "l");
        assert_int_equal(for_each_case(file, check_case, &c), 157);
        close_codec(&c);
    }
}

static void the_neox_style_file_gives_its_cases(void **state)
{
    (void)state;
    codec c = open_codec(TOKENIZER_HF, golden_path("tokenizer.json"), NULL);
    assert_int_equal(for_each_case("cases.jsonl", check_case, &c), 19);
    // 2024 in the model, 23 runs of spaces added.
    assert_int_equal(tokenizer_vocab_size(c.t), 2047);
    assert_int_equal(tokenizer_eod(c.t), 0);
    close_codec(&c);
}

static void gpt2_files_give_their_cases(void **state)
{
    (void)state;
    codec c = open_codec(TOKENIZER_GPT2_BPE, golden_path("vocab.json"), golden_path("merges.txt"));
    assert_int_equal(for_each_case("vocab.jsonl", check_case, &c), 157);
    assert_int_equal(tokenizer_vocab_size(c.t), 2024);
    assert_int_equal(tokenizer_eod(c.t), 0);
    close_codec(&c);
}

static void characters_are_their_bytes(void **state)
{
    (void)state;
    codec c = open_codec(TOKENIZER_CHAR_LEVEL, NULL, NULL);
    const int32_t ids[] = {'a', 0, 0xc3, 0xa9, '<'};
    assert_int_equal(tokenizer_vocab_size(c.t), 512);
    assert_int_equal(tokenizer_eod(c.t), 0);
    check_ids(c.e, "a\0\xc3\xa9<", 5, true, ids, 5);
    check_round_trip(&c, "a\0\xc3\xa9<", 5, false);
    close_codec(&c);
}

static void text_of_special_tokens_is_plain_unless_asked_for(void **state)
{
    (void)state;
    static const char text[] = "a<|endoftext|>";
    codec c = open_codec(TOKENIZER_GPT2_BPE, golden_path("vocab.json"), golden_path("merges.txt"));
    token_list list = encode(&c, text, strlen(text), false);
    assert_true(list.count > 2);
    for (size_t i = 0; i < list.count; i++)
        assert_int_not_equal(list.ids[i], tokenizer_eod(c.t));
    token_list_fini(&list);
    check_ids(c.e, text, strlen(text), true, (int32_t[]){66, 0}, 2);
    check_round_trip(&c, text, strlen(text), false);
    check_round_trip(&c, text, strlen(text), true);
    close_codec(&c);
}

// Pseudo-random bytes, with plain text and characters of several bytes between them.
static size_t mixed_bytes(char *text, size_t capacity, uint32_t seed)
{
    static const char *const parts[] = {"the ",     " God",          "\r\n", "\t",
                                        "'s",       "\xe5\x9c\xb0",  " 12",  "\xf0\x9f\x98\x80",
                                        "\xcc\x81", "<|endoftext|>", "\xff"};
    size_t bytes = 0;
    while (bytes + 16 < capacity) {
        seed = seed * 1664525 + 1013904223;
        const uint32_t choice = seed >> 24;
        if (choice < 100) {
            text[bytes++] = (char)(seed >> 16);
            continue;
        }
        const char *part = parts[choice % (sizeof parts / sizeof *parts)];
        memcpy(text + bytes, part, strlen(part));
        bytes += strlen(part);
    }
    return bytes;
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    static char text[400];
    codec codecs[] = {
        open_codec(TOKENIZER_GPT2_BPE, golden_path("vocab.json"), golden_path("merges.txt")),
        open_codec(TOKENIZER_HF, golden_path("empty_match.json"), NULL),
        open_codec(TOKENIZER_HF, golden_path("next.json"), NULL),
        open_codec(TOKENIZER_HF, golden_path("digits.json"), NULL),
    };
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        memset(text, ' ', sizeof text);
        for (size_t bytes = 0; bytes <= 100; bytes++)
            check_round_trip(&codecs[i], text, bytes, false);
        for (uint32_t seed = 0; seed < 200; seed++) {
            const size_t bytes = mixed_bytes(text, sizeof text, seed);
            check_round_trip(&codecs[i], text, bytes, seed % 2);
        }
        for (int byte = 0; byte < 256; byte++) {
            text[0] = (char)byte;
            check_round_trip(&codecs[i], text, 1, false);
        }
        close_codec(&codecs[i]);
    }
}

// The NeoX-style file composes characters: what is composed already comes back.
static void composed_text_comes_back_through_nfc(void **state)
{
    (void)state;
    static const char text[] =
        "  caf\xc3\xa9\t\r\n it's <|endoftext|> \xe5\x9c\xb0\xff\xf0\x9f\x98\x80 ";
    codec c = open_codec(TOKENIZER_HF, golden_path("tokenizer.json"), NULL);
    check_round_trip(&c, text, sizeof text - 1, false);
    check_round_trip(&c, text, sizeof text - 1, true);
    check_round_trip(&c, text, sizeof text, false); // with its NUL
    close_codec(&c);
}

// Bytes that are not UTF-8 are left alone by every step around them.
static void damaged_bytes_pass_a_normalizer(void **state)
{
    (void)state;
    static const char text[] = " a  \xc3\xbb\xbb   God\xff\xe5\x9c  ";
    static const char normal[] = "_a \xc3\xbb\xbb Lord\xff\xe5\x9c";
    codec c = open_codec(TOKENIZER_HF, golden_path("normal.json"), NULL);
    codec plain = open_codec(TOKENIZER_HF, golden_path("gpt2.json"), NULL);
    token_list list = encode(&plain, normal, sizeof normal - 1, false);
    check_ids(c.e, text, sizeof text - 1, false, list.ids, list.count);
    token_list_fini(&list);
    close_codec(&c);
    close_codec(&plain);
}

// The hand-written words of GPT-2 against its expression.
static void words_are_those_of_the_expression(void **state)
{
    (void)state;
    static char text[400];
    json_error_t error;
    json_t *root = json_load_file(golden_path("gpt2.json"), 0, &error);
    json_t *expression = json_loads(
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"invert\": false, "
        "\"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"'s|'t|'re|'ve|'m|'ll|'d| "
        "?\\\\p{L}+|"
        " ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+\"}}, "
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}",
        0, &error);
    assert_non_null(root);
    assert_non_null(expression);
    json_object_set_new(root, "pre_tokenizer", expression);
    assert_int_equal(json_dump_file(root, fixture_path("expression.json"), 0), 0);
    json_decref(root);
    codec by_hand = open_codec(TOKENIZER_HF, golden_path("gpt2.json"), NULL);
    codec by_expression = open_codec(TOKENIZER_HF, fixture_path("expression.json"), NULL);
    for_each_case("gpt2.jsonl", check_case, &by_expression);
    for (uint32_t seed = 0; seed < 300; seed++) {
        size_t bytes = mixed_bytes(text, sizeof text, seed);
        // Damaged bytes are pieces of their own for an expression, and parts of words by hand.
        for (size_t i = 0; i < bytes; i++)
            text[i] &= 0x7f;
        token_list list = encode(&by_hand, text, bytes, false);
        check_ids(by_expression.e, text, bytes, false, list.ids, list.count);
        token_list_fini(&list);
    }
    close_codec(&by_hand);
    close_codec(&by_expression);
}

// Words so long that a quadratic method would take minutes; merged in halves they are the same.
static void long_words_are_quick(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    codec c = open_codec(TOKENIZER_GPT2_BPE, golden_path("vocab.json"), golden_path("merges.txt"));
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t i = 0; i < BYTES; i++)
        text[i] = "the"[i % 3];
    alarm(60);
    check_round_trip(&c, text, BYTES, false);
    memset(text, '=', BYTES);
    check_round_trip(&c, text, BYTES, false);
    alarm(0);
    free(text);
    close_codec(&c);
}

static void the_cache_of_words_changes_nothing(void **state)
{
    (void)state;
    codec warm =
        open_codec(TOKENIZER_GPT2_BPE, golden_path("vocab.json"), golden_path("merges.txt"));
    for (int i = 0; i < 20000; i++) {
        char text[32];
        const int bytes = snprintf(text, sizeof text, "w%dx begin%d", i % 7000, i % 300);
        token_list list = encode(&warm, text, (size_t)bytes, false);
        if (i % 1000 == 0) {
            tokenizer_encoder *cold = NULL;
            assert_ok(tokenizer_encoder_create(warm.t, &cold));
            check_ids(cold, text, (size_t)bytes, false, list.ids, list.count);
            tokenizer_encoder_destroy(cold);
        }
        token_list_fini(&list);
    }
    close_codec(&warm);
}

static void ids_outside_the_vocabulary_are_no_text(void **state)
{
    (void)state;
    codec c = open_codec(TOKENIZER_HF, golden_path("gpt2.json"), NULL);
    const int32_t ids[] = {-1, (int32_t)tokenizer_vocab_size(c.t), INT32_MAX, INT32_MIN};
    char *text;
    size_t bytes;
    assert_ok(tokenizer_decode(c.t, ids, 4, &text, &bytes));
    assert_int_equal(bytes, 0);
    free(text);
    close_codec(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_those_of_the_tokenizers_package),
        cmocka_unit_test(the_neox_style_file_gives_its_cases),
        cmocka_unit_test(gpt2_files_give_their_cases),
        cmocka_unit_test(characters_are_their_bytes),
        cmocka_unit_test(text_of_special_tokens_is_plain_unless_asked_for),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(composed_text_comes_back_through_nfc),
        cmocka_unit_test(damaged_bytes_pass_a_normalizer),
        cmocka_unit_test_setup_teardown(words_are_those_of_the_expression, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test(long_words_are_quick),
        cmocka_unit_test(the_cache_of_words_changes_nothing),
        cmocka_unit_test(ids_outside_the_vocabulary_are_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
