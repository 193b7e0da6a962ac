// Scalars as YAML 1.1 reads them (yaml.org/type: null, bool, int, float), with one difference: a
// decimal number with an exponent is a number however it is written.
#include "config/config_schema.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 128 }; // bytes of a number's text with the NUL

static bool is_one_of(config_scalar s, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == s.length && !memcmp(*words, s.text, s.length))
            return true;
    return false;
}

bool config_scalar_is_null(config_scalar s)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};
    return s.plain && is_one_of(s, words);
}

scalar_result config_scalar_bool(config_scalar s, bool *value)
{
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
                                      "YES",  "on",   "On",   "ON",  NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
                                     "NO",    "off",   "Off",   "OFF", NULL};
    if (!s.plain)
        return SCALAR_OTHER;
    if (is_one_of(s, yes))
        *value = true;
    else if (is_one_of(s, no))
        *value = false;
    else
        return SCALAR_OTHER;
    return SCALAR_OK;
}

// The value of a digit in bases up to 16, 99 for what is none.
static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    return 99;
}

// Digits of `base`, "_" between them passed over, at least one; no sign.
static scalar_result digits(const char *text, size_t length, unsigned base, int64_t *value)
{
    bool any = false, fits = true;
    int64_t sum = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '_')
            continue;
        unsigned digit = digit_value(text[i]);
        if (digit >= base)
            return SCALAR_OTHER;
        any = true;
        if (__builtin_mul_overflow(sum, (int64_t)base, &sum) ||
            __builtin_add_overflow(sum, (int64_t)digit, &sum)) {
            fits = false;
            sum = 0;
        }
    }
    if (!any)
        return SCALAR_OTHER;
    *value = sum;
    return fits ? SCALAR_OK : SCALAR_TOO_LARGE;
}

// "1:30" is 90: parts of base 60, all but the first below 60.
static scalar_result sexagesimal(const char *text, size_t length, int64_t *value)
{
    int64_t sum = 0;
    bool first = true;
    for (size_t at = 0; at <= length;) {
        const char *colon = memchr(text + at, ':', length - at);
        size_t end = colon ? (size_t)(colon - text) : length;
        int64_t part = 0;
        if (!first && end - at > 2)
            return SCALAR_OTHER;
        scalar_result result = digits(text + at, end - at, 10, &part);
        if (result != SCALAR_OK)
            return result;
        if (!first && part > 59)
            return SCALAR_OTHER;
        if (__builtin_mul_overflow(sum, INT64_C(60), &sum) ||
            __builtin_add_overflow(sum, part, &sum))
            return SCALAR_TOO_LARGE;
        first = false;
        at = end + 1;
    }
    *value = sum;
    return SCALAR_OK;
}

static scalar_result unsigned_int(const char *text, size_t length, int64_t *value)
{
    if (length == 0 || !isdigit((unsigned char)text[0]))
        return SCALAR_OTHER;
    if (length > 2 && text[0] == '0' && text[1] == 'b')
        return digits(text + 2, length - 2, 2, value);
    if (length > 2 && text[0] == '0' && text[1] == 'x')
        return digits(text + 2, length - 2, 16, value);
    if (length > 1 && text[0] == '0')
        return digits(text + 1, length - 1, 8, value);
    if (memchr(text, ':', length))
        return sexagesimal(text, length, value);
    return digits(text, length, 10, value);
}

scalar_result config_scalar_int(config_scalar s, int64_t *value)
{
    if (!s.plain || s.length == 0)
        return SCALAR_OTHER;
    bool sign = s.text[0] == '-' || s.text[0] == '+';
    int64_t magnitude = 0;
    scalar_result result = unsigned_int(s.text + sign, s.length - sign, &magnitude);
    if (result == SCALAR_OK)
        *value = s.text[0] == '-' ? -magnitude : magnitude;
    return result;
}

// Copy digits at `*at` without "_"; their number.
static size_t copy_digits(config_scalar s, size_t *at, char *out, size_t *used)
{
    size_t n = 0;
    for (; *at < s.length; (*at)++) {
        char c = s.text[*at];
        if (c == '_' && n > 0)
            continue;
        if (!isdigit((unsigned char)c))
            break;
        out[(*used)++] = c;
        n++;
    }
    return n;
}

// Copy a decimal number [+-]digits[.digits][e[+-]digits] as strtod wants it; false for anything
// else. `out` has room for the whole scalar.
static bool copy_decimal(config_scalar s, char *out)
{
    size_t at = 0, used = 0;
    if (s.text[at] == '-' || s.text[at] == '+')
        out[used++] = s.text[at++];
    bool zero_first = at + 1 < s.length && s.text[at] == '0' && s.text[at + 1] != '.' &&
                      s.text[at + 1] != 'e' && s.text[at + 1] != 'E';
    size_t whole = copy_digits(s, &at, out, &used);
    size_t after = 0;
    bool point = at < s.length && s.text[at] == '.';
    if (point) {
        out[used++] = s.text[at++];
        after = copy_digits(s, &at, out, &used);
    }
    // "010" is eight to YAML and ten to people: neither is meant for certain.
    if (whole + after == 0 || (zero_first && !point))
        return false;
    if (at < s.length && (s.text[at] == 'e' || s.text[at] == 'E')) {
        out[used++] = s.text[at++];
        if (at < s.length && (s.text[at] == '-' || s.text[at] == '+'))
            out[used++] = s.text[at++];
        size_t start = used;
        while (at < s.length && isdigit((unsigned char)s.text[at]))
            out[used++] = s.text[at++];
        if (used == start)
            return false;
    }
    out[used] = '\0';
    return at == s.length;
}

static bool names_no_finite(config_scalar s)
{
    static const char *const words[] = {"nan",  "inf",  "infinity", ".nan", ".NaN", ".NAN",
                                        ".inf", ".Inf", ".INF",     "NaN",  "Inf",  NULL};
    if (s.length > 0 && (s.text[0] == '-' || s.text[0] == '+')) {
        s.text++;
        s.length--;
    }
    return is_one_of(s, words);
}

scalar_result config_scalar_float(config_scalar s, double *value)
{
    char text[NUMBER_MAX];
    if (!s.plain || s.length == 0)
        return SCALAR_OTHER;
    if (names_no_finite(s))
        return SCALAR_NOT_FINITE;
    if (s.length >= sizeof text || !copy_decimal(s, text))
        return SCALAR_OTHER;
    errno = 0;
    double number = strtod(text, NULL);
    if (errno == ERANGE && number != 0 && (number > 1 || number < -1))
        return SCALAR_TOO_LARGE;
    *value = number;
    return SCALAR_OK;
}

const char *config_scalar_describe(char out[CONFIG_QUOTE_MAX + 16], config_scalar s)
{
    char quoted[CONFIG_QUOTE_MAX];
    int64_t whole;
    double number;
    bool truth;
    if (config_scalar_is_null(s))
        snprintf(out, CONFIG_QUOTE_MAX + 16, "null");
    else if (config_scalar_bool(s, &truth) == SCALAR_OK)
        snprintf(out, CONFIG_QUOTE_MAX + 16, "%s", truth ? "true" : "false");
    else if (config_scalar_int(s, &whole) != SCALAR_OTHER ||
             config_scalar_float(s, &number) != SCALAR_OTHER)
        snprintf(out, CONFIG_QUOTE_MAX + 16, "the number %.*s",
                 (int)(s.length < 60 ? s.length : 60), s.text);
    else
        snprintf(out, CONFIG_QUOTE_MAX + 16, "the text %s", config_quote(quoted, s.text, s.length));
    return out;
}
