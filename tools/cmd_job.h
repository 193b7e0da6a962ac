/* The job of all ranks, from the start of MPI to the one line that tells why it failed. */
#ifndef TRIFOLD_TOOLS_CMD_JOB_H
#define TRIFOLD_TOOLS_CMD_JOB_H

#include "base/status.h"
#include "comm/comm.h"

/* Start MPI and tell the log which rank this is. Collective. */
status cmd_job_begin(comm **cm);

/* Print the error record on rank 0 and stop MPI. `result` and the record are the same on all ranks
 * and `result` is returned. Collective. */
status cmd_job_end(comm *cm, status result);

/* Print the error record of a `result` that came before any job, or of its start, once for all
 * ranks that a launcher may have started. Nothing where there is no record. */
void cmd_job_report(status result);

#endif
