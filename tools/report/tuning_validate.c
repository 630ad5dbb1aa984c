/* Whether a JSON value is a tuning: what docs/tuning.schema.json says, in C, and that its parts name each other. Keys
 * that are not named here are ignored. */
#include <stdio.h>
#include <string.h>

#include "report/fields.h"
#include "report/keys.h"
#include "report/rules.h"
#include "report/tuning.h"

static const struct field tuning_rules[] = {
    {"run", 'o'},       {"run.library", 's'}, {"run.commit", 'S'},   {"run.date", 's'},     {"run.command_line", 'a'},
    {"device", 'o'},    {"device.id", 's'},   {"device.name", 's'},  {"model", 'o'},        {"model.source", 'S'},
    {"training", 'O'},  {"lengths", 'a'},     {"plans", 'a'},        {"works", 'a'},        {"default_ms", 'M'},
    {"chosen_ms", 'M'}, {"best_sum_ms", 'M'}, {"predicted_ms", 'M'}, {"device.driver", 's'}};
static const struct field plan_rules[] = {{"session", 'o'},    {"session.plan", 's'}, {"works", 'i'},   {"chosen", 'i'},
                                          {"measured", 'i'},   {"known", 'i'},        {"wrong", 'i'},   {"failed", 'i'},
                                          {"default_us", 'N'}, {"best_us", 'N'},      {"seconds", 'N'}, {"file", 's'}};
static const struct field work_rules[] = {{"plan", 's'},  {"group", 's'},  {"work", 's'},       {"default", 's'},
                                          {"best", 's'},  {"chosen", 'b'}, {"default_us", 'N'}, {"best_us", 'N'},
                                          {"wrong", 'i'}, {"failed", 'i'}};
static const struct field layouts_rules[] = {{"tensors", 'a'},        {"operators", 'a'},       {"transposes", 'a'},
                                             {"assignments", 'M'},    {"feasible", 'M'},        {"states", 'M'},
                                             {"exact", 'b'},          {"default_ms", 'M'},      {"chosen_ms", 'M'},
                                             {"predicted_ms", 'M'},   {"best_sum_ms", 'M'},     {"transposed_ms", 'M'},
                                             {"default_low_ms", 'M'}, {"default_high_ms", 'M'}, {"chosen_low_ms", 'M'},
                                             {"chosen_high_ms", 'M'}, {"chosen", 's'},          {"reason", 'S'}};
static const struct field random_rules[] = {{"n", 'i'}, {"p05", 'N'}, {"median", 'N'}, {"p95", 'N'}};
static const struct field tensor_rules[] = {{"name", 's'}, {"orders", 'a'}, {"default", 's'}, {"chosen", 's'}};
static const struct field operator_rules[] = {
    {"name", 's'}, {"class", 's'}, {"pass", 's'}, {"tensors", 'a'}, {"times", 'a'}};
static const struct field time_rules[] = {
    {"orders", 'a'},   {"kernels", 's'},          {"us", 'N'},      {"low_us", 'M'}, {"high_us", 'M'},
    {"alone_us", 'M'}, {"alone_default_us", 'M'}, {"default", 'b'}, {"chosen", 'b'}, {"best", 'b'}};
static const struct field transpose_rules[] = {{"tensor", 's'}, {"us", 'N'}};
static const struct field candidate_rules[] = {
    {"sizes", 's'}, {"us", 'N'}, {"low_us", 'M'}, {"high_us", 'M'}, {"verdict", 's'}};

bool tuning_is(const json_t *value)
{
    return json_is_object(value) && !json_object_get(value, "schema") && json_object_get(value, "works");
}

static bool texts_fit(const json_t *object, const char *key, const char *where, char why[256])
{
    size_t n;
    json_t *text;
    json_array_foreach(json_object_get(object, key), n, text)
    {
        if (!json_is_string(text)) return snprintf(why, 256, "%s.%s[%zu] is not a text", where, key, n), false;
    }
    return true;
}

/* A tuning may come without its candidates. */
static bool candidates_fit(const json_t *object, const char *where, char why[256])
{
    const json_t *candidates = json_object_get(object, "candidates");
    size_t n;
    json_t *candidate;
    if (!candidates || json_is_null(candidates)) return true;
    if (!json_is_array(candidates)) return snprintf(why, 256, "%s.candidates is not an array", where), false;
    json_array_foreach(candidates, n, candidate)
    {
        char place[160];
        snprintf(place, sizeof place, "%s.candidates[%zu]", where, n);
        if (!object_fits(candidate, FIELDS(candidate_rules), place, why)) return false;
        const char *verdict = field_text(candidate, "verdict");
        bool right = strcmp(verdict, "right") == 0;
        if (!right && strcmp(verdict, "wrong") != 0 && strcmp(verdict, "failed") != 0)
            return snprintf(why, 256, "%s.verdict is \"%.40s\", not right, wrong or failed", place, verdict), false;
        if (right && !(field_number(candidate, "us") > 0))
            return snprintf(why, 256, "%s is right and has no time: us is no number above 0", place), false;
    }
    return true;
}

static struct key tensor_key(const json_t *tensor) { return (struct key){.texts = {field_text(tensor, "name")}}; }

static struct key plan_key(const json_t *plan) { return (struct key){.texts = {field_text(plan, "session.plan")}}; }

static bool has_text(const json_t *array, const char *text)
{
    size_t n;
    json_t *entry;
    json_array_foreach(array, n, entry)
    {
        if (json_is_string(entry) && strcmp(json_string_value(entry), text) == 0) return true;
    }
    return false;
}

static bool tensor_fits(const json_t *tensor, const char *where, char why[256])
{
    if (!object_fits(tensor, FIELDS(tensor_rules), where, why) || !texts_fit(tensor, "orders", where, why))
        return false;
    const char *const keys[] = {"default", "chosen"};
    for (size_t n = 0; n < 2; n++) {
        const char *order = field_text(tensor, keys[n]);
        if (!has_text(json_object_get(tensor, "orders"), order))
            return snprintf(why, 256, "%s.%s, \"%.40s\", is none of its orders", where, keys[n], order), false;
    }
    return true;
}

/* At most one time of an operator is the default's, and at most one the chosen orders'. */
static bool times_fit(const json_t *operator_, const char *where, char why[256])
{
    size_t n, defaults = 0, chosen = 0, tensors = json_array_size(json_object_get(operator_, "tensors"));
    json_t *time;
    json_array_foreach(json_object_get(operator_, "times"), n, time)
    {
        char place[120];
        snprintf(place, sizeof place, "%s.times[%zu]", where, n);
        if (!object_fits(time, FIELDS(time_rules), place, why) || !texts_fit(time, "orders", place, why) ||
            !candidates_fit(time, place, why))
            return false;
        size_t orders = json_array_size(json_object_get(time, "orders"));
        if (orders != tensors)
            return snprintf(why, 256, "%s has %zu orders of %zu tensors", place, orders, tensors), false;
        defaults += field_true(time, "default");
        chosen += field_true(time, "chosen");
    }
    if (defaults > 1 || chosen > 1)
        return snprintf(why, 256, "%s has %zu times that are %s", where, defaults > 1 ? defaults : chosen,
                        defaults > 1 ? "the default's" : "the chosen one's"),
               false;
    return true;
}

static bool operator_fits(const struct keys *tensors, const json_t *operator_, const char *where, char why[256])
{
    size_t n;
    json_t *tensor;
    if (!object_fits(operator_, FIELDS(operator_rules), where, why) || !texts_fit(operator_, "tensors", where, why))
        return false;
    json_array_foreach(json_object_get(operator_, "tensors"), n, tensor)
    {
        if (!keys_find(tensors, (struct key){.texts = {json_string_value(tensor)}}))
            return snprintf(why, 256, "%s.tensors[%zu], \"%.40s\", is no tensor of this plan", where, n,
                            json_string_value(tensor)),
                   false;
    }
    return times_fit(operator_, where, why);
}

static bool layouts_fit(const json_t *layouts, const char *where, char why[256])
{
    size_t n;
    json_t *entry;
    char place[100];
    if (!object_fits(layouts, FIELDS(layouts_rules), where, why)) return false;
    const json_t *random = json_object_get(layouts, "random_ms");
    snprintf(place, sizeof place, "%s.random_ms", where);
    if (random && !json_is_null(random) && !object_fits(random, FIELDS(random_rules), place, why)) return false;
    json_array_foreach(json_object_get(layouts, "tensors"), n, entry)
    {
        snprintf(place, sizeof place, "%s.tensors[%zu]", where, n);
        if (!tensor_fits(entry, place, why)) return false;
    }
    struct keys tensors = keys_of_list(json_object_get(layouts, "tensors"), tensor_key);
    bool fine = true;
    json_array_foreach(json_object_get(layouts, "operators"), n, entry)
    {
        snprintf(place, sizeof place, "%s.operators[%zu]", where, n);
        fine = fine && operator_fits(&tensors, entry, place, why);
    }
    keys_free(&tensors);
    if (!fine) return false;
    json_array_foreach(json_object_get(layouts, "transposes"), n, entry)
    {
        snprintf(place, sizeof place, "%s.transposes[%zu]", where, n);
        if (!object_fits(entry, FIELDS(transpose_rules), place, why)) return false;
    }
    return true;
}

static bool plans_fit(const json_t *value, char why[256])
{
    size_t n;
    json_t *plan;
    json_array_foreach(json_object_get(value, "plans"), n, plan)
    {
        char where[40];
        snprintf(where, sizeof where, "plans[%zu]", n);
        if (!object_fits(plan, FIELDS(plan_rules), where, why)) return false;
        snprintf(where, sizeof where, "plans[%zu].layouts", n);
        const json_t *layouts = json_object_get(plan, "layouts"); /* missing where sizes alone were tuned */
        if (layouts && !json_is_null(layouts) && !layouts_fit(layouts, where, why)) return false;
    }
    return true;
}

static bool work_fits(const struct keys *plans, const json_t *work, const char *where, char why[256])
{
    if (!object_fits(work, FIELDS(work_rules), where, why) || !candidates_fit(work, where, why)) return false;
    const json_t *layouts = json_object_get(work, "layouts");
    if (layouts && !json_is_string(layouts)) return snprintf(why, 256, "%s.layouts is not a text", where), false;
    const char *plan = field_text(work, "plan");
    if (keys_find(plans, (struct key){.texts = {plan}})) return true;
    return snprintf(why, 256, "%s.plan, \"%.40s\", is no plan of this tuning", where, plan), false;
}

static bool works_fit(const json_t *value, char why[256])
{
    size_t n;
    json_t *work;
    bool fine = true;
    struct keys plans = keys_of_list(json_object_get(value, "plans"), plan_key);
    json_array_foreach(json_object_get(value, "works"), n, work)
    {
        char where[40];
        snprintf(where, sizeof where, "works[%zu]", n);
        fine = fine && work_fits(&plans, work, where, why);
    }
    keys_free(&plans);
    return fine;
}

bool tuning_validate(const json_t *value, char why[256])
{
    if (!tuning_is(value))
        return snprintf(why, 256,
                        "not a tuning: an object with \"plans\" and \"works\", without \"schema\", is expected"),
               false;
    return object_fits(value, FIELDS(tuning_rules), "", why) && plans_fit(value, why) && works_fit(value, why);
}
