#include "comm/comm_internal.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    POLLS_YIELDING = 64, /* polls in vain that only yield the core, about 1 us each */
    SLEEP_FIRST_US = 20, /* then naps this long, twice as long after every SLEEP_REPEAT naps */
    SLEEP_LAST_US = 100,
    SLEEP_REPEAT = 16,
    POLLS_LONG = 320, /* after these, some 30 ms, the peer is late rather than busy: */
    SLEEP_LONG_US = 1000,
    TIMER_SLACK_NS = 2000, /* the kernel's 50 us would more than double a nap */
};

double comm_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Nap until something is queued or the pause, which grows with the polls in vain, is over. With
// the lock held.
static void nap(comm *c)
{
    long us = SLEEP_FIRST_US;
    for (unsigned n = POLLS_YIELDING + SLEEP_REPEAT; n < c->idle_polls && us < SLEEP_LAST_US;
         n += SLEEP_REPEAT)
        us *= 2;
    us = us < SLEEP_LAST_US ? us : SLEEP_LAST_US;
    if (c->idle_polls > POLLS_LONG)
        us = SLEEP_LONG_US;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&c->wake, &c->lock, &until);
}

// Put what was queued behind the jobs. With the lock held.
static void take_queue(comm *c)
{
    comm_job **tail = &c->jobs;
    while (*tail)
        tail = &(*tail)->next;
    *tail = c->queue;
    c->queue = NULL;
    c->queue_tail = &c->queue;
}

// Take over what was queued, after sleeping as the state allows. False when told to leave and
// nothing is left.
static bool take_jobs(comm *c)
{
    if (c->jobs && c->idle_polls > 0 && c->idle_polls <= POLLS_YIELDING)
        sched_yield();
    pthread_mutex_lock(&c->lock);
    if (c->jobs && c->idle_polls > POLLS_YIELDING && !c->queue && !c->abort_wanted)
        nap(c);
    while (!c->jobs && !c->queue && !c->stop && !c->abort_wanted)
        pthread_cond_wait(&c->wake, &c->lock);
    if (c->abort_wanted) {
        int code = c->abort_code;
        pthread_mutex_unlock(&c->lock);
        comm_mpi_abort(c, code);
    }
    if (c->queue)
        c->idle_polls = 0;
    take_queue(c);
    bool more = c->jobs != NULL;
    pthread_mutex_unlock(&c->lock);
    return more;
}

static void retire(comm *c, comm_job **link, status result)
{
    comm_job *job = *link;
    *link = job->next;
    if (job->lane)
        job->lane->job = NULL;
    pthread_mutex_lock(&c->lock);
    if (job->group)
        comm_traffic_end(c, job);
    job->next = NULL;
    job->result = result;
    job->done = true;
    pthread_cond_broadcast(&c->finished);
    pthread_mutex_unlock(&c->lock);
}

// After a failed transfer the ranks no longer agree on what travels: everything fails from now on.
static void break_down(comm *c)
{
    pthread_mutex_lock(&c->lock);
    c->broken = true;
    take_queue(c);
    pthread_mutex_unlock(&c->lock);
    while (c->jobs)
        retire(c, &c->jobs, STATUS_ERR_COMM);
}

// No earlier message between the same ranks in the same direction is left.
static bool p2p_may_start(const comm *c, const comm_job *job)
{
    for (const comm_job *other = c->jobs; other != job; other = other->next)
        if (other->group == job->group && other->message.algorithm == job->message.algorithm &&
            other->message.peer == job->message.peer)
            return false;
    return true;
}

// Start, in order, all that may run. A task runs alone: it waits for all before it, and all after
// it wait for the task.
static void start_jobs(comm *c)
{
    while (c->jobs && c->jobs->task) {
        comm_job *job = c->jobs;
        retire(c, &c->jobs, job->task(c, job->argument));
    }
    double now = comm_seconds();
    for (comm_job *job = c->jobs; job && !job->task; job = job->next) {
        if (job->started)
            continue;
        bool p2p = comm_job_is_p2p(job);
        comm_lane *lane = p2p ? NULL : comm_group_free_lane(job->group);
        if (p2p ? p2p_may_start(c, job) : lane != NULL)
            comm_job_start(job, lane, now);
    }
}

// Move all that has started; true where anything did.
static bool advance_jobs(comm *c)
{
    bool any = false;
    comm_job **link = &c->jobs;
    while (*link) {
        comm_job *job = *link;
        bool moved = false;
        if (job->started && comm_job_advance(job, &moved) != STATUS_OK) {
            break_down(c);
            return true;
        }
        if (moved) {
            any = true;
            job->moved_at = comm_seconds();
        }
        if (job->started && comm_job_finished(job)) {
            any = true;
            retire(c, link, STATUS_OK);
        } else {
            link = &job->next;
        }
    }
    return any;
}

static bool announce_start(comm *c)
{
    status result = comm_mpi_start(c);
    pthread_mutex_lock(&c->lock);
    c->start_result = result;
    c->started = true;
    pthread_cond_broadcast(&c->finished);
    pthread_mutex_unlock(&c->lock);
    return result == STATUS_OK;
}

void *comm_thread_main(void *argument)
{
    comm *c = argument;
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    if (!announce_start(c))
        return NULL;
    while (take_jobs(c)) {
        start_jobs(c);
        if (advance_jobs(c)) {
            c->idle_polls = 0;
        } else if (c->jobs && ++c->idle_polls > POLLS_YIELDING) {
            comm_watchdog_check(c, comm_seconds());
        }
    }
    comm_mpi_stop();
    return NULL;
}
