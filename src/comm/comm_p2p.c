#include "comm/comm_internal.h"

// One stream straight from or into the buffer. The thread runs the messages of one direction
// between two ranks one after the other, so one tag serves them all and MPI keeps their order:
//
//   sender     c0 c1 c2 ...  ->  receiver
static void start(comm_job *job, bool outgoing)
{
    comm_stream *stream = &job->own_stream;
    comm_stream_init(stream, outgoing, job->message.peer, job->tag, job->message.buffer,
                     job->message.count * dtype_size(job->message.type), job->group->chunk_bytes);
    comm_stream_allow(stream, stream->chunks);
}

static void send_start(comm_job *job)
{
    start(job, true);
}

static void recv_start(comm_job *job)
{
    start(job, false);
}

const comm_algorithm comm_send_direct = {"send", send_start, NULL};
const comm_algorithm comm_recv_direct = {"receive", recv_start, NULL};
