/* Inside a training run: its parts, and what they do in turn. */
#ifndef TRIFOLD_TRAIN_TRAIN_INTERNAL_H
#define TRIFOLD_TRAIN_TRAIN_INTERNAL_H

#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "model/model.h"
#include "parallel/grid.h"
#include "train/metrics.h"
#include "train/pipeline.h"
#include "train/run_plan.h"
#include "train/train.h"
#include "zero/grad_buckets.h"
#include "zero/optimizer.h"

/* Micro-batches on the host and on the device: g of them, B samples of T tokens, R = B T rows. */
typedef struct batch_buffers {
    int32_t *samples;  /* (g, B, T+1): tokens of an iteration's micro-batches on this rank */
    uint8_t *mask;     /* (g, B, T): 1 where the loss counts */
    int32_t *rows;     /* (R): staging of one micro-batch's inputs or labels */
    float *scale;      /* (R): staging of the loss weights */
    float *losses;     /* (g, R) */
    int32_t *d_tokens; /* device: (g, B, T) */
    int32_t *d_labels; /* device: (g, B, T) */
    float *d_scale;    /* device: (g, R) */
    float *d_losses;   /* device: (g, R) */
} batch_buffers;

/* What every rank tells all others: once an iteration, once an evaluation. */
typedef struct rank_report {
    double loss_sum; /* over this rank's counted tokens */
    int64_t counted; /* tokens of this rank whose loss counts */
    int64_t signal;  /* that asked this rank to stop, or 0 */
    int64_t failed;  /* 1 where it could not read its samples */
} rank_report;

typedef struct train_state {
    const config *config;
    comm *comm;
    parallel_grid grid;
    run_plan plan;
    int32_t eod; /* -1: none */
    device *device;
    device_stream *stream;
    tensor_table whole; /* the model's tensors */
    tensor_table table; /* this rank's part of them */
    optimizer *optimizer;
    model_options *chunks; /* the parts of the model on this rank */
    pipeline *pipeline;
    float *grads;     /* device: flat, by the table */
    void **params;    /* places of the parameters, a tensor each */
    void **gradients; /* and of their gradients */
    model_storage storage;
    grad_buckets *buckets;
    dataset *parts[DATASET_PARTS]; /* NULL where there is none */
    batch_buffers batch;
    rank_report *reports;  /* a rank each */
    size_t *report_counts; /* bytes of each, for the all-gather */
    double *square_sums;   /* a rank each */
    size_t *square_counts;
    metrics *metrics; /* rank 0 */
    loss_scaler scaler;
    int64_t iteration; /* finished */
    int64_t updates;   /* of the optimizer */
    int64_t skipped;
    int64_t train_iters;
    bool agreed_failure; /* the error that ends the run is known to all ranks */
    bool evaluating;     /* only `only_part` is read, nothing is trained or written */
    dataset_part only_part;
    double eval_loss[DATASET_PARTS]; /* of the last evaluation; NaN before */
} train_state;

/* ---- train_setup.c ---- */

/* The true vocabulary and the end-of-document token: of the tokenizer, of vocab-size, or of the
 * checkpoint to load. */
status train_vocabulary(const config *c, size_t *vocab, int32_t *eod);

/* Open, allocate, initialise or load: everything before the first iteration. Collective. */
status train_setup(train_state *t, const train_options *options);
void train_teardown(train_state *t);

/* ---- train_describe.c ---- */

/* What runs where and how large it is, as lines for people, before anything is allocated. */
status train_describe(const train_state *t, const train_options *options);

/* ---- train_shards.c ---- */

/* Write a checkpoint of the whole model, whose tensors come from the ranks that have them. All
 * ranks call; the outcome is rank 0's. */
status train_save_shards(train_state *t, const checkpoint_state *state);

/* The tensors of a checkpoint, of which this rank keeps its part. */
checkpoint_tensors train_load_target(train_state *t);

/* ---- train_norm.c ---- */

/* The norm of the gradients of the whole model, the same on all ranks; not finite exactly where
 * some gradient is not. Collective. */
status train_gradient_norm(train_state *t, double *norm);

/* ---- train_iteration.c ---- */

/* One optimizer step over the global batch, reported. *signal is what some rank was sent, or 0. */
status train_iteration(train_state *t, int *signal);

/* The mean loss over eval-iters global batches of a part, reported; nothing where there is none. */
status train_evaluate(train_state *t, dataset_part part, bool at_end);

/* ---- train_resume.c ---- */

/* Save the state of the finished iteration. Collective; all ranks agree on the outcome. */
status train_save(train_state *t);

/* Load what `load` names, if anything; else draw the initial weights. */
status train_load(train_state *t);

/* ---- batch.c ---- */

status batch_create(train_state *t);
void batch_destroy(train_state *t);

/* Read this rank's samples of global batch `number` of a part; *counted of their tokens have a loss
 * on this rank. On failure the samples are token 0 and none counts, so that the rank can go on to
 * where all ranks tell how they fared. */
status batch_read(train_state *t, dataset_part part, int64_t number, int64_t *counted);

/* Bring what was read to the device; a counted row's loss weighs `scale`. */
status batch_upload(train_state *t, float scale);

/* The micro-batches as the pipeline takes them, once uploaded. */
pipeline_batches batch_views(train_state *t);

/* The sum of the counted losses of all micro-batches that the model has seen. Blocks. */
status batch_loss_sum(train_state *t, double *sum);

/* Give `mine` to all ranks and combine all ranks' reports in rank order: sums, and the first
 * signal. Collective. */
status reports_combine(train_state *t, const rank_report *mine, rank_report *all);

/* What reading gave this rank, agreed with all others where some rank of the combined report
 * failed. Collective. */
status reports_agree(train_state *t, const rank_report *all, status reading);

#endif
