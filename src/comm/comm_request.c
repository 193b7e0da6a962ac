#include "comm/comm_internal.h"

#include "base/sizes.h"

// A job from the pool. With the lock held.
static status take_free(comm *c, comm_job **out)
{
    if (c->broken)
        return fail(STATUS_ERR_COMM, "a message failed before; no other can be sent");
    if (!c->free_jobs)
        return fail(STATUS_ERR_COMM, "%d messages are in flight; wait for the earlier ones first",
                    (int)COMM_JOBS);
    comm_job *job = c->free_jobs;
    c->free_jobs = job->next;
    job->next = NULL;
    job->started = false;
    job->lane = NULL;
    job->done = false;
    *out = job;
    return STATUS_OK;
}

static void hand_over(comm *c, comm_job *job)
{
    *c->queue_tail = job;
    c->queue_tail = &job->next;
    pthread_cond_signal(&c->wake);
}

// Wait until the job is done and give it back to the pool. With the lock held.
static status wait_done(comm *c, comm_job *job)
{
    while (!job->done)
        pthread_cond_wait(&c->finished, &c->lock);
    job->next = c->free_jobs;
    c->free_jobs = job;
    return job->result;
}

status comm_job_begin(comm_group *group, const comm_message *message, comm_request *request)
{
    comm *c = group->owner;
    request->job = NULL;
    size_t bytes;
    if (!size_mul(message->count, dtype_size(message->type), &bytes))
        return fail(STATUS_ERR_COMM, "%s: %zu elements of %s exceed the address space",
                    message->algorithm->name, message->count, dtype_str(message->type));
    if (group->size == 1)
        return STATUS_OK;
    pthread_mutex_lock(&c->lock);
    comm_job *job = NULL;
    status result = take_free(c, &job);
    if (result == STATUS_OK) {
        job->group = group;
        job->message = *message;
        job->task = NULL;
        comm_traffic_begin(c, group->dimension);
        hand_over(c, job);
        request->job = job;
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

status comm_task_run(comm *c, status (*task)(comm *c, void *argument), void *argument)
{
    pthread_mutex_lock(&c->lock);
    comm_job *job = NULL;
    status result = take_free(c, &job);
    if (result == STATUS_OK) {
        job->group = NULL;
        job->task = task;
        job->argument = argument;
        hand_over(c, job);
        result = wait_done(c, job);
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

status comm_wait(comm_request *request)
{
    comm_job *job = request->job;
    if (!job)
        return STATUS_OK;
    request->job = NULL;
    comm *c = job->group->owner;
    pthread_mutex_lock(&c->lock);
    comm_dimension dimension = job->group->dimension;
    double begin = job->done ? 0 : comm_seconds();
    bool waits = !job->done;
    status result = wait_done(c, job);
    if (waits)
        c->traffic[dimension].exposed_ms += 1e3 * (comm_seconds() - begin);
    pthread_mutex_unlock(&c->lock);
    return result;
}

static status sum_counts(const comm_group *group, const size_t *counts, size_t *total)
{
    *total = 0;
    for (int r = 0; r < group->size; r++)
        if (!size_add(*total, counts[r], total))
            return fail(STATUS_ERR_COMM, "the parts of the ranks exceed the address space");
    return STATUS_OK;
}

static status check_peer(const comm_group *group, const char *what, int peer, bool self)
{
    if (peer >= 0 && peer < group->size && (self || peer != group->rank))
        return STATUS_OK;
    return fail(STATUS_ERR_COMM, "%s rank %d from rank %d in a group of %d; ranks are 0 to %d%s",
                what, peer, group->rank, group->size, group->size - 1,
                self ? "" : ", without the caller");
}

// Begin a collective, checked first where the options ask for it.
static status collective_begin(comm_group *group, const comm_message *message,
                               comm_request *request)
{
    request->job = NULL;
    if (group->owner->options.check_calls && group->size > 1)
        TRY(comm_check_call(group, message));
    return comm_job_begin(group, message, request);
}

status comm_allreduce_begin(comm_group *group, comm_kind kind, comm_op op, void *buffer,
                            size_t count, dtype type, comm_request *request)
{
    bool small = count <= COMM_SMALL_BYTES / dtype_size(type);
    comm_message message = {
        .algorithm = small ? &comm_allreduce_gather : &comm_allreduce_direct,
        .kind = kind,
        .op = op,
        .type = type,
        .buffer = buffer,
        .count = count,
        .peer = -1,
    };
    return collective_begin(group, &message, request);
}

status comm_reduce_scatter_begin(comm_group *group, comm_kind kind, comm_op op, void *buffer,
                                 const size_t *counts, dtype type, comm_request *request)
{
    comm_message message = {
        .algorithm = &comm_reduce_scatter_direct,
        .kind = kind,
        .op = op,
        .type = type,
        .buffer = buffer,
        .counts = counts,
        .peer = -1,
    };
    TRY(sum_counts(group, counts, &message.count));
    return collective_begin(group, &message, request);
}

status comm_allgather_begin(comm_group *group, comm_kind kind, void *buffer, const size_t *counts,
                            dtype type, comm_request *request)
{
    comm_message message = {
        .algorithm = &comm_allgather_direct,
        .kind = kind,
        .type = type,
        .buffer = buffer,
        .counts = counts,
        .peer = -1,
    };
    TRY(sum_counts(group, counts, &message.count));
    return collective_begin(group, &message, request);
}

status comm_broadcast_begin(comm_group *group, comm_kind kind, void *buffer, size_t count,
                            dtype type, int root, comm_request *request)
{
    TRY(check_peer(group, "broadcast of", root, true));
    // The chain costs size - 2 steps more and sends each byte once; the tree wins while a buffer
    // is a single chunk or little more.
    bool small = count <= group->chunk_bytes / dtype_size(type);
    comm_message message = {
        .algorithm = small ? &comm_broadcast_tree : &comm_broadcast_chain,
        .kind = kind,
        .type = type,
        .buffer = buffer,
        .count = count,
        .peer = root,
    };
    return collective_begin(group, &message, request);
}

status comm_send_begin(comm_group *group, comm_kind kind, const void *buffer, size_t count,
                       dtype type, int to, comm_request *request)
{
    TRY(check_peer(group, "send to", to, false));
    comm_message message = {
        .algorithm = &comm_send_direct,
        .kind = kind,
        .type = type,
        .buffer = (unsigned char *)buffer, // only read: the stream is outgoing
        .count = count,
        .peer = to,
    };
    return comm_job_begin(group, &message, request);
}

status comm_recv_begin(comm_group *group, comm_kind kind, void *buffer, size_t count, dtype type,
                       int from, comm_request *request)
{
    TRY(check_peer(group, "receive from", from, false));
    comm_message message = {
        .algorithm = &comm_recv_direct,
        .kind = kind,
        .type = type,
        .buffer = buffer,
        .count = count,
        .peer = from,
    };
    return comm_job_begin(group, &message, request);
}

status comm_allreduce(comm_group *group, comm_kind kind, comm_op op, void *buffer, size_t count,
                      dtype type)
{
    comm_request request;
    TRY(comm_allreduce_begin(group, kind, op, buffer, count, type, &request));
    return comm_wait(&request);
}

status comm_broadcast(comm_group *group, comm_kind kind, void *buffer, size_t count, dtype type,
                      int root)
{
    comm_request request;
    TRY(comm_broadcast_begin(group, kind, buffer, count, type, root, &request));
    return comm_wait(&request);
}

status comm_barrier(comm_group *group)
{
    uint8_t token = 0;
    return comm_allreduce(group, COMM_CONTROL, COMM_MAX, &token, 1, DTYPE_U8);
}
