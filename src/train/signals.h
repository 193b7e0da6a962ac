/* Requests to stop: SIGTERM, SIGINT and SIGUSR1 set a flag that the loop reads between iterations
 * (mpirun forwards SIGUSR1 to all ranks). A second SIGINT ends the process at once. */
#ifndef TRIFOLD_TRAIN_SIGNALS_H
#define TRIFOLD_TRAIN_SIGNALS_H

void signals_install(void);

/* The signal that asked to stop, or 0. */
int signals_stop_requested(void);

#endif
