/* From the configuration to the plain numbers that the run works with. Here the keys of GPT-NeoX
 * meet the options of the modules; nothing is allocated and no rank is asked. */
#ifndef TRIFOLD_TRAIN_RUN_PLAN_H
#define TRIFOLD_TRAIN_RUN_PLAN_H

#include <stdint.h>

#include "config/config.h"
#include "model/model.h"
#include "parallel/grid.h"
#include "parallel/pipe_schedule.h"
#include "train/loss_scaler.h"
#include "train/lr_schedule.h"
#include "zero/optimizer.h"

typedef struct run_plan {
    grid_shape grid;
    pipe_shape pipe;
    config_partition partition; /* how layers are dealt out to the parts of the pipeline */
    model_options model;
    model_init_options init;
    size_t padded_vocab; /* as GPT-NeoX pads it; enters the FLOPs only */
    optimizer_options optimizer;
    lr_schedule schedule;
    loss_scaler scaler;
    double clip;          /* largest gradient norm; 0: off */
    int64_t accumulation; /* micro-batches an iteration and rank */
    int64_t data_ranks;
    int64_t global_batch; /* samples an iteration */
    int64_t tokens_per_iteration;
} run_plan;

/* `c` is resolved and `vocab` is the true vocabulary. */
status run_plan_make(const config *c, size_t vocab, run_plan *plan);

/* The parts of the model of the ranks at `place`, plan->pipe.chunks of them: plan->model with the
 * part's layers and as many sets of activations as the pipeline's schedule needs. */
status run_plan_parts(const run_plan *plan, grid_place place, model_options *parts);

/* The tensors of the ranks at `place`, into an empty table. */
status run_plan_table(const run_plan *plan, grid_place place, tensor_table *table);

#endif
