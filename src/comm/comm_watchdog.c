#include "comm/comm_internal.h"

#include <stdio.h>

#include "base/log.h"

// Room for ranks in the message; more are only counted.
enum {
    NAMED_RANKS = 16,
};

// Chunks exchanged with the peer, in all roles; SIZE_MAX where nothing is posted that waits for it.
static size_t progress(const comm_job *job, int peer)
{
    size_t done = 0;
    bool waits = false;
    for (int i = 0; i < job->stream_count; i++) {
        const comm_stream *stream = &job->streams[i];
        if (stream->chunks == 0 || stream->peer != peer)
            continue;
        done += stream->done;
        waits = waits || stream->posted > stream->done;
    }
    return waits ? done : SIZE_MAX;
}

// The ranks least far along of those waited for: the others may only wait for them in turn.
static int name_late_ranks(const comm_job *job, char *text, size_t size)
{
    const comm_group *group = job->group;
    size_t least = SIZE_MAX - 1;
    for (int p = 0; p < group->size; p++)
        if (progress(job, p) < least)
            least = progress(job, p);
    int late = 0;
    size_t used = 0;
    for (int p = 0; p < group->size; p++) {
        if (progress(job, p) != least)
            continue;
        if (late++ < NAMED_RANKS)
            used += (size_t)snprintf(text + used, size - used, " %d", group->world_ranks[p]);
    }
    if (late > NAMED_RANKS)
        snprintf(text + used, size - used, " and %d more", late - NAMED_RANKS);
    return late;
}

void comm_watchdog_describe(const comm_job *job, double waited_s, char *text, size_t size)
{
    const comm_group *group = job->group;
    char ranks[NAMED_RANKS * 12 + 32] = "";
    int late = name_late_ranks(job, ranks, sizeof ranks);
    snprintf(text, size,
             "%s of %s along %s (%zu elements of %s) has not moved for %.3g s on rank %d, waiting "
             "for rank%s%s; dead, stopped or in another call",
             job->message.algorithm->name, comm_kind_str(job->message.kind),
             comm_dimension_str(group->dimension), job->message.count, dtype_str(job->message.type),
             waited_s, group->world_ranks[group->rank], late == 1 ? "" : "s", ranks);
}

void comm_watchdog_check(const comm *c, double now)
{
    if (c->options.watchdog_s <= 0)
        return;
    for (const comm_job *job = c->jobs; job; job = job->next) {
        if (!job->started || now - job->moved_at < c->options.watchdog_s)
            continue;
        char text[1024];
        comm_watchdog_describe(job, now - job->moved_at, text, sizeof text);
        log_error("%s", text);
        comm_mpi_abort(c, 1);
    }
}
