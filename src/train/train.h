/* A training run: from a resolved configuration to a trained model.
 *
 * All ranks of the job call train_run() together with equal configurations. Progress goes to
 * standard error on rank 0, scalars to the log folder, weights to the save folder. */
#ifndef TRIFOLD_TRAIN_TRAIN_H
#define TRIFOLD_TRAIN_TRAIN_H

#include <stdbool.h>

#include "comm/comm.h"
#include "config/config.h"
#include "data/split.h"

typedef struct train_options {
    const char *device; /* "cpu" */
    bool dry_run;       /* check everything, describe the run, stop */
} train_options;

/* STATUS_INTERRUPTED where a signal stopped the run after its checkpoint was saved. */
status train_run(const config *c, comm *cm, const train_options *options);

/* The mean loss of the checkpoint that `load` names over eval-iters global batches of a part.
 * Collective. */
status train_evaluate_checkpoint(const config *c, comm *cm, const train_options *options,
                                 dataset_part part, double *loss);

#endif
