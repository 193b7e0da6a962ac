/* Communication between the ranks of a run: process groups, collectives and their statistics.
 *
 * One `comm` a process owns MPI and one communication thread; that thread makes every MPI call, so
 * that messages move while the caller computes (Open MPI progresses TCP only inside its calls). It
 * sleeps when nothing is in flight and yields the core while it waits. A `comm_group` is an ordered
 * set of ranks along one dimension of the grid.
 *
 * Every message names its dimension (by its group) and its tensor kind, so that a compression
 * policy can choose how it travels without its callers knowing. Calls on a group must come in the
 * same order on all its ranks, from one thread a process. Reductions accumulate in fp32 in rank
 * order: all ranks end with identical bits, on every repeat, whatever the timing.
 *
 * The begin calls return at once; the buffer, aligned to its element, and the array of counts
 * belong to the message until comm_wait(). At most 1024 messages may be begun and not yet waited
 * for. Every transfer is cut into chunks of at most `chunk_bytes`, so no MPI count overflows. A
 * group of one rank sends nothing and its messages are complete at once.
 *
 * A failed transfer (STATUS_ERR_COMM from comm_wait) cannot be undone: the ranks no longer agree on
 * what travels, every later call fails, and the program ends with comm_abort(). Calls refused for
 * their arguments send nothing and break nothing. */
#ifndef TRIFOLD_COMM_COMM_H
#define TRIFOLD_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

/* The dimension of the grid along which a group lies. */
typedef enum comm_dimension {
    COMM_DATA,
    COMM_TENSOR,
    COMM_PIPE,
    COMM_ZERO,
    COMM_DIMENSION_COUNT,
} comm_dimension;

/* What a message carries. COMM_CONTROL is never folded. */
typedef enum comm_kind {
    COMM_GRADIENTS,
    COMM_PARAMETERS,
    COMM_ACTIVATIONS,
    COMM_ACTIVATION_GRADIENTS,
    COMM_EMBEDDINGS,
    COMM_OPTIMIZER_STATES,
    COMM_CONTROL,
    COMM_KIND_COUNT,
} comm_kind;

/* "data", "tensor", "pipe", "zero"; "gradients", ... as the configuration spells them. */
const char *comm_dimension_str(comm_dimension dimension);
const char *comm_kind_str(comm_kind kind);

typedef enum comm_op {
    COMM_SUM, /* fp32, bf16 and fp16 are summed in fp32; integers in their own type */
    COMM_MAX,
} comm_op;

typedef struct comm comm;
typedef struct comm_group comm_group;

typedef struct comm_options {
    size_t chunk_bytes; /* largest single transfer, >= 8, the same on all ranks; large groups use
                           smaller ones, to bound their staging memory */
    double watchdog_s;  /* a message that does not move for longer ends the run with exit status 1
                           and a line that names it and the ranks it waits for; 0 = never */
    bool check_calls;   /* for debugging: every collective first compares operation, kind, type,
                           counts and root over its group, and fails on all ranks, naming the odd
                           one, where they differ. The begin calls then wait for all ranks */
} comm_options;

comm_options comm_options_defaults(void);

/* Start MPI and the communication thread. Collective over the job. Fails with a named error where
 * the launcher's variables promise more ranks than MPI sees (mpirun and libmpi differ). Without
 * mpirun it is a job of one rank. */
status comm_create(const comm_options *options, comm **out);

/* Whether a launcher says that it started this process as one of several ranks. Can be asked before
 * comm_create(). */
bool comm_launched(void);

/* Finish outstanding messages, stop the thread and MPI. Collective; the caller's groups are
 * destroyed before; NULL is allowed. After a failed transfer it ends the job: comm_abort(c, 1). */
void comm_destroy(comm *c);

/* End the whole job at once with `exit_code`, after a failure that the other ranks cannot be told
 * of in order. `exit_code` is not 0. Does not return. */
_Noreturn void comm_abort(comm *c, int exit_code);

int comm_world_rank(const comm *c);
int comm_world_size(const comm *c);

/* Ranks of this job on the caller's host, and the caller's place among them. */
int comm_local_rank(const comm *c);
int comm_local_size(const comm *c);

/* All ranks, along COMM_DATA; lent, lives as long as `c`. */
comm_group *comm_world(comm *c);

/* A group of `count` world ranks in the given order along `dimension`. Collective over the world:
 * every rank calls it the same number of times, each with the group that contains it. */
status comm_group_create(comm *c, comm_dimension dimension, const int *world_ranks, int count,
                         comm_group **out);

/* Collective over the world as its creation; every message of the group has been waited for. NULL
 * is allowed. */
void comm_group_destroy(comm_group *group);

int comm_group_rank(const comm_group *group);
int comm_group_size(const comm_group *group);
comm_dimension comm_group_dimension(const comm_group *group);

/* One message in flight. Held by the caller; nothing is allocated. */
typedef struct comm_request {
    struct comm_job *job; /* internal; NULL when idle */
} comm_request;

/* Sum (or maximum) of `count` elements of `buffer` over the group, in place. */
status comm_allreduce_begin(comm_group *group, comm_kind kind, comm_op op, void *buffer,
                            size_t count, dtype type, comm_request *request);

/* `counts[r]` elements for each rank r: rank r receives the reduced part r. `buffer` holds all
 * parts, in rank order; on return only the caller's part is defined, in its place. */
status comm_reduce_scatter_begin(comm_group *group, comm_kind kind, comm_op op, void *buffer,
                                 const size_t *counts, dtype type, comm_request *request);

/* Each rank gives part `rank` (counts[rank] elements, in its place in `buffer`) and receives all
 * parts in rank order. */
status comm_allgather_begin(comm_group *group, comm_kind kind, void *buffer, const size_t *counts,
                            dtype type, comm_request *request);

/* `buffer` of the rank `root` to all. */
status comm_broadcast_begin(comm_group *group, comm_kind kind, void *buffer, size_t count,
                            dtype type, int root, comm_request *request);

/* Point to point within the group; messages between two ranks arrive in the order sent. */
status comm_send_begin(comm_group *group, comm_kind kind, const void *buffer, size_t count,
                       dtype type, int to, comm_request *request);
status comm_recv_begin(comm_group *group, comm_kind kind, void *buffer, size_t count, dtype type,
                       int from, comm_request *request);

/* Wait until the message is complete; an idle request returns at once. The time spent here is the
 * exposed communication time of its dimension. */
status comm_wait(comm_request *request);

/* The same, blocking. */
status comm_allreduce(comm_group *group, comm_kind kind, comm_op op, void *buffer, size_t count,
                      dtype type);
status comm_broadcast(comm_group *group, comm_kind kind, void *buffer, size_t count, dtype type,
                      int root);
status comm_barrier(comm_group *group);

/* The agreement of all ranks on the outcome of a step that may fail on some. Collective over the
 * world. Returns STATUS_OK if all gave it; else the lowest failing rank's code on every rank, and
 * its message becomes the error record everywhere (with "rank N: " before it where the ranks'
 * messages differ). */
status comm_agree(comm *c, status local);

/* Traffic of one dimension since the last take. Ratio is raw / wire. */
typedef struct comm_traffic {
    uint64_t raw_bytes;  /* payload bytes this rank sent, as its callers see them */
    uint64_t wire_bytes; /* bytes this rank handed to MPI for them, headers included */
    double busy_ms;      /* time with a message of the dimension in flight */
    double exposed_ms;   /* time callers waited in comm_wait */
} comm_traffic;

/* Copy the counters of all dimensions and start them anew. */
void comm_traffic_take(comm *c, comm_traffic traffic[COMM_DIMENSION_COUNT]);

#endif
