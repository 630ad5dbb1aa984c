/* `wherry tune` and `wherry tune layer`: which sizes of each kernel call are the fastest on this device. */
#include <stdlib.h>
#include <string.h>

#include "layer.h"
#include "measure.h"
#include "system.h"

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
    double start;  /* of this plan's measuring, when it was first heard of */
    size_t before; /* candidates that were known then */
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
    return need(json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "plan",
                          t->tool.plan.plan, "group", r->group, "work", r->work, "default", r->usual, "best", r->best,
                          "chosen", r->chosen, "groups", (json_int_t)r->groups, "default_us", 1e6 * r->usual_seconds,
                          "best_us", 1e6 * r->best_seconds, "measured", (json_int_t)r->measured, "known",
                          (json_int_t)r->known, "wrong", (json_int_t)r->wrong, "failed", (json_int_t)r->failed,
                          "refused", (json_int_t)r->refused, "cut", (json_int_t)r->cut, "reason",
                          *r->reason ? text_json(r->reason) : json_null()));
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

static int tune_plan(struct tuning_tool *t, const char *plan)
{
    struct tool *tool = &t->tool;
    const struct options *options = tool->options;
    const wherry_tune_desc desc = {.struct_size = sizeof desc,
                                   .candidates = options->candidates,
                                   .rounds = options->rounds,
                                   .fresh = options->fresh};
    wherry_tune_summary summary = {.struct_size = sizeof summary};
    int code = tool_open_session(tool, plan,
                                 (wherry_session_desc){.max_tokens = t->of->tokens,
                                                       .max_sequences = t->of->batch.sequences,
                                                       .max_length = t->of->longest,
                                                       .dtype = (wherry_dtype)options->dtype,
                                                       .keep_intermediates = true,
                                                       .training = t->training,
                                                       .tuning = ""});
    if (code) return code;
    double start = system_seconds();
    t->start = 0;
    progress_start(options);
    wherry_status status = wherry_tune(tool->session, &t->of->batch, &desc, show_progress, take_result, t, &summary);
    progress_end();
    if (status) return tool_error(tool, status, NULL);
    if (t->works)
        json_array_append_new(t->plans, summary_json(t, &summary, system_seconds() - start));
    else
        print_summary(t, &summary, system_seconds() - start);
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
    if (!code && options->json)
        output_json(&t->out, need(json_pack("{s:o, s:o, s:o, s:o, s:o, s:O, s:O}", "run", run_json(options), "device",
                                            device_json(&t->tool.device_info), "model", model_json(&t->tool),
                                            "training", t->training ? layer_json(&t->tool, &t->layer) : json_null(),
                                            "lengths", lengths_json(t->of), "plans", t->plans, "works", t->works)));
    json_decref(t->works);
    json_decref(t->plans);
    if (!output_close(&t->out, !code) && !code) code = EXIT_OUTPUT;
    return code;
}

static int finish(struct tuning_tool *t, int code)
{
    if (!code) code = tool_open_device(&t->tool);
    if (!code) code = write_all(t);
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
    if (!code) code = layer_open(&t.tool, usual, sizeof usual / sizeof *usual, &t.layer);
    return finish(&t, code);
}
