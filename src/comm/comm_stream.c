#include "comm/comm_internal.h"

#include "base/sizes.h"

void comm_stream_init(comm_stream *stream, bool outgoing, int peer, int tag, void *base,
                      size_t bytes, size_t chunk_bytes)
{
    stream->base = base;
    stream->bytes = bytes;
    stream->chunk_bytes = chunk_bytes;
    stream->chunks = bytes / chunk_bytes + (bytes % chunk_bytes != 0);
    stream->limit = 0;
    stream->posted = 0;
    stream->done = 0;
    stream->complete = 0;
    stream->peer = peer;
    stream->tag = tag;
    stream->outgoing = outgoing;
    stream->ring = false;
}

void *comm_stream_chunk(const comm_stream *stream, size_t chunk)
{
    size_t place = stream->ring ? chunk % COMM_WINDOW : chunk;
    return stream->base + place * stream->chunk_bytes;
}

size_t comm_stream_chunk_bytes(const comm_stream *stream, size_t chunk)
{
    return size_min(stream->chunk_bytes, stream->bytes - chunk * stream->chunk_bytes);
}

// Post the stream's next chunk if it may go.
static status stream_post(comm_job *job, comm_stream *stream, bool *posted)
{
    if (stream->posted >= size_min(stream->limit, stream->done + COMM_WINDOW))
        return STATUS_OK;
    MPI_Request *request = &stream->requests[stream->posted % COMM_WINDOW];
    void *chunk = comm_stream_chunk(stream, stream->posted);
    size_t bytes = comm_stream_chunk_bytes(stream, stream->posted);
    const char *name = job->message.algorithm->name;
    MPI_Comm mpi = job->group->mpi;
    if (stream->outgoing) {
        TRY_MPI(MPI_Isend(chunk, (int)bytes, MPI_BYTE, stream->peer, stream->tag, mpi, request),
                name);
        job->raw_bytes += bytes;
        job->wire_bytes += bytes;
    } else {
        TRY_MPI(MPI_Irecv(chunk, (int)bytes, MPI_BYTE, stream->peer, stream->tag, mpi, request),
                name);
    }
    stream->posted++;
    *posted = true;
    return STATUS_OK;
}

static status length_fail(const comm_job *job, const comm_stream *stream, const char *sent)
{
    return fail(STATUS_ERR_COMM,
                "%s of %s (%s): world rank %d sent %s bytes than this rank expects in a chunk; all "
                "ranks must make the same calls with the same counts",
                job->message.algorithm->name, comm_kind_str(job->message.kind),
                comm_dimension_str(job->group->dimension), job->group->world_ranks[stream->peer],
                sent);
}

// The request of slot `index` of the job is complete.
static status stream_complete(comm_job *job, int index, const MPI_Status *outcome)
{
    comm_stream *stream = &job->streams[index / COMM_WINDOW];
    size_t slot = (size_t)(index % COMM_WINDOW);
    // The chunk in the slot is the one of the window that falls there.
    size_t chunk = stream->done + (slot + COMM_WINDOW - stream->done % COMM_WINDOW) % COMM_WINDOW;
    if (!stream->outgoing) {
        int bytes;
        TRY_MPI(MPI_Get_count(outcome, MPI_BYTE, &bytes), job->message.algorithm->name);
        if ((size_t)bytes != comm_stream_chunk_bytes(stream, chunk))
            return length_fail(job, stream, "fewer");
    }
    stream->complete |= 1u << slot;
    while (stream->complete & 1u << (stream->done % COMM_WINDOW)) {
        stream->complete &= ~(1u << (stream->done % COMM_WINDOW));
        stream->done++;
    }
    return STATUS_OK;
}

// Name the request that made MPI_Testsome fail.
static status testsome_fail(const comm_job *job, int code, int count)
{
    const char *name = job->message.algorithm->name;
    if (code != MPI_ERR_IN_STATUS)
        return comm_mpi_fail(code, name);
    for (int i = 0; i < count; i++) {
        int error = job->group->statuses[i].MPI_ERROR;
        if (error == MPI_SUCCESS || error == MPI_ERR_PENDING)
            continue;
        int class = error;
        MPI_Error_class(error, &class);
        if (class == MPI_ERR_TRUNCATE)
            return length_fail(job, &job->streams[job->group->indices[i] / COMM_WINDOW], "more");
        return comm_mpi_fail(error, name);
    }
    return comm_mpi_fail(code, name);
}

static status job_test(comm_job *job, bool *moved)
{
    comm_group *group = job->group;
    int count = 0;
    int code = MPI_Testsome(job->stream_count * COMM_WINDOW, job->requests, &count, group->indices,
                            group->statuses);
    if (code != MPI_SUCCESS)
        return testsome_fail(job, code, count == MPI_UNDEFINED ? 0 : count);
    if (count == MPI_UNDEFINED || count == 0)
        return STATUS_OK;
    for (int i = 0; i < count; i++)
        TRY(stream_complete(job, group->indices[i], &group->statuses[i]));
    *moved = true;
    return STATUS_OK;
}

// Post all that may go, a chunk of each stream in turn and first to the next rank: ranks that all
// began with rank 0 would crowd its link while the others idle.
static status job_post(comm_job *job, bool *moved)
{
    int size = job->lane ? job->group->size : 1;
    int first = job->lane ? job->group->rank + 1 : 0;
    bool posted;
    do {
        posted = false;
        for (int i = 0; i < job->stream_count; i++) {
            int role = i / size;
            int peer = (first + i) % size;
            TRY(stream_post(job, &job->streams[role * size + peer], &posted));
        }
        *moved = *moved || posted;
    } while (posted);
    return STATUS_OK;
}

status comm_job_advance(comm_job *job, bool *moved)
{
    TRY(job_post(job, moved));
    TRY(job_test(job, moved));
    const comm_algorithm *algorithm = job->message.algorithm;
    if (algorithm->step && algorithm->step(job))
        *moved = true;
    // What the step allowed goes out before the next chunk is reduced.
    return job_post(job, moved);
}

bool comm_job_finished(const comm_job *job)
{
    if (job->reduced < job->reductions)
        return false;
    for (int i = 0; i < job->stream_count; i++)
        if (job->streams[i].done < job->streams[i].chunks)
            return false;
    return true;
}
