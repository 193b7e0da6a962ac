#include "comm/comm_internal.h"

// Every rank but the root has one parent and forwards each chunk to its children as soon as it has
// come. Ranks are counted from the root: v = (rank - root) mod n.
//
// Chain, for large buffers: every link carries the buffer once, n-2 chunks behind the root at the
// end:
//
//   step       1              2              3              4
//   v 0        c0 -> 1        c1 -> 1        c2 -> 1
//   v 1                       c0 -> 2        c1 -> 2        c2 -> 2
//   v 2                                      c0             c1
//
// Tree, for small ones: the parent of v is v without its lowest bit, so that log2(n) steps reach
// all, and the root sends log2(n) copies:
//
//   v 0        -> 4           -> 2           -> 1
//   v 4                       -> 6           -> 5
//   v 2                                      -> 3
//   v 6                                      -> 7
enum {
    FROM_PARENT,
    TO_CHILD,
};

static int from_root(const comm_job *job, int rank)
{
    int size = job->group->size;
    return (rank - job->message.peer + size) % size;
}

static void add_parent(comm_job *job, int parent)
{
    int rank = (parent + job->message.peer) % job->group->size;
    comm_stream *in = comm_job_stream_init(job, FROM_PARENT, rank, false, 0, 0, job->message.count);
    comm_stream_allow(in, in->chunks);
}

// The root's children may have everything at once, others' what has come.
static void add_child(comm_job *job, int child)
{
    int rank = (child + job->message.peer) % job->group->size;
    comm_stream *out = comm_job_stream_init(job, TO_CHILD, rank, true, 0, 0, job->message.count);
    if (from_root(job, job->group->rank) == 0)
        comm_stream_allow(out, out->chunks);
}

static void chain_start(comm_job *job)
{
    int v = from_root(job, job->group->rank);
    if (v > 0)
        add_parent(job, v - 1);
    if (v + 1 < job->group->size)
        add_child(job, v + 1);
}

static void tree_start(comm_job *job)
{
    int size = job->group->size;
    int v = from_root(job, job->group->rank);
    int lowest = v & -v;
    if (v > 0)
        add_parent(job, v - lowest);
    else
        for (lowest = 1; lowest < size; lowest *= 2)
            continue;
    for (int bit = lowest / 2; bit > 0; bit /= 2)
        if (v + bit < size)
            add_child(job, v + bit);
}

static bool forward_step(comm_job *job)
{
    comm_group *group = job->group;
    size_t arrived = 0;
    for (int p = 0; p < group->size; p++)
        if (comm_job_stream(job, FROM_PARENT, p)->chunks > 0)
            arrived = comm_job_stream(job, FROM_PARENT, p)->done;
    for (int p = 0; p < group->size; p++)
        comm_stream_allow(comm_job_stream(job, TO_CHILD, p), arrived);
    return false;
}

const comm_algorithm comm_broadcast_chain = {"broadcast", chain_start, forward_step};
const comm_algorithm comm_broadcast_tree = {"broadcast", tree_start, forward_step};
