/* Pipeline schedules as data: the list of instructions of each stage.
 *
 * A model of stages x chunks parts runs on `stages` pipeline stages; part v = chunk * stages +
 * stage. A schedule says in which order a stage computes and when its messages begin; an engine
 * carries it out (train/pipeline.h), a checker proves it first (pipe_check.h). Kinds:
 *
 *   GPIPE        all forward passes, then all backward passes (Huang et al., 2019)
 *   1F1B         forward and backward passes in turn, as soon as they can (Narayanan et al., 2019)
 *   INTERLEAVED  the same with several chunks a stage, which shortens the bubble to 1 / chunks of
 *                it (Narayanan et al., 2021); micro-batches must be a multiple of stages
 *   ZERO_BUBBLE  backward passes in two halves, the gradients of weights fill what would be idle
 *                (Qi et al., "Zero Bubble Pipeline Parallelism", 2023), in no more memory than the
 *                first stage of 1F1B takes
 *
 * For every kind and stage: each chunk takes its micro-batches in order 0, 1, 2, ... in each of its
 * passes, so the sums of gradients do not depend on the schedule. */
#ifndef TRIFOLD_PARALLEL_PIPE_SCHEDULE_H
#define TRIFOLD_PARALLEL_PIPE_SCHEDULE_H

#include <stddef.h>

#include "base/status.h"

typedef enum pipe_kind {
    PIPE_GPIPE,
    PIPE_1F1B,
    PIPE_INTERLEAVED,
    PIPE_ZERO_BUBBLE,
} pipe_kind;

/* "gpipe", "1f1b", "interleaved", "zero-bubble". */
const char *pipe_kind_str(pipe_kind kind);

/* What an instruction asks for. Messages begin and are not waited for: a pass waits for what was
 * received for it. Receives come one computation ahead, so that they travel meanwhile. */
typedef enum pipe_op {
    PIPE_FORWARD,
    PIPE_BACKWARD,
    PIPE_BACKWARD_INPUT, /* ZERO_BUBBLE's halves of PIPE_BACKWARD */
    PIPE_BACKWARD_WEIGHTS,
    PIPE_RECV_ACTIVATION,
    PIPE_SEND_ACTIVATION,
    PIPE_RECV_GRADIENT,
    PIPE_SEND_GRADIENT,
} pipe_op;

typedef struct pipe_instruction {
    pipe_op op;
    int micro_batch;
    int chunk;
    int slot; /* set of activations: of a micro-batch from its forward pass to its last backward */
    int peer; /* stage at the other end of a message; -1 */
} pipe_instruction;

typedef struct pipe_shape {
    pipe_kind kind;
    int stages;        /* >= 1 */
    int chunks;        /* parts a stage; 1 but for INTERLEAVED */
    int micro_batches; /* >= 1 */
} pipe_shape;

typedef struct pipe_schedule {
    pipe_shape shape;
    int stage;
    pipe_instruction *items;
    size_t count;
    int slots; /* sets of activations that a chunk needs, the most of all chunks */
} pipe_schedule;

enum {
    /* Buffers that an engine has for each chunk, used in turn by micro-batch: for activations that
     * arrive; for gradients, which arrive, are turned into those of the input, and leave. */
    PIPE_ACTIVATION_BUFFERS = 2,
    PIPE_GRADIENT_BUFFERS = 3,
};

/* STATUS_ERR_CONFIG, with what would do, where the kind cannot serve the shape. */
status pipe_shape_check(const pipe_shape *shape);

/* The list of one stage. Host memory only; no rank is asked. */
status pipe_schedule_create(const pipe_shape *shape, int stage, pipe_schedule *out);
void pipe_schedule_destroy(pipe_schedule *schedule);

/* Whether the part of a chunk on a stage is the model's first, or last. */
static inline int pipe_is_first(int stage, int chunk)
{
    return stage == 0 && chunk == 0;
}

static inline int pipe_is_last(const pipe_shape *shape, int stage, int chunk)
{
    return stage == shape->stages - 1 && chunk == shape->chunks - 1;
}

#endif
