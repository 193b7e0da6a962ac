#include "cmd_job.h"

#include <stdbool.h>

#include "base/log.h"

static bool began; // MPI starts once in the life of a process

status cmd_job_begin(comm **cm)
{
    const comm_options how = comm_options_defaults();
    began = true;
    TRY(comm_create(&how, cm));
    log_init(comm_world_rank(*cm), comm_world_size(*cm));
    return STATUS_OK;
}

// The launcher kills the other ranks as soon as one ends with an error, so rank 0 speaks while all
// are still joined.
status cmd_job_end(comm *cm, status result)
{
    if (result != STATUS_OK && error_message()[0] && comm_world_rank(cm) == 0)
        log_error("%s", error_message());
    error_clear();
    comm_destroy(cm);
    return result;
}

void cmd_job_report(status result)
{
    comm *cm;
    if (result == STATUS_OK || !error_message()[0])
        return;
    if (!began && comm_launched() && cmd_job_begin(&cm) == STATUS_OK)
        cmd_job_end(cm, comm_agree(cm, result));
    else
        log_error("%s", error_message());
}
