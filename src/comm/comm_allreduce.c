#include "comm/comm_internal.h"

#include "base/sizes.h"

// Direct exchange. The buffer is cut into one part a rank; everyone sends its contribution to part
// r to rank r, which adds them in rank order and sends the sum to everyone. Each rank sends
// 2 (n-1)/n of the buffer, the least there is, all pairs of ranks at once:
//
//              part 0        part 1        part 2
//   rank 0     a0            a1 -> 1       a2 -> 2       contributions
//   rank 1     b0 -> 0       b1            b2 -> 2
//   rank 2     c0 -> 0       c1 -> 1       c2
//
//   rank 0     a0+b0+c0 -> 1 2
//   rank 1                   a1+b1+c1 -> 0 2             results
//   rank 2                                 a2+b2+c2 -> 0 1
//
// Chunk by chunk: while a chunk is added the next ones travel, and its result leaves while the
// next is added. A contribution waits in one of COMM_WINDOW staging slots of its sender until its
// chunk is added, then the slot is open for the chunk COMM_WINDOW further on. A result lands where
// the contribution of that chunk stood, so it is received only after that one has left.
//
// The sum of an element is ((x0 + x1) + x2) + ... at one place, so its bits depend neither on the
// chunks nor on timing, and all ranks hold the owner's bits. Every rank needs a message to every
// other for each chunk: for small buffers the gather below has half the steps.
enum {
    CONTRIBUTION_OUT,
    CONTRIBUTION_IN,
    RESULT_OUT,
    RESULT_IN,
};

static void direct_start(comm_job *job)
{
    comm_group *group = job->group;
    size_t own_begin, own_end;
    comm_job_part(job, group->rank, &own_begin, &own_end);
    for (int k = 1; k < group->size; k++) {
        int p = (group->rank + k) % group->size;
        size_t begin, end;
        comm_job_part(job, p, &begin, &end);
        comm_stream *out = comm_job_stream_init(job, CONTRIBUTION_OUT, p, true, 0, begin, end);
        comm_stream *in = comm_job_stage_init(job, CONTRIBUTION_IN, p, 0, own_begin, own_end);
        comm_job_stream_init(job, RESULT_OUT, p, true, 1, own_begin, own_end);
        comm_job_stream_init(job, RESULT_IN, p, false, 1, begin, end);
        comm_stream_allow(out, out->chunks);
        comm_stream_allow(in, COMM_WINDOW);
        job->reductions = in->chunks;
    }
}

static bool direct_step(comm_job *job)
{
    comm_group *group = job->group;
    bool moved = comm_job_reduce_next(job, CONTRIBUTION_IN);
    for (int p = 0; p < group->size; p++) {
        comm_stream_allow(comm_job_stream(job, RESULT_OUT, p), job->reduced);
        comm_stream_allow(comm_job_stream(job, RESULT_IN, p),
                          comm_job_stream(job, CONTRIBUTION_OUT, p)->done);
    }
    return moved;
}

const comm_algorithm comm_allreduce_direct = {"allreduce", direct_start, direct_step};

// Gather. Everyone sends its whole buffer to everyone, and all add the same numbers in the same
// order, hence to the same bits as direct exchange:
//
//   rank 0     a -> 1 2      a + b + c
//   rank 1     b -> 0 2      a + b + c
//   rank 2     c -> 0 1      a + b + c
//
// One step, but n-1 buffers a rank and all of them staged: for at most COMM_SMALL_BYTES.
enum {
    WHOLE_OUT,
    WHOLE_IN,
};

static void gather_start(comm_job *job)
{
    comm_group *group = job->group;
    for (int k = 1; k < group->size; k++) {
        int p = (group->rank + k) % group->size;
        comm_stream *out = comm_job_stream_init(job, WHOLE_OUT, p, true, 0, 0, job->message.count);
        comm_stream *in = comm_job_stream_init(job, WHOLE_IN, p, false, 0, 0, job->message.count);
        in->base = job->lane->staging + (size_t)p * COMM_SMALL_BYTES;
        comm_stream_allow(out, out->chunks);
        comm_stream_allow(in, in->chunks);
    }
    job->reductions = job->message.count > 0;
}

static bool gather_step(comm_job *job)
{
    comm_group *group = job->group;
    if (job->reduced == job->reductions)
        return false;
    for (int p = 0; p < group->size; p++) {
        const comm_stream *out = comm_job_stream(job, WHOLE_OUT, p);
        const comm_stream *in = comm_job_stream(job, WHOLE_IN, p);
        if (in->done < in->chunks || out->done < out->chunks)
            return false;
        group->inputs[p] = p == group->rank ? job->message.buffer : in->base;
    }
    comm_reduce(job->message.op, job->message.type, (size_t)group->size, group->inputs,
                job->message.buffer, job->message.count);
    job->reduced = job->reductions;
    return true;
}

const comm_algorithm comm_allreduce_gather = {"allreduce", gather_start, gather_step};
