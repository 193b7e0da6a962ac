/* Internals of src/comm: what its files share. Only this folder sees MPI.
 *
 * A message is a `comm_job`. The caller fills one from a pool and queues it; from then on the
 * communication thread owns it until it is done. The thread gives the job its `comm_stream`s, one
 * for each peer and role, lets its algorithm's step() raise their limits as chunks become ready,
 * and polls their requests. All of a job's dependencies are thus comparisons of chunk counters.
 *
 * Collectives of one group run on its `comm_lane`s, in the order begun and a few at a time; a lane
 * holds the streams and the staging memory, so that a message allocates nothing. Point-to-point
 * messages need no lane: they have one stream, and run one at a time for each peer and direction.
 *
 * Fields marked L are guarded by comm.lock, all others belong to the communication thread or do
 * not change after comm_create(). */
#ifndef TRIFOLD_COMM_COMM_INTERNAL_H
#define TRIFOLD_COMM_COMM_INTERNAL_H

#include <mpi.h>
#include <pthread.h>

#include "comm/comm.h"

enum {
    COMM_WINDOW = 4,  /* chunks of one stream in flight at a time, and slots of its staging */
    COMM_LANES = 4,   /* collectives of one group that move at a time */
    COMM_JOBS = 1024, /* messages begun and not yet waited for, over all groups */
    COMM_ROLES = 4,   /* streams to each peer that an algorithm may use */
    COMM_SMALL_BYTES = 4096,    /* reductions up to this gather whole buffers: one step, not two */
    COMM_STAGING_MAX = 8 << 20, /* bytes of a lane; large groups get smaller chunks */
    COMM_CHECK_FIELDS = 7,      /* numbers that describe a call in the check of calls */
    COMM_CHUNK_UNIT = 8,        /* chunks are multiples of this: whole elements of every type */
};

/* ---- Streams ------------------------------------------------------------------------------ */

/* A run of `bytes` to or from one peer, cut into chunks that travel in order, at most COMM_WINDOW
 * at a time. Chunks below `limit` may be posted; those below `done` have arrived or left. */
typedef struct comm_stream {
    unsigned char *base; /* the run itself, or staging of COMM_WINDOW chunks where `ring` is set */
    size_t bytes;
    size_t chunk_bytes;
    size_t chunks;
    size_t limit;
    size_t posted;
    size_t done;
    unsigned complete; /* bit chunk % COMM_WINDOW: finished, but an earlier one is not */
    int peer;          /* rank in the group */
    int tag;
    bool outgoing;
    bool ring;
    MPI_Request *requests; /* COMM_WINDOW of them, lent */
} comm_stream;

/* Describe a run; its limit is 0. The requests must be set already and idle. */
void comm_stream_init(comm_stream *stream, bool outgoing, int peer, int tag, void *base,
                      size_t bytes, size_t chunk_bytes);

/* Where chunk `chunk` is staged or lies, and its size. A codec works on this memory: it encodes
 * before the chunk is posted and decodes after it is done. */
void *comm_stream_chunk(const comm_stream *stream, size_t chunk);
size_t comm_stream_chunk_bytes(const comm_stream *stream, size_t chunk);

/* Open the stream up to `limit` chunks (never lowers it). */
static inline void comm_stream_allow(comm_stream *stream, size_t limit)
{
    if (limit > stream->limit)
        stream->limit = limit < stream->chunks ? limit : stream->chunks;
}

/* ---- Jobs --------------------------------------------------------------------------------- */

typedef struct comm_job comm_job;
typedef struct comm_lane comm_lane;

/* How a collective moves. */
typedef struct comm_algorithm {
    const char *name;             /* "allreduce", as errors call it */
    void (*start)(comm_job *job); /* describe the streams and open those that wait for nothing */
    bool (*step)(comm_job *job);  /* raise limits, reduce at most one chunk; true where it did.
                                     NULL where start() opened everything */
} comm_algorithm;

extern const comm_algorithm comm_allreduce_direct;
extern const comm_algorithm comm_allreduce_gather;
extern const comm_algorithm comm_reduce_scatter_direct;
extern const comm_algorithm comm_allgather_direct;
extern const comm_algorithm comm_broadcast_chain;
extern const comm_algorithm comm_broadcast_tree;
extern const comm_algorithm comm_send_direct;
extern const comm_algorithm comm_recv_direct;

/* What a caller asks for. */
typedef struct comm_message {
    const comm_algorithm *algorithm;
    comm_kind kind;
    comm_op op;
    dtype type;
    unsigned char *buffer;
    size_t count;         /* elements in all */
    const size_t *counts; /* elements of each rank's part; NULL: as size_split() says */
    int peer;             /* root, or the other end; -1 otherwise */
} comm_message;

struct comm_job {
    comm_job *next;
    comm_group *group;
    comm_message message;

    /* Work other than a message, run alone and in order with MPI calls that block. */
    status (*task)(comm *c, void *argument);
    void *argument;

    bool started;
    comm_lane *lane; /* NULL for point to point */
    comm_stream *streams;
    MPI_Request *requests; /* COMM_WINDOW for each stream, contiguous */
    int stream_count;
    int tag;           /* tag and tag + 1 are the job's */
    size_t reductions; /* chunks this rank reduces */
    size_t reduced;
    double moved_at; /* seconds; when a chunk last moved */
    uint64_t raw_bytes;
    uint64_t wire_bytes;

    comm_stream own_stream; /* point to point */
    MPI_Request own_requests[COMM_WINDOW];

    bool done;     /* L */
    status result; /* L */
};

static inline bool comm_job_is_p2p(const comm_job *job)
{
    const comm_algorithm *a = job->message.algorithm;
    return a == &comm_send_direct || a == &comm_recv_direct;
}

/* The stream of `role` (below COMM_ROLES) with rank `peer` of the group. */
comm_stream *comm_job_stream(const comm_job *job, int role, int peer);

/* Describe that stream over elements [begin, end) of the buffer. */
comm_stream *comm_job_stream_init(comm_job *job, int role, int peer, bool outgoing, int phase,
                                  size_t begin, size_t end);

/* The same, its chunks staged in the lane's slots of `peer`. */
comm_stream *comm_job_stage_init(comm_job *job, int role, int peer, int phase, size_t begin,
                                 size_t end);

/* Elements [begin, end) of the buffer that are rank `rank`'s part. */
void comm_job_part(const comm_job *job, int rank, size_t *begin, size_t *end);

/* Reduce the next chunk of the caller's part into the buffer, if the contributions staged in
 * `role` have all come; true where it did, and their slots are free again. */
bool comm_job_reduce_next(comm_job *job, int role);

/* Give a job its streams and start its algorithm; then move it: post what is allowed, test, step.
 * *moved is set where anything happened. */
void comm_job_start(comm_job *job, comm_lane *lane, double now);
status comm_job_advance(comm_job *job, bool *moved);
bool comm_job_finished(const comm_job *job);

/* Queue a job or run a task on the thread and wait for it. A group of one needs no message. */
status comm_job_begin(comm_group *group, const comm_message *message, comm_request *request);
status comm_task_run(comm *c, status (*task)(comm *c, void *argument), void *argument);

/* Compare the call that `message` is with those of the other ranks of the group; blocks. On a
 * difference fails on all of them. */
status comm_check_call(comm_group *group, const comm_message *message);

/* ---- Groups ------------------------------------------------------------------------------- */

struct comm_lane {
    comm_job *job;          /* NULL: free */
    comm_stream *streams;   /* [COMM_ROLES][size] */
    MPI_Request *requests;  /* [COMM_ROLES][size][COMM_WINDOW] */
    unsigned char *staging; /* [size][COMM_WINDOW][chunk_bytes], or [size][COMM_SMALL_BYTES] */
};

struct comm_group {
    comm *owner;
    comm_dimension dimension;
    int rank;
    int size;
    int *world_ranks; /* [size] */
    size_t chunk_bytes;
    MPI_Comm mpi;
    unsigned sequence; /* collectives started */
    comm_lane lanes[COMM_LANES];
    int64_t *calls;       /* [size][COMM_CHECK_FIELDS], of the caller's thread; see comm_check.c */
    uint64_t checked;     /* calls compared */
    const void **inputs;  /* [size], scratch of a reduction */
    int *indices;         /* [COMM_ROLES * size * COMM_WINDOW], scratch of MPI_Testsome */
    MPI_Status *statuses; /* the same */
};

comm_lane *comm_group_free_lane(comm_group *group);

/* ---- The process -------------------------------------------------------------------------- */

struct comm {
    comm_options options;
    int world_rank;
    int world_size;
    int local_rank;
    int local_size;
    comm_group *world;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;     /* the thread has something to do */
    pthread_cond_t finished; /* some job is done, or the thread has started */

    comm_job *pool;
    comm_job *free_jobs;   /* L */
    comm_job *queue;       /* L: handed over, first begun first */
    comm_job **queue_tail; /* L */
    bool started;          /* L: MPI is up, or start_result says why not */
    status start_result;   /* L */
    bool stop;             /* L: leave when nothing is left */
    bool broken;           /* L: a transfer failed, nothing can be sent any more */
    bool abort_wanted;     /* L */
    int abort_code;        /* L */

    comm_traffic traffic[COMM_DIMENSION_COUNT]; /* L: but for a busy period still open */
    size_t in_flight[COMM_DIMENSION_COUNT];     /* L */
    double busy_since[COMM_DIMENSION_COUNT];    /* L: seconds, where in_flight > 0 */

    comm_job *jobs; /* taken over and not done, first begun first */
    unsigned idle_polls;
};

/* Monotonic seconds. */
double comm_seconds(void);

/* The body of the communication thread. */
void *comm_thread_main(void *c);

/* MPI's start and end, called by the thread. */
status comm_mpi_start(comm *c);
void comm_mpi_stop(void);

/* End every process of the job. Only on the thread. */
_Noreturn void comm_mpi_abort(const comm *c, int exit_code);

/* STATUS_ERR_COMM with MPI's own words for `code`, after "WHAT: ". */
status comm_mpi_fail(int code, const char *what);

/* Forward an MPI error as a status. */
#define TRY_MPI(call, what)                              \
    do {                                                 \
        int try_mpi_code_ = (call);                      \
        if (try_mpi_code_ != MPI_SUCCESS)                \
            return comm_mpi_fail(try_mpi_code_, (what)); \
    } while (0)

/* STATUS_ERR_COMM where the launcher's variables promise more ranks than `mpi_size` == 1. */
status comm_launcher_check(int mpi_size);

/* Name the message that has not moved for too long and the ranks it waits for, into `text`. */
void comm_watchdog_describe(const comm_job *job, double waited_s, char *text, size_t size);

/* End the job if one of the started messages has not moved for options.watchdog_s. */
void comm_watchdog_check(const comm *c, double now);

/* Account for a message begun and done; with the lock held. */
void comm_traffic_begin(comm *c, comm_dimension dimension);
void comm_traffic_end(comm *c, const comm_job *job);

/* ---- Arithmetic --------------------------------------------------------------------------- */

/* out[i] = the sum or maximum of inputs[0..n-1][i], folded in that order, in fp32 for fp32, bf16
 * and fp16 and rounded once. `out` may be one of the inputs. A maximum of floats is NaN where any
 * input is. Pointers must be aligned to their element. */
void comm_reduce(comm_op op, dtype type, size_t n, const void *const *inputs, void *out,
                 size_t count);

#endif
