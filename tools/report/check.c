/* Whether a record's derived numbers are those that follow from its raw ones. */
#include "report/check.h"

#include <string.h>

#include "base/text.h"
#include "report/derive.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/keys.h"
#include "report/loads.h"
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

void check_wrong(struct check *check, const char *path, const char *why)
{
    check->wrong++;
    output_format(check->out, "%s: %s: %s\n", check->file, path, why);
}

/* "op layer.0.qkv of flash", "plan flash", "ceiling dram.copy", "ceilings[3]": what readers know an entry by. */

static void name_op(const char *id, const char *plan, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "op %.80s of %.40s", id, plan);
}

static void name_plan(const char *plan, char path[PATH_SIZE]) { snprintf(path, PATH_SIZE, "plan %.40s", plan); }

static void name_entry(const char *list, const json_t *entry, size_t n, char path[PATH_SIZE])
{
    if (strcmp(list, "ops") == 0)
        name_op(field_text(entry, "id"), field_text(entry, "plan"), path);
    else if (strcmp(list, "plans") == 0)
        name_plan(field_text(entry, "plan"), path);
    else if (strcmp(list, "loads") == 0)
        snprintf(path, PATH_SIZE, "load of %.0f clients", field_number(entry, "clients"));
    else if (strcmp(list, "ceilings") == 0)
        snprintf(path, PATH_SIZE, "ceiling %.40s (%.60s)", field_text(entry, "id"), field_text(entry, "config"));
    else
        snprintf(path, PATH_SIZE, "%s[%zu]", list, n);
}

/* ---- stored against derived ---- */

static void compare_objects(struct check *check, const char *path, const json_t *stored, const json_t *derived)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)derived, key, value)
    {
        char below[PATH_SIZE];
        if (!*path && strcmp(key, "warnings") == 0) continue; /* a set, with texts for readers */
        snprintf(below, sizeof below, "%s%s%.60s", path, *path ? ": " : "", key);
        check_compare(check, below, json_object_get(stored, key), value);
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
        name_entry(path, value, n, below);
        check_compare(check, below, json_array_get(stored, n), value);
    }
}

void check_compare(struct check *check, const char *path, const json_t *stored, const json_t *derived)
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

static struct key warning_key(const void *entry)
{
    const struct record_warning *warning = entry;
    return (struct key){.texts = {warning->code, warning->plan, warning->op}};
}

static struct keys warning_keys(const struct record *record)
{
    return keys_of(record->warnings, record->warning_count, sizeof *record->warnings, warning_key);
}

static void warning_path(const struct record_warning *warning, char path[PATH_SIZE])
{
    bool on = *warning->op;
    snprintf(path, PATH_SIZE, "warning %.40s%s%.80s%s%.40s", warning->code, on ? " on " : "", warning->op,
             on ? " of " : "", warning->plan);
}

/* Names the derived warnings of `record` that are more there than in the other. */
static void check_more(const struct record *record, const struct keys *here, const struct keys *there, const char *what,
                       struct check *check)
{
    char path[PATH_SIZE];
    for (size_t n = 0; n < record->warning_count; n++) {
        const struct record_warning *warning = &record->warnings[n];
        struct key key = warning_key(warning);
        if (!warning_is_derived(warning) || keys_like(there, key) >= keys_like(here, key)) continue;
        warning_path(warning, path);
        check_wrong(check, path, what);
    }
}

static void check_warnings(const struct record *stored, const struct record *derived, struct check *check)
{
    struct keys old = warning_keys(stored), new = warning_keys(derived);
    check_more(derived, &new, &old, "is missing", check);
    check_more(stored, &old, &new, "does not follow from the record", check);
    keys_free(&old);
    keys_free(&new);
}

/* What is stored against a copy whose derived fields are made and written again. */
static void check_derived(const struct record *record, struct check *check)
{
    struct record again;
    json_t *copy = need(json_deep_copy(record->json));
    record_open(copy, &again);
    record_derive(&again);
    record_write(&again);
    check_compare(check, "", record->json, copy);
    check_warnings(record, &again, check);
    record_close(&again);
    json_decref(copy);
}

/* ---- raw fields that contradict each other ---- */

/* A quantile between two equal samples may be rounded to either side of them. */
static bool in_order(double a, double b) { return a <= b * (1 + tolerance); }

/* Of entry n of a list; `field` is what the time is called there. */
static void check_time(const struct record *record, const char *list, size_t n, const char *field,
                       const wherry_time *time, struct check *check)
{
    char path[PATH_SIZE];
    if (!time_known(time)) return;
    name_entry(list, json_array_get(json_object_get(record->json, list), n), n, path);
    struct text_writer t = text_behind(path, sizeof path);
    text_add(&t, ": %s", field);
    check->numbers++;
    if (!(in_order(time->min, time->p05) && in_order(time->p05, time->median) && in_order(time->median, time->p95) &&
          in_order(time->ci_low, time->median) && in_order(time->median, time->ci_high)))
        check_wrong(check, path, "min, p05, median, p95 and the interval are not in order");
    if (time->n < 1 || !(time->median > 0)) check_wrong(check, path, "a time that was not measured");
}

static void check_times(const struct record *record, struct check *check)
{
    size_t n;
    for (n = 0; n < record->ceiling_count; n++)
        check_time(record, "ceilings", n, "time", &record->ceilings[n].time, check);
    for (n = 0; n < record->sweep_count; n++) check_time(record, "sweep", n, "time", &record->sweep[n].time, check);
    for (n = 0; n < record->launch_count; n++) check_time(record, "launch", n, "time", &record->launch[n].time, check);
    for (n = 0; n < record->op_count; n++)
        for (int m = 0; m < MODES; m++)
            check_time(record, "ops", n, mode_names[m], &record->ops[n].modes[m].time, check);
    for (n = 0; n < record->plan_count; n++) {
        check_time(record, "plans", n, "step.host", &record->plans[n].host, check);
        check_time(record, "plans", n, "step.kernels", &record->plans[n].kernels, check);
    }
}

static void check_workload(const struct record *record, struct check *check)
{
    double tokens = 0;
    if (!record->workload.has_lengths) return;
    for (size_t n = 0; n < record->workload.length_count; n++) tokens += record->workload.lengths[n];
    check->numbers += 2;
    if (record->workload.tokens != tokens) check_wrong(check, "workload: tokens", "not the sum of the lengths");
    if (record->workload.sequences != (double)record->workload.length_count)
        check_wrong(check, "workload: sequences", "not the number of lengths");
}

/* The parts may be less than the total, for blocks have ends; not more. */
static void check_memory(const struct record_plan *plan, const char *path, struct check *check)
{
    double sum = 0;
    if (!plan->has_memory) return;
    for (size_t n = 0; n + 1 < MEMORY_ROWS; n++) sum += plan->memory[n];
    check->numbers += 2;
    if (!(sum <= plan->memory[MEMORY_ROWS - 1] * (1 + tolerance)))
        check_wrong(check, path, "the parts of the memory are more than its total");
    if (plan->memory[MEMORY_ROWS - 1] != plan->device_bytes)
        check_wrong(check, path, "the total of the memory is not device_bytes");
}

static void check_plan(const struct record_plan *plan, struct check *check)
{
    char path[PATH_SIZE];
    double launches = 0;
    for (size_t n = 0; n < plan->op_count; n++) {
        const struct record_op *op = plan->ops[n];
        launches += (double)op->launches;
        if (strcmp(op->store, plan->dtype) == 0 || op_outside(op)) continue;
        name_op(op->id, op->plan, path);
        check_wrong(check, path, "another storage type than the plan's");
    }
    name_plan(plan->name, path);
    check_memory(plan, path, check);
    check->numbers += 2;
    if (plan->op_count > plan->groups) check_wrong(check, path, "more operations than groups");
    if (plan->op_count == plan->groups && launches != (double)plan->launches)
        check_wrong(check, path, "launches are not the sum of its operations'");
}

/* A time by a timer that lies yields no bandwidth, not even a plausible one. */
static void check_timer(const struct record *record, const struct record_op *op, struct check *check)
{
    char path[PATH_SIZE];
    const char *status = record_device_of(record, op->dev)->timer_status;
    bool trusted = !*status || strcmp(status, "ok") == 0;
    if ((trusted && op->timer_ok) || !time_known(&op->modes[WARM].time)) return;
    name_op(op->id, op->plan, path);
    check_wrong(check, path, "has a warm time, and the timer is not to be trusted");
}

static void check_load(const struct record_load *load, struct check *check)
{
    char path[PATH_SIZE];
    const char *why = load_contradiction(load);
    check->numbers += 4; /* count, least, most and sum of the histogram */
    snprintf(path, PATH_SIZE, "load of %.0f clients", (double)load->clients);
    if (why) check_wrong(check, path, why);
}

void record_check(const struct record *record, struct check *check)
{
    check_derived(record, check);
    check_times(record, check);
    check_workload(record, check);
    for (size_t n = 0; n < record->plan_count; n++) check_plan(&record->plans[n], check);
    for (size_t n = 0; n < record->op_count; n++) check_timer(record, &record->ops[n], check);
    for (size_t n = 0; n < record->load_count; n++) check_load(&record->loads[n], check);
    for (size_t n = 0; n < record->idle_count; n++)
        if (!(record->idles[n].seconds > 0)) check_wrong(check, "idle", "a time that was not measured");
}
