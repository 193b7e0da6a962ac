#include "comm/comm_internal.h"

#include <limits.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

enum {
    CHUNK_BYTES_DEFAULT = 64 * 1024,
    CHUNK_BYTES_MAX = 1 << 30,
    WATCHDOG_DEFAULT_S = 1800,
    ABORT_GRACE_S = 5, /* for MPI to end the other ranks, before this process leaves by itself */
};

const char *comm_dimension_str(comm_dimension dimension)
{
    switch (dimension) {
    case COMM_DATA:
        return "data";
    case COMM_TENSOR:
        return "tensor";
    case COMM_PIPE:
        return "pipe";
    case COMM_ZERO:
        return "zero";
    case COMM_DIMENSION_COUNT:
        break;
    }
    return "unknown";
}

const char *comm_kind_str(comm_kind kind)
{
    switch (kind) {
    case COMM_GRADIENTS:
        return "gradients";
    case COMM_PARAMETERS:
        return "parameters";
    case COMM_ACTIVATIONS:
        return "activations";
    case COMM_ACTIVATION_GRADIENTS:
        return "activation-gradients";
    case COMM_EMBEDDINGS:
        return "embeddings";
    case COMM_OPTIMIZER_STATES:
        return "optimizer-states";
    case COMM_CONTROL:
        return "control";
    case COMM_KIND_COUNT:
        break;
    }
    return "unknown";
}

comm_options comm_options_defaults(void)
{
    return (comm_options){.chunk_bytes = CHUNK_BYTES_DEFAULT, .watchdog_s = WATCHDOG_DEFAULT_S};
}

static status check_options(const comm_options *options)
{
    if (options->chunk_bytes < COMM_CHUNK_UNIT || options->chunk_bytes > CHUNK_BYTES_MAX)
        return fail(STATUS_ERR_CONFIG, "chunk_bytes is %zu; it must lie between %d and %d",
                    options->chunk_bytes, (int)COMM_CHUNK_UNIT, (int)CHUNK_BYTES_MAX);
    if (!(options->watchdog_s >= 0))
        return fail(STATUS_ERR_CONFIG, "the watchdog's time is %g s; it must be 0 (never) or more",
                    options->watchdog_s);
    return STATUS_OK;
}

static status create_pool(comm *c)
{
    TRY(memory_alloc(COMM_JOBS, sizeof *c->pool, "messages", (void **)&c->pool));
    for (int i = COMM_JOBS - 1; i >= 0; i--) {
        c->pool[i].next = c->free_jobs;
        c->free_jobs = &c->pool[i];
    }
    c->queue_tail = &c->queue;
    return STATUS_OK;
}

static void init_locks(comm *c)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, &attributes);
    pthread_cond_init(&c->finished, NULL);
    pthread_condattr_destroy(&attributes);
}

static void release(comm *c)
{
    pthread_cond_destroy(&c->wake);
    pthread_cond_destroy(&c->finished);
    pthread_mutex_destroy(&c->lock);
    memory_free(c->pool);
    memory_free(c);
}

// Start the thread and wait for MPI. Signals are for the caller's threads.
static status start_thread(comm *c)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&c->thread, NULL, comm_thread_main, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return fail(STATUS_ERR_COMM, "cannot start the communication thread: error %d", error);
    pthread_mutex_lock(&c->lock);
    while (!c->started)
        pthread_cond_wait(&c->finished, &c->lock);
    status result = c->start_result;
    pthread_mutex_unlock(&c->lock);
    if (result != STATUS_OK)
        pthread_join(c->thread, NULL);
    return result;
}

static void stop_thread(comm *c)
{
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
}

static status create_world(comm *c)
{
    int *ranks;
    TRY(memory_alloc((size_t)c->world_size, sizeof *ranks, "ranks of the world", (void **)&ranks));
    for (int i = 0; i < c->world_size; i++)
        ranks[i] = i;
    status result = comm_group_create(c, COMM_DATA, ranks, c->world_size, &c->world);
    memory_free(ranks);
    return result;
}

status comm_create(const comm_options *options, comm **out)
{
    comm *c;
    TRY(check_options(options));
    TRY(memory_alloc(1, sizeof *c, "communication", (void **)&c));
    c->options = *options;
    init_locks(c);
    status result = create_pool(c);
    if (result == STATUS_OK)
        result = start_thread(c);
    if (result != STATUS_OK) {
        release(c);
        return result;
    }
    result = create_world(c);
    if (result != STATUS_OK) {
        stop_thread(c);
        release(c);
        return result;
    }
    *out = c;
    return STATUS_OK;
}

void comm_destroy(comm *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    bool broken = c->broken;
    pthread_mutex_unlock(&c->lock);
    if (broken) // the ranks cannot meet in MPI's end any more
        comm_abort(c, 1);
    comm_group_destroy(c->world);
    stop_thread(c);
    release(c);
}

void comm_abort(comm *c, int exit_code)
{
    pthread_mutex_lock(&c->lock);
    c->abort_wanted = true;
    c->abort_code = exit_code;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
    // The thread may be inside a call of MPI that waits for a dead rank.
    struct timespec grace = {.tv_sec = ABORT_GRACE_S};
    nanosleep(&grace, NULL);
    _exit(exit_code);
}

int comm_world_rank(const comm *c)
{
    return c->world_rank;
}

int comm_world_size(const comm *c)
{
    return c->world_size;
}

int comm_local_rank(const comm *c)
{
    return c->local_rank;
}

int comm_local_size(const comm *c)
{
    return c->local_size;
}

comm_group *comm_world(comm *c)
{
    return c->world;
}
