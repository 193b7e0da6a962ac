/* What the unit tests share: cmocka with the headers that it wants, and comparisons of arrays. */
#ifndef TRIFOLD_TESTS_CHECK_H
#define TRIFOLD_TESTS_CHECK_H

// cmocka.h needs these before it, in this order.
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

// cmocka's fail() would hide ours (base/status.h); its fail_msg() is built on it.
#undef fail
#undef fail_msg
#define fail_msg(...)                       \
    do {                                    \
        print_error("error: " __VA_ARGS__); \
        print_error("\n");                  \
        _fail(__FILE__, __LINE__);          \
    } while (0)

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* Fail the test with the recorded error unless `call` succeeds. */
#define assert_ok(call)                                                                \
    do {                                                                               \
        status check_status_ = (call);                                                 \
        if (check_status_ != STATUS_OK)                                                \
            fail_msg("%s: %s: %s", #call, status_str(check_status_), error_message()); \
    } while (0)

/* Fail the test unless `call` fails with `code` and a message that contains `text`; clears the
 * error. */
#define assert_fails(code, text, call)                                                   \
    do {                                                                                 \
        status check_status_ = (call);                                                   \
        if (check_status_ != (code))                                                     \
            fail_msg("%s: expected \"%s\", got \"%s\": %s", #call, status_str(code),     \
                     status_str(check_status_), error_message());                        \
        if (!strstr(error_message(), (text)))                                            \
            fail_msg("%s: message \"%s\" lacks \"%s\"", #call, error_message(), (text)); \
        error_clear();                                                                   \
    } while (0)

/* ||a - b|| / ||b||, or ||a|| where b is zero; NaN or infinity anywhere gives infinity. */
static inline double check_relative_l2(const float *a, const float *b, size_t n)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        error += d * d;
        norm += (double)b[i] * (double)b[i];
    }
    if (!isfinite(error) || !isfinite(norm))
        return INFINITY;
    return sqrt(norm > 0 ? error / norm : error);
}

/* Every |a[i] - b[i]| <= atol + rtol * |b[i]|; a NaN fails. Reports the worst element and the
 * relative L2 error. */
static inline void check_close(const char *what, const float *a, const float *b, size_t n,
                               double rtol, double atol)
{
    size_t worst = 0;
    double worst_excess = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double excess = fabs((double)a[i] - (double)b[i]) - (atol + rtol * fabs((double)b[i]));
        if (isnan(excess))
            excess = INFINITY;
        if (excess > worst_excess) {
            worst_excess = excess;
            worst = i;
        }
    }
    if (n > 0 && worst_excess > 0)
        fail_msg("%s: element %zu of %zu is %.9g, expected %.9g (relative L2 error %.3g)", what,
                 worst, n, (double)a[worst], (double)b[worst], check_relative_l2(a, b, n));
}
#define assert_close(a, b, n, rtol, atol) check_close(#a, a, b, n, rtol, atol)

#endif
