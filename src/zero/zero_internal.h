/* Inside ZeRO: where everything lies, and what is on its way. */
#ifndef TRIFOLD_ZERO_ZERO_INTERNAL_H
#define TRIFOLD_ZERO_ZERO_INTERNAL_H

#include "zero/zero.h"
#include "zero/zero_plan.h"

enum {
    /* messages of a kind that may be on their way; comm refuses more than 1024 over all groups */
    ZERO_WINDOW = 64,
};

typedef struct bucket_state {
    comm_request gradient, params;
    size_t ready; /* tensors of it */
    bool begun;   /* the message of its gradient, in this micro-batch or step */
    bool summed;  /* stages 2, 3: the shard holds the sum of some micro-batch of this step */
} bucket_state;

typedef enum block_params {
    PARAMS_ABSENT,
    PARAMS_COMING,
    PARAMS_HERE,
} block_params;

typedef enum block_gradients {
    GRADIENTS_IDLE,
    GRADIENTS_OPEN, /* being written */
    GRADIENTS_SENT, /* all messages begun; not yet in the shard */
} block_gradients;

typedef struct block_state {
    size_t users; /* of its parameters */
    block_params params;
    block_gradients gradients;
} block_state;

/* A use of a unit: unit * 2 + backward. */
typedef size_t unit_use;

struct zero {
    device *device;
    const tensor_table *table;
    zero_options options;
    zero_plan plan;
    size_t size; /* bytes of an element of the model's type */
    zero_memory used;
    unsigned char *params; /* whole by the table; stage 3: the space of blocks */
    float *gradients;      /* whole by the table; stages 2, 3: the space of blocks */
    float *gradient_shard; /* stages 2, 3 */
    float *master;         /* shard; NULL where the parameters serve */
    float *exp_avg;        /* shard, as is: */
    float *exp_avg_sq;
    void **param_places; /* a tensor each */
    void **gradient_places;
    bucket_state *buckets;
    block_state *blocks;
    bool *ready;         /* a tensor each */
    size_t unsent;       /* stages 0, 1: buckets before this one have not been begun */
    size_t gathers;      /* stages 1, 2: gathers before this one have been begun ... */
    size_t gathered;     /* ... and waited for */
    size_t *counts;      /* a rank each: of a tensor that is read */
    unit_use *followers; /* a use each: what followed it last */
    unit_use last_use;
};

static inline bool shares_params(const zero *z)
{
    return z->options.stage == 3;
}

static inline bool shares_gradients(const zero *z)
{
    return z->options.stage >= 2;
}

/* Where a bucket's parameters and gradients begin. */
static inline unsigned char *bucket_params(const zero *z, const zero_bucket *b)
{
    return z->params + (shares_params(z) ? b->space : b->begin) * z->size;
}

static inline float *bucket_gradients(const zero *z, const zero_bucket *b)
{
    return z->gradients + (shares_gradients(z) ? b->space : b->begin);
}

/* Where this rank's part of a bucket lies: in the model's type, as masters, and as gradients once
 * they are summed. */
static inline unsigned char *own_params(const zero *z, const zero_bucket *b)
{
    return bucket_params(z, b) + (b->own_begin - b->begin) * z->size;
}

static inline float *own_master(const zero *z, const zero_bucket *b)
{
    return z->master ? z->master + b->shard : (float *)(void *)own_params(z, b);
}

static inline float *own_gradients(const zero *z, const zero_bucket *b)
{
    return shares_gradients(z) ? z->gradient_shard + b->shard : z->gradients + b->own_begin;
}

/* ---- zero_params.c ---- */

/* Make this rank's part of a bucket's parameters from its masters, where they are apart. */
status zero_params_from_master(zero *z, device_stream *s, size_t bucket);

/* Stages 1, 2: begin to gather the next bucket; the stream is done with it. */
status zero_params_gather(zero *z);

/* Stage 3: give up all copies of parameters, which have changed. Nothing may be acquired. */
status zero_params_drop(zero *z);

/* Stage 3: begin to fetch what is expected next. */
status zero_params_expect(zero *z, device_stream *s);

/* ---- zero_gradients.c ---- */

/* Stages 2, 3: make room for the gradients of a unit. */
status zero_gradients_open(zero *z, device_stream *s, size_t unit);

#endif
