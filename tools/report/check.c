/* Whether a record's derived numbers are those that follow from its raw ones. */
#include "report/check.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "report/derive.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/keys.h"
#include "session.h"

static const double tolerance = 1e-9; /* relative: another program may have written the decimals */

enum { PATH_SIZE = 256 };

/* ---- what is wrong ---- */

static const char *value_text(const json_t *value, char text[NUMBER_SIZE])
{
    if (json_is_number(value)) return format_exact(json_number_value(value), text);
    if (json_is_string(value)) return snprintf(text, NUMBER_SIZE, "\"%.26s\"", json_string_value(value)), text;
    if (json_is_boolean(value)) return json_is_true(value) ? "true" : "false";
    return !value ? "nothing" : json_is_null(value) ? "null" : json_is_array(value) ? "an array" : "an object";
}

static void wrong_value(struct check *check, const char *path, const json_t *stored, const json_t *derived)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    check->wrong++;
    output_format(check->out, "%s: %s: stored %s, derived %s\n", check->file, path, value_text(stored, a),
                  value_text(derived, b));
}

static void wrong(struct check *check, const char *path, const char *why)
{
    check->wrong++;
    output_format(check->out, "%s: %s: %s\n", check->file, path, why);
}

/* "op layer.0.qkv of flash", "plan flash", "ceiling dram.copy", "ceilings[3]": what readers know an entry by. */
static void entry_name(const char *list, const json_t *entry, size_t n, char path[PATH_SIZE])
{
    if (strcmp(list, "ops") == 0)
        snprintf(path, PATH_SIZE, "op %.80s of %.40s", field_text(entry, "id"), field_text(entry, "plan"));
    else if (strcmp(list, "plans") == 0)
        snprintf(path, PATH_SIZE, "plan %.40s", field_text(entry, "plan"));
    else if (strcmp(list, "ceilings") == 0)
        snprintf(path, PATH_SIZE, "ceiling %.40s (%.60s)", field_text(entry, "id"), field_text(entry, "config"));
    else
        snprintf(path, PATH_SIZE, "%s[%zu]", list, n);
}

/* ---- stored against derived ---- */

static void compare(struct check *check, const char *path, const json_t *stored, const json_t *derived);

static void compare_objects(struct check *check, const char *path, const json_t *stored, const json_t *derived)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)derived, key, value)
    {
        char below[PATH_SIZE];
        if (!*path && strcmp(key, "warnings") == 0) continue; /* a set, with texts for readers */
        snprintf(below, sizeof below, "%s%s%.60s", path, *path ? ": " : "", key);
        compare(check, below, json_object_get(stored, key), value);
    }
}

static void compare_arrays(struct check *check, const char *path, const json_t *stored, const json_t *derived)
{
    size_t n;
    json_t *value;
    if (json_array_size(stored) != json_array_size(derived)) {
        wrong_value(check, path, stored, derived);
        return;
    }
    json_array_foreach(derived, n, value)
    {
        char below[PATH_SIZE];
        entry_name(path, value, n, below);
        compare(check, below, json_array_get(stored, n), value);
    }
}

static void compare(struct check *check, const char *path, const json_t *stored, const json_t *derived)
{
    if (json_is_number(derived) && json_is_number(stored)) {
        double a = json_number_value(stored), b = json_number_value(derived);
        check->numbers++;
        if (!(fabs(a - b) <= tolerance * fmax(fabs(a), fabs(b)))) wrong_value(check, path, stored, derived);
    } else if (!stored || json_typeof(stored) != json_typeof(derived)) {
        wrong_value(check, path, stored, derived);
    } else if (json_is_object(derived)) {
        compare_objects(check, path, stored, derived);
    } else if (json_is_array(derived)) {
        compare_arrays(check, path, stored, derived);
    } else if (!json_equal(stored, derived)) {
        wrong_value(check, path, stored, derived);
    }
}

/* ---- warnings ---- */

static struct key warning_key(const json_t *warning)
{
    return (struct key){.texts = {field_text(warning, "code"), field_text(warning, "plan"), field_text(warning, "op")}};
}

static bool is_derived(const json_t *warning)
{
    for (size_t n = 0; n < sizeof derived_warnings / sizeof *derived_warnings; n++)
        if (strcmp(derived_warnings[n], field_text(warning, "code")) == 0) return true;
    return false;
}

static void warning_path(const json_t *warning, char path[PATH_SIZE])
{
    const char *op = field_text(warning, "op");
    snprintf(path, PATH_SIZE, "warning %.40s%s%.80s%s%.40s", field_text(warning, "code"), *op ? " on " : "", op,
             *op ? " of " : "", field_text(warning, "plan"));
}

/* Names the derived warnings of `record` that are more there than in the other. */
static void check_more(const json_t *record, const struct keys *here, const struct keys *there, const char *what,
                       struct check *check)
{
    size_t n;
    const json_t *warning;
    char path[PATH_SIZE];
    json_array_foreach(json_object_get(record, "warnings"), n, warning)
    {
        if (!is_derived(warning) || keys_like(there, warning_key(warning)) >= keys_like(here, warning_key(warning)))
            continue;
        warning_path(warning, path);
        wrong(check, path, what);
    }
}

static void check_warnings(const json_t *stored, const json_t *derived, struct check *check)
{
    struct keys old = keys_of_list(json_object_get(stored, "warnings"), warning_key);
    struct keys new = keys_of_list(json_object_get(derived, "warnings"), warning_key);
    check_more(derived, &new, &old, "is missing", check);
    check_more(stored, &old, &new, "does not follow from the record", check);
    keys_free(&old);
    keys_free(&new);
}

/* ---- raw fields that contradict each other ---- */

/* A quantile between two equal samples may be rounded to either side of them. */
static bool in_order(double a, double b) { return a <= b * (1 + tolerance); }

static void check_time(const json_t *time, const char *path, struct check *check)
{
    double median = field_number(time, "median"), low = time_bound(time, 0), high = time_bound(time, 1);
    if (!time) return;
    check->numbers++;
    if (!(in_order(field_number(time, "min"), field_number(time, "p05")) &&
          in_order(field_number(time, "p05"), median) && in_order(median, field_number(time, "p95")) &&
          in_order(low, median) && in_order(median, high)))
        wrong(check, path, "min, p05, median, p95 and the interval are not in order");
    if (field_number(time, "n") < 1 || !(median > 0)) wrong(check, path, "a time that was not measured");
}

static void check_times(const json_t *record, struct check *check)
{
    static const char *const lists[] = {"ceilings", "sweep", "launch", "ops", "plans"};
    static const char *const fields[] = {"time", "warm", "cold", "step.host", "step.kernels"};
    char path[PATH_SIZE];
    size_t n;
    const json_t *entry;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        json_array_foreach(json_object_get(record, lists[l]), n, entry)
        {
            entry_name(lists[l], entry, n, path);
            const struct text_writer entry_path = text_behind(path, sizeof path);
            for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
                struct text_writer t = entry_path;
                text_add(&t, ": %s", fields[f]);
                check_time(field_get(entry, fields[f]), path, check);
            }
        }
    }
}

static void check_workload(const json_t *record, struct check *check)
{
    const json_t *workload = json_object_get(record, "workload"), *lengths = field_get(workload, "lengths"), *length;
    double tokens = 0;
    size_t n;
    if (!lengths) return;
    json_array_foreach(lengths, n, length) tokens += json_number_value(length);
    check->numbers += 2;
    if (field_number(workload, "tokens") != tokens) wrong(check, "workload: tokens", "not the sum of the lengths");
    if (field_number(workload, "sequences") != (double)json_array_size(lengths))
        wrong(check, "workload: sequences", "not the number of lengths");
}

static void check_plan(const json_t *plan, const struct plan_ops *ops, struct check *check)
{
    char path[PATH_SIZE];
    double groups = (double)ops->count, launches = 0;
    for (size_t n = 0; n < ops->count; n++) {
        const json_t *op = ops->list[n];
        launches += field_number(op, "launches");
        if (strcmp(field_text(op, "dtype.store"), field_text(plan, "dtype")) != 0) {
            entry_name("ops", op, n, path);
            wrong(check, path, "another storage type than the plan's");
        }
    }
    entry_name("plans", plan, 0, path);
    check->numbers += 2;
    if (groups > field_number(plan, "groups")) wrong(check, path, "more operations than groups");
    if (groups == field_number(plan, "groups") && launches != field_number(plan, "launches"))
        wrong(check, path, "launches are not the sum of its operations'");
}

/* A time by a timer that lies yields no bandwidth, not even a plausible one. */
static void check_timer(const json_t *record, const json_t *op, size_t n, struct check *check)
{
    char path[PATH_SIZE];
    const char *status = field_text(record_device_of(record, op), "timer.status");
    bool trusted = !*status || strcmp(status, "ok") == 0;
    if ((trusted && field_true(op, "checks.timer_ok")) || !field_get(op, "warm")) return;
    entry_name("ops", op, n, path);
    wrong(check, path, "has a warm time, and the timer is not to be trusted");
}

void record_check(const json_t *record, struct check *check)
{
    size_t n;
    const json_t *entry;
    json_t *derived = need(json_deep_copy(record));
    record_derive(derived);
    compare(check, "", record, derived);
    check_warnings(record, derived, check);
    json_decref(derived);
    check_times(record, check);
    check_workload(record, check);
    struct op_groups groups = ops_group(record);
    json_array_foreach(json_object_get(record, "plans"), n, entry) check_plan(entry, &groups.plans[n], check);
    op_groups_free(&groups);
    json_array_foreach(json_object_get(record, "ops"), n, entry) check_timer(record, entry, n, check);
}
