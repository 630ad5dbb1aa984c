/* Numbers as text. The C library's functions do the work, but are never shown a decimal point. */
#include "base/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What printf writes besides a locale's decimal point, which may have several bytes. */
static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-';
}

char *number_text(char text[NUMBER_TEXT], const char *format, double value)
{
    size_t kept = 0;
    snprintf(text, NUMBER_TEXT, format, value);
    for (size_t i = 0; text[i]; i++) {
        if (is_plain(text[i]))
            text[kept++] = text[i];
        else if (!i || is_plain(text[i - 1]) || !kept || text[kept - 1] != '.')
            text[kept++] = '.';
    }
    text[kept] = 0;
    return text;
}

/* More digits than any double needs to be told from its neighbours in practice, and an exponent beyond any double's. */
enum { DIGITS = 60, EXPONENT_MOST = 1000000 };

struct digits {
    char text[DIGITS + 16]; /* and an exponent */
    size_t count;
    long exponent; /* the number is text * 10^exponent */
    bool any;
};

static const char *read_digits(const char *at, bool behind_point, struct digits *d)
{
    for (; *at >= '0' && *at <= '9'; at++) {
        bool keep = d->count < DIGITS && (d->count || *at != '0');
        d->any = true;
        if (keep) d->text[d->count++] = *at;
        if (behind_point && (keep || !d->count)) d->exponent--;
        if (!behind_point && !keep && d->count) d->exponent++;
    }
    return at;
}

static const char *read_exponent(const char *text, long *exponent)
{
    if (*text != 'e' && *text != 'E') return text;
    const char *at = text + 1;
    bool negative = *at == '-';
    long value = 0;
    at += *at == '-' || *at == '+';
    if (*at < '0' || *at > '9') return text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (value < EXPONENT_MOST) value = 10 * value + (*at - '0');
    *exponent += negative ? -value : value;
    return at;
}

double number_read(const char *text, const char **end)
{
    struct digits d = {.count = 0};
    const char *at = text, *ignored;
    double value = 0;
    bool negative = *at == '-';
    if (!end) end = &ignored;
    *end = text;
    at += *at == '-' || *at == '+';
    if (!strncmp(at, "inf", 3) || !strncmp(at, "nan", 3)) {
        value = *at == 'i' ? (double)INFINITY : (double)NAN;
        *end = at + 3;
        return negative ? -value : value;
    }
    at = read_digits(at, false, &d);
    if (*at == '.') at = read_digits(at + 1, true, &d);
    if (!d.any) return 0;
    *end = at = read_exponent(at, &d.exponent);
    if (d.count) {
        snprintf(d.text + d.count, sizeof d.text - d.count, "e%ld", d.exponent);
        value = strtod(d.text, NULL);
    }
    return negative ? -value : value;
}
