#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER;
static char record_text[2048];
static bool record_set;

const char *status_str(status code)
{
    switch (code) {
    case STATUS_OK:
        return "ok";
    case STATUS_ERR_CONFIG:
        return "configuration error";
    case STATUS_ERR_FORMAT:
        return "damaged or foreign file";
    case STATUS_ERR_UNSUPPORTED:
        return "not supported";
    case STATUS_ERR_IO:
        return "input/output error";
    case STATUS_ERR_MEMORY:
        return "out of memory";
    case STATUS_ERR_COMM:
        return "communication error";
    case STATUS_ERR_DEVICE:
        return "device error";
    case STATUS_ERR_NUMERICS:
        return "numerical failure";
    case STATUS_CHECK_FAILED:
        return "check failed";
    case STATUS_INTERRUPTED:
        return "interrupted";
    }
    return "unknown status";
}

int status_exit_code(status code)
{
    switch (code) {
    case STATUS_OK:
        return 0;
    case STATUS_ERR_CONFIG:
    case STATUS_ERR_FORMAT:
    case STATUS_ERR_UNSUPPORTED:
        return 2;
    case STATUS_CHECK_FAILED:
        return 3;
    case STATUS_INTERRUPTED:
        return 75;
    default:
        return 1;
    }
}

static void record(const char *text)
{
    pthread_mutex_lock(&record_lock);
    if (!record_set) {
        snprintf(record_text, sizeof record_text, "%s", text);
        // Texts of files stand in messages; a message is one line all the same.
        for (char *c = record_text; *c; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?';
        record_set = true;
    }
    pthread_mutex_unlock(&record_lock);
}

status fail(status code, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    record(text);
    return code;
}

status fail_errno(status code, const char *format, ...)
{
    int error = errno;
    char text[1900];
    char whole[2048];
    char reason[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    // The GNU form, which returns the text and need not use the buffer.
    snprintf(whole, sizeof whole, "%s: %s", text, strerror_r(error, reason, sizeof reason));
    record(whole);
    return code;
}

const char *error_message(void)
{
    return record_text;
}

void error_clear(void)
{
    pthread_mutex_lock(&record_lock);
    record_text[0] = '\0';
    record_set = false;
    pthread_mutex_unlock(&record_lock);
}
