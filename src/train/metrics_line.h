/* Inside the reports: the line of progress, over the iterations since the one before it. */
#ifndef TRIFOLD_TRAIN_METRICS_LINE_H
#define TRIFOLD_TRAIN_METRICS_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "train/line_file.h"
#include "train/metrics.h"

/* Sums over the iterations of the line; {0} is empty. */
typedef struct metrics_line {
    int64_t iterations;
    int64_t skipped; /* updates left out because gradients were not finite */
    int64_t nan;     /* losses that were not finite */
    int64_t losses;  /* iterations in loss_sum */
    double loss_sum;
    double iteration_ms, exposed_ms;
    double samples, teraflop;
    double raw_bytes[COMM_DIMENSION_COUNT], wire_bytes[COMM_DIMENSION_COUNT];
} metrics_line;

void metrics_line_add(metrics_line *line, const step_record *record);

/* Append the line as text: the fields of GPT-NeoX in its order, then ours. `record` is the last one
 * added. `distributed` adds the communication, `scaled` the loss scale. */
void metrics_line_text(const metrics_line *line, const step_record *record, bool distributed,
                       bool scaled, text_line *text);

/* As GPT-NeoX writes it: one decimal and a unit of thousands, "98.7TFLOPS". */
void flops_text(double flops, char *text, size_t bytes);

#endif
