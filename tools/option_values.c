/* Values of options: read, and complained about. */
#include "option_values.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

static bool parse_number(const char *text, const char **end, double low, double high, uint64_t *out)
{
    char *stop;
    if (!isdigit((unsigned char)*text)) return false;
    errno = 0;
    unsigned long long value = strtoull(text, &stop, 10);
    if (errno || (double)value < low || (double)value > high) return false;
    *end = stop;
    *out = value;
    return true;
}

static bool parse_list(const struct option *o, const char *text, struct number_list *out)
{
    out->count = 0;
    for (;; text++) {
        uint64_t value;
        if (out->count == LIST_MAX) return complain(0, "--%s takes at most %d numbers", o->name, LIST_MAX), false;
        if (!parse_number(text, &text, o->low, o->high, &value) || (*text && *text != ','))
            return complain(0, "--%s takes whole numbers from %.0f to %.0f with commas between them, as in 5,17,128",
                            o->name, o->low, o->high),
                   false;
        out->values[out->count++] = (uint32_t)value;
        if (!*text) return true;
    }
}

static bool parse_size(const struct option *o, const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    const char *end, *unit;
    uint64_t value, factor = 1;
    bool good = parse_number(text, &end, o->low, o->high, &value);
    if (good && *end && (unit = strchr(units, toupper((unsigned char)*end))) != NULL) {
        factor = (uint64_t)1 << (10 * (unit - units + 1));
        end++;
    }
    if (!good || *end || value > UINT64_MAX / factor) {
        complain(0, "--%s %s: not a size; write bytes, or 512M, or 2G", o->name, text);
        return false;
    }
    *out = value * factor;
    return true;
}

static bool parse_choice(const struct option *o, const char *text, int *out)
{
    int place = 1;
    for (const char *at = o->values;; at++, place++) {
        size_t length = strcspn(at, "|");
        if (strlen(text) == length && strncmp(at, text, length) == 0) {
            *out = place;
            return true;
        }
        at += length;
        if (!*at) break;
    }
    char listed[96];
    snprintf(listed, sizeof listed, "%s", o->values);
    for (char *c = listed; *c; c++)
        if (*c == '|') *c = ' ';
    complain(0, "--%s %s: must be one of: %s", o->name, text, listed);
    return false;
}

/* A name of a plan, or a file: what has a '/' or a '.' in it. */
static bool parse_plan(const struct option *o, const char *text, struct options *out)
{
    if (!strpbrk(text, "/.")) return parse_choice(o, text, &out->plan);
    out->plan = 0;
    out->tuning = text;
    return true;
}

static bool parse_real(const struct option *o, const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= o->low && value <= o->high)) {
        complain(0, "--%s %s: must be %s from %g to %g", o->name, text, o->kind == SECONDS ? "seconds" : "a number",
                 o->low, o->high);
        return false;
    }
    *out = value;
    return true;
}

bool option_set(const struct option *o, const char *text, struct options *out)
{
    void *member = (char *)out + o->offset;
    uint64_t value;
    const char *end;
    switch (o->kind) {
    case FLAG:
        *(bool *)member = true;
        return true;
    case TEXT:
        *(const char **)member = text;
        return true;
    case CHOICE:
        return parse_choice(o, text, member);
    case PLAN:
        return parse_plan(o, text, out);
    case SIZE:
        return parse_size(o, text, member);
    case SECONDS:
    case NUMBER:
        return parse_real(o, text, member);
    case LIST:
        return parse_list(o, text, member);
    case FILES:
        if (out->files_count == FILES_MAX) return complain(0, "--%s takes at most %d files", o->name, FILES_MAX), false;
        out->files[out->files_count++] = text;
        return true;
    case COUNT:
        if (!parse_number(text, &end, o->low, o->high, &value) || *end) {
            complain(0, "--%s %s: must be a whole number from %.0f to %.0f", o->name, text, o->low, o->high);
            return false;
        }
        *(uint32_t *)member = (uint32_t)value;
        return true;
    }
    return false;
}
