/* What `bench` and `bench layer` share: ceilings, plans and their groups, measured into one record. */
#include "bench_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/derive.h"
#include "report/fields.h"
#include "report/record.h"
#include "report/tables.h"
#include "report/write.h"
#include "system.h"

enum { PHASES = WHERRY_PHASE_BACKWARD + 1 };
/* What a record calls them. */
static const int phase_steps[PHASES] = {STEP_BOTH, STEP_FORWARD, STEP_BACKWARD};
static const char data_kind[] = "uniform";

/* One plan's. Phases that were not measured have no times. */
struct plan_measure {
    wherry_group_measure *groups, *cold; /* cold: NULL where not measured */
    size_t count;
    uint32_t repeats;
    double warm;
    wherry_step_measure steps[PHASES];
    bool measured[PHASES];
};

static bool roof_progress(const char *what, size_t done, size_t total, void *user)
{
    (void)user;
    progress_show("measuring: %s, %zu of %zu", what ? what : "", done, total);
    return !system_stopped();
}

/* ---- ceilings ---- */

/* NULL where the device has no kernels, or they were not asked for. */
static int measure_roof(struct bench_run *b, const char *only, wherry_roof **roof)
{
    const struct options *options = b->tool->options;
    wherry_roof_desc desc = {.struct_size = sizeof desc, .only = only};
    *roof = NULL;
    if (options->roof == ROOF_NO) return EXIT_FINE;
    progress_start(options);
    wherry_status status = wherry_roof_measure(b->tool->device, &desc, roof_progress, NULL, roof);
    progress_end();
    return status && status != WHERRY_STATUS_UNSUPPORTED ? tool_error(b->tool, status, NULL) : EXIT_FINE;
}

/* The device's entry, with what its timer is worth. */
static json_t *describe_device(struct bench_run *b, const wherry_roof *roof)
{
    wherry_device_limits limits = {.struct_size = sizeof limits};
    wherry_timer_info tested;
    double peak = b->tool->options->peak_bandwidth;
    struct measured_device device = {.info = &b->tool->device_info,
                                     .cache_bytes = b->cache_bytes,
                                     .peak_bandwidth = 1e9 * peak,
                                     .peak_source = peak > 0 ? "user" : NULL};
    if (!wherry_device_query(b->tool->device, &limits)) device.limits = &limits;
    if (roof)
        device.timer = wherry_roof_timer(roof);
    else if (!wherry_timer_test(b->tool->device, &tested))
        device.timer = &tested;
    return record_device(&device);
}

static int begin(struct bench_run *b, json_t *workload)
{
    const bool copy = b->tool->options->roof == ROOF_COPY;
    int code = measure_roof(b, copy ? "dram.copy" : NULL, &b->roof);
    /* The reference has no kernels that could run alone. */
    if (strcmp(b->tool->device_info.id, "reference") == 0) b->cold = false;
    if (code) {
        json_decref(workload);
        return code;
    }
    b->cache_bytes = wherry_roof_cache_bytes(b->roof);
    b->record = record_begin(record_run(b->tool->options, data_kind), describe_device(b, b->roof), workload);
    record_set_roof(b->record, b->roof, data_kind);
    json_t *modes = need(json_pack("[s]", mode_names[WARM]));
    if (b->cold) json_array_append_new(modes, json_string(mode_names[COLD]));
    json_object_set_new(json_object_get(b->record, "run"), "cache_modes", modes);
    return EXIT_FINE;
}

/* Ceilings that something exceeded are measured again; what remains is flagged. The sentinel's last run comes with it.
 */
static int measure_again(struct bench_run *b)
{
    struct record record;
    wherry_roof *again;
    bool exceeded = false;
    record_open(b->record, &record);
    record_derive(&record);
    for (size_t n = 0; n < record.op_count; n++) {
        record.ops[n].remeasured = record.ops[n].exceeds_peak;
        exceeded = exceeded || record.ops[n].exceeds_peak;
    }
    record_write(&record);
    record_close(&record);
    int code =
        measure_roof(b, exceeded && b->tool->options->roof != ROOF_COPY ? "dram,cache,compute" : "dram.copy", &again);
    if (code) return code;
    if (exceeded) record_set_ceilings(b->record, b->roof, again, data_kind);
    record_set_sentinel(b->record, b->roof, again);
    wherry_roof_destroy(again);
    return EXIT_FINE;
}

/* Everything was measured: what follows from it, and the report. */
static int end(struct bench_run *b)
{
    struct record record;
    json_object_set_new(json_object_get(b->record, "workload"), "dtype", json_string(dtype_name(b->tool->plan.dtype)));
    int code = b->roof ? measure_again(b) : EXIT_FINE;
    if (code) return code;
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    record_open(b->record, &record);
    record_derive(&record);
    record_write(&record);
    if (!b->silent) code = report_write_one(b->tool->options, &record);
    record_close(&record);
    return code;
}

/* ---- plans ---- */

static bool phase_asked(const struct bench_run *b, int phase)
{
    const struct options *options = b->tool->options;
    if (!b->training) return phase == WHERRY_PHASE_ALL;
    return !options->phase || options->phase == PHASES || options->phase == phase;
}

/* The whole step where that is measured: there caches are as in training. */
static int main_phase(const struct bench_run *b)
{
    return phase_asked(b, WHERRY_PHASE_ALL) ? WHERRY_PHASE_ALL : b->tool->options->phase;
}

static int measure_phase(struct bench_run *b, int phase, bool cold, const struct plan_measure *p,
                         wherry_group_measure *groups, wherry_step_measure *step)
{
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    size_t count = p->count;
    wherry_measure_desc desc = {.struct_size = sizeof desc,
                                .phase = (wherry_phase)phase,
                                .repeats = p->repeats,
                                .warm_seconds = p->warm > 0 ? p->warm : 1e-9,
                                .cold = cold,
                                .cache_bytes = b->cache_bytes};
    *step = (wherry_step_measure){.struct_size = sizeof *step};
    wherry_status status = wherry_measure(b->tool->session, &b->batch->batch, &desc, groups, &count, step);
    return status ? tool_error(b->tool, status, NULL) : EXIT_FINE;
}

/* As many repeats as asked for, or as fit into ten seconds: every phase runs with and without timestamps. */
static int choose_repeats(struct bench_run *b, struct plan_measure *p)
{
    const struct options *options = b->tool->options;
    wherry_step_measure step;
    struct plan_measure once = {.repeats = 1};
    int code = EXIT_FINE;
    for (int n = 0; n < 2 && !code; n++) /* the first touches memory for the first time */
        code = measure_phase(b, main_phase(b), false, &once, NULL, &step);
    double seconds = step.host.median * (phase_asked(b, WHERRY_PHASE_FORWARD) ? 4 : 2);
    p->repeats = options->repeats ? options->repeats : 50;
    if (!options->repeats && seconds * p->repeats > 10) p->repeats = seconds > 2 ? 5 : (uint32_t)(10 / seconds);
    p->warm = options->warm >= 0 ? options->warm : 0.5;
    return code;
}

static int open_session(struct bench_run *b, const char *plan, bool keep)
{
    wherry_session_desc desc = {.max_tokens = b->batch->tokens,
                                .max_sequences = b->batch->batch.sequences,
                                .max_length = b->batch->longest,
                                .dtype = (wherry_dtype)b->tool->options->dtype,
                                .weights = (wherry_weights)b->tool->options->weights,
                                .keep_intermediates = keep,
                                .training = b->training};
    return tool_open_session(b->tool, plan, desc);
}

static int measure_warm(struct bench_run *b, struct plan_measure *p)
{
    int code = choose_repeats(b, p), whole = main_phase(b);
    p->count = b->tool->plan.groups;
    p->groups = need(calloc(p->count + 1, sizeof *p->groups));
    for (int phase = PHASES - 1; phase >= 0 && !code; phase--) { /* the whole step last */
        if (!phase_asked(b, phase)) continue;
        code = measure_phase(b, phase, false, p, phase == whole ? p->groups : NULL, &p->steps[phase]);
        p->measured[phase] = true;
    }
    return code;
}

/* In a session of its own, which keeps all tensors: the first one's memory is that of real use. *fits: there was memory
 * for it. */
static int measure_cold(struct bench_run *b, const char *plan, struct plan_measure *p, bool *fits)
{
    wherry_step_measure step;
    b->tool->failure = WHERRY_STATUS_OK;
    int code = open_session(b, plan, true);
    if (!code) {
        p->cold = need(calloc(p->count + 1, sizeof *p->cold));
        code = measure_phase(b, main_phase(b), true, p, p->cold, &step);
    }
    *fits = b->tool->failure != WHERRY_STATUS_OUT_OF_DEVICE_MEMORY;
    return *fits ? code : EXIT_FINE;
}

/* ---- a plan as part of the record ---- */

/* A driver that does not tell what a kernel takes gives null. */
static double known_or_none(uint32_t number) { return number ? number : (double)NAN; }

/* Returns how many there are. */
static size_t group_kernels(const wherry_group_measure *g, struct record_kernel kernels[WHERRY_GROUP_KERNELS])
{
    size_t count = 0;
    for (; count < g->launches && count < WHERRY_GROUP_KERNELS; count++) {
        const wherry_kernel_use *k = &g->kernels[count];
        kernels[count] = (struct record_kernel){.name = k->name,
                                                .variant = k->variant,
                                                .reason = k->reason,
                                                .registers = known_or_none(k->registers),
                                                .spilled_bytes = k->registers ? k->spilled_bytes : (double)NAN,
                                                .shared_bytes = known_or_none(k->shared_bytes)};
    }
    return count;
}

json_t *kernels_json(const wherry_group_measure *g)
{
    struct record_kernel kernels[WHERRY_GROUP_KERNELS];
    size_t count = group_kernels(g, kernels);
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++) json_array_append_new(list, kernel_json(&kernels[n]));
    return list;
}

/* Every kernel asks for something: where that is nothing, nobody has counted what it moves. */
static struct record_bytes moved(const wherry_traffic *t, uint64_t read, uint64_t written)
{
    bool counted = t->requested_read + t->requested_written > 0;
    return counted ? (struct record_bytes){(double)read, (double)written} : (struct record_bytes){NAN, NAN};
}

json_t *bench_group_json(const struct bench_run *b, const wherry_group_measure *g, const wherry_group_measure *cold,
                         const char *phase)
{
    const wherry_cost *cost = &g->cost;
    const wherry_traffic *t = &g->traffic;
    bool exact = strcmp(b->tool->device_info.id, "reference") == 0, timer_ok = g->timer == WHERRY_TIMER_OK;
    /* Cold times by the host's clock do not stand beside warm ones by the device's. */
    bool has_cold = cold && cold->cold.n && (cold->timer == WHERRY_TIMER_OK || !timer_ok);
    struct record_kernel kernels[WHERRY_GROUP_KERNELS];
    const struct record_op op = {
        .id = cost->name,
        .plan = b->tool->plan.plan,
        .class_name = class_name(cost->class_),
        .phase = phase            ? phase
                 : !b->training   ? "encode"
                 : cost->backward ? "backward"
                                  : "forward",
        .layer = cost->layer < 0 ? (double)NAN : cost->layer,
        .paper_row = cost->paper_row ? cost->paper_row : (double)NAN,
        .kernel = g->kernels[0].name,
        .variant = g->kernels[0].variant,
        .launches = g->launches,
        .store = dtype_name(b->tool->plan.dtype),
        .accumulate = exact ? "f64" : "f32",
        .operators = cost->operators,
        .flops = cost->flops,
        .q = {(double)t->unique_read, (double)t->unique_written},
        .d_model = moved(t, t->model_read, t->model_written),
        .requested = moved(t, t->requested_read, t->requested_written),
        .d_counter = NAN,
        .footprint_bytes = (double)t->footprint,
        .modes = {[WARM].time = g->warm, [COLD].time = has_cold ? cold->cold : (wherry_time){0}},
        .cold_sets = has_cold ? cold->cold_sets : (double)NAN,
        .share = NAN,
        .timer_ok = timer_ok,
        .kernels = kernels,
        .kernel_count = group_kernels(g, kernels)};
    return op_json(&op);
}

static double median_or_none(const wherry_time *time) { return time->n ? time->median : (double)NAN; }

/* While the plan's own session is open, which has its notes. */
static json_t *plan_json(const struct bench_run *b, const struct plan_measure *p)
{
    const wherry_step_measure *step = &p->steps[main_phase(b)];
    json_t *json = session_json(b->tool);
    struct record_plan plan = {.classes = NULL};
    fields_read(json, plan_fields, &plan); /* what the session says */
    plan.repeats = p->repeats;
    plan.warm_seconds = p->warm;
    plan.host = step->host;
    plan.kernels = step->kernels;
    plan.has_steps = b->training != NULL;
    for (int phase = 0; phase < PHASES; phase++)
        plan.steps[phase_steps[phase]] =
            (struct record_step){.measured = p->measured[phase],
                                 .host_seconds = median_or_none(&p->steps[phase].host),
                                 .device_seconds = median_or_none(&p->steps[phase].kernels)};
    plan_write(json, &plan);
    return json;
}

static bool group_measured(const struct bench_run *b, const wherry_group_measure *group)
{
    int phase = main_phase(b);
    return *group->cost.name && (phase == WHERRY_PHASE_ALL || group->cost.backward == (phase == WHERRY_PHASE_BACKWARD));
}

/* The timer's test is measuring: on a busy machine it may fail once, and not when the groups are measured. What the
 * record says of the timer is what their times were taken by. */
void bench_tell_timer(struct bench_run *b, const wherry_timer_info *timer)
{
    json_t *device = json_array_get(json_object_get(b->record, "devices"), 0);
    bool none = json_array_size(json_object_get(b->record, "plans")) == 0;
    if (!json_is_object(json_object_get(device, "timer")) || !*timer->kind) return; /* the reference has none */
    if (none || timer->status == WHERRY_TIMER_OK) json_object_set_new(device, "timer", record_timer(timer));
}

static int measure_plan(struct bench_run *b, const char *name)
{
    struct plan_measure p = {.groups = NULL};
    bool fits = true;
    int code = open_session(b, name, false);
    if (!code) code = measure_warm(b, &p);
    if (!code) bench_tell_timer(b, &p.steps[main_phase(b)].timer);
    json_t *plan = code ? NULL : plan_json(b, &p);
    tool_close_session(b->tool);
    if (!code && b->cold) {
        code = measure_cold(b, name, &p, &fits);
        tool_close_session(b->tool);
    }
    if (!code) {
        json_array_append(json_object_get(b->record, "plans"), plan);
        for (size_t n = 0; n < p.count; n++)
            if (group_measured(b, &p.groups[n]))
                json_array_append_new(json_object_get(b->record, "ops"),
                                      bench_group_json(b, &p.groups[n], p.cold ? &p.cold[n] : NULL, NULL));
        if (!fits)
            json_array_append_new(
                json_object_get(b->record, "warnings"),
                warning_json("W_NO_COLD", name, NULL,
                             "cold caches were not measured: all tensors at once do not fit the device's memory"));
    }
    json_decref(plan);
    free(p.groups);
    free(p.cold);
    return code;
}

/* ---- all ---- */

json_t *workload_json(const struct tool *tool, const struct random_batch *batch, const char *kind, json_t *training)
{
    return need(json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:n}", "kind", kind, "model", model_json(tool), "training",
                          training ? training : json_null(), "lengths", lengths_json(batch), "sequences",
                          (json_int_t)batch->batch.sequences, "tokens", (json_int_t)batch->tokens, "dtype"));
}

bool bench_run_asked(const struct options *options)
{
    const char *folder = options->cache;
    if (folder && (strcmp(folder, "warm") == 0 || strcmp(folder, "cold") == 0 || strcmp(folder, "both") == 0))
        return complain(0, "--cache is the folder of compiled kernels; --caches says which caches are measured");
    return report_format(options) != 0;
}

int bench_run(struct bench_run *b, json_t *workload)
{
    const struct options *options = b->tool->options;
    int choice = options->plan ? options->plan : 1;
    int code = begin(b, workload);
    for (int plan = choice == PLAN_ALL ? 1 : choice; !code && plan <= (choice == PLAN_ALL ? PLAN_ALL - 1 : choice);
         plan++)
        code = b->measure ? b->measure(b, plan_name(plan)) : measure_plan(b, plan_name(plan));
    if (!code) code = end(b);
    wherry_roof_destroy(b->roof);
    json_decref(b->record);
    return code;
}
