/* How numbers are written. */
#include "report/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *format_none(char text[NUMBER_SIZE]) { return memcpy(text, "-", 2); }

const char *format_short(double value, char text[NUMBER_SIZE])
{
    if (!isfinite(value)) return format_none(text);
    double size = fabs(value);
    snprintf(text, NUMBER_SIZE, "%.*f", size < 9.9995 ? 3 : size < 99.995 ? 2 : size < 999.95 ? 1 : 0, value);
    return text;
}

const char *format_unit(double value, const char *unit, char text[NUMBER_SIZE])
{
    static const char *const prefixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P"};
    size_t prefix = 3;
    if (!isfinite(value) || value <= 0) return format_none(text);
    for (; value >= 999.5 && prefix + 1 < sizeof prefixes / sizeof *prefixes; prefix++) value /= 1000;
    for (; value < 0.9995 && prefix > 0; prefix--) value *= 1000;
    snprintf(text, NUMBER_SIZE, "%.*f %s%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, prefixes[prefix], unit);
    return text;
}

const char *format_percent(double share, char text[NUMBER_SIZE])
{
    if (!isfinite(share)) return format_none(text);
    snprintf(text, NUMBER_SIZE, "%.*f", fabs(share) < 0.0995 ? 1 : 0, 100 * share);
    return text;
}

const char *format_exact(double value, char text[NUMBER_SIZE])
{
    text[0] = 0;
    if (!isfinite(value)) return text;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER_SIZE, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return text;
}
