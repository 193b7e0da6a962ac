#include "comm/comm_internal.h"

// The first half of direct exchange (comm_allreduce.c): everyone sends its contribution to part r
// to rank r, which adds them in rank order into its own buffer:
//
//              part 0        part 1        part 2
//   rank 0     a0            a1 -> 1       a2 -> 2
//   rank 1     b0 -> 0       b1            b2 -> 2
//   rank 2     c0 -> 0       c1 -> 1       c2
//
//   rank 0     a0+b0+c0      (a1)          (a2)
//   rank 1     (b0)          a1+b1+c1      (b2)
//   rank 2     (c0)          (c1)          a2+b2+c2
//
// Parts may have any sizes, also none. The parts in parentheses are undefined to the caller.
enum {
    CONTRIBUTION_OUT,
    CONTRIBUTION_IN,
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
        comm_stream_allow(out, out->chunks);
        comm_stream_allow(in, COMM_WINDOW);
        job->reductions = in->chunks;
    }
}

static bool direct_step(comm_job *job)
{
    return comm_job_reduce_next(job, CONTRIBUTION_IN);
}

const comm_algorithm comm_reduce_scatter_direct = {"reduce_scatter", direct_start, direct_step};
