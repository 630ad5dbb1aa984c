/* Rules that the fields of an object have to fit. */
#include "report/rules.h"

#include <stdio.h>
#include <string.h>

static const struct rule time_rules[] = {{"median", 'n'},   {"p05", 'n'},  {"p95", 'n'}, {"min", 'n'},
                                         {"mean", 'n'},     {"cv", 'N'},   {"n", 'i'},   {"ci95", 'a'},
                                         {"outliers", 'i'}, {"first", 'N'}};

/* As field_get, but a null stays one. *beyond: a field on the way is null, below which there is nothing to ask for. */
static json_t *value_at(const json_t *object, const char *path, bool *beyond)
{
    const char *dot = strchr(path, '.');
    char name[48];
    if (!dot) return json_object_get(object, path);
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    const json_t *below = json_object_get(object, name);
    if (json_is_null(below)) *beyond = true;
    return value_at(below, dot + 1, beyond);
}

static bool time_fits(const json_t *value, const char *where, char why[256])
{
    if (!object_fits(value, RULES(time_rules), where, why)) return false;
    const json_t *interval = json_object_get(value, "ci95");
    if (json_array_size(interval) == 2 && json_is_number(json_array_get(interval, 0)) &&
        json_is_number(json_array_get(interval, 1)))
        return true;
    snprintf(why, 256, "%s.ci95 is not two numbers", where);
    return false;
}

static bool value_fits(const json_t *value, char kind, const char *where, char why[256])
{
    const char *expected = NULL;
    if (!value && kind == 'M') return true;
    if (!value) return snprintf(why, 256, "%s is missing", where), false;
    if (kind == '*' || (kind >= 'A' && kind <= 'Z' && json_is_null(value))) return true;
    switch (kind) {
    case 's':
    case 'S':
        if (!json_is_string(value)) expected = "a text";
        break;
    case 'n':
    case 'N':
    case 'M':
        if (!json_is_number(value) || json_number_value(value) < 0) expected = "a number from 0";
        break;
    case 'i':
        if (!json_is_integer(value) || json_integer_value(value) < 0) expected = "a whole number from 0";
        break;
    case 'b':
        if (!json_is_boolean(value)) expected = "true or false";
        break;
    case 'a':
        if (!json_is_array(value)) expected = "an array";
        break;
    case 'o':
    case 'O':
        if (!json_is_object(value)) expected = "an object";
        break;
    default:
        if (!json_is_object(value)) expected = "a time";
    }
    if (expected) return snprintf(why, 256, "%s is not %s", where, expected), false;
    return (kind != 't' && kind != 'T') || time_fits(value, where, why);
}

bool object_fits(const json_t *object, const struct rule *rules, size_t count, const char *where, char why[256])
{
    if (!json_is_object(object)) return snprintf(why, 256, "%s is not an object", where), false;
    for (size_t n = 0; n < count; n++) {
        char name[160];
        snprintf(name, sizeof name, "%s%s%s", where, *where ? "." : "", rules[n].path);
        bool beyond = false;
        const json_t *value = value_at(object, rules[n].path, &beyond);
        if (!beyond && !value_fits(value, rules[n].kind, name, why)) return false;
    }
    return true;
}
