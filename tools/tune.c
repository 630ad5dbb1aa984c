/* `wherry tune` and `wherry tune layer`: which sizes of each kernel call are the fastest on this device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "commands.h"
#include "compile_jobs.h"
#include "layer.h"
#include "system.h"
#include "tune_layouts.h"

struct tuning_tool {
    struct tool tool;
    struct random_batch batch; /* of inference */
    struct layer layer;
    const struct random_batch *of;        /* either's */
    const wherry_training_desc *training; /* NULL: inference */
    struct output out;
    struct table table;
    json_t *works; /* NULL: a table */
    json_t *plans;
    const char *plan;
    wherry_tune_result *tuned; /* of this plan, for its operators, with candidates of their own */
    size_t n_tuned;
    wherry_layouts_chosen chosen; /* of this plan, n_operators 0: orders were not chosen */
    double start;                 /* of this plan's measuring, when it was first heard of */
    size_t before;                /* candidates that were known then */
};

/* ---- progress ---- */

/* The time that is left, by what the candidates until now took. */
static bool show_progress(const char *what, size_t done, size_t total, void *user)
{
    struct tuning_tool *t = user;
    double now = system_seconds();
    if (!(t->start > 0)) {
        t->start = now;
        t->before = done;
    }
    if (done > t->before && total > done)
        progress_show("tuning: %s, %zu of %zu candidates, %.0f s left", what, done, total,
                      (now - t->start) / (double)(done - t->before) * (double)(total - done));
    else
        progress_show("tuning: %s, %zu of %zu candidates", what, done, total);
    return !system_stopped();
}

/* ---- results ---- */

static double percent(const wherry_tune_result *r)
{
    return r->usual_seconds > 0 ? 100 * (1 - r->best_seconds / r->usual_seconds) : 0;
}

static json_t *result_json(const struct tuning_tool *t, const wherry_tune_result *r)
{
    json_t *value = need(
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "plan", t->plan,
                  "group", r->group, "work", r->work, "default", r->usual, "best", r->best, "chosen", r->chosen,
                  "groups", (json_int_t)r->groups, "default_us", 1e6 * r->usual_seconds, "best_us",
                  1e6 * r->best_seconds, "measured", (json_int_t)r->measured, "known", (json_int_t)r->known, "wrong",
                  (json_int_t)r->wrong, "failed", (json_int_t)r->failed, "refused", (json_int_t)r->refused, "cut",
                  (json_int_t)r->cut, "reason", *r->reason ? text_json(r->reason) : json_null()));
    json_object_set_new(value, "layouts", json_string(r->layouts));
    json_object_set_new(value, "candidates", candidates_json(r, 0));
    return value;
}

/* What the operators' distributions are made of. */
static void keep_result(struct tuning_tool *t, const wherry_tune_result *r)
{
    wherry_tune_result *work;
    t->tuned = need(realloc(t->tuned, (t->n_tuned + 1) * sizeof *t->tuned));
    work = &t->tuned[t->n_tuned++];
    *work = *r;
    work->candidates = NULL;
    if (!r->candidates || !r->measured) return;
    wherry_tune_candidate *copy = need(malloc(r->measured * sizeof *copy));
    memcpy(copy, r->candidates, r->measured * sizeof *copy);
    work->candidates = copy;
}

static void forget_results(struct tuning_tool *t)
{
    for (size_t n = 0; n < t->n_tuned; n++) free((void *)t->tuned[n].candidates);
    free(t->tuned);
    t->tuned = NULL;
    t->n_tuned = 0;
    wherry_layouts_free(t->tool.context, &t->chosen);
}

static void result_row(struct tuning_tool *t, const wherry_tune_result *r)
{
    table_cell(&t->table, "%s", r->group);
    table_cell(&t->table, "%s", r->work);
    table_cell(&t->table, "%u", r->groups);
    if (r->usual_seconds > 0) {
        table_cell(&t->table, "%.2f", 1e6 * r->usual_seconds);
        table_cell(&t->table, "%.2f", 1e6 * r->best_seconds);
    } else {
        table_cell(&t->table, "-");
        table_cell(&t->table, "-");
    }
    table_cell(&t->table, r->chosen ? "%.1f" : "-", percent(r));
    table_cell(&t->table, "%u", r->measured);
    table_cell(&t->table, "%s", r->best);
}

/* A wrong candidate says something about the device's driver or about us: it is told whatever else there is. */
static bool take_result(const wherry_tune_result *r, void *user)
{
    struct tuning_tool *t = user;
    if (r->wrong)
        complain(0, "%s: %u of %u candidates give wrong numbers: %s", r->group, r->wrong, r->measured, r->reason);
    keep_result(t, r);
    if (t->works)
        json_array_append_new(t->works, result_json(t, r));
    else
        result_row(t, r);
    return !system_stopped();
}

static void print_summary(struct tuning_tool *t, const wherry_tune_summary *s, double seconds)
{
    table_print(&t->table, &t->out);
    output_format(&t->out, "%u of %u kernel calls run faster with other sizes: %.4g ms of kernels become %.4g\n",
                  s->chosen, s->works, 1e3 * s->usual_seconds, 1e3 * s->best_seconds);
    output_format(&t->out, "%u candidates in %.0f s, %u of them measured before, %u wrong, %u that can't run\n",
                  s->measured, seconds, s->known, s->wrong, s->failed);
    output_format(&t->out, "kept in %s\n", s->file);
}

static json_t *summary_json(const struct tuning_tool *t, const wherry_tune_summary *s, double seconds)
{
    return need(json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:s}", "session", session_json(&t->tool),
                          "works", (json_int_t)s->works, "chosen", (json_int_t)s->chosen, "measured",
                          (json_int_t)s->measured, "known", (json_int_t)s->known, "wrong", (json_int_t)s->wrong,
                          "failed", (json_int_t)s->failed, "default_us", 1e6 * s->usual_seconds, "best_us",
                          1e6 * s->best_seconds, "seconds", seconds, "file", s->file));
}

/* ---- the command ---- */

static wherry_session_desc session_of(const struct tuning_tool *t)
{
    return (wherry_session_desc){.struct_size = sizeof(wherry_session_desc),
                                 .max_tokens = t->of->tokens,
                                 .max_sequences = t->of->batch.sequences,
                                 .max_length = t->of->longest,
                                 .dtype = (wherry_dtype)t->tool.options->dtype,
                                 .training = t->training};
}

/* Sizes for the orders that are asked for, or for the model's. */
static wherry_status tune_sizes(struct tuning_tool *t, const char *plan, const wherry_tune_desc *desc,
                                wherry_tune_summary *summary, int *code)
{
    wherry_session_desc session = session_of(t);
    session.keep_intermediates = true;
    session.tuning = "";
    *code = desc->shares ? tool_plan_session(&t->tool, plan, session) : tool_open_session(&t->tool, plan, session);
    if (*code) return WHERRY_STATUS_OK;
    progress_start(t->tool.options);
    return wherry_tune(t->tool.session, &t->of->batch, desc, show_progress, take_result, t, summary);
}

/* Orders and sizes; the session is then one that has them. */
static wherry_status tune_layouts(struct tuning_tool *t, const char *plan, const wherry_tune_desc *desc,
                                  wherry_tune_summary *summary, int *code)
{
    wherry_session_desc session = session_of(t);
    session.plan = plan;
    session.kernels = tool_kernels(&t->tool);
    session.memory_budget = t->tool.options->memory_budget;
    t->chosen = (wherry_layouts_chosen){.struct_size = sizeof t->chosen};
    progress_start(t->tool.options);
    wherry_status status = wherry_tune_layouts(t->tool.context, t->tool.device, t->tool.model, &session, &t->of->batch,
                                               desc, show_progress, take_result, t, summary, &t->chosen);
    progress_end();
    if (!status && !desc->shares) *code = tool_open_session(&t->tool, plan, session_of(t));
    return status;
}

static int tune_plan(struct tuning_tool *t, const char *plan)
{
    const struct options *options = t->tool.options;
    wherry_tune_desc desc = {.struct_size = sizeof desc,
                             .candidates = options->candidates,
                             .rounds = options->rounds,
                             .fresh = options->fresh,
                             .all = options->all_candidates};
    wherry_tune_summary summary = {.struct_size = sizeof summary};
    double start = system_seconds();
    int code = compile_share(options, &desc.share, &desc.shares);
    if (code) return code;
    t->start = 0;
    t->plan = plan;
    wherry_status status = options->orders || options->no_layouts ? tune_sizes(t, plan, &desc, &summary, &code)
                                                                  : tune_layouts(t, plan, &desc, &summary, &code);
    double seconds = system_seconds() - start;
    progress_end();
    if (status == WHERRY_STATUS_CANCELLED && desc.shares) return EXIT_STOPPED; /* what started it tells */
    if (status) return tool_error(&t->tool, status, NULL);
    if (code || desc.shares) return code;
    if (t->works) {
        json_t *value = summary_json(t, &summary, seconds);
        json_t *layouts = t->chosen.n_operators ? layouts_json(&t->chosen, t->tuned, t->n_tuned) : json_null();
        json_object_set_new(value, "layouts", layouts);
        json_array_append_new(t->plans, value);
        return EXIT_FINE;
    }
    print_summary(t, &summary, seconds);
    if (t->chosen.n_operators) layouts_print(&t->chosen, &t->out);
    return EXIT_FINE;
}

static int tune_plans(struct tuning_tool *t)
{
    int choice = t->tool.options->plan ? t->tool.options->plan : 1, code = EXIT_FINE;
    int first = choice == PLAN_ALL ? 1 : choice, last = choice == PLAN_ALL ? PLAN_ALL - 1 : choice;
    for (int plan = first; !code && plan <= last; plan++) {
        t->table = (struct table){.columns = "<group|<work|>groups|>default us|>best us|>gain %|>tried|<best sizes",
                                  .width = 132};
        code = tune_plan(t, plan_name(plan));
        forget_results(t);
        tool_close_session(&t->tool);
    }
    return code;
}

static int write_all(struct tuning_tool *t)
{
    const struct options *options = t->tool.options;
    if (!output_open(&t->out, options->output)) return EXIT_OUTPUT;
    if (options->json) {
        t->works = need(json_array());
        t->plans = need(json_array());
    } else {
        output_format(&t->out, "%s on %s (%s): %u sequences, %u tokens\n",
                      options->model ? options->model : options->config, t->tool.device_info.id,
                      t->tool.device_info.name, t->of->batch.sequences, t->of->tokens);
        if (t->training) layer_print(&t->tool, &t->layer, &t->out);
    }
    int code = tune_plans(t);
    if (!code && options->json) {
        json_t *record = need(json_pack("{s:o, s:o, s:o, s:o, s:o, s:O, s:O}", "run", run_json(options), "device",
                                        device_json(&t->tool.device_info), "model", model_json(&t->tool), "training",
                                        t->training ? layer_json(&t->tool, &t->layer) : json_null(), "lengths",
                                        lengths_json(t->of), "plans", t->plans, "works", t->works));
        layouts_totals(record);
        output_json(&t->out, record);
    }
    json_decref(t->works);
    json_decref(t->plans);
    if (!output_close(&t->out, !code) && !code) code = EXIT_OUTPUT;
    return code;
}

/* What is going to be tried, compiled by several processes. */
static int compile_ahead(const struct tuning_tool *t)
{
    const struct compile_jobs desc = {.what = "the tuning", .until = INFINITY};
    uint32_t jobs;
    int code = compile_jobs_count(&t->tool, &jobs);
    return code || jobs < 2 ? code : compile_jobs_run(&t->tool, jobs, &desc);
}

static int finish(struct tuning_tool *t, int code)
{
    if (!code) code = tool_open_device(&t->tool);
    if (!code && !t->tool.options->compile_share) code = compile_ahead(t);
    if (!code) code = t->tool.options->compile_share ? tune_plans(t) : write_all(t);
    random_batch_destroy(&t->batch);
    layer_close(&t->layer);
    tool_close(&t->tool);
    return code;
}

int tune_command(const struct options *options)
{
    struct tuning_tool t = {.of = &t.batch};
    int code = tool_open_context(&t.tool, options);
    if (!code) code = tool_open_model(&t.tool);
    if (!code) code = bench_batch_create(&t.tool, &t.batch);
    return finish(&t, code);
}

int tune_layer_command(const struct options *options)
{
    static const uint32_t usual[] = {512, 512, 512, 512, 512, 512, 512, 512}; /* as bench layer */
    struct tuning_tool t = {.of = &t.layer.batch, .training = &t.layer.training};
    int code = tool_open_context(&t.tool, options);
    if (!code) code = layer_open(&t.tool, true, usual, sizeof usual / sizeof *usual, &t.layer);
    return finish(&t, code);
}
