#include "comm/comm_internal.h"

// Everyone sends its part to everyone, straight from and into the buffers:
//
//              part 0        part 1        part 2
//   rank 0     a -> 1 2      <- 1          <- 2
//   rank 1     <- 0          b -> 0 2      <- 2
//   rank 2     <- 0          <- 1          c -> 0 1
//
// Each rank sends (n-1) times its part, the least there is without forwarding; parts may have any
// sizes, also none. Nothing waits for anything, so no step is needed.
enum {
    PART_OUT,
    PART_IN,
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
        comm_stream *out = comm_job_stream_init(job, PART_OUT, p, true, 0, own_begin, own_end);
        comm_stream *in = comm_job_stream_init(job, PART_IN, p, false, 0, begin, end);
        comm_stream_allow(out, out->chunks);
        comm_stream_allow(in, in->chunks);
    }
}

const comm_algorithm comm_allgather_direct = {"allgather", direct_start, NULL};
