/* A record as structures: read from its tree, written into it, looked up in. */
#include "report/model.h"

#include <stdlib.h>
#include <string.h>

#include "report/fields.h"
#include "report/keys.h"
#include "report/loads.h"
#include "report/tables.h"
#include "session.h"

const char *const mode_names[MODES] = {"warm", "cold"};
const struct memory_row memory_rows[MEMORY_ROWS] = {
    {"weights", "weights that kernels read"},    {"masters", "weights in f32 beside them"},
    {"moments", "the optimizer's moments, f32"}, {"gradients", "gradients of a batch"},
    {"accumulated", "gradients of a step, f32"}, {"saved", "kept for the backward pass"},
    {"workspace", "what else lives at a time"},  {"loss", "rows, targets and the loss"},
    {"tables", "the optimizer's tables"},        {"total", "in all"}};
const char *const step_names[STEP_PARTS] = {"forward", "backward", "both", "loss", "optimizer"};
const wherry_regime regime_order[REGIMES] = {WHERRY_REGIME_COMPUTE, WHERRY_REGIME_MEMORY, WHERRY_REGIME_CACHE,
                                             WHERRY_REGIME_LAUNCH, WHERRY_REGIME_UNKNOWN};

/* ---- reading ---- */

/* The entries of a list as structures of `size` bytes, and behind the last an empty one; memory to free. */
static void *read_list(const json_t *list, struct fields fields, size_t size, size_t *count)
{
    *count = json_array_size(list);
    char *entries = need(calloc(*count + 1, size));
    for (size_t n = 0; n <= *count; n++) fields_read(json_array_get(list, n), fields, entries + n * size);
    return entries;
}

static void read_op(const json_t *json, struct record_op *op)
{
    const json_t *derived = json_object_get(json, "derived");
    op->class_ = 0;
    while (op->class_ < CLASSES && strcmp(class_name((wherry_class)op->class_), op->class_name) != 0) op->class_++;
    for (int m = 0; m < MODES; m++) fields_read(field_get(derived, mode_names[m]), derived_fields, &op->modes[m]);
    op->kernels = read_list(json_object_get(json, "kernels"), kernel_fields, sizeof *op->kernels, &op->kernel_count);
}

static void read_plan(const json_t *json, struct record_plan *plan)
{
    const json_t *notes = json_object_get(json, "notes"), *note;
    const json_t *steps = json_object_get(json, "phases"), *regimes = json_object_get(json, "by_regime");
    size_t n;
    for (n = 0; n < STEP_PARTS; n++) {
        const json_t *step = field_get(steps, step_names[n]);
        plan->steps[n].measured = step != NULL;
        fields_read(step, step_fields, &plan->steps[n]);
    }
    plan->has_memory = field_get(json, "memory") != NULL;
    const json_t *exchange = field_get(json, "exchange");
    plan->processes = exchange ? field_number(exchange, "processes") : 0;
    plan->exchange_bytes = field_number(exchange, "bytes_sent");
    plan->exchange_seconds = field_number(exchange, "seconds");
    plan->exchange_hidden = field_number(exchange, "hidden");
    for (n = 0; n < MEMORY_ROWS; n++) plan->memory[n] = field_number(field_get(json, "memory"), memory_rows[n].name);
    for (n = 0; n < REGIMES; n++) plan->regimes[n] = field_number(regimes, wherry_regime_name((wherry_regime)n));
    plan->classes =
        read_list(json_object_get(json, "by_class"), class_fields, sizeof *plan->classes, &plan->class_count);
    plan->notes = need(calloc(json_array_size(notes) + 1, sizeof *plan->notes));
    json_array_foreach(notes, n, note)
    {
        if (json_is_string(note)) plan->notes[plan->note_count++] = json_string_value(note);
    }
}

static struct key plan_key(const void *entry)
{
    const struct record_plan *plan = entry;
    return (struct key){.texts = {plan->name}, .number = (double)plan->dev};
}

static struct key op_plan_key(const struct record_op *op)
{
    return (struct key){.texts = {op->plan}, .number = (double)op->dev};
}

/* Gives each plan its operations. */
static void group_ops(struct record *record)
{
    struct keys keys = keys_of(record->plans, record->plan_count, sizeof *record->plans, plan_key);
    size_t n, at = 0;
    size_t *owners = need(calloc(record->op_count + 1, sizeof *owners)); /* plan_count: none */
    record->owned = need(calloc(record->op_count + 1, sizeof *record->owned));
    record->stray = record->op_count;
    for (n = 0; n < record->op_count; n++) {
        const struct key *plan = keys_find(&keys, op_plan_key(&record->ops[n]));
        owners[n] = plan ? plan->item : record->plan_count;
        if (plan)
            record->plans[plan->item].op_count++;
        else if (record->stray == record->op_count)
            record->stray = n;
    }
    for (n = 0; n < record->plan_count; n++) {
        struct record_plan *plan = &record->plans[n];
        plan->ops = record->owned + at;
        at += plan->op_count;
        plan->op_count = 0;
    }
    for (n = 0; n < record->op_count; n++) {
        if (owners[n] == record->plan_count) continue;
        struct record_plan *plan = &record->plans[owners[n]];
        plan->ops[plan->op_count++] = &record->ops[n];
    }
    free(owners);
    keys_free(&keys);
}

static void read_lengths(struct record *record)
{
    const json_t *lengths = field_get(record->json, "workload.lengths");
    record->workload.length_count = json_array_size(lengths);
    record->workload.lengths = need(calloc(record->workload.length_count + 1, sizeof *record->workload.lengths));
    for (size_t n = 0; n < record->workload.length_count; n++)
        record->workload.lengths[n] = json_number_value(json_array_get(lengths, n));
}

#define READ_LIST(record, list, name, fields, count)                                                                   \
    (record)->list = read_list(json_object_get((record)->json, name), fields, sizeof *(record)->list, &(record)->count)

void record_open(json_t *json, struct record *record)
{
    *record = (struct record){.json = json_incref(json)};
    fields_read(json, record_fields, record);
    read_lengths(record);
    READ_LIST(record, devices, "devices", device_fields, device_count);
    READ_LIST(record, ceilings, "ceilings", ceiling_fields, ceiling_count);
    READ_LIST(record, sweep, "sweep", point_fields, sweep_count);
    READ_LIST(record, launch, "launch", point_fields, launch_count);
    READ_LIST(record, plans, "plans", plan_fields, plan_count);
    READ_LIST(record, ops, "ops", op_fields, op_count);
    READ_LIST(record, warnings, "warnings", warning_fields, warning_count);
    READ_LIST(record, loads, "loads", load_fields, load_count);
    READ_LIST(record, idles, "idle", idle_fields, idle_count);
    const json_t *plans = json_object_get(json, "plans"), *ops = json_object_get(json, "ops");
    const json_t *warnings = json_object_get(json, "warnings");
    for (size_t n = 0; n < record->plan_count; n++) read_plan(json_array_get(plans, n), &record->plans[n]);
    for (size_t n = 0; n < record->op_count; n++) read_op(json_array_get(ops, n), &record->ops[n]);
    const json_t *loads = json_object_get(json, "loads");
    for (size_t n = 0; n < record->load_count; n++)
        record->loads[n].histogram = histogram_read(json_object_get(json_array_get(loads, n), "histogram"));
    for (size_t n = 0; n < record->warning_count; n++)
        record->warnings[n].json = json_incref(json_array_get(warnings, n));
    group_ops(record);
}

void record_close(struct record *record)
{
    for (size_t n = 0; n < record->plan_count; n++) {
        free(record->plans[n].classes);
        free(record->plans[n].notes);
    }
    for (size_t n = 0; n < record->op_count; n++) free(record->ops[n].kernels);
    for (size_t n = 0; n < record->warning_count; n++) json_decref(record->warnings[n].json);
    for (size_t n = 0; n < record->load_count; n++) free(record->loads[n].histogram);
    free(record->loads);
    free(record->idles);
    free(record->workload.lengths);
    free(record->devices);
    free(record->ceilings);
    free(record->sweep);
    free(record->launch);
    free(record->plans);
    free(record->ops);
    free(record->warnings);
    free(record->owned);
    json_decref(record->json);
}

/* ---- writing ---- */

static json_t *object_json(struct fields fields, const void *from)
{
    json_t *object = need(json_object());
    fields_write(object, fields, false, from);
    return object;
}

json_t *ceiling_json(const struct record_ceiling *ceiling) { return object_json(ceiling_fields, ceiling); }

json_t *point_json(const struct record_point *point) { return object_json(point_fields, point); }

json_t *kernel_json(const struct record_kernel *kernel) { return object_json(kernel_fields, kernel); }

json_t *load_json(const struct record_load *load)
{
    json_t *value = object_json(load_fields, load);
    json_object_set_new(value, "histogram", histogram_json(load->histogram));
    return value;
}

json_t *idle_json(const struct record_idle *idle) { return object_json(idle_fields, idle); }

static json_t *derived_json(const struct record_op *op)
{
    json_t *derived = need(json_object());
    for (int m = 0; m < MODES; m++) {
        const struct record_mode *mode = &op->modes[m];
        json_object_set_new(derived, mode_names[m],
                            mode->is_derived ? object_json(derived_fields, mode) : need(json_null()));
    }
    return derived;
}

json_t *op_json(const struct record_op *op)
{
    json_t *value = object_json(op_fields, op), *kernels = need(json_array());
    for (size_t n = 0; n < op->kernel_count; n++) json_array_append_new(kernels, kernel_json(&op->kernels[n]));
    json_object_set_new(value, "kernels", kernels);
    json_object_set_new(value, "derived", derived_json(op));
    return value;
}

static json_t *steps_json(const struct record_plan *plan)
{
    json_t *steps = plan->has_steps ? need(json_object()) : need(json_null());
    for (size_t n = 0; n < STEP_PARTS && plan->has_steps; n++)
        if (plan->steps[n].measured)
            json_object_set_new(steps, step_names[n], object_json(step_fields, &plan->steps[n]));
    return steps;
}

/* The derived fields of a plan that are lists. */
static void write_sums(json_t *json, const struct record_plan *plan)
{
    json_t *classes = need(json_array()), *regimes = plan->has_regimes ? need(json_object()) : need(json_null());
    for (size_t n = 0; n < plan->class_count; n++)
        json_array_append_new(classes, object_json(class_fields, &plan->classes[n]));
    for (size_t n = 0; n < REGIMES && plan->has_regimes; n++)
        json_object_set_new(regimes, wherry_regime_name(regime_order[n]), number_json(plan->regimes[regime_order[n]]));
    if (plan->has_regimes) json_object_set_new(regimes, "gap", number_json(plan->gap_seconds));
    json_object_set_new(json, "by_class", classes);
    json_object_set_new(json, "by_regime", regimes);
}

void plan_write(json_t *json, const struct record_plan *plan)
{
    fields_write(json, plan_fields, false, plan);
    json_object_set_new(json, "phases", steps_json(plan));
    write_sums(json, plan);
}

json_t *warning_json(const char *code, const char *plan, const char *op, const char *text)
{
    return need(json_pack("{s:s, s:o, s:o, s:o}", "code", code, "plan", plan ? text_json(plan) : json_null(), "op",
                          op ? text_json(op) : json_null(), "text", text_json(text)));
}

void record_warn(struct record *record, const char *code, const char *plan, const char *op, const char *text)
{
    size_t count = record->warning_count++;
    record->warnings = need(realloc(record->warnings, record->warning_count * sizeof *record->warnings));
    struct record_warning *warning = &record->warnings[count];
    warning->json = warning_json(code, plan, op, text);
    fields_read(warning->json, warning_fields, warning);
}

void record_write(struct record *record)
{
    const json_t *ceilings = json_object_get(record->json, "ceilings"), *plans = json_object_get(record->json, "plans");
    const json_t *ops = json_object_get(record->json, "ops");
    json_t *warnings = need(json_array());
    fields_write(record->json, record_fields, true, record);
    for (size_t n = 0; n < record->ceiling_count; n++)
        fields_write(json_array_get(ceilings, n), ceiling_fields, true, &record->ceilings[n]);
    for (size_t n = 0; n < record->plan_count; n++) {
        fields_write(json_array_get(plans, n), plan_fields, true, &record->plans[n]);
        write_sums(json_array_get(plans, n), &record->plans[n]);
    }
    for (size_t n = 0; n < record->op_count; n++) {
        fields_write(json_array_get(ops, n), op_fields, true, &record->ops[n]);
        json_object_set_new(json_array_get(ops, n), "derived", derived_json(&record->ops[n]));
    }
    const json_t *loads = json_object_get(record->json, "loads");
    for (size_t n = 0; n < record->load_count; n++)
        fields_write(json_array_get(loads, n), load_fields, true, &record->loads[n]);
    for (size_t n = 0; n < record->warning_count; n++) json_array_append(warnings, record->warnings[n].json);
    json_object_set_new(record->json, "warnings", warnings);
}

/* ---- what is in it ---- */

const struct record_device *record_device_of(const struct record *record, uint64_t dev)
{
    for (size_t n = 0; n < record->device_count; n++)
        if (record->devices[n].dev == dev) return &record->devices[n];
    return NULL;
}

double record_ceiling(const struct record *record, uint64_t dev, const char *id)
{
    for (size_t n = 0; n < record->ceiling_count; n++) {
        const struct record_ceiling *ceiling = &record->ceilings[n];
        if (ceiling->dev == dev && ceiling->best && strcmp(ceiling->id, id) == 0) return ceiling->value;
    }
    return 0;
}

bool record_has_roof(const struct record *record, uint64_t dev)
{
    for (size_t n = 0; n < record->ceiling_count; n++)
        if (record->ceilings[n].dev == dev) return true;
    return false;
}

const json_t *record_op_json(const struct record *record, const struct record_op *op)
{
    return json_array_get(json_object_get(record->json, "ops"), (size_t)(op - record->ops));
}

bool op_outside(const struct record_op *op)
{
    return strcmp(op->phase, step_names[STEP_LOSS]) == 0 || strcmp(op->phase, step_names[STEP_OPTIMIZER]) == 0;
}

const char *op_kind(const struct record_op *op)
{
    if (strncmp(op->id, "layer.", 6) != 0) return op->id;
    const char *dot = strchr(op->id + 6, '.');
    return dot ? dot + 1 : op->id;
}
