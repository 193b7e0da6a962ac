#include "comm/comm_internal.h"

#include "base/sizes.h"

enum {
    TAG_P2P = 0,
    TAG_COLLECTIVE = 2,
    TAG_SEQUENCES = 8192, /* tags stay below the 32767 that MPI promises; a tag comes again only
                             long after its first message, and MPI keeps the order of a tag */
};

comm_stream *comm_job_stream(const comm_job *job, int role, int peer)
{
    return &job->streams[role * job->group->size + peer];
}

comm_stream *comm_job_stream_init(comm_job *job, int role, int peer, bool outgoing, int phase,
                                  size_t begin, size_t end)
{
    size_t size = dtype_size(job->message.type);
    comm_stream *stream = comm_job_stream(job, role, peer);
    comm_stream_init(stream, outgoing, peer, job->tag + phase, job->message.buffer + begin * size,
                     (end - begin) * size, job->group->chunk_bytes);
    return stream;
}

comm_stream *comm_job_stage_init(comm_job *job, int role, int peer, int phase, size_t begin,
                                 size_t end)
{
    comm_stream *stream = comm_job_stream_init(job, role, peer, false, phase, begin, end);
    stream->base = job->lane->staging + (size_t)peer * COMM_WINDOW * job->group->chunk_bytes;
    stream->ring = true;
    return stream;
}

void comm_job_part(const comm_job *job, int rank, size_t *begin, size_t *end)
{
    const size_t *counts = job->message.counts;
    if (!counts) {
        size_split(job->message.count, (size_t)job->group->size, (size_t)rank, begin, end);
        return;
    }
    *begin = 0;
    for (int r = 0; r < rank; r++)
        *begin += counts[r];
    *end = *begin + counts[rank];
}

bool comm_job_reduce_next(comm_job *job, int role)
{
    comm_group *group = job->group;
    size_t chunk = job->reduced;
    if (chunk == job->reductions)
        return false;
    for (int p = 0; p < group->size; p++)
        if (p != group->rank && comm_job_stream(job, role, p)->done <= chunk)
            return false;

    size_t begin, end;
    comm_job_part(job, group->rank, &begin, &end);
    size_t size = dtype_size(job->message.type);
    unsigned char *own = job->message.buffer + begin * size + chunk * group->chunk_bytes;
    for (int p = 0; p < group->size; p++)
        group->inputs[p] =
            p == group->rank ? own : comm_stream_chunk(comm_job_stream(job, role, p), chunk);
    size_t bytes = size_min(group->chunk_bytes, (end - begin) * size - chunk * group->chunk_bytes);
    comm_reduce(job->message.op, job->message.type, (size_t)group->size, group->inputs, own,
                bytes / size);
    job->reduced++;
    for (int p = 0; p < group->size; p++)
        comm_stream_allow(comm_job_stream(job, role, p), job->reduced + COMM_WINDOW);
    return true;
}

void comm_job_start(comm_job *job, comm_lane *lane, double now)
{
    comm_group *group = job->group;
    job->started = true;
    job->moved_at = now;
    job->reductions = 0;
    job->reduced = 0;
    job->raw_bytes = 0;
    job->wire_bytes = 0;
    job->lane = lane;
    if (lane) {
        lane->job = job;
        job->streams = lane->streams;
        job->requests = lane->requests;
        job->stream_count = COMM_ROLES * group->size;
        job->tag = TAG_COLLECTIVE + 2 * (int)(group->sequence++ % TAG_SEQUENCES);
    } else {
        job->streams = &job->own_stream;
        job->requests = job->own_requests;
        job->stream_count = 1;
        job->tag = TAG_P2P;
        for (int i = 0; i < COMM_WINDOW; i++)
            job->own_requests[i] = MPI_REQUEST_NULL;
        job->own_stream.requests = job->own_requests;
    }
    for (int i = 0; i < job->stream_count; i++)
        comm_stream_init(&job->streams[i], false, 0, 0, NULL, 0, group->chunk_bytes);
    job->message.algorithm->start(job);
}
