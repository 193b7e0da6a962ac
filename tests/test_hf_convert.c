// Hugging Face folders to checkpoints and back: the same tensors, bit for bit.
#include "check.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_config.h"
#include "checkpoint/hf_convert.h"
#include "checkpoint/safetensors.h"

static char root[64];

static const char *const goldens[] = {TRIFOLD_GOLDEN "/par", TRIFOLD_GOLDEN "/seq"};
static const hf_import_options keep_all = {0};
static const hf_export_options as_fp32 = {.type = DTYPE_F32};

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/test_hf_convert_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    error_clear();
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

// One of four paths at a time.
static const char *in(const char *folder, const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
}

static char *read_file(const char *path, size_t *bytes)
{
    struct stat info;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &info), 0);
    *bytes = (size_t)info.st_size;
    char *text = calloc(1, *bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *bytes, f), *bytes);
    fclose(f);
    return text;
}

static float *read_tensor(const safetensors *st, const safetensors_entry *e)
{
    float *values = calloc(e->count + 1, sizeof *values);
    assert_non_null(values);
    assert_ok(safetensors_read(st, e, 0, e->count, values));
    return values;
}

// Every tensor of `a` stands in `b`, whose rows past those of `a` are zero.
static void assert_same_tensors(const char *a, const char *b)
{
    safetensors *x, *y;
    assert_ok(safetensors_open(a, &x));
    assert_ok(safetensors_open(b, &y));
    assert_int_equal(safetensors_count(x), safetensors_count(y));
    for (size_t i = 0; i < safetensors_count(x); i++) {
        const safetensors_entry *e = safetensors_at(x, i);
        const safetensors_entry *f = safetensors_find(y, e->name);
        assert_non_null(f);
        assert_int_equal(e->n_dims, f->n_dims);
        assert_true(f->count >= e->count);
        float *expected = read_tensor(x, e), *values = read_tensor(y, f);
        assert_memory_equal(values, expected, e->count * sizeof *values);
        for (size_t k = e->count; k < f->count; k++)
            assert_true(values[k] == 0);
        free(expected);
        free(values);
    }
    safetensors_close(x);
    safetensors_close(y);
}

static void assert_same_bytes(const char *a, const char *b)
{
    size_t a_bytes, b_bytes;
    char *x = read_file(a, &a_bytes), *y = read_file(b, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(x, y, a_bytes);
    free(x);
    free(y);
}

static void test_import_and_export_give_the_same_tensors_and_again_the_same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        model_shape before, after;
        assert_ok(hf_import(goldens[i], in(root, "a"), &keep_all));
        assert_ok(hf_export(in(root, "a"), in(root, "x"), &as_fp32));
        assert_same_tensors(in(goldens[i], "model.safetensors"), in(root, "x/model.safetensors"));
        assert_ok(hf_config_read(in(goldens[i], "config.json"), &before));
        assert_ok(hf_config_read(in(root, "x/config.json"), &after));
        assert_ok(checkpoint_shape_check(&before, &after, "config.json"));
        assert_ok(hf_import(in(root, "x"), in(root, "b"), &keep_all));
        assert_ok(hf_export(in(root, "b"), in(root, "y"), &as_fp32));
        assert_same_bytes(in(root, "x/model.safetensors"), in(root, "y/model.safetensors"));
        assert_same_bytes(in(root, "x/config.json"), in(root, "y/config.json"));
        assert_same_bytes(in(root, "a/global_step0/model.safetensors"),
                          in(root, "b/global_step0/model.safetensors"));
        assert_int_equal(remove_root(NULL), 0);
        assert_int_equal(make_root(NULL), 0);
    }
}

static void copy_file(const char *from, const char *to)
{
    size_t bytes;
    char *text = read_file(from, &bytes);
    FILE *f = fopen(to, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    free(text);
}

static void write_shard(const safetensors *st, size_t first, size_t last, const char *path)
{
    safetensors_writer *w;
    uint64_t bytes, hash;
    assert_ok(safetensors_writer_create(path, safetensors_at(st, first), last - first, &w));
    for (size_t i = first; i < last; i++) {
        float *values = read_tensor(st, safetensors_at(st, i));
        assert_ok(safetensors_writer_put(w, values, safetensors_at(st, i)->count));
        free(values);
    }
    assert_ok(safetensors_writer_finish(w, &bytes, &hash));
    safetensors_writer_destroy(w);
}

static void test_a_model_in_shards_is_imported_as_one_in_a_file(void **state)
{
    (void)state;
    safetensors *st;
    const char *folder = in(root, "shards");
    assert_int_equal(mkdir(folder, 0777), 0);
    copy_file(in(goldens[0], "config.json"), in(root, "shards/config.json"));
    assert_ok(safetensors_open(in(goldens[0], "model.safetensors"), &st));
    const size_t n = safetensors_count(st);
    write_shard(st, 0, n / 2, in(root, "shards/one.safetensors"));
    write_shard(st, n / 2, n, in(root, "shards/two.safetensors"));
    safetensors_close(st);
    put_text(in(root, "shards/model.safetensors.index.json"),
             "{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\","
             "\"c\":\"one.safetensors\"}}");
    assert_ok(hf_import(in(root, "shards"), in(root, "from_shards"), &keep_all));
    assert_ok(hf_import(goldens[0], in(root, "from_file"), &keep_all));
    assert_same_bytes(in(root, "from_shards/global_step0/model.safetensors"),
                      in(root, "from_file/global_step0/model.safetensors"));
    static const struct {
        const char *index, *error;
    } bad[] = {
        {"{", "model.safetensors.index.json:1:"},
        {"{}", "has no \"weight_map\""},
        {"{\"weight_map\":{\"a\":1}}", "\"a\" names no file"},
        {"{\"weight_map\":{\"a\":\"../x\"}}", "the name \"../x\""},
        {"{\"weight_map\":{\"a\":\"three.safetensors\"}}", "three.safetensors: cannot be opened"},
        {"{\"weight_map\":{\"a\":\"one.safetensors\"}}", "is missing"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_text(in(root, "shards/model.safetensors.index.json"), bad[i].index);
        assert_fails(STATUS_ERR_FORMAT, bad[i].error,
                     hf_import(in(root, "shards"), in(root, "bad"), &keep_all));
        assert_int_not_equal(access(in(root, "bad/global_step0"), F_OK), 0);
    }
}

static void test_the_vocabulary_is_cut_on_import_and_padded_on_export(void **state)
{
    (void)state;
    const hf_import_options cut = {.vocab = 500}, more = {.vocab = 513};
    const hf_export_options padded = {.type = DTYPE_F32, .vocab_multiple = 128};
    model_shape shape;
    assert_fails(STATUS_ERR_CONFIG, "513 exceeds the 512 rows",
                 hf_import(goldens[0], in(root, "v"), &more));
    assert_ok(hf_import(goldens[0], in(root, "v"), &cut));
    assert_ok(hf_export(in(root, "v"), in(root, "v500"), &as_fp32));
    assert_ok(hf_config_read(in(root, "v500/config.json"), &shape));
    assert_int_equal(shape.vocab, 500);
    assert_ok(hf_export(in(root, "v"), in(root, "v512"), &padded));
    assert_ok(hf_config_read(in(root, "v512/config.json"), &shape));
    assert_int_equal(shape.vocab, 512);
    assert_same_tensors(in(root, "v500/model.safetensors"), in(root, "v512/model.safetensors"));
}

#define SIZES                                                                                    \
    "\"num_hidden_layers\":1,\"hidden_size\":16,\"num_attention_heads\":2,\"intermediate_size\"" \
    ":32,\"vocab_size\":9,\"max_position_embeddings\":4"
#define NEOX "{\"model_type\":\"gpt_neox\"," SIZES

static void test_older_settings_are_read_and_absent_ones_take_their_defaults(void **state)
{
    (void)state;
    model_shape s;
    const char *path = in(root, "config.json");
    put_text(path, NEOX ",\"rotary_pct\":0.5,\"rotary_emb_base\":500,\"hidden_act\":\"gelu_new\","
                        "\"use_parallel_residual\":false,\"layer_norm_eps\":1e-6}");
    assert_ok(hf_config_read(path, &s));
    assert_int_equal(s.rotary_dims, 4);
    assert_true(s.rotary_base == 500 && s.norm_epsilon == 1e-6f);
    assert_true(s.gelu == GELU_TANH && !s.parallel_residual);
    put_text(path, NEOX "}");
    assert_ok(hf_config_read(path, &s));
    assert_int_equal(s.rotary_dims, 2);
    assert_true(s.rotary_base == 10000 && s.norm_epsilon == 1e-5f);
    assert_true(s.gelu == GELU_ERF && s.parallel_residual && !s.tied && s.attention_bias);
}

static void test_what_is_not_supported_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        status code;
        const char *error;
    } bad[] = {
        {"{", STATUS_ERR_FORMAT, "config.json:1:"},
        {"[]", STATUS_ERR_UNSUPPORTED, "model_type is \"\""},
        {"{\"model_type\":\"llama\"," SIZES "}", STATUS_ERR_UNSUPPORTED, "\"llama\""},
        {"{\"model_type\":\"gpt_neox\"}", STATUS_ERR_FORMAT, "\"num_hidden_layers\" must be"},
        {NEOX ",\"hidden_act\":\"relu\"}", STATUS_ERR_UNSUPPORTED, "hidden_act \"relu\""},
        {NEOX ",\"rope_parameters\":{\"rope_type\":\"yarn\"}}", STATUS_ERR_UNSUPPORTED, "scaled"},
        {NEOX ",\"rope_scaling\":{\"factor\":2}}", STATUS_ERR_UNSUPPORTED, "scaled"},
        {NEOX ",\"rotary_pct\":-1}", STATUS_ERR_FORMAT, "a share -1 of each head"},
        {NEOX ",\"rotary_pct\":0}", STATUS_ERR_FORMAT, "a share 0 of each head"},
        {NEOX ",\"rotary_pct\":1e300}", STATUS_ERR_FORMAT, "a share 1e+300 of each head"},
        {NEOX ",\"rotary_pct\":0.4}", STATUS_ERR_CONFIG, "gives 3 rotated dimensions"},
    };
    model_shape s;
    char *text;
    const char *path = in(root, "config.json");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_text(path, bad[i].text);
        assert_fails(bad[i].code, bad[i].error, hf_config_read(path, &s));
    }
    put_text(path, NEOX "}");
    assert_ok(hf_config_read(path, &s));
    s.norm = NORM_RMSNORM;
    assert_fails(STATUS_ERR_UNSUPPORTED, "LayerNorm", hf_config_format(&s, 9, DTYPE_F32, &text));
    s.norm = NORM_LAYERNORM;
    s.mlp_bias = false;
    assert_fails(STATUS_ERR_UNSUPPORTED, "MLP biases", hf_config_format(&s, 9, DTYPE_F32, &text));
    s.mlp_bias = true;
    s.position = POSITION_LEARNED;
    assert_fails(STATUS_ERR_UNSUPPORTED, "rotary", hf_config_format(&s, 9, DTYPE_F32, &text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_and_export_give_the_same_tensors_and_again_the_same_bytes),
        cmocka_unit_test(test_a_model_in_shards_is_imported_as_one_in_a_file),
        cmocka_unit_test(test_the_vocabulary_is_cut_on_import_and_padded_on_export),
        cmocka_unit_test(test_older_settings_are_read_and_absent_ones_take_their_defaults),
        cmocka_unit_test(test_what_is_not_supported_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
