/* The engine of a pipeline: carries out a stage's schedule over the micro-batches of an iteration.
 *
 * It owns the stage's parts of the model and the buffers of what arrives and leaves. What is to be
 * done, and in which order, stands in the schedule (parallel/pipe_schedule.h); one stage and no
 * pipeline is a schedule without messages. */
#ifndef TRIFOLD_TRAIN_PIPELINE_H
#define TRIFOLD_TRAIN_PIPELINE_H

#include "comm/comm.h"
#include "model/model.h"
#include "parallel/pipe_schedule.h"

typedef struct pipeline pipeline;

typedef struct pipeline_options {
    pipe_shape shape;
    int stage;
    const model_options *parts; /* of each chunk */
    const tensor_table *table;  /* of all chunks' tensors; outlives the pipeline */
    comm_group *tensor;
    comm_group *forward;  /* the stages, for activations: a message waits for none of the other */
    comm_group *backward; /* the stages, for their gradients */
} pipeline_options;

status pipeline_create(device *d, const pipeline_options *options, pipeline **out);
void pipeline_destroy(pipeline *p);

/* The micro-batches of an iteration. */
typedef struct pipeline_batches {
    void *context;
    model_batch (*view)(void *context, int micro_batch);
} pipeline_batches;

/* Forward and backward of all micro-batches: their losses, on the last stage, and the sum of their
 * gradients. Collective over the stages and the tensor ranks. */
status pipeline_train(pipeline *p, device_stream *s, const model_storage *storage,
                      const pipeline_batches *batches);

/* Forward of all micro-batches, without dropout: their losses. */
status pipeline_evaluate(pipeline *p, device_stream *s, const model_storage *storage,
                         const pipeline_batches *batches);

#endif
