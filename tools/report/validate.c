/* Whether a JSON value is a record of schema rl-1: the fields that readers rely on are there, with their types. What
 * docs/report.schema.json says, in C; keys that are not named in report/tables.c are ignored. */
#include "report/validate.h"

#include <stdio.h>
#include <string.h>

#include "report/keys.h"
#include "report/loads.h"
#include "report/tables.h"
#include "report/tuning.h"

/* ---- the tree ---- */

static bool head_fits(const json_t *json, char why[256])
{
    const json_t *schema = json_object_get(json, "schema");
    if (tuning_is(json))
        return snprintf(why, 256, "a tuning, as wherry tune --json writes it, and no record: wherry report shows it"),
               false;
    if (!json_is_object(json) || !schema)
        return snprintf(why, 256,
                        "not a record of wherry: an object with \"schema\": \"rl-1\" is expected; a tuning has "
                        "\"works\""),
               false;
    if (!json_is_string(schema) || strcmp(json_string_value(schema), RECORD_SCHEMA) != 0)
        return snprintf(why, 256, "schema %.40s, and this version reads " RECORD_SCHEMA,
                        json_is_string(schema) ? json_string_value(schema) : "that is no text"),
               false;
    return object_fits(json, record_fields, "", why);
}

/* Lists that are gone through for each entry of another, so that their lengths bound the time a report takes. Far more
 * than any run writes: docs/report.schema.json says the same. */
static bool lists_bounded(const json_t *json, char why[256])
{
    static const struct {
        const char *name;
        size_t most;
    } bounds[] = {{"devices", 64}, {"ceilings", 512}, {"loads", RECORD_LOADS}, {"idle", RECORD_IDLES}};
    for (size_t n = 0; n < sizeof bounds / sizeof *bounds; n++) {
        size_t count = json_array_size(json_object_get(json, bounds[n].name));
        if (count <= bounds[n].most) continue;
        snprintf(why, 256, "%s has %zu entries, and a record has at most %zu", bounds[n].name, count, bounds[n].most);
        return false;
    }
    return true;
}

static bool list_fits(const json_t *object, const char *name, struct fields fields, char why[256])
{
    size_t n;
    const json_t *entry;
    json_array_foreach(json_object_get(object, name), n, entry)
    {
        char where[48];
        snprintf(where, sizeof where, "%s[%zu]", name, n);
        if (!object_fits(entry, fields, where, why)) return false;
    }
    return true;
}

/* Records of other work have none of these. */
static bool loads_fit(const json_t *json, char why[256])
{
    static const char *const names[] = {"loads", "idle"};
    const json_t *loads = json_object_get(json, "loads"), *load;
    size_t n;
    for (n = 0; n < 2; n++) {
        const json_t *list = json_object_get(json, names[n]);
        if (list && !json_is_array(list)) return snprintf(why, 256, "%s is not an array", names[n]), false;
    }
    if (!list_fits(json, "loads", load_fields, why) || !list_fits(json, "idle", idle_fields, why)) return false;
    json_array_foreach(loads, n, load)
    {
        char where[48];
        snprintf(where, sizeof where, "loads[%zu].histogram", n);
        if (!histogram_fits(json_object_get(load, "histogram"), where, why)) return false;
    }
    return true;
}

static bool lists_fit(const json_t *json, char why[256])
{
    size_t n;
    const json_t *plan;
    if (!list_fits(json, "devices", device_fields, why) || !list_fits(json, "ceilings", ceiling_fields, why) ||
        !list_fits(json, "sweep", point_fields, why) || !list_fits(json, "launch", point_fields, why) ||
        !list_fits(json, "plans", plan_fields, why) || !list_fits(json, "ops", op_fields, why) ||
        !list_fits(json, "warnings", warning_fields, why) || !loads_fit(json, why))
        return false;
    json_array_foreach(json_object_get(json, "plans"), n, plan)
    {
        if (!list_fits(plan, "by_class", class_fields, why)) return false;
    }
    return true;
}

/* ---- what its parts say of each other ---- */

static bool device_known(const struct record *record, const char *list, size_t n, uint64_t dev, char why[256])
{
    if (record_device_of(record, dev)) return true;
    snprintf(why, 256, "%s[%zu].dev is not a device of this record", list, n);
    return false;
}

static bool devices_known(const struct record *record, char why[256])
{
    size_t n;
    for (n = 0; n < record->ceiling_count; n++)
        if (!device_known(record, "ceilings", n, record->ceilings[n].dev, why)) return false;
    for (n = 0; n < record->sweep_count; n++)
        if (!device_known(record, "sweep", n, record->sweep[n].dev, why)) return false;
    for (n = 0; n < record->launch_count; n++)
        if (!device_known(record, "launch", n, record->launch[n].dev, why)) return false;
    for (n = 0; n < record->plan_count; n++)
        if (!device_known(record, "plans", n, record->plans[n].dev, why)) return false;
    for (n = 0; n < record->load_count; n++)
        if (!device_known(record, "loads", n, record->loads[n].dev, why)) return false;
    for (n = 0; n < record->idle_count; n++)
        if (!device_known(record, "idle", n, record->idles[n].dev, why)) return false;
    for (n = 0; n < record->op_count; n++)
        if (!device_known(record, "ops", n, record->ops[n].dev, why)) return false;
    return true;
}

static bool plans_known(const struct record *record, char why[256])
{
    if (record->stray == record->op_count) return true;
    snprintf(why, 256, "ops[%zu].plan, \"%.60s\", is not a plan of this record", record->stray,
             record->ops[record->stray].plan);
    return false;
}

static struct key plan_key(const void *entry)
{
    const struct record_plan *plan = entry;
    return (struct key){.texts = {plan->name}, .number = (double)plan->dev};
}

static struct key op_key(const void *entry)
{
    const struct record_op *op = entry;
    return (struct key){.texts = {op->plan, op->id}, .number = (double)op->dev};
}

/* Readers find plans and operations by what their keys have. */
static bool entries_differ(const char *list, struct keys keys, char why[256])
{
    const struct key *second = NULL; /* the earliest one whose key is another's before it */
    for (size_t n = 0; n < keys.count; n++) {
        const struct key *key = &keys.list[n];
        if (keys_find(&keys, *key) != key && (!second || key->item < second->item)) second = key;
    }
    if (second)
        snprintf(why, 256, "%s[%zu] is the second of its name, %.120s", list, second->item,
                 second->texts[second->texts[1] ? 1 : 0]);
    keys_free(&keys);
    return !second;
}

static bool parts_fit(const struct record *record, char why[256])
{
    return devices_known(record, why) && plans_known(record, why) &&
           entries_differ("plans", keys_of(record->plans, record->plan_count, sizeof *record->plans, plan_key), why) &&
           entries_differ("ops", keys_of(record->ops, record->op_count, sizeof *record->ops, op_key), why);
}

bool record_read(json_t *json, struct record *record, char why[256])
{
    if (!head_fits(json, why) || !lists_bounded(json, why) || !lists_fit(json, why)) return false;
    record_open(json, record);
    if (parts_fit(record, why)) return true;
    record_close(record);
    return false;
}
