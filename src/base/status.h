/* Status codes and the error record.
 *
 * Every function that can fail returns a `status`: 0 or a negative code. Whoever detects an error
 * records it once with fail(); callers only forward the code with TRY(). The first record of a
 * process wins until error_clear(), so an error during clean-up never hides its cause. Nothing is
 * printed here: a tool's main, or the agreement of all ranks (comm_agree), prints the record once.
 */
#ifndef TRIFOLD_BASE_STATUS_H
#define TRIFOLD_BASE_STATUS_H

#include <stddef.h>

typedef enum status {
    STATUS_OK = 0,
    STATUS_ERR_CONFIG = -1,      /* usage, configuration or input files: what a user can mend */
    STATUS_ERR_FORMAT = -2,      /* a damaged or foreign file */
    STATUS_ERR_UNSUPPORTED = -3, /* valid, but not done by this program */
    STATUS_ERR_IO = -4,          /* the system refused to read or write */
    STATUS_ERR_MEMORY = -5,
    STATUS_ERR_COMM = -6,     /* MPI, or a peer that failed */
    STATUS_ERR_DEVICE = -7,   /* oneDNN, CUDA */
    STATUS_ERR_NUMERICS = -8, /* training diverged beyond what the loss scale can mend */
    STATUS_CHECK_FAILED = -9, /* a comparison or verification fell short */
    STATUS_INTERRUPTED = -10, /* stopped by a signal after saving */
} status;

/* A short lower-case name of the code, for logs. */
const char *status_str(status code);

/* The exit status of the program for `code`: 0, 1, 2, 3 or 75 (docs/configuration.md). */
int status_exit_code(status code);

/* Record `code` with a message and return `code`. The message is one line without a newline, says
 * what is wrong with its numbers and, after a semicolon, what would be right. Thread-safe. */
status fail(status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As fail(), with ": " and the text of errno appended. */
status fail_errno(status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The recorded message, or "" if none. Valid until error_clear(). */
const char *error_message(void);

/* Forget the record, after an error that was handled. */
void error_clear(void);

/* Forward a failure to the caller. */
#define TRY(call)                     \
    do {                              \
        status try_status_ = (call);  \
        if (try_status_ != STATUS_OK) \
            return try_status_;       \
    } while (0)

/* Forward a failure through clean-up: sets `result`, which the enclosing function returns at the
 * label `out`. */
#define TRY_OUT(result, call)      \
    do {                           \
        (result) = (call);         \
        if ((result) != STATUS_OK) \
            goto out;              \
    } while (0)

#endif
