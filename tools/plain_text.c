/* Numbers and texts as files and answers have them, in memory. */
#include "plain_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* 10^0 to 10^22 are exact doubles. */
static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

size_t format_float(float value, char text[NUMBER_SIZE])
{
    double magnitude = fabs((double)value);
    char *at = text;
    if (signbit(value)) *at++ = '-';
    if (magnitude == 0) {
        memcpy(at, "0", 2);
        return (size_t)(at - text) + 1;
    }
    if (!(magnitude >= 1e-5 && magnitude < 1e6)) { /* rare in embeddings: the C library's way */
        int length = snprintf(text, NUMBER_SIZE, "%.9g", (double)value);
        for (char *c = text; *c; c++)
            if (*c == ',') *c = '.';
        return (size_t)length;
    }
    int point = 6; /* digits before the decimal point; negative: zeros after it */
    while (point > -4 && magnitude < (point > 0 ? powers[point - 1] : 1 / powers[1 - point])) point--;
    /* The decimal must lie nearer than half the smaller distance to a neighbour, with room for this division's own
     * rounding, so that any correct reader finds this float. */
    int exponent;
    double fraction = frexp(magnitude, &exponent);
    double near = ldexp(fraction == 0.5 ? 0.249 : 0.499, exponent - 24);
    int digits = 6;
    double scaled = 0;
    for (;; digits++) {
        double power = powers[digits - point];
        scaled = rint(magnitude * power);
        if (digits == 9 || fabs(scaled / power - magnitude) < near) break;
    }
    char room[24], *all = room + sizeof room;
    int decimals = digits - point, length = 0;
    /* 0.00123: zeros in front, so that one digit precedes the point */
    for (uint64_t left = (uint64_t)scaled; left || length < decimals + 1; left /= 10, length++)
        *--all = (char)('0' + left % 10);
    int before = length - decimals;
    while (length > before && all[length - 1] == '0') length--;
    memcpy(at, all, (size_t)before);
    at += before;
    if (length > before) {
        *at++ = '.';
        memcpy(at, all + before, (size_t)(length - before));
        at += length - before;
    }
    *at = 0;
    return (size_t)(at - text);
}

const char *format_bytes(double bytes, char text[NUMBER_SIZE])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, NUMBER_SIZE, unit && bytes < 99.95 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

size_t repair_utf8(const char *text, size_t bytes, char *to)
{
    char *at = to;
    for (size_t n = 0, used; n < bytes; n += used) {
        uint32_t c;
        bool valid = true;
        used = utf8_decode(text + n, bytes - n, &c, &valid);
        memcpy(at, valid ? text + n : "\xEF\xBF\xBD", valid ? used : 3);
        at += valid ? used : 3;
    }
    return (size_t)(at - to);
}

size_t json_quote(const char *text, size_t bytes, char *to)
{
    char *at = to;
    *at++ = '"';
    for (size_t n = 0, used; n < bytes; n += used) {
        uint32_t c;
        bool valid = true;
        used = utf8_decode(text + n, bytes - n, &c, &valid);
        if (c == '"' || c == '\\') {
            *at++ = '\\';
            *at++ = (char)c;
        } else if (c < 0x20) {
            at += snprintf(at, 7, "\\u%04x", (unsigned)c);
        } else {
            memcpy(at, valid ? text + n : "\xEF\xBF\xBD", valid ? used : 3);
            at += valid ? used : 3;
        }
    }
    *at++ = '"';
    return (size_t)(at - to);
}
