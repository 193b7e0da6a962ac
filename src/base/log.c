#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static int log_rank = 0;
static int log_size = 1;

void log_init(int world_rank, int world_size)
{
    log_rank = world_rank;
    log_size = world_size;
}

// One write a line, so that lines of several ranks do not mix.
static void print_line(const char *prefix, const char *format, va_list args)
{
    char line[4096];
    int used = snprintf(line, sizeof line, "%s", prefix);
    if (used < 0)
        return;
    int rest = vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    if (rest < 0)
        return;
    fprintf(stderr, "%s\n", line);
}

void log_info(const char *format, ...)
{
    if (log_rank != 0)
        return;
    va_list args;
    va_start(args, format);
    print_line("", format, args);
    va_end(args);
}

void log_warn(const char *format, ...)
{
    char prefix[48] = "warning: ";
    if (log_size > 1)
        snprintf(prefix, sizeof prefix, "warning: [rank %d] ", log_rank);
    va_list args;
    va_start(args, format);
    print_line(prefix, format, args);
    va_end(args);
}

void log_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line("trifold: ", format, args);
    va_end(args);
}
