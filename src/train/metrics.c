#include "train/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "train/line_file.h"
#include "train/metrics_line.h"
#include "train/tensorboard.h"

struct metrics {
    int64_t log_interval;
    bool distributed, scaled;
    line_file steps, table, evaluations; // without a stream where not asked for
    tensorboard *tensorboard;            // NULL where not asked for
    metrics_line line;
};

// The scalars of an iteration, in the order of the files.
typedef struct scalar {
    const char *name; // in metrics.jsonl and metrics.csv
    const char *tag;  // in TensorBoard, GPT-NeoX's where it has one
    double value;
} scalar;

enum { SCALAR_COUNT = 12, TRAFFIC_COUNT = 5 };

static void list_scalars(const step_record *r, scalar out[SCALAR_COUNT])
{
    const scalar list[] = {
        {"loss", "train/lm_loss", r->loss},
        {"lr", "train/learning_rate", r->lr},
        {"grad_norm", "train/grad_norm", r->grad_norm},
        {"loss_scale", "train/loss_scale", r->loss_scale},
        {"skipped", "train/skipped_iterations", (double)r->skipped},
        {"samples_per_sec", "runtime/samples_per_sec", r->samples_per_sec},
        {"tokens_per_sec", "runtime/tokens_per_sec", r->tokens_per_sec},
        {"tflops", "runtime/tflops_per_rank", r->tflops},
        {"iteration_ms", "runtime/iteration_ms", r->iteration_ms},
        {"compute_ms", "runtime/compute_ms", r->compute_ms},
        {"comm_ms", "runtime/exposed_comm_ms", r->comm_ms},
        {"mem_peak_mb", "runtime/mem_peak_mb", r->mem_peak_mb},
    };
    static_assert(sizeof list / sizeof *list == SCALAR_COUNT, "the count of the list");
    memcpy(out, list, sizeof list);
}

// The traffic of a dimension; the tags are given their dimension by the writers.
static void list_traffic(const comm_traffic *t, scalar out[TRAFFIC_COUNT])
{
    const double raw = (double)t->raw_bytes, wire = (double)t->wire_bytes;
    const scalar list[] = {
        {"raw_bytes", NULL, raw},
        {"wire_bytes", NULL, wire},
        {"ms", NULL, t->busy_ms},
        {"ratio", NULL, t->wire_bytes > 0 ? raw / wire : 1},
        {"exposed_ms", NULL, t->exposed_ms},
    };
    static_assert(sizeof list / sizeof *list == TRAFFIC_COUNT, "the count of the list");
    memcpy(out, list, sizeof list);
}

// JSON has no word for numbers that are not finite.
static void add_json(text_line *line, const char *name, double value)
{
    char number[NUMBER_TEXT_BYTES];
    text_line_add(line, "\"%s\": %s", name, isfinite(value) ? number_text(value, number) : "null");
}

static status write_json(metrics *m, const step_record *record)
{
    text_line line = {.used = 0};
    scalar scalars[SCALAR_COUNT], traffic[TRAFFIC_COUNT];
    list_scalars(record, scalars);
    text_line_add(&line, "{\"iteration\": %lld", (long long)record->iteration);
    for (int i = 0; i < SCALAR_COUNT; i++) {
        text_line_add(&line, ", ");
        add_json(&line, scalars[i].name, scalars[i].value);
    }
    text_line_add(&line, ", \"comm\": {");
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++) {
        list_traffic(&record->traffic[d], traffic);
        text_line_add(&line, "%s\"%s\": {", d > 0 ? ", " : "",
                      comm_dimension_str((comm_dimension)d));
        for (int i = 0; i < TRAFFIC_COUNT; i++) {
            text_line_add(&line, "%s", i > 0 ? ", " : "");
            add_json(&line, traffic[i].name, traffic[i].value);
        }
        text_line_add(&line, "}");
    }
    text_line_add(&line, "}}");
    return line_file_write(&m->steps, line.text);
}

static void csv_header(text_line *line)
{
    const step_record none = {0};
    scalar scalars[SCALAR_COUNT], traffic[TRAFFIC_COUNT];
    list_scalars(&none, scalars);
    text_line_add(line, "iteration");
    for (int i = 0; i < SCALAR_COUNT; i++)
        text_line_add(line, ",%s", scalars[i].name);
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++) {
        list_traffic(&none.traffic[d], traffic);
        for (int i = 0; i < TRAFFIC_COUNT; i++)
            text_line_add(line, ",%s_%s", comm_dimension_str((comm_dimension)d), traffic[i].name);
    }
}

static status write_csv(metrics *m, const step_record *record)
{
    text_line line = {.used = 0};
    char number[NUMBER_TEXT_BYTES];
    scalar scalars[SCALAR_COUNT], traffic[TRAFFIC_COUNT];
    list_scalars(record, scalars);
    text_line_add(&line, "%lld", (long long)record->iteration);
    for (int i = 0; i < SCALAR_COUNT; i++)
        text_line_add(&line, ",%s", number_text(scalars[i].value, number));
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++) {
        list_traffic(&record->traffic[d], traffic);
        for (int i = 0; i < TRAFFIC_COUNT; i++)
            text_line_add(&line, ",%s", number_text(traffic[i].value, number));
    }
    return line_file_write(&m->table, line.text);
}

// Four scalars of GPT-NeoX are ours in another unit. The loss scale means something in fp16 only,
// and dimensions without traffic have nothing to show.
static status write_tensorboard(metrics *m, const step_record *record)
{
    enum { OWN = 3, MOST = SCALAR_COUNT + OWN + COMM_DIMENSION_COUNT * TRAFFIC_COUNT };
    static_assert((int)MOST <= (int)TENSORBOARD_MAX_SCALARS, "one event holds an iteration");
    tensorboard_scalar list[MOST];
    char tags[COMM_DIMENSION_COUNT][TRAFFIC_COUNT][TENSORBOARD_MAX_TAG];
    scalar scalars[SCALAR_COUNT], traffic[TRAFFIC_COUNT];
    size_t count = 0;
    list_scalars(record, scalars);
    for (int i = 0; i < SCALAR_COUNT; i++)
        if (m->scaled || strcmp(scalars[i].name, "loss_scale") != 0)
            list[count++] = (tensorboard_scalar){scalars[i].tag, scalars[i].value};
    const double seconds = record->iteration_ms * 1e-3;
    list[count++] = (tensorboard_scalar){"runtime/iteration_time", seconds};
    list[count++] = (tensorboard_scalar){"runtime/steps_per_sec", 1 / seconds};
    list[count++] = (tensorboard_scalar){"runtime/flops_per_sec_per_gpu", record->tflops * 1e12};
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++) {
        list_traffic(&record->traffic[d], traffic);
        for (int i = 0; i < TRAFFIC_COUNT && record->traffic[d].wire_bytes > 0; i++) {
            snprintf(tags[d][i], sizeof tags[d][i], "comm/%s_%s",
                     comm_dimension_str((comm_dimension)d), traffic[i].name);
            list[count++] = (tensorboard_scalar){tags[d][i], traffic[i].value};
        }
    }
    return tensorboard_write(m->tensorboard, record->iteration, list, count);
}

static status open_files(metrics *m, const metrics_options *options)
{
    text_line header = {.used = 0};
    line_file_options file = {
        .folder = options->log_dir, .keep = options->iteration, .prefix = "{\"iteration\": "};
    TRY(folder_create(options->log_dir));
    file.name = "metrics.jsonl";
    TRY(line_file_open(&file, &m->steps));
    file.name = "evaluations.jsonl";
    TRY(line_file_open(&file, &m->evaluations));
    if (!options->csv)
        return STATUS_OK;
    csv_header(&header);
    file.name = "metrics.csv";
    file.prefix = "";
    file.header = header.text;
    return line_file_open(&file, &m->table);
}

status metrics_create(const metrics_options *options, metrics **out)
{
    void *memory;
    status result;
    assert(options->log_interval > 0);
    TRY(memory_alloc(1, sizeof(metrics), "the reports", &memory));
    metrics *m = memory;
    m->log_interval = options->log_interval;
    m->distributed = options->distributed;
    m->scaled = options->scaled;
    if (options->log_dir)
        TRY_OUT(result, open_files(m, options));
    if (options->tensorboard_dir)
        TRY_OUT(result,
                tensorboard_create(options->tensorboard_dir, options->iteration, &m->tensorboard));
    *out = m;
    return STATUS_OK;
out:
    metrics_destroy(m);
    return result;
}

void metrics_destroy(metrics *m)
{
    if (!m)
        return;
    tensorboard_destroy(m->tensorboard);
    line_file_close(&m->table);
    line_file_close(&m->evaluations);
    line_file_close(&m->steps);
    memory_free(m);
}

static void print_line(metrics *m, const step_record *record)
{
    text_line text = {.used = 0};
    metrics_line_add(&m->line, record);
    if (record->iteration % m->log_interval != 0 && record->iteration != record->train_iters)
        return;
    metrics_line_text(&m->line, record, m->distributed, m->scaled, &text);
    log_info("%s", text.text);
    m->line = (metrics_line){0};
}

status metrics_step(metrics *m, const step_record *record)
{
    print_line(m, record);
    if (m->steps.stream)
        TRY(write_json(m, record));
    if (m->table.stream)
        TRY(write_csv(m, record));
    return m->tensorboard ? write_tensorboard(m, record) : STATUS_OK;
}

status metrics_eval(metrics *m, int64_t iteration, const char *part, double loss)
{
    const char *name = strcmp(part, "valid") == 0 ? "validation" : part;
    const double perplexity = exp(loss);
    log_info("%s results at iteration %lld | lm_loss value: %.6E | lm_loss_ppl value: %.6E |", name,
             (long long)iteration, loss, perplexity);
    if (m->evaluations.stream) {
        text_line line = {.used = 0};
        text_line_add(&line, "{\"iteration\": %lld, \"part\": \"%s\", ", (long long)iteration,
                      name);
        add_json(&line, "loss", loss);
        text_line_add(&line, ", ");
        add_json(&line, "perplexity", perplexity);
        text_line_add(&line, "}");
        TRY(line_file_write(&m->evaluations, line.text));
    }
    if (!m->tensorboard)
        return STATUS_OK;
    char loss_tag[TENSORBOARD_MAX_TAG], perplexity_tag[TENSORBOARD_MAX_TAG];
    snprintf(loss_tag, sizeof loss_tag, "%s/lm_loss", name);
    snprintf(perplexity_tag, sizeof perplexity_tag, "%s/lm_loss_ppl", name);
    const tensorboard_scalar list[] = {{loss_tag, loss}, {perplexity_tag, perplexity}};
    return tensorboard_write(m->tensorboard, iteration, list, 2);
}
