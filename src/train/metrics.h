/* What a run reports: the step line for people, and the scalars for programs.
 *
 * <log-dir>/metrics.jsonl has one object an iteration, evaluations.jsonl one an evaluation. Numbers
 * read back as the same doubles; those that are not finite are null. metrics.csv and TensorBoard
 * event files carry the same scalars where asked. Rank 0 only. */
#ifndef TRIFOLD_TRAIN_METRICS_H
#define TRIFOLD_TRAIN_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"

typedef struct metrics metrics;

typedef struct metrics_options {
    const char *log_dir;         /* NULL: only the step line */
    bool csv;                    /* also <log-dir>/metrics.csv */
    const char *tensorboard_dir; /* NULL: none */
    int64_t log_interval;        /* iterations a step line; at least 1 */
    int64_t iteration; /* finished before this run: later lines of the files are dropped */
    bool distributed;  /* several ranks: the step line tells of communication */
    bool scaled;       /* fp16: the step line tells the loss scale */
} metrics_options;

/* Opens the files, creating folders as needed. A run that resumes keeps the lines of the iterations
 * before it, so that a file holds each iteration once. */
status metrics_create(const metrics_options *options, metrics **out);
void metrics_destroy(metrics *m);

typedef struct step_record {
    int64_t iteration, train_iters;
    double loss;      /* mean over the global batch */
    double lr;        /* of this update */
    double grad_norm; /* before clipping; of unscaled gradients */
    double loss_scale;
    int64_t skipped; /* iterations skipped so far */
    double samples_per_sec, tokens_per_sec;
    double tflops; /* per rank, by GPT-NeoX's formula */
    double iteration_ms, compute_ms;
    double comm_ms;     /* exposed: time spent waiting for messages */
    double mem_peak_mb; /* of this rank's device memory */
    comm_traffic traffic[COMM_DIMENSION_COUNT];
} step_record;

/* Write one iteration to the files, and the step line at each log_interval and at the last
 * iteration: means over the iterations since the line before, without the time of evaluations and
 * checkpoints. An iteration whose gradient norm is not finite counts as skipped. */
status metrics_step(metrics *m, const step_record *record);

/* Write an evaluation after `iteration` of the part "valid" or "test", and its line. */
status metrics_eval(metrics *m, int64_t iteration, const char *part, double loss);

#endif
