#include "train/pipeline.h"

#include "base/memory.h"

// A part of the model with what arrives for it and leaves it. Buffers are used in turn, by
// micro-batch; what was sent from one is waited for before it is used again.
typedef struct chunk {
    model *model;
    void *activations[PIPE_ACTIVATION_BUFFERS];
    void *gradients[PIPE_GRADIENT_BUFFERS];
    comm_request activation_in[PIPE_ACTIVATION_BUFFERS];
    comm_request gradient_in[PIPE_GRADIENT_BUFFERS];
    comm_request gradient_out[PIPE_GRADIENT_BUFFERS];
    comm_request *activation_out; // a set each
} chunk;

struct pipeline {
    device *device;
    pipeline_options options;
    pipe_schedule schedule;
    size_t sets;
    dtype type;
    chunk *chunks;
};

// ---- Creation ----

static status allocate_buffers(pipeline *p, chunk *c, size_t elements, bool training)
{
    const size_t bytes = elements * dtype_size(p->type);
    for (int i = 0; i < PIPE_ACTIVATION_BUFFERS; i++)
        TRY(device_malloc(p->device, bytes, "activations that arrive", &c->activations[i]));
    for (int i = 0; i < PIPE_GRADIENT_BUFFERS && training; i++)
        TRY(device_malloc(p->device, bytes, "gradients that arrive", &c->gradients[i]));
    return STATUS_OK;
}

static status create_chunk(pipeline *p, const model_options *part, chunk *c)
{
    const pipeline_options *o = &p->options;
    void *memory;
    TRY(memory_alloc(p->sets, sizeof(comm_request), "pipeline", &memory));
    c->activation_out = memory;
    TRY(model_create(p->device, part, o->table, o->tensor, &c->model));
    if (o->shape.stages == 1)
        return STATUS_OK;
    return allocate_buffers(p, c, model_stream_elements(c->model), part->training);
}

static status create_chunks(pipeline *p)
{
    const size_t chunks = (size_t)p->options.shape.chunks;
    void *memory;
    TRY(pipe_schedule_create(&p->options.shape, p->options.stage, &p->schedule));
    TRY(memory_alloc(chunks, sizeof(chunk), "pipeline", &memory));
    p->chunks = memory;
    for (size_t i = 0; i < chunks; i++)
        TRY(create_chunk(p, &p->options.parts[i], &p->chunks[i]));
    return STATUS_OK;
}

status pipeline_create(device *d, const pipeline_options *options, pipeline **out)
{
    void *memory;
    TRY(memory_alloc(1, sizeof(pipeline), "pipeline", &memory));
    pipeline *p = memory;
    p->device = d;
    p->options = *options;
    p->sets = options->parts[0].sets;
    p->type = options->parts[0].type;
    const status result = create_chunks(p);
    if (result == STATUS_OK)
        *out = p;
    else
        pipeline_destroy(p);
    return result;
}

static void destroy_chunk(const pipeline *p, chunk *c)
{
    for (int i = 0; i < PIPE_ACTIVATION_BUFFERS; i++)
        device_free(p->device, c->activations[i]);
    for (int i = 0; i < PIPE_GRADIENT_BUFFERS; i++)
        device_free(p->device, c->gradients[i]);
    model_destroy(c->model);
    memory_free(c->activation_out);
}

void pipeline_destroy(pipeline *p)
{
    if (!p)
        return;
    for (int i = 0; p->chunks && i < p->options.shape.chunks; i++)
        destroy_chunk(p, &p->chunks[i]);
    memory_free(p->chunks);
    pipe_schedule_destroy(&p->schedule);
    memory_free(p);
}

// ---- One instruction ----

typedef struct pipeline_pass {
    pipeline *p;
    device_stream *stream;
    const model_storage *storage;
    const pipeline_batches *batches;
} pipeline_pass;

static size_t elements_of(const chunk *c)
{
    return model_stream_elements(c->model);
}

static status recv_activation(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    const int at = i->micro_batch % PIPE_ACTIVATION_BUFFERS;
    return comm_recv_begin(x->p->options.forward, COMM_ACTIVATIONS, c->activations[at],
                           elements_of(c), x->p->type, i->peer, &c->activation_in[at]);
}

static status send_activation(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    TRY(device_stream_synchronize(x->stream));
    return comm_send_begin(x->p->options.forward, COMM_ACTIVATIONS,
                           model_output(c->model, (size_t)i->slot), elements_of(c), x->p->type,
                           i->peer, &c->activation_out[i->slot]);
}

static status recv_gradient(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    const int at = i->micro_batch % PIPE_GRADIENT_BUFFERS;
    TRY(comm_wait(&c->gradient_out[at]));
    return comm_recv_begin(x->p->options.backward, COMM_ACTIVATION_GRADIENTS, c->gradients[at],
                           elements_of(c), x->p->type, i->peer, &c->gradient_in[at]);
}

static status send_gradient(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    const int at = i->micro_batch % PIPE_GRADIENT_BUFFERS;
    TRY(device_stream_synchronize(x->stream));
    return comm_send_begin(x->p->options.backward, COMM_ACTIVATION_GRADIENTS, c->gradients[at],
                           elements_of(c), x->p->type, i->peer, &c->gradient_out[at]);
}

// What arrived goes into the set, where the backward pass finds it again: the buffer is soon wanted
// for the next micro-batch. The set's last output is gone by now or is waited for.
static status take_activation(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    const int at = i->micro_batch % PIPE_ACTIVATION_BUFFERS;
    TRY(comm_wait(&c->activation_out[i->slot]));
    if (pipe_is_first(x->p->options.stage, i->chunk))
        return STATUS_OK;
    TRY(comm_wait(&c->activation_in[at]));
    return device_copy(x->stream, model_input(c->model, (size_t)i->slot), c->activations[at],
                       elements_of(c) * dtype_size(x->p->type));
}

static status forward(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    const model_batch batch = x->batches->view(x->batches->context, i->micro_batch);
    TRY(take_activation(x, c, i));
    return model_forward(c->model, x->stream, x->storage, &batch, (size_t)i->slot);
}

static model_gradients gradients_of(const pipeline_pass *x, const pipe_instruction *i)
{
    return (model_gradients){.accumulate = i->micro_batch > 0,
                             .announce = i->micro_batch + 1 == x->p->options.shape.micro_batches};
}

static status backward(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    const int at = i->micro_batch % PIPE_GRADIENT_BUFFERS;
    const model_batch batch = x->batches->view(x->batches->context, i->micro_batch);
    const model_gradients gradients = gradients_of(x, i);
    TRY(comm_wait(&c->gradient_out[at]));
    TRY(comm_wait(&c->gradient_in[at]));
    if (i->op == PIPE_BACKWARD_INPUT)
        return model_backward_input(c->model, x->stream, x->storage, &batch, (size_t)i->slot,
                                    c->gradients[at], &gradients);
    return model_backward(c->model, x->stream, x->storage, &batch, (size_t)i->slot,
                          c->gradients[at], &gradients);
}

static status backward_weights(const pipeline_pass *x, chunk *c, const pipe_instruction *i)
{
    const model_gradients gradients = gradients_of(x, i);
    return model_backward_weights(c->model, x->stream, x->storage, (size_t)i->slot, &gradients);
}

static status carry_out(const pipeline_pass *x, const pipe_instruction *i)
{
    chunk *c = &x->p->chunks[i->chunk];
    switch (i->op) {
    case PIPE_FORWARD:
        return forward(x, c, i);
    case PIPE_BACKWARD:
    case PIPE_BACKWARD_INPUT:
        return backward(x, c, i);
    case PIPE_BACKWARD_WEIGHTS:
        return backward_weights(x, c, i);
    case PIPE_RECV_ACTIVATION:
        return recv_activation(x, c, i);
    case PIPE_SEND_ACTIVATION:
        return send_activation(x, c, i);
    case PIPE_RECV_GRADIENT:
        return recv_gradient(x, c, i);
    case PIPE_SEND_GRADIENT:
        return send_gradient(x, c, i);
    }
    return STATUS_OK;
}

// ---- Passes ----

// Whatever is still on its way out. What comes in was waited for by its pass.
static status finish_sends(pipeline *p)
{
    for (int k = 0; k < p->options.shape.chunks; k++) {
        chunk *c = &p->chunks[k];
        for (size_t set = 0; set < p->sets; set++)
            TRY(comm_wait(&c->activation_out[set]));
        for (int i = 0; i < PIPE_GRADIENT_BUFFERS; i++)
            TRY(comm_wait(&c->gradient_out[i]));
    }
    return STATUS_OK;
}

status pipeline_train(pipeline *p, device_stream *s, const model_storage *storage,
                      const pipeline_batches *batches)
{
    const pipeline_pass x = {.p = p, .stream = s, .storage = storage, .batches = batches};
    for (size_t i = 0; i < p->schedule.count; i++)
        TRY(carry_out(&x, &p->schedule.items[i]));
    return finish_sends(p);
}

static status evaluate_part(const pipeline_pass *x, int micro_batch, int k)
{
    const pipeline_options *o = &x->p->options;
    const int stages = o->shape.stages;
    chunk *c = &x->p->chunks[k];
    const model_batch batch = x->batches->view(x->batches->context, micro_batch);
    pipe_instruction i = {.micro_batch = micro_batch,
                          .chunk = k,
                          .slot = micro_batch % (int)x->p->sets,
                          .peer = (o->stage + stages - 1) % stages};
    if (!pipe_is_first(o->stage, k))
        TRY(recv_activation(x, c, &i));
    TRY(take_activation(x, c, &i));
    TRY(model_evaluate(c->model, x->stream, x->storage, &batch, (size_t)i.slot));
    i.peer = (o->stage + 1) % stages;
    return pipe_is_last(&o->shape, o->stage, k) ? STATUS_OK : send_activation(x, c, &i);
}

status pipeline_evaluate(pipeline *p, device_stream *s, const model_storage *storage,
                         const pipeline_batches *batches)
{
    const pipeline_pass x = {.p = p, .stream = s, .storage = storage, .batches = batches};
    for (int m = 0; m < p->options.shape.micro_batches; m++)
        for (int k = 0; k < p->options.shape.chunks; k++)
            TRY(evaluate_part(&x, m, k));
    return finish_sends(p);
}
