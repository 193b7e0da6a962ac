#include "parallel/pipe_check.h"

#include <stdbool.h>

#include "base/memory.h"

enum {
    MESSAGES = 2, // activations, gradients
};

// What is known of the pass of one part over one micro-batch.
typedef struct pass_times {
    double forward, input, weights;            // ends; < 0: not yet
    double sent[MESSAGES], expected[MESSAGES]; // when a message began and its receive was posted
} pass_times;

typedef struct player {
    const pipe_schedule *stages;
    const pipe_shape *shape;
    const pipe_costs *costs;
    pass_times *passes; // (part, micro-batch)
    size_t *next;       // instruction of each stage
    double *clock;      // of each stage
    double *busy;
    int *slot_owner; // (stage, chunk, slot): micro-batch or -1
    int *slot_sent;  // (stage, chunk, slot): micro-batch whose output was sent last, or -1
} player;

static const char *const op_names[] = {
    [PIPE_FORWARD] = "forward",
    [PIPE_BACKWARD] = "backward",
    [PIPE_BACKWARD_INPUT] = "backward of the input",
    [PIPE_BACKWARD_WEIGHTS] = "backward of the weights",
    [PIPE_RECV_ACTIVATION] = "receive of an activation",
    [PIPE_SEND_ACTIVATION] = "send of an activation",
    [PIPE_RECV_GRADIENT] = "receive of a gradient",
    [PIPE_SEND_GRADIENT] = "send of a gradient",
};

static status wrong(const player *p, int stage, const char *what)
{
    const size_t at = p->next[stage];
    const pipe_instruction *i = &p->stages[stage].items[at];
    return fail(STATUS_ERR_CONFIG,
                "pipeline schedule: stage %d, instruction %zu: %s of micro-batch %d, chunk %d: %s",
                stage, at, op_names[i->op], i->micro_batch, i->chunk, what);
}

static pass_times *pass_of(const player *p, int stage, int chunk, int micro_batch)
{
    const int part = chunk * p->shape->stages + stage;
    return &p->passes[part * p->shape->micro_batches + micro_batch];
}

static size_t slot_index(const player *p, int stage, const pipe_instruction *i)
{
    const size_t slots = (size_t)p->shape->micro_batches;
    return ((size_t)stage * (size_t)p->shape->chunks + (size_t)i->chunk) * slots + (size_t)i->slot;
}

// The pass on the other side of a message that `i` sends or receives.
static pass_times *partner_of(const player *p, int stage, const pipe_instruction *i)
{
    const int part = i->chunk * p->shape->stages + stage;
    const int step = i->op == PIPE_SEND_ACTIVATION || i->op == PIPE_RECV_GRADIENT ? 1 : -1;
    return &p->passes[(part + step) * p->shape->micro_batches + i->micro_batch];
}

static int message_of(pipe_op op)
{
    return op == PIPE_SEND_GRADIENT || op == PIPE_RECV_GRADIENT;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

// When the message that pass `to` waits for is there, of what `from` sent; < 0: not yet.
static double arrival(const player *p, const pass_times *from, const pass_times *to, int message)
{
    if (from->sent[message] < 0 || to->expected[message] < 0)
        return -1;
    return later(from->sent[message], to->expected[message]) + p->costs->message;
}

// When the last send from a buffer is over, as far as it is known; < 0: not yet.
static double released(const player *p, int stage, const pipe_instruction *send)
{
    return arrival(p, pass_of(p, stage, send->chunk, send->micro_batch), partner_of(p, stage, send),
                   message_of(send->op));
}

// ---- What an instruction waits for: *ready < 0 where it has to go on waiting ----

static status forward_ready(player *p, int stage, const pipe_instruction *i, double *ready)
{
    pass_times *me = pass_of(p, stage, i->chunk, i->micro_batch);
    const size_t slot = slot_index(p, stage, i);
    if (me->forward >= 0)
        return wrong(p, stage, "it was done before");
    if (i->micro_batch > 0 && pass_of(p, stage, i->chunk, i->micro_batch - 1)->forward < 0)
        return wrong(p, stage, "it comes before that of an earlier micro-batch");
    if (i->slot < 0 || i->slot >= p->stages[stage].slots || p->slot_owner[slot] >= 0)
        return wrong(p, stage, "its set of activations is in use or does not exist");
    *ready = 0;
    if (!pipe_is_first(stage, i->chunk)) {
        const pipe_instruction receive = {PIPE_RECV_ACTIVATION, i->micro_batch, i->chunk, 0, 0};
        if (me->expected[0] < 0)
            return wrong(p, stage, "nothing was received for it");
        *ready = arrival(p, partner_of(p, stage, &receive), me, 0);
    }
    if (*ready >= 0 && p->slot_sent[slot] >= 0) {
        const pipe_instruction send = {PIPE_SEND_ACTIVATION, p->slot_sent[slot], i->chunk, 0, 0};
        const double over = released(p, stage, &send);
        *ready = over < 0 ? -1 : later(*ready, over);
    }
    return STATUS_OK;
}

static status backward_ready(player *p, int stage, const pipe_instruction *i, double *ready)
{
    pass_times *me = pass_of(p, stage, i->chunk, i->micro_batch);
    if (me->input >= 0)
        return wrong(p, stage, "it was done before");
    if (me->forward < 0)
        return wrong(p, stage, "it comes before the forward pass");
    if (i->micro_batch > 0 && pass_of(p, stage, i->chunk, i->micro_batch - 1)->input < 0)
        return wrong(p, stage, "it comes before that of an earlier micro-batch");
    if (p->slot_owner[slot_index(p, stage, i)] != i->micro_batch)
        return wrong(p, stage, "its set of activations is another micro-batch's");
    *ready = 0;
    if (!pipe_is_last(p->shape, stage, i->chunk)) {
        const pipe_instruction receive = {PIPE_RECV_GRADIENT, i->micro_batch, i->chunk, 0, 0};
        if (me->expected[1] < 0)
            return wrong(p, stage, "nothing was received for it");
        *ready = arrival(p, partner_of(p, stage, &receive), me, 1);
    }
    const int before = i->micro_batch - PIPE_GRADIENT_BUFFERS;
    if (*ready >= 0 && before >= 0 && !pipe_is_first(stage, i->chunk)) {
        const pipe_instruction send = {PIPE_SEND_GRADIENT, before, i->chunk, 0, 0};
        const double over = released(p, stage, &send);
        *ready = over < 0 ? -1 : later(*ready, over);
    }
    return STATUS_OK;
}

static status weights_ready(player *p, int stage, const pipe_instruction *i, double *ready)
{
    const pass_times *me = pass_of(p, stage, i->chunk, i->micro_batch);
    if (me->weights >= 0)
        return wrong(p, stage, "it was done before");
    if (me->input < 0)
        return wrong(p, stage, "it comes before the backward pass of the input");
    if (i->micro_batch > 0 && pass_of(p, stage, i->chunk, i->micro_batch - 1)->weights < 0)
        return wrong(p, stage, "it comes before that of an earlier micro-batch");
    *ready = 0;
    return STATUS_OK;
}

static status receive_ready(player *p, int stage, const pipe_instruction *i, double *ready)
{
    const int message = message_of(i->op);
    const int buffers = message ? PIPE_GRADIENT_BUFFERS : PIPE_ACTIVATION_BUFFERS;
    if (pass_of(p, stage, i->chunk, i->micro_batch)->expected[message] >= 0)
        return wrong(p, stage, "it was begun before");
    *ready = 0;
    if (i->micro_batch < buffers)
        return STATUS_OK;
    const pass_times *before = pass_of(p, stage, i->chunk, i->micro_batch - buffers);
    if ((message ? before->input : before->forward) < 0)
        return wrong(p, stage, "its buffer is in use");
    if (message && !pipe_is_first(stage, i->chunk)) {
        const pipe_instruction send = {PIPE_SEND_GRADIENT, i->micro_batch - buffers, i->chunk, 0,
                                       0};
        *ready = released(p, stage, &send);
    }
    return STATUS_OK;
}

static status send_ready(player *p, int stage, const pipe_instruction *i, double *ready)
{
    const pass_times *me = pass_of(p, stage, i->chunk, i->micro_batch);
    const int message = message_of(i->op);
    if ((message ? me->input : me->forward) < 0)
        return wrong(p, stage, "it comes before the pass that makes its data");
    if (me->sent[message] >= 0)
        return wrong(p, stage, "it was begun before");
    *ready = 0;
    return STATUS_OK;
}

static status check_ready(player *p, int stage, const pipe_instruction *i, double *ready)
{
    switch (i->op) {
    case PIPE_FORWARD:
        return forward_ready(p, stage, i, ready);
    case PIPE_BACKWARD:
    case PIPE_BACKWARD_INPUT:
        return backward_ready(p, stage, i, ready);
    case PIPE_BACKWARD_WEIGHTS:
        return weights_ready(p, stage, i, ready);
    case PIPE_RECV_ACTIVATION:
    case PIPE_RECV_GRADIENT:
        return receive_ready(p, stage, i, ready);
    case PIPE_SEND_ACTIVATION:
    case PIPE_SEND_GRADIENT:
        return send_ready(p, stage, i, ready);
    }
    return STATUS_OK;
}

// ---- Doing it ----

static double cost_of(const pipe_costs *c, pipe_op op)
{
    const double costs[] = {[PIPE_FORWARD] = c->forward,
                            [PIPE_BACKWARD] = c->backward_input + c->backward_weights,
                            [PIPE_BACKWARD_INPUT] = c->backward_input,
                            [PIPE_BACKWARD_WEIGHTS] = c->backward_weights};
    return op <= PIPE_BACKWARD_WEIGHTS ? costs[op] : 0;
}

static void play(player *p, int stage, const pipe_instruction *i, double ready)
{
    pass_times *me = pass_of(p, stage, i->chunk, i->micro_batch);
    const size_t slot = slot_index(p, stage, i);
    const double end = later(p->clock[stage], ready) + cost_of(p->costs, i->op);
    p->clock[stage] = end;
    p->busy[stage] += cost_of(p->costs, i->op);
    switch (i->op) {
    case PIPE_FORWARD:
        me->forward = end;
        p->slot_owner[slot] = i->micro_batch;
        break;
    case PIPE_BACKWARD:
        me->input = me->weights = end;
        p->slot_owner[slot] = -1;
        break;
    case PIPE_BACKWARD_INPUT:
        me->input = end;
        break;
    case PIPE_BACKWARD_WEIGHTS:
        me->weights = end;
        p->slot_owner[slot] = -1;
        break;
    case PIPE_SEND_ACTIVATION:
        p->slot_sent[slot] = i->micro_batch;
        me->sent[0] = end;
        break;
    case PIPE_SEND_GRADIENT:
        me->sent[1] = end;
        break;
    case PIPE_RECV_ACTIVATION:
        me->expected[0] = end;
        break;
    case PIPE_RECV_GRADIENT:
        me->expected[1] = end;
        break;
    }
}

static status check_range(player *p, int stage, const pipe_instruction *i)
{
    const pipe_shape *s = p->shape;
    if (i->chunk < 0 || i->chunk >= s->chunks || i->micro_batch < 0 ||
        i->micro_batch >= s->micro_batches || i->slot < 0 || i->slot >= s->micro_batches)
        return wrong(p, stage, "there is no such pass");
    const bool message = i->op >= PIPE_RECV_ACTIVATION;
    const bool before = i->op == PIPE_RECV_ACTIVATION || i->op == PIPE_SEND_GRADIENT;
    if (message && (before ? pipe_is_first(stage, i->chunk) : pipe_is_last(s, stage, i->chunk)))
        return wrong(p, stage, "there is no stage at its other end");
    return STATUS_OK;
}

// Play a stage as far as it goes.
static status play_stage(player *p, int stage, bool *moved)
{
    while (p->next[stage] < p->stages[stage].count) {
        const pipe_instruction *i = &p->stages[stage].items[p->next[stage]];
        double ready = 0;
        TRY(check_range(p, stage, i));
        TRY(check_ready(p, stage, i, &ready));
        if (ready < 0)
            return STATUS_OK;
        play(p, stage, i, ready);
        p->next[stage]++;
        *moved = true;
    }
    return STATUS_OK;
}

static status play_all(player *p)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (int stage = 0; stage < p->shape->stages; stage++)
            TRY(play_stage(p, stage, &moved));
    }
    for (int stage = 0; stage < p->shape->stages; stage++)
        if (p->next[stage] < p->stages[stage].count)
            return wrong(p, stage, "it waits for ever");
    return STATUS_OK;
}

static status check_complete(const player *p)
{
    const int m = p->shape->micro_batches;
    const int parts = p->shape->stages * p->shape->chunks;
    for (int i = 0; i < parts * m; i++)
        if (p->passes[i].forward < 0 || p->passes[i].weights < 0)
            return fail(STATUS_ERR_CONFIG,
                        "pipeline schedule: part %d of the model never finishes micro-batch %d",
                        i / m, i % m);
    return STATUS_OK;
}

// The next message of `op` from `at` on that has `peer` at its other end; the list's end otherwise.
static size_t next_message(const pipe_schedule *s, pipe_op op, int peer, size_t at)
{
    while (at < s->count && (s->items[at].op != op || s->items[at].peer != peer))
        at++;
    return at;
}

// The messages of one channel, in the order of both ends.
static status check_channel(const player *p, int from, int to, pipe_op send, pipe_op receive)
{
    const pipe_schedule *a = &p->stages[from], *b = &p->stages[to];
    const int step = send == PIPE_SEND_ACTIVATION ? 1 : -1;
    size_t i = next_message(a, send, to, 0), j = next_message(b, receive, from, 0);
    while (i < a->count && j < b->count) {
        const pipe_instruction *out = &a->items[i], *in = &b->items[j];
        const int part = out->chunk * p->shape->stages + from + step;
        if (out->micro_batch != in->micro_batch || part != in->chunk * p->shape->stages + to)
            return fail(STATUS_ERR_CONFIG,
                        "pipeline schedule: stage %d, instruction %zu sends micro-batch %d of "
                        "chunk %d where stage %d, instruction %zu receives micro-batch %d for "
                        "chunk %d",
                        from, i, out->micro_batch, out->chunk, to, j, in->micro_batch, in->chunk);
        i = next_message(a, send, to, i + 1);
        j = next_message(b, receive, from, j + 1);
    }
    if (i < a->count || j < b->count)
        return fail(STATUS_ERR_CONFIG,
                    "pipeline schedule: a %s between stages %d and %d has no counterpart",
                    i < a->count ? "send" : "receive", from, to);
    return STATUS_OK;
}

static status check_channels(const player *p)
{
    for (int from = 0; from < p->shape->stages; from++)
        for (int to = 0; to < p->shape->stages; to++) {
            TRY(check_channel(p, from, to, PIPE_SEND_ACTIVATION, PIPE_RECV_ACTIVATION));
            TRY(check_channel(p, from, to, PIPE_SEND_GRADIENT, PIPE_RECV_GRADIENT));
        }
    return STATUS_OK;
}

static void forget(player *p)
{
    const size_t stages = (size_t)p->shape->stages, chunks = (size_t)p->shape->chunks;
    const size_t passes = stages * chunks * (size_t)p->shape->micro_batches;
    for (size_t i = 0; i < passes; i++) {
        p->passes[i] = (pass_times){-1, -1, -1, {-1, -1}, {-1, -1}};
        p->slot_owner[i] = p->slot_sent[i] = -1;
    }
}

static status player_init(player *p, const pipe_schedule *stages, const pipe_costs *costs)
{
    const size_t n = (size_t)stages->shape.stages;
    const size_t passes = n * (size_t)stages->shape.chunks * (size_t)stages->shape.micro_batches;
    void *memory;
    *p = (player){.stages = stages, .shape = &stages->shape, .costs = costs};
    TRY(memory_alloc(passes, sizeof(pass_times), "pipeline check", &memory));
    p->passes = memory;
    TRY(memory_alloc(n, sizeof(size_t), "pipeline check", &memory));
    p->next = memory;
    TRY(memory_alloc(n, sizeof(double), "pipeline check", &memory));
    p->clock = memory;
    TRY(memory_alloc(n, sizeof(double), "pipeline check", &memory));
    p->busy = memory;
    TRY(memory_alloc(passes, sizeof(int), "pipeline check", &memory));
    p->slot_owner = memory;
    TRY(memory_alloc(passes, sizeof(int), "pipeline check", &memory));
    p->slot_sent = memory;
    forget(p);
    return STATUS_OK;
}

static void player_fini(player *p)
{
    void *owned[] = {p->passes, p->next, p->clock, p->busy, p->slot_owner, p->slot_sent};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        memory_free(owned[i]);
}

static void measure(const player *p, pipe_report *report)
{
    double busy = 0;
    *report = (pipe_report){0};
    for (int stage = 0; stage < p->shape->stages; stage++) {
        report->makespan = later(report->makespan, p->clock[stage]);
        busy += p->busy[stage];
    }
    if (report->makespan > 0)
        report->bubble = 1 - busy / (report->makespan * p->shape->stages);
}

status pipe_check(const pipe_schedule *stages, const pipe_costs *costs, pipe_report *report)
{
    player p;
    status result = player_init(&p, stages, costs);
    if (result == STATUS_OK)
        result = check_channels(&p);
    if (result == STATUS_OK)
        result = play_all(&p);
    if (result == STATUS_OK)
        result = check_complete(&p);
    if (result == STATUS_OK)
        measure(&p, report);
    player_fini(&p);
    return result;
}
