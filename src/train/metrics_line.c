#include "train/metrics_line.h"

#include <math.h>
#include <stdio.h>

void flops_text(double flops, char *text, size_t bytes)
{
    static const char *const units[] = {"", "K", "M", "G", "T", "P", "E"};
    size_t unit = 0;
    while (flops >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        flops /= 1000;
        unit++;
    }
    snprintf(text, bytes, "%.1f%sFLOPS", flops, units[unit]);
}

void metrics_line_add(metrics_line *line, const step_record *record)
{
    const double seconds = record->iteration_ms * 1e-3;
    const bool skipped = !isfinite(record->grad_norm);
    line->iterations++;
    line->skipped += skipped;
    line->nan += !isfinite(record->loss);
    if (!skipped) {
        line->losses++;
        line->loss_sum += record->loss;
    }
    line->iteration_ms += record->iteration_ms;
    line->exposed_ms += record->comm_ms;
    line->samples += record->samples_per_sec * seconds;
    line->teraflop += record->tflops * seconds;
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++) {
        line->raw_bytes[d] += (double)record->traffic[d].raw_bytes;
        line->wire_bytes[d] += (double)record->traffic[d].wire_bytes;
    }
}

static void add_communication(text_line *text, const metrics_line *line)
{
    text_line_add(text, " exposed comm (ms): %.1f |", line->exposed_ms / (double)line->iterations);
    for (int d = 0; d < COMM_DIMENSION_COUNT; d++)
        if (line->wire_bytes[d] > 0)
            text_line_add(text, " ratio %s: %.2f |", comm_dimension_str((comm_dimension)d),
                          line->raw_bytes[d] / line->wire_bytes[d]);
}

void metrics_line_text(const metrics_line *line, const step_record *record, bool distributed,
                       bool scaled, text_line *text)
{
    const double seconds = line->iteration_ms * 1e-3;
    char flops[32];
    flops_text(line->teraflop / seconds * 1e12, flops, sizeof flops);
    text_line_add(text, "samples/sec: %.3f | iteration %8lld/%8lld |", line->samples / seconds,
                  (long long)record->iteration, (long long)record->train_iters);
    text_line_add(text, " elapsed time per iteration (ms): %.1f |",
                  line->iteration_ms / (double)line->iterations);
    text_line_add(text, " learning rate: %.3E | approx flops per GPU: %s |", record->lr, flops);
    if (line->losses > 0)
        text_line_add(text, " lm_loss: %.6E |", line->loss_sum / (double)line->losses);
    if (scaled)
        text_line_add(text, " loss scale: %.1f |", record->loss_scale);
    text_line_add(text, " number of skipped iterations: %3lld | number of nan iterations: %3lld |",
                  (long long)line->skipped, (long long)line->nan);
    text_line_add(text, " grad norm: %.3f |", record->grad_norm);
    if (distributed)
        add_communication(text, line);
}
