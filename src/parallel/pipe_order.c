#include "parallel/pipe_order.h"

#include "base/memory.h"

static void add(pipe_order *o, pipe_op op, int micro_batch, int chunk)
{
    o->items[o->count++] =
        (pipe_instruction){.op = op, .micro_batch = micro_batch, .chunk = chunk, .peer = -1};
}

static void order_gpipe(const pipe_shape *s, pipe_order *o)
{
    for (int i = 0; i < s->micro_batches; i++)
        add(o, PIPE_FORWARD, i, 0);
    for (int i = 0; i < s->micro_batches; i++)
        add(o, PIPE_BACKWARD, i, 0);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static void order_1f1b(const pipe_shape *s, int stage, pipe_order *o)
{
    const int ahead = least(s->stages - stage - 1, s->micro_batches);
    for (int i = 0; i < s->micro_batches + ahead; i++) {
        if (i < s->micro_batches)
            add(o, PIPE_FORWARD, i, 0);
        if (i >= ahead)
            add(o, PIPE_BACKWARD, i - ahead, 0);
    }
}

// The k-th pass of a stage: micro-batches in groups of as many as there are stages, each group
// through all chunks before the next, the backward passes from the last chunk.
static void add_interleaved(const pipe_shape *s, pipe_order *o, pipe_op op, int k)
{
    const int round = s->stages * s->chunks;
    const int chunk = k % round / s->stages;
    add(o, op, k / round * s->stages + k % s->stages,
        op == PIPE_FORWARD ? chunk : s->chunks - 1 - chunk);
}

static void order_interleaved(const pipe_shape *s, int stage, pipe_order *o)
{
    const int passes = s->micro_batches * s->chunks;
    const int ahead = least((s->stages - stage - 1) * 2 + (s->chunks - 1) * s->stages, passes);
    for (int i = 0; i < passes + ahead; i++) {
        if (i < passes)
            add_interleaved(s, o, PIPE_FORWARD, i);
        if (i >= ahead)
            add_interleaved(s, o, PIPE_BACKWARD, i - ahead);
    }
}

// ---- Zero bubble ----
//
// All stages are played through step by step, where a forward pass, and each half of a backward
// pass, takes one step. A stage computes forward where it can, unless it is as far ahead as 1F1B
// would be or has no memory left; else it passes a gradient back where it can; else it makes up for
// weights. Of several orders of the three tried on up to 8 stages only this one leaves no more idle
// than p - 1 steps.

typedef struct played_stage {
    int forward, input, weights; // passes done
} played_stage;

typedef struct played_pipe {
    const pipe_shape *shape;
    played_stage *now, *before; // a stage each: after and before the current step
} played_pipe;

static pipe_op choose(const played_pipe *p, int stage, int *idle)
{
    const pipe_shape *s = p->shape;
    const played_stage *me = &p->before[stage];
    const int limit = least(s->stages, s->micro_batches);
    const int last = stage == s->stages - 1;
    const int arrived = stage == 0 ? s->micro_batches : p->before[stage - 1].forward;
    const int returned = last ? me->forward : p->before[stage + 1].input;
    *idle = 0;
    if (me->forward < arrived && me->forward < s->micro_batches &&
        me->forward - me->input < s->stages - stage && me->forward - me->weights < limit)
        return PIPE_FORWARD;
    if (me->input < returned)
        return PIPE_BACKWARD_INPUT;
    *idle = me->weights == me->input;
    return PIPE_BACKWARD_WEIGHTS;
}

static void play_step(played_pipe *p, int stage, pipe_order *o)
{
    for (int i = 0; i < p->shape->stages; i++) {
        int idle;
        played_stage *me = &p->now[i];
        const pipe_op op = choose(p, i, &idle);
        if (idle)
            continue;
        int *done = op == PIPE_FORWARD          ? &me->forward
                    : op == PIPE_BACKWARD_INPUT ? &me->input
                                                : &me->weights;
        if (i == stage)
            add(o, op, *done, 0);
        ++*done;
    }
    for (int i = 0; i < p->shape->stages; i++)
        p->before[i] = p->now[i];
}

static status order_zero_bubble(const pipe_shape *s, int stage, pipe_order *o)
{
    void *memory;
    TRY(memory_alloc((size_t)s->stages * 2, sizeof(played_stage), "pipeline schedule", &memory));
    played_pipe p = {.shape = s, .now = memory, .before = (played_stage *)memory + s->stages};
    while (p.now[stage].weights < s->micro_batches)
        play_step(&p, stage, o);
    memory_free(memory);
    return STATUS_OK;
}

status pipe_order_create(const pipe_shape *shape, int stage, pipe_order *out)
{
    const size_t passes = (size_t)shape->micro_batches * (size_t)shape->chunks;
    void *memory;
    TRY(memory_alloc(3 * passes, sizeof(pipe_instruction), "pipeline schedule", &memory));
    *out = (pipe_order){.items = memory};
    switch (shape->kind) {
    case PIPE_GPIPE:
        order_gpipe(shape, out);
        break;
    case PIPE_1F1B:
        order_1f1b(shape, stage, out);
        break;
    case PIPE_INTERLEAVED:
        order_interleaved(shape, stage, out);
        break;
    case PIPE_ZERO_BUBBLE:
        return order_zero_bubble(shape, stage, out);
    }
    return STATUS_OK;
}

void pipe_order_destroy(pipe_order *order)
{
    memory_free(order->items);
    *order = (pipe_order){0};
}
