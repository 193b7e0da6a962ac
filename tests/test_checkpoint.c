// Checkpoints: complete, or not there; what is loaded is what was saved.
#include "check.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/checkpoint_internal.h"

typedef struct fixture {
    char dir[64];
    tensor_table table;
    float *parts[3]; // by checkpoint_part, flat
    checkpoint_state state;
    checkpoint_tensors tensors;
} fixture;

static status read_part(void *context, checkpoint_part part, size_t index, float *host)
{
    const fixture *f = context;
    const tensor_info *info = &f->table.tensors[index];
    memcpy(host, f->parts[part] + info->offset, tensor_elements(info) * sizeof *host);
    return STATUS_OK;
}

static status write_part(void *context, checkpoint_part part, size_t index, const float *host)
{
    const fixture *f = context;
    const tensor_info *info = &f->table.tensors[index];
    memcpy(f->parts[part] + info->offset, host, tensor_elements(info) * sizeof *host);
    return STATUS_OK;
}

static void fixture_fill(fixture *f, uint32_t salt)
{
    for (uint32_t p = 0; p < 3; p++)
        for (size_t i = 0; i < f->table.count; i++)
            for (size_t k = 0; k < tensor_elements(&f->table.tensors[i]); k++) {
                const uint32_t bits = (uint32_t)(k + 977 * i + salt) * 2654435761u + p;
                memcpy(&f->parts[p][f->table.tensors[i].offset + k], &bits, 4); // NaNs as well
            }
}

static void fixture_init(fixture *f, size_t hidden)
{
    const model_init_options init = {0};
    *f = (fixture){.dir = "/tmp/test_checkpoint_XXXXXX"};
    assert_non_null(mkdtemp(f->dir));
    f->state = (checkpoint_state){.shape = {.n_layers = 2,
                                            .hidden = hidden,
                                            .n_heads = 2,
                                            .ffn = 4 * hidden,
                                            .vocab = 11,
                                            .max_positions = 16,
                                            .rotary_dims = 2,
                                            .rotary_base = 10000.1,
                                            .norm_epsilon = 1e-5f,
                                            .parallel_residual = true,
                                            .attention_bias = true,
                                            .mlp_bias = true},
                                  .iteration = 9,
                                  .updates = 8,
                                  .seed = INT64_MAX,
                                  .loss_scale = 65536.0 / 3,
                                  .scale_good = 5,
                                  .scale_credit = 2,
                                  .skipped = 1,
                                  .has_optimizer = true,
                                  .lr = 0.1,
                                  .min_lr = 4.9e-324,
                                  .warmup = 1.0 / 3,
                                  .decay_iters = 1000,
                                  .decay_style = "cosine",
                                  .global_batch = 32};
    tensor_table_init(&f->table);
    const model_part whole = model_part_whole(&f->state.shape);
    assert_ok(model_shape_tensors(&f->state.shape, &init, &whole, &f->table));
    for (int p = 0; p < 3; p++) {
        f->parts[p] = calloc(f->table.elements, sizeof(float));
        assert_non_null(f->parts[p]);
    }
    fixture_fill(f, 0);
    f->tensors = (checkpoint_tensors){&f->table, f, read_part, write_part};
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static void fixture_fini(fixture *f)
{
    nftw(f->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    for (int p = 0; p < 3; p++)
        free(f->parts[p]);
    tensor_table_fini(&f->table);
}

static status save(fixture *f, int64_t step)
{
    f->state.iteration = step;
    return checkpoint_save(f->dir, &f->state, &f->tensors, 0, NULL, 0);
}

static const char *at(const fixture *f, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    return path;
}

static bool exists(const fixture *f, const char *name)
{
    return access(at(f, name), F_OK) == 0;
}

static void assert_found(const fixture *f, const char *name)
{
    char *path;
    assert_ok(checkpoint_find(f->dir, &path));
    assert_string_equal(path, at(f, name));
    free(path);
}

static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    *bytes = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    return text;
}

static void write_file(const char *path, const char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void assert_no_temporary(const fixture *f)
{
    DIR *dir = opendir(f->dir);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            fail_msg("%s was left", e->d_name);
    closedir(dir);
}

static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "state.json",
                                    "manifest.json"};

static void test_what_is_loaded_is_what_was_saved_and_saves_to_the_same_bytes(void **state)
{
    (void)state;
    fixture f, g;
    checkpoint_state loaded;
    fixture_init(&f, 8);
    fixture_init(&g, 8);
    fixture_fill(&g, 5);
    assert_ok(save(&f, 9));
    assert_found(&f, "global_step9");
    assert_ok(checkpoint_load_state(at(&f, "global_step9"), &loaded));
    assert_memory_equal(&loaded.shape.rotary_base, &f.state.shape.rotary_base, sizeof(double));
    assert_true(loaded.shape.norm_epsilon == f.state.shape.norm_epsilon);
    assert_true(loaded.lr == f.state.lr && loaded.min_lr == f.state.min_lr);
    assert_true(loaded.warmup == f.state.warmup && loaded.loss_scale == f.state.loss_scale);
    assert_int_equal(loaded.seed, INT64_MAX);
    assert_string_equal(loaded.decay_style, "cosine");
    assert_ok(checkpoint_load_tensors(at(&f, "global_step9"), &g.tensors, true));
    for (int p = 0; p < 3; p++)
        assert_memory_equal(f.parts[p], g.parts[p], f.table.elements * sizeof(float));
    g.state = loaded;
    assert_ok(save(&g, loaded.iteration));
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        size_t a_bytes, b_bytes;
        snprintf(name, sizeof name, "global_step9/%s", files[i]);
        char *a = read_file(at(&f, name), &a_bytes), *b = read_file(at(&g, name), &b_bytes);
        assert_int_equal(a_bytes, b_bytes);
        assert_memory_equal(a, b, a_bytes);
        free(a);
        free(b);
    }
    fixture_fini(&f);
    fixture_fini(&g);
}

static void test_the_newest_complete_step_is_found_by_number(void **state)
{
    (void)state;
    fixture f;
    char *path;
    fixture_init(&f, 8);
    assert_fails(STATUS_ERR_CONFIG, "no complete checkpoint", checkpoint_find(f.dir, &path));
    assert_fails(STATUS_ERR_CONFIG, "cannot be opened", checkpoint_find("/nowhere", &path));
    assert_ok(save(&f, 10));
    assert_ok(save(&f, 9));
    assert_found(&f, "global_step10");
    assert_int_equal(mkdir(at(&f, "global_step11"), 0777), 0); // incomplete
    assert_int_equal(mkdir(at(&f, "global_step99x"), 0777), 0);
    assert_found(&f, "global_step10");
    assert_ok(checkpoint_find(at(&f, "global_step9"), &path)); // a checkpoint itself
    assert_string_equal(path, at(&f, "global_step9"));
    free(path);
    fixture_fini(&f);
}

static void test_leftovers_of_a_dead_writer_are_no_checkpoint_and_go_at_the_next_save(void **state)
{
    (void)state;
    fixture f;
    char *path;
    fixture_init(&f, 8);
    assert_int_equal(mkdir(at(&f, ".tmp-global_step7"), 0777), 0);
    write_file(at(&f, ".tmp-global_step7/manifest.json"), "{}", 2);
    assert_fails(STATUS_ERR_CONFIG, "no complete checkpoint", checkpoint_find(f.dir, &path));
    assert_ok(save(&f, 9));
    assert_no_temporary(&f);
    assert_found(&f, "global_step9");
    fixture_fini(&f);
}

static void test_saving_a_step_again_replaces_it(void **state)
{
    (void)state;
    fixture f;
    float first;
    fixture_init(&f, 8);
    assert_ok(save(&f, 9));
    fixture_fill(&f, 3);
    first = f.parts[0][1];
    assert_ok(save(&f, 9));
    assert_no_temporary(&f);
    fixture_fill(&f, 4);
    assert_ok(checkpoint_load_tensors(at(&f, "global_step9"), &f.tensors, true));
    assert_memory_equal(&f.parts[0][1], &first, sizeof first);
    fixture_fini(&f);
}

static void test_pruning_keeps_the_newest_and_the_steps_asked_for(void **state)
{
    (void)state;
    fixture f;
    char dir[80];
    const int64_t keep = 2;
    fixture_init(&f, 8);
    snprintf(dir, sizeof dir, "%s/", f.dir); // a trailing slash is harmless
    for (int64_t step = 1; step <= 12; step++) {
        f.state.iteration = step;
        assert_ok(checkpoint_save(dir, &f.state, &f.tensors, 3, &keep, 1));
    }
    for (int64_t step = 1; step <= 12; step++) {
        char name[32];
        snprintf(name, sizeof name, "global_step%lld", (long long)step);
        assert_int_equal(exists(&f, name), step == 2 || step >= 10);
    }
    fixture_fini(&f);
}

static void test_a_flipped_bit_in_any_file_is_an_error_that_names_it(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, 8);
    assert_ok(save(&f, 9));
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        size_t bytes;
        checkpoint_state loaded;
        snprintf(name, sizeof name, "global_step9/%s", files[i]);
        char *text = read_file(at(&f, name), &bytes);
        const size_t places[] = {0, bytes / 2, bytes - 1};
        for (size_t k = 0; k < 3; k++) {
            text[places[k]] ^= 4;
            write_file(at(&f, name), text, bytes);
            status result = checkpoint_load_state(at(&f, "global_step9"), &loaded);
            if (result == STATUS_OK)
                result = checkpoint_load_tensors(at(&f, "global_step9"), &f.tensors, true);
            assert_fails(STATUS_ERR_FORMAT, files[i], result);
            text[places[k]] ^= 4;
        }
        write_file(at(&f, name), text, bytes);
        assert_int_equal(unlink(at(&f, name)), 0);
        status result = checkpoint_load_state(at(&f, "global_step9"), &loaded);
        if (result == STATUS_OK)
            result = checkpoint_load_tensors(at(&f, "global_step9"), &f.tensors, true);
        assert_fails(STATUS_ERR_FORMAT, files[i], result);
        write_file(at(&f, name), text, bytes);
        free(text);
    }
    assert_ok(checkpoint_load_tensors(at(&f, "global_step9"), &f.tensors, true));
    fixture_fini(&f);
}

static void test_another_model_is_an_error_that_says_what_differs(void **state)
{
    (void)state;
    fixture f, wide;
    fixture_init(&f, 8);
    fixture_init(&wide, 12);
    assert_ok(save(&f, 9));
    assert_fails(STATUS_ERR_FORMAT, "word_embeddings.weight",
                 checkpoint_load_tensors(at(&f, "global_step9"), &wide.tensors, false));
    wide.table.count--; // a tensor too many in the file
    assert_fails(STATUS_ERR_FORMAT, "the model has",
                 checkpoint_load_tensors(at(&f, "global_step9"), &wide.tensors, false));
    wide.table.count++;
    snprintf(f.table.tensors[3].name, TENSOR_NAME_MAX, "other");
    assert_fails(STATUS_ERR_FORMAT, "tensor \"other\" is missing",
                 checkpoint_load_tensors(at(&f, "global_step9"), &f.tensors, false));
    assert_fails(STATUS_ERR_CONFIG, "hidden-size is 8 there, 12 in the configuration",
                 checkpoint_shape_check(&f.state.shape, &wide.state.shape, "here"));
    wide.state.shape = f.state.shape;
    wide.state.shape.max_positions = 99; // not learned: free
    assert_ok(checkpoint_shape_check(&f.state.shape, &wide.state.shape, "here"));
    wide.state.shape.parallel_residual = false;
    assert_fails(STATUS_ERR_CONFIG, "gpt-j-residual is true there, false",
                 checkpoint_shape_check(&f.state.shape, &wide.state.shape, "here"));
    fixture_fini(&f);
    fixture_fini(&wide);
}

// Puts `to` in the place of the first `from` of the state's text, and parses that.
static void assert_state_fails(const fixture *f, const char *from, const char *to, const char *text)
{
    char *whole, changed[4096];
    checkpoint_state loaded;
    assert_ok(checkpoint_state_format(&f->state, &whole));
    const char *place = strstr(whole, from);
    assert_non_null(place);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(place - whole), whole, to,
             place + strlen(from));
    free(whole);
    write_file(at(f, "state.json"), changed, strlen(changed));
    assert_fails(STATUS_ERR_FORMAT, text, checkpoint_state_parse(at(f, "state.json"), &loaded));
}

static void test_a_state_that_cannot_be_is_a_named_error(void **state)
{
    (void)state;
    fixture f;
    char *text;
    fixture_init(&f, 8);
    assert_state_fails(&f, "\"version\": 1", "\"version\": 2", "has version 2; this program reads");
    assert_state_fails(&f, "\"version\": 1,", "", "has version 0");
    assert_state_fails(&f, "\"skipped\": 1", "\"skipped\": 1.5", "\"skipped\" is of a wrong kind");
    assert_state_fails(&f, "\"skipped\": 1", "\"skipped\": -1", "\"skipped\" is of a wrong kind");
    assert_state_fails(&f, "\"skipped\"", "\"x\"", "\"skipped\" is missing");
    assert_state_fails(&f, "\"skipped\"", "\"seed\"", "state.json:");
    assert_state_fails(&f, "\"rotary\"", "\"spiral\"", "\"pos-emb\" is of a wrong kind");
    assert_state_fails(&f, "\"cosine\"", "\"cosine-cosine-cosine-cosine-cosine\"",
                       "\"lr-decay-style\" is of a wrong kind");
    assert_state_fails(&f, "\"hidden-size\": 8", "\"hidden-size\": 9", "is not a multiple");
    f.state.lr = (double)NAN;
    assert_fails(STATUS_ERR_NUMERICS, "\"lr\" cannot be written",
                 checkpoint_state_format(&f.state, &text));
    fixture_fini(&f);
}

// Saves over and over until it is killed; step 5 is written again and again as well.
static void save_for_ever(fixture *f)
{
    for (int64_t step = 100;; step++)
        if (save(f, step % 2 ? step : 5) != STATUS_OK ||
            checkpoint_save(f->dir, &f->state, &f->tensors, 2, NULL, 0) != STATUS_OK)
            _exit(1);
}

static void test_a_writer_killed_at_any_moment_leaves_a_checkpoint_that_loads(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f, 8);
    assert_ok(save(&f, 5));
    for (long round = 0; round < 40; round++) {
        int code;
        char *path;
        checkpoint_state loaded;
        const struct timespec nap = {0, (1 + round * 7919 % 30) * 1000000};
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            save_for_ever(&f);
        nanosleep(&nap, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFSIGNALED(code)); // it had not failed by itself
        assert_ok(checkpoint_find(f.dir, &path));
        assert_ok(checkpoint_load_state(path, &loaded));
        assert_ok(checkpoint_load_tensors(path, &f.tensors, true));
        free(path);
    }
    assert_ok(save(&f, 5));
    assert_no_temporary(&f);
    fixture_fini(&f);
}

static void test_a_full_disk_is_an_error_and_leaves_the_old_checkpoint_alone(void **state)
{
    (void)state;
    fixture f;
    struct rlimit old, small;
    checkpoint_state loaded;
    fixture_init(&f, 8);
    assert_ok(save(&f, 9));
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (rlim_t bytes = 0; bytes <= 4096; bytes += 512) {
        small = (struct rlimit){bytes, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const status other = save(&f, 10);
        char text[512];
        snprintf(text, sizeof text, "%s", error_message());
        error_clear();
        const status same = save(&f, 9);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0); // before anything is printed
        assert_int_equal(other, STATUS_ERR_IO);
        assert_non_null(strstr(text, "safetensors: cannot be written at byte"));
        assert_fails(STATUS_ERR_IO, "cannot be written at byte", same);
        assert_no_temporary(&f);
        assert_false(exists(&f, "global_step10"));
        assert_found(&f, "global_step9");
        assert_ok(checkpoint_load_state(at(&f, "global_step9"), &loaded));
        assert_ok(checkpoint_load_tensors(at(&f, "global_step9"), &f.tensors, true));
    }
    signal(SIGXFSZ, handler);
    fixture_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_loaded_is_what_was_saved_and_saves_to_the_same_bytes),
        cmocka_unit_test(test_the_newest_complete_step_is_found_by_number),
        cmocka_unit_test(test_leftovers_of_a_dead_writer_are_no_checkpoint_and_go_at_the_next_save),
        cmocka_unit_test(test_saving_a_step_again_replaces_it),
        cmocka_unit_test(test_pruning_keeps_the_newest_and_the_steps_asked_for),
        cmocka_unit_test(test_a_flipped_bit_in_any_file_is_an_error_that_names_it),
        cmocka_unit_test(test_another_model_is_an_error_that_says_what_differs),
        cmocka_unit_test(test_a_state_that_cannot_be_is_a_named_error),
        cmocka_unit_test(test_a_writer_killed_at_any_moment_leaves_a_checkpoint_that_loads),
        cmocka_unit_test(test_a_full_disk_is_an_error_and_leaves_the_old_checkpoint_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
