// All-reduce of src/comm beside MPI_Allreduce, in one run:
//
//   mpirun -n 4 --oversubscribe --bind-to none bench_comm [MIN_BYTES [MAX_BYTES [BUCKET_BYTES]]]
//
// For each power of two from MIN_BYTES it prints the median time of both and their ratio (below 1:
// comm is faster), and the bus bandwidth 2 (n-1)/n bytes / time that all-reduce needs at least. The
// two are timed in turn, so that a busy machine touches both alike. MPI_Allreduce runs on the main
// thread while the communication thread sleeps: MPI is entered by one thread at a time. With
// BUCKET_BYTES comm gets the buffer in messages of that size, all begun at once, as gradients are.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/sizes.h"
#include "comm/comm.h"

enum {
    REPEATS_MAX = 200,
    REPEATS_MIN = 7,
    BUCKETS_MAX = 512,
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare);
    return times[count / 2];
}

static status time_comm(comm *c, float *x, size_t count, size_t bucket, double *elapsed)
{
    static comm_request requests[BUCKETS_MAX];
    size_t n = 0;
    TRY(comm_barrier(comm_world(c)));
    double begin = seconds();
    for (size_t at = 0; at < count; at += bucket)
        TRY(comm_allreduce_begin(comm_world(c), COMM_GRADIENTS, COMM_SUM, x + at,
                                 size_min(bucket, count - at), DTYPE_F32, &requests[n++]));
    for (size_t i = 0; i < n; i++)
        TRY(comm_wait(&requests[i]));
    *elapsed = seconds() - begin;
    return STATUS_OK;
}

static status time_mpi(float *x, size_t count, double *elapsed)
{
    if (MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS)
        return fail(STATUS_ERR_COMM, "MPI_Barrier failed");
    double begin = seconds();
    if (MPI_Allreduce(MPI_IN_PLACE, x, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) !=
        MPI_SUCCESS)
        return fail(STATUS_ERR_COMM, "MPI_Allreduce of %zu elements failed", count);
    *elapsed = seconds() - begin;
    return STATUS_OK;
}

static status bench_size(comm *c, float *x, size_t bytes, size_t bucket_bytes)
{
    static double ours[REPEATS_MAX], mpi[REPEATS_MAX];
    size_t count = bytes / sizeof *x;
    size_t bucket = size_max(bucket_bytes / sizeof *x, count / BUCKETS_MAX + 1);
    int repeats = (int)((256u << 20) / bytes);
    repeats = repeats > REPEATS_MAX ? REPEATS_MAX : repeats < REPEATS_MIN ? REPEATS_MIN : repeats;
    memset(x, 0, bytes);
    for (int i = -2; i < repeats; i++) { // two to warm up
        int at = i < 0 ? 0 : i;
        TRY(time_comm(c, x, count, bucket, &ours[at]));
        TRY(time_mpi(x, count, &mpi[at]));
    }
    double a = median(ours, repeats), b = median(mpi, repeats);
    int size = comm_world_size(c);
    double bus = 2.0 * (size - 1) / size * (double)bytes;
    if (comm_world_rank(c) == 0)
        printf("%10zu %12.1f %12.1f %8.2f %10.2f %10.2f\n", bytes, 1e6 * a, 1e6 * b, a / b,
               1e-9 * bus / a, 1e-9 * bus / b);
    fflush(stdout);
    return STATUS_OK;
}

static status bench(comm *c, size_t min_bytes, size_t max_bytes, size_t bucket_bytes)
{
    float *x;
    TRY(memory_alloc(max_bytes, 1, "buffer", (void **)&x));
    if (comm_world_rank(c) == 0)
        printf("# all-reduce of fp32 over %d ranks\n%10s %12s %12s %8s %10s %10s\n",
               comm_world_size(c), "bytes", "comm us", "mpi us", "ratio", "comm GB/s", "mpi GB/s");
    status result = STATUS_OK;
    for (size_t bytes = min_bytes; result == STATUS_OK && bytes <= max_bytes; bytes *= 2)
        result = bench_size(c, x, bytes, bucket_bytes);
    memory_free(x);
    return result;
}

int main(int argc, char **argv)
{
    comm *c = NULL;
    comm_options options = comm_options_defaults();
    const char *chunk = getenv("BENCH_CHUNK_BYTES");
    if (chunk)
        options.chunk_bytes = (size_t)strtoul(chunk, NULL, 10);
    size_t min_bytes = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 1024;
    size_t max_bytes = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : (size_t)64 << 20;
    size_t bucket_bytes = argc > 3 ? (size_t)strtoul(argv[3], NULL, 10) : max_bytes;
    if (min_bytes < sizeof(float) || max_bytes < min_bytes || max_bytes >> 32) {
        fprintf(stderr,
                "usage: bench_comm [MIN_BYTES [MAX_BYTES [BUCKET_BYTES]]], 4 to 4294967295\n");
        return 2;
    }
    status result = comm_create(&options, &c);
    if (result == STATUS_OK)
        result = bench(c, min_bytes, max_bytes, bucket_bytes);
    if (result != STATUS_OK) {
        fprintf(stderr, "bench_comm: %s\n", error_message());
        return status_exit_code(result);
    }
    comm_destroy(c);
    return 0;
}
