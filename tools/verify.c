/* `wherry verify`: whether this device computes this model as the reference does, group by group. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "layer.h"
#include "system.h"

/* One session's check. */
struct check {
    const struct tool *tool;
    struct output *out; /* failures go there; NULL: into the JSON alone */
    struct table *table;
    json_t *groups;
    uint32_t done;
    double worst;     /* largest nmse / tolerance */
    char culprit[64]; /* the group that has it */
};

struct verification {
    struct tool tool;
    struct random_batch batch; /* of inference */
    struct layer layer;
    const struct random_batch *checked;   /* either's */
    const wherry_training_desc *training; /* NULL: inference */
    struct output out;
    json_t *results; /* NULL: tables */
    struct table table;
    uint32_t groups, failed;
};

static void print_failure(struct check *c, const wherry_verify_result *r)
{
    output_format(c->out, "FAILED %s %s %s (%s):", c->tool->plan.plan, dtype_name(c->tool->plan.dtype), r->name,
                  r->kernel);
    output_format(c->out, " nmse %.2e of at most %.0e, largest error %.2e", r->nmse, r->tolerance, r->max_error);
    if (r->not_finite)
        output_format(c->out, ", %llu of %llu values not finite", (unsigned long long)r->not_finite,
                      (unsigned long long)r->values);
    if (!r->guards_intact) output_text(c->out, ", wrote outside its outputs");
    output_text(c->out, "\n");
}

/* JSON has no infinity or NaN. */
static json_t *finite_json(double value) { return value - value == 0 ? json_real(value) : json_null(); }

static bool take_result(const wherry_verify_result *r, void *user)
{
    struct check *c = user;
    c->done++;
    double share = r->tolerance > 0 ? r->nmse / r->tolerance : r->nmse > 0;
    if (!(share <= c->worst) || !*c->culprit) {
        c->worst = share;
        snprintf(c->culprit, sizeof c->culprit, "%s", r->name);
    }
    if (!r->passed && !c->groups) print_failure(c, r);
    if (c->groups)
        json_array_append_new(
            c->groups,
            need(json_pack("{s:s, s:s, s:o, s:o, s:f, s:I, s:I, s:b, s:b}", "name", r->name, "kernel", r->kernel,
                           "nmse", finite_json(r->nmse), "max_error", finite_json(r->max_error), "tolerance",
                           r->tolerance, "values", (json_int_t)r->values, "not_finite", (json_int_t)r->not_finite,
                           "guards_intact", r->guards_intact, "passed", r->passed)));
    progress_show("%s %s: %u of %u groups", c->tool->plan.plan, dtype_name(c->tool->plan.dtype), c->done,
                  c->tool->plan.groups);
    return !system_stopped();
}

static void record(struct verification *v, const struct check *c, const wherry_verify_summary *s)
{
    const wherry_session_plan *plan = &v->tool.plan;
    v->groups += s->groups;
    v->failed += s->failed;
    if (v->results) {
        json_array_append_new(
            v->results, need(json_pack("{s:o, s:I, s:I, s:I, s:I, s:b, s:O}", "session", session_json(&v->tool),
                                       "checked", (json_int_t)s->groups, "failed", (json_int_t)s->failed, "replays",
                                       (json_int_t)s->replays, "replays_different", (json_int_t)s->replays_different,
                                       "passed", !s->failed && !s->replays_different, "groups", c->groups)));
        return;
    }
    table_cell(&v->table, "%s", plan->plan);
    table_cell(&v->table, "%s", dtype_name(plan->dtype));
    table_cell(&v->table, "%u", s->groups);
    table_cell(&v->table, "%u", s->failed);
    table_cell(&v->table, "%u of %u", s->replays_different, s->replays);
    table_cell(&v->table, "%.2g", c->worst);
    table_cell(&v->table, "%s", c->culprit);
}

/* A type that the device can't store is no failure where all types were asked for; standard error has the reason. */
static void record_skipped(struct verification *v, int plan, wherry_dtype dtype)
{
    if (v->results) {
        json_array_append_new(v->results, need(json_pack("{s:s, s:s, s:b}", "plan", plan_name(plan), "dtype",
                                                         dtype_name(dtype), "skipped", 1)));
        return;
    }
    table_cell(&v->table, "%s", plan_name(plan));
    table_cell(&v->table, "%s", dtype_name(dtype));
    for (int n = 0; n < 4; n++) table_cell(&v->table, "-");
    table_cell(&v->table, "skipped: this device can't");
}

/* Checks one plan with one type; EXIT_VERIFY when something differs. */
static int verify_one(struct verification *v, int plan, wherry_dtype dtype)
{
    struct tool *tool = &v->tool;
    wherry_session_desc desc = {.max_tokens = v->checked->tokens,
                                .max_sequences = v->checked->batch.sequences,
                                .max_length = v->checked->longest,
                                .dtype = dtype,
                                .weights = (wherry_weights)tool->options->weights,
                                .keep_intermediates = true,
                                .training = v->training};
    int code = tool_open_session(tool, plan_name(plan), desc);
    if (code && tool->failure == WHERRY_STATUS_UNSUPPORTED && tool->options->dtype == DTYPE_ALL) {
        record_skipped(v, plan, dtype);
        return EXIT_FINE;
    }
    if (code) return code;
    struct check check = {.tool = tool, .out = &v->out};
    if (v->results)
        check.groups = need(json_array());
    else
        tool_notes(tool, &v->out);
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    progress_start(tool->options);
    uint32_t replays = tool->options->replays ? tool->options->replays : 20;
    wherry_status status = wherry_verify(tool->session, &v->checked->batch, replays, take_result, &check, &summary);
    progress_end();
    if (status == WHERRY_STATUS_OK || status == WHERRY_STATUS_VERIFY_FAILED)
        record(v, &check, &summary);
    else
        code = tool_error(tool, status, NULL);
    json_decref(check.groups);
    return code ? code : status ? EXIT_VERIFY : EXIT_FINE;
}

static int verify_all(struct verification *v)
{
    const struct options *options = v->tool.options;
    int plan_choice = options->plan ? options->plan : 1, worst = EXIT_FINE;
    wherry_device_limits limits = {.struct_size = sizeof limits};
    bool all = options->dtype == DTYPE_ALL, bf16 = !wherry_device_query(v->tool.device, &limits) && limits.bf16;
    if (v->training) bf16 &= limits.f16; /* where products alone are of it nothing is trained in it */
    int last_dtype = !all ? options->dtype : bf16 ? WHERRY_DTYPE_BF16 : WHERRY_DTYPE_F16;
    int first = plan_choice == PLAN_ALL ? 1 : plan_choice, last = plan_choice == PLAN_ALL ? PLAN_ALL - 1 : plan_choice;
    for (int plan = first; plan <= last; plan++) {
        for (int dtype = all ? WHERRY_DTYPE_F32 : options->dtype; dtype <= last_dtype; dtype++) {
            int code = verify_one(v, plan, (wherry_dtype)dtype);
            tool_close_session(&v->tool);
            if (code > EXIT_VERIFY) return code;
            if (code) worst = code;
            if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        }
    }
    return worst;
}

static const uint32_t usual[] = {1, 17, 64, 5};

static int create_batch(struct verification *v)
{
    const struct options *options = v->tool.options;
    if (options->lengths.count)
        return random_batch_create(&v->tool, options->lengths.values, options->lengths.count, &v->batch);
    uint32_t lengths[4];
    for (size_t n = 0; n < 4; n++)
        lengths[n] = usual[n] < v->tool.model_info.max_tokens ? usual[n] : v->tool.model_info.max_tokens;
    return random_batch_create(&v->tool, lengths, 4, &v->batch);
}

static int write_all(struct verification *v)
{
    const struct options *options = v->tool.options;
    if (!output_open(&v->out, options->output)) return EXIT_OUTPUT;
    v->table.columns = "<plan|<dtype|>groups|>failed|>replays differ|>worst/allowed|~worst group";
    if (options->json)
        v->results = need(json_array());
    else
        output_format(&v->out, "%s on %s (%s): %u sequences, %u tokens\n",
                      options->model ? options->model : options->config, v->tool.device_info.id,
                      v->tool.device_info.name, v->checked->batch.sequences, v->checked->tokens);
    if (!options->json && v->training) layer_print(&v->tool, &v->layer, &v->out);
    int code = verify_all(v);
    bool complete = code <= EXIT_VERIFY;
    if (complete && v->results) {
        output_json(&v->out,
                    need(json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:O}", "run", run_json(options), "device",
                                   device_json(&v->tool.device_info), "model", model_json(&v->tool), "training",
                                   v->training ? layer_json(&v->tool, &v->layer) : json_null(), "lengths",
                                   lengths_json(v->checked), "passed", code == EXIT_FINE, "results", v->results)));
    } else if (complete) {
        table_print(&v->table, &v->out);
        output_format(&v->out, "%s: %u groups checked, %u failed\n", code ? "FAILED" : "passed", v->groups, v->failed);
    }
    json_decref(v->results);
    if (!output_close(&v->out, complete) && complete) code = EXIT_OUTPUT;
    return code;
}

static int finish(struct verification *v, int code)
{
    if (!code) code = tool_open_device(&v->tool);
    if (!code) code = write_all(v);
    random_batch_destroy(&v->batch);
    layer_close(&v->layer);
    tool_close(&v->tool);
    return code;
}

int verify_command(const struct options *options)
{
    struct verification v = {.checked = &v.batch};
    int code = tool_open_context(&v.tool, options);
    if (!code) code = tool_open_model(&v.tool);
    if (!code) code = create_batch(&v);
    return finish(&v, code);
}

int verify_layer_command(const struct options *options)
{
    struct verification v = {.checked = &v.layer.batch, .training = &v.layer.training};
    int code = tool_open_context(&v.tool, options);
    if (!code) code = layer_open(&v.tool, true, usual, sizeof usual / sizeof *usual, &v.layer);
    return finish(&v, code);
}
