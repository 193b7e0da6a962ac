/* Checkpoints: complete, or not there.
 *
 * SAVE/latest              text "global_stepN", moved there last
 * SAVE/global_stepN/
 *   model.safetensors      every parameter, fp32, under its name in the tensor table
 *   optimizer.safetensors  exp_avg.NAME and exp_avg_sq.NAME, fp32; absent after `convert`
 *   state.json             shape of the model, iteration, schedule, loss scale
 *   manifest.json          size and XXH3-64 of each file above; written last of all files
 *
 * A checkpoint is written into SAVE/.tmp-global_stepN, each file synced, then renamed; folders
 * without a manifest, or left under a temporary name, are no checkpoints. `latest` is a help for
 * people: the newest complete step is found by number. Tensors are whole, so a checkpoint does not
 * depend on the grid that wrote it. Rank 0 writes; all ranks call and agree on the outcome. */
#ifndef TRIFOLD_CHECKPOINT_CHECKPOINT_H
#define TRIFOLD_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "model/model_shape.h"
#include "parallel/tensor_table.h"

/* What a run must know, beside tensors, to go on as if it had not stopped. Data order, dropout and
 * the learning rate are functions of these numbers, so no generator state is needed. */
typedef struct checkpoint_state {
    model_shape shape;
    int64_t iteration; /* finished iterations, skipped ones included */
    int64_t updates;   /* optimizer updates made: Adam's step and the schedule's position */
    int64_t seed;
    double loss_scale;    /* fp16; 1 otherwise */
    int64_t scale_good;   /* iterations since the last change of the scale */
    int64_t scale_credit; /* hysteresis left */
    int64_t skipped;      /* iterations skipped so far */
    bool has_optimizer;   /* optimizer.safetensors is there */
    double lr, min_lr;    /* of the schedule that was in force */
    double warmup;        /* fraction */
    int64_t decay_iters;
    char decay_style[32];
    int64_t global_batch; /* samples an iteration: fixes the data position */
} checkpoint_state;

typedef enum checkpoint_part {
    CHECKPOINT_PARAM,
    CHECKPOINT_EXP_AVG,
    CHECKPOINT_EXP_AVG_SQ,
} checkpoint_part;

/* How tensors come from and go to wherever they live: copies tensor `index` of the table, whole and
 * without padding, into or out of host memory. */
typedef struct checkpoint_tensors {
    const tensor_table *table;
    void *context;
    status (*read)(void *context, checkpoint_part part, size_t index, float *host);
    status (*write)(void *context, checkpoint_part part, size_t index, const float *host);
} checkpoint_tensors;

/* Write SAVE/global_stepN for state->iteration N; replaces a checkpoint of the same step. Called by
 * the writing rank only. On failure nothing that was there is touched and what was begun is
 * removed. `keep_last` > 0 then removes all but that many newest complete checkpoints, never one
 * whose step is in `keep_steps`, nor the one just saved. */
status checkpoint_save(const char *save_dir, const checkpoint_state *state,
                       const checkpoint_tensors *tensors, int64_t keep_last,
                       const int64_t *keep_steps, size_t n_keep_steps);

/* The newest complete checkpoint under `dir`, or `dir` itself where it is one. *path (owned by the
 * caller, free()) is its folder. Incomplete folders are skipped with a warning that names them.
 * STATUS_ERR_CONFIG where there is none. */
status checkpoint_find(const char *dir, char **path);

/* Read and verify state.json and the manifest of the checkpoint folder `path`. */
status checkpoint_load_state(const char *path, checkpoint_state *state);

/* Read the tensors into place, checksums verified. Every tensor of the table must be there with its
 * shape, and none else: a checkpoint of another model is a named error that says what differs.
 * `with_optimizer` asks for the optimizer's part too. */
status checkpoint_load_tensors(const char *path, const checkpoint_tensors *tensors,
                               bool with_optimizer);

/* Whether a checkpoint of shape `file` can serve a model of shape `wanted`: all must be equal but
 * the number of positions, where they are not learned, and the form of GELU, which Hugging Face
 * files do not tell apart; a difference there is a note. Else one line that says what differs. */
status checkpoint_shape_check(const model_shape *file, const model_shape *wanted, const char *path);

#endif
