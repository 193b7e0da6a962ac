#include "parallel/pipe_schedule.h"

#include "base/memory.h"
#include "parallel/pipe_order.h"

const char *pipe_kind_str(pipe_kind kind)
{
    static const char *const names[] = {[PIPE_GPIPE] = "gpipe",
                                        [PIPE_1F1B] = "1f1b",
                                        [PIPE_INTERLEAVED] = "interleaved",
                                        [PIPE_ZERO_BUBBLE] = "zero-bubble"};
    return names[kind];
}

status pipe_shape_check(const pipe_shape *s)
{
    if (s->stages < 1 || s->chunks < 1 || s->micro_batches < 1)
        return fail(STATUS_ERR_CONFIG,
                    "a pipeline of %d stages, %d chunks and %d micro-batches; each must be > 0",
                    s->stages, s->chunks, s->micro_batches);
    if (s->kind != PIPE_INTERLEAVED && s->chunks != 1)
        return fail(STATUS_ERR_CONFIG,
                    "pipe-schedule %s has one part on a stage, virtual-pipe-stages is %d; "
                    "interleaved takes several",
                    pipe_kind_str(s->kind), s->chunks);
    if (s->kind == PIPE_INTERLEAVED && s->chunks < 2)
        return fail(STATUS_ERR_CONFIG, "pipe-schedule interleaved needs virtual-pipe-stages of 2 "
                                       "or more; with 1 it is 1f1b");
    if (s->kind == PIPE_INTERLEAVED && s->stages < 2)
        return fail(STATUS_ERR_CONFIG,
                    "pipe-schedule interleaved needs pipe-parallel-size of 2 or more, not %d",
                    s->stages);
    if (s->kind == PIPE_INTERLEAVED && s->micro_batches % s->stages != 0)
        return fail(STATUS_ERR_CONFIG,
                    "pipe-schedule interleaved needs micro-batches that are a multiple of the %d "
                    "stages, not %d; gradient-accumulation-steps of %d would do",
                    s->stages, s->micro_batches, (s->micro_batches / s->stages + 1) * s->stages);
    return STATUS_OK;
}

// ---- Messages around the computations ----

static int is_backward(pipe_op op)
{
    return op == PIPE_BACKWARD || op == PIPE_BACKWARD_INPUT;
}

// What a computation waits for: -1 where for nothing.
static int received_for(const pipe_shape *s, int stage, const pipe_instruction *i)
{
    if (i->op == PIPE_FORWARD && !pipe_is_first(stage, i->chunk))
        return PIPE_RECV_ACTIVATION;
    if (is_backward(i->op) && !pipe_is_last(s, stage, i->chunk))
        return PIPE_RECV_GRADIENT;
    return -1;
}

static int sent_after(const pipe_shape *s, int stage, const pipe_instruction *i)
{
    if (i->op == PIPE_FORWARD && !pipe_is_last(s, stage, i->chunk))
        return PIPE_SEND_ACTIVATION;
    if (is_backward(i->op) && !pipe_is_first(stage, i->chunk))
        return PIPE_SEND_GRADIENT;
    return -1;
}

// Activations come from the stage before and go to the next one, around the end; gradients the
// other way.
static int peer_of(const pipe_shape *s, int stage, pipe_op message)
{
    const int next = (stage + 1) % s->stages, previous = (stage + s->stages - 1) % s->stages;
    return message == PIPE_SEND_ACTIVATION || message == PIPE_RECV_GRADIENT ? next : previous;
}

static void append(pipe_schedule *p, pipe_instruction i)
{
    p->items[p->count++] = i;
}

static void append_message(pipe_schedule *p, int op, const pipe_instruction *computation)
{
    pipe_instruction i = *computation;
    if (op < 0)
        return;
    i.op = (pipe_op)op;
    i.peer = peer_of(&p->shape, p->stage, i.op);
    append(p, i);
}

// The computations of `order`, each with its messages; what the next one waits for begins to be
// received before it.
static void add_messages(pipe_schedule *p, const pipe_order *order)
{
    const pipe_shape *s = &p->shape;
    for (size_t i = 0; i < order->count; i++) {
        const pipe_instruction *now = &order->items[i];
        if (i == 0)
            append_message(p, received_for(s, p->stage, now), now);
        if (i + 1 < order->count)
            append_message(p, received_for(s, p->stage, now + 1), now + 1);
        append(p, *now);
        append_message(p, sent_after(s, p->stage, now), now);
    }
}

// ---- Slots ----

// Each micro-batch gets the lowest free set of its chunk at its forward pass and gives it back at
// its last backward pass. Returns the number needed.
static int deal_slots(const pipe_shape *s, pipe_order *order, int *slot_of, int *owner)
{
    const int m = s->micro_batches;
    int most = 0;
    for (int i = 0; i < s->chunks * m; i++)
        owner[i] = -1;
    for (size_t i = 0; i < order->count; i++) {
        pipe_instruction *now = &order->items[i];
        int *of_chunk = owner + now->chunk * m;
        int *slot = &slot_of[now->chunk * m + now->micro_batch];
        if (now->op == PIPE_FORWARD) {
            *slot = 0;
            while (of_chunk[*slot] >= 0)
                ++*slot;
            of_chunk[*slot] = now->micro_batch;
            most = *slot + 1 > most ? *slot + 1 : most;
        }
        now->slot = *slot;
        if (now->op == PIPE_BACKWARD || now->op == PIPE_BACKWARD_WEIGHTS)
            of_chunk[*slot] = -1;
    }
    return most;
}

static status plan(pipe_schedule *p, pipe_order *order)
{
    const size_t passes = (size_t)p->shape.chunks * (size_t)p->shape.micro_batches;
    void *memory;
    TRY(memory_alloc(2 * passes, sizeof(int), "pipeline schedule", &memory));
    int *slots = memory;
    p->slots = deal_slots(&p->shape, order, slots, slots + passes);
    memory_free(slots);
    TRY(memory_alloc(3 * order->count, sizeof(pipe_instruction), "pipeline schedule", &memory));
    p->items = memory;
    add_messages(p, order);
    return STATUS_OK;
}

status pipe_schedule_create(const pipe_shape *shape, int stage, pipe_schedule *out)
{
    pipe_order order;
    TRY(pipe_shape_check(shape));
    *out = (pipe_schedule){.shape = *shape, .stage = stage};
    TRY(pipe_order_create(shape, stage, &order));
    const status result = plan(out, &order);
    pipe_order_destroy(&order);
    return result;
}

void pipe_schedule_destroy(pipe_schedule *schedule)
{
    memory_free(schedule->items);
    *schedule = (pipe_schedule){0};
}
