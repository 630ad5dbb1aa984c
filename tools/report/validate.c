/* Whether a JSON value is a record of schema rl-1: the fields that readers rely on are there, with their types. What
 * docs/report.schema.json says, in C; keys that are not named here are ignored. */
#include "report/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/fields.h"
#include "report/keys.h"
#include "report/rules.h"
#include "report/tuning.h"

static const struct rule record_rules[] = {{"units", 's'},
                                           {"status", 's'},
                                           {"run", 'o'},
                                           {"run.id", 's'},
                                           {"run.utc", 's'},
                                           {"run.tool", 'o'},
                                           {"run.tool.version", 's'},
                                           {"run.tool.git", 'S'},
                                           {"run.command_line", 'a'},
                                           {"run.data_kind", 'S'},
                                           {"run.cache_modes", 'a'},
                                           {"run.host", 'o'},
                                           {"run.sentinel", 'O'},
                                           {"devices", 'a'},
                                           {"workload", 'o'},
                                           {"workload.kind", 's'},
                                           {"ceilings", 'a'},
                                           {"sweep", 'a'},
                                           {"launch", 'a'},
                                           {"plans", 'a'},
                                           {"ops", 'a'},
                                           {"warnings", 'a'}};
static const struct rule device_rules[] = {{"dev", 'i'},
                                           {"id", 's'},
                                           {"name", 's'},
                                           {"type", 's'},
                                           {"backend", 's'},
                                           {"theoretical", 'o'},
                                           {"theoretical.bandwidth", 'N'},
                                           {"theoretical.flops", 'N'},
                                           {"theoretical.source", 'S'},
                                           {"cache", 'o'},
                                           {"cache.bytes", 'N'},
                                           {"timer", 'O'},
                                           {"timer.status", 's'}};
static const struct rule ceiling_rules[] = {
    {"id", 's'},    {"dev", 'i'},       {"unit", 's'},   {"value", 'n'}, {"best", 'b'},           {"config", 'S'},
    {"dtype", 'S'}, {"data_kind", 'S'}, {"amount", 'n'}, {"time", 'T'},  {"footprint_bytes", 'N'}};
static const struct rule point_rules[] = {{"dev", 'i'}, {"bytes", 'n'}, {"time", 'T'}};
static const struct rule plan_rules[] = {
    {"plan", 's'},     {"dev", 'i'},       {"dtype", 's'},         {"groups", 'i'},           {"launches", 'i'},
    {"step", 'o'},     {"step.host", 'T'}, {"step.kernels", 'T'},  {"step.gap_seconds", '*'}, {"phases", 'O'},
    {"by_class", 'a'}, {"by_regime", 'O'}, {"limit_seconds", 'N'}, {"headroom", 'N'},         {"notes", 'a'},
    {"repeats", 'i'}};
static const struct rule class_rules[] = {
    {"class", 's'}, {"seconds", 'N'}, {"flops", 'N'}, {"bytes", 'N'}, {"share", 'N'}};
static const struct rule op_rules[] = {{"id", 's'},
                                       {"plan", 's'},
                                       {"dev", 'i'},
                                       {"class", 's'},
                                       {"phase", 's'},
                                       {"layer", '*'},
                                       {"kernel", 's'},
                                       {"variant", 's'},
                                       {"launches", 'i'},
                                       {"dtype", 'o'},
                                       {"dtype.store", 's'},
                                       {"flops", 'n'},
                                       {"bytes", 'o'},
                                       {"bytes.q", 'o'},
                                       {"bytes.q.r", 'n'},
                                       {"bytes.q.w", 'n'},
                                       {"bytes.requested", 'o'},
                                       {"bytes.requested.r", 'N'},
                                       {"bytes.requested.w", 'N'},
                                       {"bytes.d_model", 'o'},
                                       {"bytes.d_model.r", 'N'},
                                       {"bytes.d_model.w", 'N'},
                                       {"bytes.d_counter", '*'},
                                       {"footprint_bytes", 'n'},
                                       {"warm", 'T'},
                                       {"cold", 'T'},
                                       {"cold_sets", 'N'},
                                       {"derived", 'o'},
                                       {"derived.warm", 'O'},
                                       {"derived.cold", 'O'},
                                       {"share", 'N'},
                                       {"checks", 'o'},
                                       {"checks.exceeds_peak", 'b'},
                                       {"checks.timer_ok", 'b'},
                                       {"checks.remeasured", 'i'}};
static const struct rule warning_rules[] = {{"code", 's'}, {"text", 's'}};

static bool list_fits(const json_t *record, const char *name, const struct rule *rules, size_t count, char why[256])
{
    size_t n;
    json_t *entry;
    bool placed = strcmp(rules[0].path, "dev") == 0 || (count > 1 && strcmp(rules[1].path, "dev") == 0) ||
                  strcmp(name, "ops") == 0;
    json_array_foreach(json_object_get(record, name), n, entry)
    {
        char where[48];
        snprintf(where, sizeof where, "%s[%zu]", name, n);
        if (!object_fits(entry, rules, count, where, why)) return false;
        if (placed && !record_device_of(record, entry)) {
            snprintf(why, 256, "%s.dev is not a device of this record", where);
            return false;
        }
    }
    return true;
}

/* What two entries must not share: readers find plans and operations by it. */
static bool entries_differ(const json_t *record, const char *list, const char *key, char why[256])
{
    bool fine = true;
    size_t n;
    json_t *entry, *seen = need(json_object());
    json_array_foreach(json_object_get(record, list), n, entry)
    {
        const char *plan = field_text(entry, "plan"), *own = field_text(entry, key);
        size_t size = strlen(plan) + strlen(own) + 48;
        char *name = need(malloc(size)); /* whole: names of models' layers are long, and differ at their ends */
        snprintf(name, size, "%s/%s/%.17g", plan, own, field_number(entry, "dev"));
        if (fine && json_object_get(seen, name)) {
            snprintf(why, 256, "%s[%zu] is the second of its name, %.120s", list, n, own);
            fine = false;
        }
        if (json_object_set_new(seen, name, json_true())) need(NULL);
        free(name);
    }
    json_decref(seen);
    return fine;
}

/* Lists that are gone through for each entry of another, so that their lengths bound the time a report takes. Far more
 * than any run writes: docs/report.schema.json says the same. */
static bool lists_bounded(const json_t *record, char why[256])
{
    static const struct {
        const char *name;
        size_t most;
    } bounds[] = {{"devices", 64}, {"ceilings", 512}};
    for (size_t n = 0; n < sizeof bounds / sizeof *bounds; n++) {
        size_t count = json_array_size(json_object_get(record, bounds[n].name));
        if (count <= bounds[n].most) continue;
        snprintf(why, 256, "%s has %zu entries, and a record has at most %zu", bounds[n].name, count, bounds[n].most);
        return false;
    }
    return true;
}

static bool plans_known(const json_t *record, char why[256])
{
    const json_t *ops = json_object_get(record, "ops");
    struct op_groups groups = ops_group(record);
    size_t stray = groups.stray;
    op_groups_free(&groups);
    if (stray == json_array_size(ops)) return true;
    snprintf(why, 256, "ops[%zu].plan, \"%.60s\", is not a plan of this record", stray,
             field_text(json_array_get(ops, stray), "plan"));
    return false;
}

bool record_validate(const json_t *record, char why[256])
{
    size_t n;
    json_t *plan;
    const json_t *schema = json_object_get(record, "schema");
    if (tuning_is(record))
        return snprintf(why, 256, "a tuning, as wherry tune --json writes it, and no record: wherry report shows it"),
               false;
    if (!json_is_object(record) || !schema)
        return snprintf(why, 256,
                        "not a record of wherry: an object with \"schema\": \"rl-1\" is expected; a tuning has "
                        "\"works\""),
               false;
    if (!json_is_string(schema) || strcmp(json_string_value(schema), "rl-1") != 0)
        return snprintf(why, 256, "schema %.40s, and this version reads rl-1",
                        json_is_string(schema) ? json_string_value(schema) : "that is no text"),
               false;
    if (!object_fits(record, RULES(record_rules), "", why) || !lists_bounded(record, why) ||
        !list_fits(record, "devices", RULES(device_rules), why) ||
        !list_fits(record, "ceilings", RULES(ceiling_rules), why) ||
        !list_fits(record, "sweep", RULES(point_rules), why) || !list_fits(record, "launch", RULES(point_rules), why) ||
        !list_fits(record, "plans", RULES(plan_rules), why) || !list_fits(record, "ops", RULES(op_rules), why) ||
        !list_fits(record, "warnings", RULES(warning_rules), why))
        return false;
    json_array_foreach(json_object_get(record, "plans"), n, plan)
    {
        if (!list_fits(plan, "by_class", RULES(class_rules), why)) return false;
    }
    return plans_known(record, why) && entries_differ(record, "plans", "plan", why) &&
           entries_differ(record, "ops", "id", why);
}
