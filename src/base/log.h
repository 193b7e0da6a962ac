/* Progress for people, on standard error.
 *
 * Lines are lower case, without "=", one line a call. log_init() names the rank; info lines appear
 * on rank 0 only, warnings on every rank that has one, prefixed with the rank when there are
 * several. Errors are not logged where they are found: see status.h. Thread-safe. */
#ifndef TRIFOLD_BASE_LOG_H
#define TRIFOLD_BASE_LOG_H

/* Until it is called the process counts as rank 0 of 1. */
void log_init(int world_rank, int world_size);

/* Printed on rank 0 only. */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Printed on the calling rank. For facts that all ranks see alike, call it on rank 0 only. */
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The final line of a failed run: "trifold: MESSAGE". Only for a tool's main and comm_agree. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
