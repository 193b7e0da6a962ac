// The files and the line that a run reports in.
#include "check.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/line_file.h"
#include "train/metrics.h"
#include "train/metrics_line.h"
#include "train/tensorboard.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_metrics.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

// The whole file; the caller frees it.
static char *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = malloc(1 << 20);
    assert_non_null(text);
    *bytes = fread(text, 1, (1 << 20) - 1, file);
    text[*bytes] = '\0';
    fclose(file);
    return text;
}

static void write_all(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static step_record record_of(int64_t iteration)
{
    step_record r = {
        .iteration = iteration,
        .train_iters = 20,
        .loss = 2.0 + 1.0 / (3.0 * (double)iteration),
        .lr = 1e-3,
        .grad_norm = 0.1 + 0.2,
        .loss_scale = 4096,
        .skipped = 1,
        .samples_per_sec = 16,
        .tokens_per_sec = 4096,
        .tflops = 0.25,
        .iteration_ms = 500,
        .compute_ms = 480,
        .comm_ms = 20,
        .mem_peak_mb = 123.5,
    };
    r.traffic[COMM_DATA] = (comm_traffic){3000, 1000, 12.5, 7.25};
    return r;
}

static void write_run(const metrics_options *options, int64_t from, int64_t to)
{
    metrics *m;
    assert_ok(metrics_create(options, &m));
    for (int64_t i = from; i <= to; i++) {
        const step_record r = record_of(i);
        assert_ok(metrics_step(m, &r));
    }
    metrics_destroy(m);
}

static double number_at(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("\"%s\" is no number", key);
    return json_number_value(value);
}

// The objects of a file of JSON lines, as an array.
static json_t *read_lines(const char *name)
{
    size_t bytes;
    char *text = read_all(path_of(name), &bytes);
    json_t *list = json_array();
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        json_t *object = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, NULL);
        if (!object)
            fail_msg("%s: \"%.*s\" is not JSON", name, (int)(end - line), line);
        json_array_append_new(list, object);
        line = end + 1;
    }
    free(text);
    return list;
}

static void an_iteration_is_one_object_with_the_agreed_keys(void **state)
{
    (void)state;
    const char *const keys[] = {"iteration",      "loss",       "lr",           "grad_norm",
                                "loss_scale",     "skipped",    "tflops",       "samples_per_sec",
                                "tokens_per_sec", "compute_ms", "iteration_ms", "comm_ms",
                                "mem_peak_mb",    "comm"};
    const metrics_options options = {.log_dir = folder, .log_interval = 10};
    const step_record r = record_of(1);
    write_run(&options, 1, 1);
    json_t *lines = read_lines("metrics.jsonl");
    assert_int_equal(json_array_size(lines), 1);
    json_t *line = json_array_get(lines, 0);
    assert_int_equal(json_object_size(line), sizeof keys / sizeof *keys);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(line, keys[i]))
            fail_msg("\"%s\" is missing", keys[i]);
    json_t *dimensions = json_object_get(line, "comm");
    assert_int_equal(json_object_size(dimensions), COMM_DIMENSION_COUNT);
    json_t *data = json_object_get(dimensions, "data");
    assert_int_equal(json_object_size(data), 5);
    assert_true(number_at(data, "raw_bytes") == 3000);
    assert_true(number_at(data, "wire_bytes") == 1000);
    assert_true(number_at(data, "ms") == 12.5);
    assert_true(number_at(data, "ratio") == 3);
    assert_true(number_at(data, "exposed_ms") == 7.25);
    // Nothing travelled along this one, and nothing was saved.
    assert_true(number_at(json_object_get(dimensions, "zero"), "ratio") == 1);
    assert_true(number_at(line, "iteration") == 1);
    assert_true(number_at(line, "loss") == r.loss);
    assert_true(number_at(line, "grad_norm") == r.grad_norm);
    assert_true(number_at(line, "mem_peak_mb") == 123.5);
    json_decref(lines);
}

static void numbers_read_back_as_the_same_doubles(void **state)
{
    (void)state;
    const double values[] = {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 12345678.0};
    char text[NUMBER_TEXT_BYTES];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_true(strtod(number_text(values[i], text), NULL) == values[i]);
    assert_string_equal(number_text(0.1, text), "0.1");
    assert_string_equal(number_text(4096, text), "4096");
}

static void numbers_that_are_not_finite_are_null(void **state)
{
    (void)state;
    const metrics_options options = {.log_dir = folder, .csv = true, .log_interval = 1};
    metrics *m;
    step_record r = record_of(1);
    r.loss = NAN;
    r.grad_norm = INFINITY;
    assert_ok(metrics_create(&options, &m));
    assert_ok(metrics_step(m, &r));
    assert_ok(metrics_eval(m, 1, "valid", NAN));
    metrics_destroy(m);
    json_t *lines = read_lines("metrics.jsonl");
    assert_true(json_is_null(json_object_get(json_array_get(lines, 0), "loss")));
    assert_true(json_is_null(json_object_get(json_array_get(lines, 0), "grad_norm")));
    json_decref(lines);
    lines = read_lines("evaluations.jsonl");
    assert_true(json_is_null(json_object_get(json_array_get(lines, 0), "loss")));
    json_decref(lines);
}

static void a_resumed_run_keeps_each_iteration_once(void **state)
{
    (void)state;
    metrics_options options = {.log_dir = folder, .csv = true, .log_interval = 100};
    write_run(&options, 1, 9);
    options.iteration = 6;
    write_run(&options, 7, 8);
    json_t *lines = read_lines("metrics.jsonl");
    assert_int_equal(json_array_size(lines), 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(number_at(json_array_get(lines, i), "iteration") == (double)(i + 1));
    json_decref(lines);

    size_t bytes;
    int newlines = 0;
    char *text = read_all(path_of("metrics.csv"), &bytes);
    for (size_t i = 0; i < bytes; i++)
        newlines += text[i] == '\n';
    assert_int_equal(newlines, 9); // with the header
    assert_memory_equal(text, "iteration,loss,lr,", 18);
    assert_non_null(strstr(text, "\n8,"));
    assert_null(strstr(text, "\n9,"));
    free(text);
}

static void a_new_run_starts_its_files_anew(void **state)
{
    (void)state;
    const metrics_options options = {.log_dir = folder, .csv = true, .log_interval = 100};
    write_run(&options, 1, 9);
    write_run(&options, 1, 2);
    json_t *lines = read_lines("metrics.jsonl");
    assert_int_equal(json_array_size(lines), 2);
    json_decref(lines);
}

static void a_line_cut_off_by_a_kill_is_dropped(void **state)
{
    (void)state;
    const metrics_options options = {.log_dir = folder, .log_interval = 100, .iteration = 2};
    write_all("metrics.jsonl", "{\"iteration\": 1, \"loss\": 2}\n{\"iteration\": 2, \"lo");
    write_run(&options, 3, 3);
    json_t *lines = read_lines("metrics.jsonl");
    assert_int_equal(json_array_size(lines), 2);
    assert_true(number_at(json_array_get(lines, 1), "iteration") == 3);
    json_decref(lines);
}

static void a_foreign_file_is_left_alone(void **state)
{
    (void)state;
    static const char *const contents[] = {
        "{\"iteration\": 1, \"loss\": 2}\nmy notes\n",
        "{\"iteration\": x, \"loss\": 2}\n",
        "{\"iteration\": 99999999999999999999, \"loss\": 2}\n",
        "\n",
    };
    const metrics_options options = {.log_dir = folder, .log_interval = 1, .iteration = 5};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        metrics *m;
        size_t bytes;
        write_all("metrics.jsonl", contents[i]);
        assert_fails(STATUS_ERR_FORMAT, i == 0 ? "metrics.jsonl:2: is not" : "metrics.jsonl:1: is",
                     metrics_create(&options, &m));
        char *text = read_all(path_of("metrics.jsonl"), &bytes);
        assert_string_equal(text, contents[i]);
        free(text);
    }
}

static void a_table_with_other_columns_is_refused(void **state)
{
    (void)state;
    const metrics_options options = {.log_dir = folder, .csv = true, .log_interval = 1};
    metrics *m;
    write_all("metrics.csv", "iteration,loss\n1,2\n");
    assert_fails(STATUS_ERR_FORMAT, "metrics.csv:1: is not", metrics_create(&options, &m));
}

static void two_runs_cannot_write_one_folder(void **state)
{
    (void)state;
    const metrics_options options = {.log_dir = folder, .log_interval = 1};
    metrics *first, *second;
    assert_ok(metrics_create(&options, &first));
    assert_fails(STATUS_ERR_CONFIG, "another run writes it; give this one its own log-dir",
                 metrics_create(&options, &second));
    metrics_destroy(first);
}

static void folders_are_created_and_files_in_their_way_named(void **state)
{
    (void)state;
    char deep[128];
    snprintf(deep, sizeof deep, "%s/a/b//c/", folder);
    const metrics_options options = {.log_dir = deep, .log_interval = 1};
    metrics *m;
    assert_ok(metrics_create(&options, &m));
    metrics_destroy(m);
    assert_int_equal(access(path_of("a/b/c/metrics.jsonl"), F_OK), 0);
    write_all("file", "x");
    snprintf(deep, sizeof deep, "%s/file/logs", folder);
    assert_fails(STATUS_ERR_CONFIG, "file: is not a folder", metrics_create(&options, &m));
}

// A limit on the size of files stands in for a full disk.
static void a_full_disk_is_a_named_error(void **state)
{
    (void)state;
    const metrics_options options = {.log_dir = folder, .log_interval = 100};
    struct rlimit before, small;
    metrics *m;
    status result = STATUS_OK;
    const step_record r = record_of(1);
    assert_ok(metrics_create(&options, &m));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = before;
    small.rlim_cur = 2000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 10 && result == STATUS_OK; i++)
        result = metrics_step(m, &r);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(result, STATUS_ERR_IO);
    assert_non_null(strstr(error_message(), "metrics.jsonl: cannot write"));
    error_clear();
    metrics_destroy(m);
}

static void the_step_line_has_the_fields_of_gpt_neox_in_order(void **state)
{
    (void)state;
    metrics_line line = {0};
    text_line text = {.used = 0}, alone = {.used = 0};
    step_record r = record_of(3);
    metrics_line_add(&line, &r);
    r = record_of(4);
    r.grad_norm = INFINITY; // skipped: its loss stays out of the mean
    r.loss = 100;
    metrics_line_add(&line, &r);
    r = record_of(5);
    r.iteration_ms = 1000; // twice as slow
    r.samples_per_sec = 8;
    r.tflops = 0.125;
    r.loss = NAN;
    r.grad_norm = NAN;
    metrics_line_add(&line, &r);
    r.grad_norm = 0.5;
    metrics_line_text(&line, &r, true, true, &text);
    // 3 x 8 samples in 2 s; 3 x 0.125e12 operations in 2 s.
    assert_string_equal(
        text.text,
        "samples/sec: 12.000 | iteration        5/      20 | elapsed time per iteration (ms): "
        "666.7 | learning rate: 1.000E-03 | approx flops per GPU: 187.5GFLOPS | lm_loss: "
        "2.111111E+00 | loss scale: 4096.0 | number of skipped iterations:   2 | number of nan "
        "iterations:   1 | grad norm: 0.500 | exposed comm (ms): 20.0 | ratio data: 3.00 |");
    metrics_line_text(&line, &r, false, false, &alone);
    assert_null(strstr(alone.text, "loss scale"));
    assert_null(strstr(alone.text, "exposed"));
}

static void flops_are_written_as_gpt_neox_does(void **state)
{
    (void)state;
    char text[32];
    flops_text(98.7e12, text, sizeof text);
    assert_string_equal(text, "98.7TFLOPS");
    flops_text(999, text, sizeof text);
    assert_string_equal(text, "999.0FLOPS");
    flops_text(1.5e21, text, sizeof text);
    assert_string_equal(text, "1500.0EFLOPS");
}

static void evaluations_have_their_own_file(void **state)
{
    (void)state;
    metrics_options options = {.log_dir = folder, .log_interval = 1};
    metrics *m;
    assert_ok(metrics_create(&options, &m));
    assert_ok(metrics_eval(m, 10, "valid", 2));
    assert_ok(metrics_eval(m, 20, "valid", 1.5));
    assert_ok(metrics_eval(m, 20, "test", 1));
    metrics_destroy(m);
    options.iteration = 10;
    assert_ok(metrics_create(&options, &m));
    assert_ok(metrics_eval(m, 20, "valid", 1.25));
    metrics_destroy(m);
    json_t *lines = read_lines("evaluations.jsonl");
    assert_int_equal(json_array_size(lines), 2);
    json_t *last = json_array_get(lines, 1);
    assert_string_equal(json_string_value(json_object_get(last, "part")), "validation");
    assert_true(number_at(last, "loss") == 1.25);
    assert_true(number_at(last, "perplexity") == exp(1.25));
    json_decref(lines);
}

// ---- TensorBoard ----

static void checksums_are_those_of_rfc_3720(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(crc32c("123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c(bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(crc32c(bytes, 32), 0x62a8ab43u);
    assert_int_equal(crc32c("", 0), 0);
    // Worked by hand from the first.
    assert_int_equal(tfrecord_checksum("123456789", 9), 0xc78ab0e5u);
}

static uint64_t little_endian(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static uint64_t varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

// What the test reads of an event.
typedef struct seen_event {
    double wall_time;
    int64_t step;
    char version[32];
    bool start;
    size_t count;
    char tags[TENSORBOARD_MAX_SCALARS][64];
    float values[TENSORBOARD_MAX_SCALARS];
} seen_event;

static void read_value(const uint8_t *at, const uint8_t *end, seen_event *seen)
{
    while (at < end) {
        const uint64_t key = varint(&at);
        if (key == (1 << 3 | 2)) {
            const size_t length = varint(&at);
            assert_in_range(length, 1, 63);
            memcpy(seen->tags[seen->count], at, length);
            at += length;
        } else {
            assert_int_equal(key, 2 << 3 | 5);
            const uint32_t bits = (uint32_t)little_endian(at, 4);
            memcpy(&seen->values[seen->count], &bits, 4);
            at += 4;
        }
    }
    seen->count++;
}

static void read_event(const uint8_t *at, const uint8_t *end, seen_event *seen)
{
    memset(seen, 0, sizeof *seen);
    while (at < end) {
        const uint64_t key = varint(&at);
        if (key == (1 << 3 | 1)) {
            const uint64_t bits = little_endian(at, 8);
            memcpy(&seen->wall_time, &bits, 8);
            at += 8;
        } else if (key == (2 << 3 | 0)) {
            seen->step = (int64_t)varint(&at);
        } else {
            const size_t length = varint(&at);
            const uint8_t *inner = at;
            at += length;
            if (key == (3 << 3 | 2)) {
                assert_in_range(length, 1, 31);
                memcpy(seen->version, inner, length);
            } else if (key == (7 << 3 | 2)) {
                assert_memory_equal(inner, "\x08\x01", 2);
                seen->start = true;
            } else {
                assert_int_equal(key, 5 << 3 | 2);
                while (inner < at) {
                    assert_int_equal(varint(&inner), 1 << 3 | 2);
                    const size_t bytes = varint(&inner);
                    read_value(inner, inner + bytes, seen);
                    inner += bytes;
                }
            }
        }
    }
    assert_ptr_equal(at, end);
}

// Read the records of the only event file of the folder and check their frames.
static size_t read_events(seen_event *seen, size_t most)
{
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    char name[300] = "";
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0) {
            assert_string_equal(name, "");
            snprintf(name, sizeof name, "%s", entry->d_name);
        }
    closedir(directory);
    size_t bytes, count = 0;
    char *text = read_all(path_of(name), &bytes);
    const uint8_t *at = (const uint8_t *)text, *end = at + bytes;
    while (at < end) {
        assert_true(count < most);
        const size_t length = little_endian(at, 8);
        assert_true(length + 16 <= (size_t)(end - at));
        assert_int_equal(little_endian(at + 8, 4), tfrecord_checksum(at, 8));
        assert_int_equal(little_endian(at + 12 + length, 4), tfrecord_checksum(at + 12, length));
        read_event(at + 12, at + 12 + length, &seen[count++]);
        at += length + 16;
    }
    free(text);
    return count;
}

static float value_of(const seen_event *seen, const char *tag)
{
    for (size_t i = 0; i < seen->count; i++)
        if (strcmp(seen->tags[i], tag) == 0)
            return seen->values[i];
    fail_msg("no scalar \"%s\"", tag);
    return 0;
}

static void tensorboard_gets_framed_events_with_the_names_of_gpt_neox(void **state)
{
    (void)state;
    static seen_event seen[4];
    const metrics_options options = {
        .tensorboard_dir = folder, .log_interval = 100, .iteration = 299, .scaled = true};
    const step_record r = record_of(300);
    metrics *m;
    assert_ok(metrics_create(&options, &m));
    assert_ok(metrics_step(m, &r));
    assert_ok(metrics_eval(m, 300, "valid", 2));
    metrics_destroy(m);
    assert_int_equal(read_events(seen, 4), 4);
    assert_string_equal(seen[0].version, "brain.Event:2");
    // What earlier files hold from here on is forgotten.
    assert_true(seen[1].start);
    assert_int_equal(seen[1].step, 300);
    assert_int_equal(seen[2].step, 300);
    assert_true(seen[2].wall_time > 1.7e9);
    assert_true(value_of(&seen[2], "train/lm_loss") == (float)r.loss);
    assert_true(value_of(&seen[2], "train/learning_rate") == 1e-3f);
    assert_true(value_of(&seen[2], "train/loss_scale") == 4096);
    assert_true(value_of(&seen[2], "runtime/samples_per_sec") == 16);
    assert_true(value_of(&seen[2], "runtime/iteration_time") == 0.5f);
    assert_true(value_of(&seen[2], "runtime/steps_per_sec") == 2);
    assert_true(value_of(&seen[2], "runtime/tokens_per_sec") == 4096);
    assert_true(value_of(&seen[2], "runtime/flops_per_sec_per_gpu") == 0.25e12f);
    assert_true(value_of(&seen[2], "comm/data_ratio") == 3);
    assert_int_equal(seen[3].step, 300);
    assert_true(value_of(&seen[3], "validation/lm_loss") == 2);
    assert_true(value_of(&seen[3], "validation/lm_loss_ppl") == (float)exp(2));
}

static void without_folders_only_the_line_is_printed(void **state)
{
    (void)state;
    const metrics_options options = {.log_interval = 1};
    write_run(&options, 1, 2);
    metrics_destroy(NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_iteration_is_one_object_with_the_agreed_keys),
        CASE(numbers_read_back_as_the_same_doubles),
        CASE(numbers_that_are_not_finite_are_null),
        CASE(a_resumed_run_keeps_each_iteration_once),
        CASE(a_new_run_starts_its_files_anew),
        CASE(a_line_cut_off_by_a_kill_is_dropped),
        CASE(a_foreign_file_is_left_alone),
        CASE(a_table_with_other_columns_is_refused),
        CASE(two_runs_cannot_write_one_folder),
        CASE(folders_are_created_and_files_in_their_way_named),
        CASE(a_full_disk_is_a_named_error),
        CASE(the_step_line_has_the_fields_of_gpt_neox_in_order),
        CASE(flops_are_written_as_gpt_neox_does),
        CASE(evaluations_have_their_own_file),
        CASE(checksums_are_those_of_rfc_3720),
        CASE(tensorboard_gets_framed_events_with_the_names_of_gpt_neox),
        CASE(without_folders_only_the_line_is_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
