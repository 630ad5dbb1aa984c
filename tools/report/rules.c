/* What the fields of an object have to be. */
#include "report/rules.h"

#include <stdio.h>
#include <string.h>
#include <wherry/wherry_measure.h>

#define AT(member) offsetof(wherry_time, member)
static const struct field time_list[] = {{"median", 'n', FIELD_NUMBER, AT(median), .column = "median"},
                                         {"p05", 'n', FIELD_NUMBER, AT(p05), .column = "p05"},
                                         {"p95", 'n', FIELD_NUMBER, AT(p95), .column = "p95"},
                                         {"min", 'n', FIELD_NUMBER, AT(min), .column = "min"},
                                         {"mean", 'n', FIELD_NUMBER, AT(mean), .column = "mean"},
                                         {"cv", 'N', FIELD_NUMBER, AT(cv), .column = "cv"},
                                         {"n", 'i', FIELD_SAMPLES, AT(n), .column = "n"},
                                         {"outliers", 'i', FIELD_SAMPLES, AT(outliers), .column = "outliers"},
                                         {"first", 'N', FIELD_NUMBER, AT(first), .column = "first"},
                                         {"ci95", 'a', FIELD_LOW, AT(ci_low), .column = "ci_low"},
                                         {"ci95", 'a', FIELD_HIGH, AT(ci_high), .column = "ci_high"}};
const struct fields time_fields = {time_list, sizeof time_list / sizeof *time_list};

json_t *value_at(const json_t *object, const char *path, bool *beyond)
{
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        char name[48];
        size_t length = (size_t)(dot - path);
        if (length >= sizeof name) return NULL;
        memcpy(name, path, length);
        name[length] = 0;
        object = json_object_get(object, name);
        if (json_is_null(object)) *beyond = true;
    }
    return json_object_get(object, path);
}

static bool time_fits(const json_t *value, const char *where, char why[256])
{
    if (!object_fits(value, time_fields, where, why)) return false;
    const json_t *interval = json_object_get(value, "ci95");
    if (json_array_size(interval) == 2 && json_is_number(json_array_get(interval, 0)) &&
        json_is_number(json_array_get(interval, 1)))
        return true;
    snprintf(why, 256, "%s.ci95 is not two numbers", where);
    return false;
}

/* What a value has to be and is not; NULL: it is. */
static const char *lacking(const json_t *value, char rule)
{
    if (rule == '*' || (rule >= 'A' && rule <= 'Z' && json_is_null(value))) return NULL;
    switch (rule) {
    case 's':
    case 'S':
        return json_is_string(value) ? NULL : "a text";
    case 'n':
    case 'N':
    case 'M':
        return json_is_number(value) && !(json_number_value(value) < 0) ? NULL : "a number from 0";
    case 'i':
        return json_is_integer(value) && json_integer_value(value) >= 0 ? NULL : "a whole number from 0";
    case 'b':
        return json_is_boolean(value) ? NULL : "true or false";
    case 'a':
        return json_is_array(value) ? NULL : "an array";
    case 'o':
    case 'O':
        return json_is_object(value) ? NULL : "an object";
    default:
        return json_is_object(value) ? NULL : "a time";
    }
}

static bool field_fits(const json_t *object, const struct field *field, const char *where, char why[256])
{
    bool beyond = false;
    const json_t *value = value_at(object, field->path, &beyond);
    if (beyond || (!value && field->rule == 'M')) return true;
    const char *wanted = value ? lacking(value, field->rule) : NULL;
    bool time = (field->rule == 't' || field->rule == 'T') && json_is_object(value);
    if (value && !wanted && !time) return true;
    char name[160]; /* made only where it is told: a record has thousands of fields */
    snprintf(name, sizeof name, "%s%s%s", where, *where ? "." : "", field->path);
    if (!value) return snprintf(why, 256, "%s is missing", name), false;
    if (wanted) return snprintf(why, 256, "%s is not %s", name, wanted), false;
    return time_fits(value, name, why);
}

bool object_fits(const json_t *object, struct fields fields, const char *where, char why[256])
{
    if (!json_is_object(object)) return snprintf(why, 256, "%s is not an object", where), false;
    for (size_t n = 0; n < fields.count; n++)
        if (fields.list[n].rule != '-' && !field_fits(object, &fields.list[n], where, why)) return false;
    return true;
}
