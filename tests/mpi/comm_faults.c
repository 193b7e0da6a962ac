// A program that goes wrong as its argument says, for tests/cli/comm_faults.sh:
//
//   none       nothing: prints the rank count on rank 0
//   late       rank 1 never joins an allreduce; the watchdog of the others must end the run
//   killed     rank 1 kills itself while all exchange messages
//   lengths    rank 0 broadcasts more than the others expect
//   differ     with the check of calls, rank 2 asks for another type
//   abort N    rank 1 ends the job with exit status N while the others wait
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/comm.h"

enum {
    COUNT = 100000,
};

static float values[COUNT];

static status exchange(comm *c)
{
    return comm_allreduce(comm_world(c), COMM_GRADIENTS, COMM_SUM, values, COUNT, DTYPE_F32);
}

static status go_wrong(comm *c, const char *fault, int code)
{
    int rank = comm_world_rank(c);
    if (strcmp(fault, "none") == 0) {
        TRY(exchange(c));
        if (rank == 0)
            printf("%d ranks\n", comm_world_size(c));
        return STATUS_OK;
    }
    if (strcmp(fault, "late") == 0) {
        if (rank == 1)
            pause();
        return exchange(c);
    }
    if (strcmp(fault, "lengths") == 0)
        return comm_broadcast(comm_world(c), COMM_PARAMETERS, values, rank == 0 ? 200 : 100,
                              DTYPE_F32, 0);
    if (strcmp(fault, "differ") == 0)
        return comm_allreduce(comm_world(c), COMM_GRADIENTS, COMM_SUM, values, COUNT,
                              rank == 2 ? DTYPE_I32 : DTYPE_F32);
    if (strcmp(fault, "abort") == 0) {
        if (rank == 1)
            comm_abort(c, code);
        return exchange(c);
    }
    for (int i = 0;; i++) {
        if (rank == 1 && i == 20)
            raise(SIGKILL);
        TRY(exchange(c));
    }
}

int main(int argc, char **argv)
{
    comm *c = NULL;
    comm_options options = comm_options_defaults();
    options.watchdog_s = 1;
    options.check_calls = argc > 1 && strcmp(argv[1], "differ") == 0;
    status result = comm_create(&options, &c);
    if (result != STATUS_OK) {
        log_error("%s", error_message());
        return status_exit_code(result);
    }
    log_init(comm_world_rank(c), comm_world_size(c));
    result = go_wrong(c, argc > 1 ? argv[1] : "none", argc > 2 ? atoi(argv[2]) : 1);
    if (result != STATUS_OK) {
        log_error("%s", error_message());
        comm_abort(c, status_exit_code(result));
    }
    comm_destroy(c);
    return 0;
}
