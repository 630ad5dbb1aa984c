/* `wherry bench layer`: the time of the two passes of training through a stack of layers, and of each of their groups.
 */
#include <stdlib.h>

#include <wherry/wherry_measure.h>

#include "costs.h"
#include "layer.h"
#include "system.h"

enum { PHASES = WHERRY_PHASE_BACKWARD + 1 };

/* One plan's. Phases that were not measured have no time. */
struct measurement {
    wherry_cost *groups;
    size_t count;
    uint32_t repeats;
    double warm, host[PHASES], device[PHASES];
};

struct layer_bench {
    struct tool tool;
    struct layer layer;
    wherry_ceiling copy; /* all zero on the reference, which has no kernels */
};

static const char *const phase_names[PHASES] = {"both", "forward", "backward"};

/* ---- measuring ---- */

static bool phase_asked(const struct options *options, int phase)
{
    return !options->phase || options->phase == PHASES || options->phase == phase;
}

static int measure_copy(struct layer_bench *b)
{
    const wherry_roof_desc desc = {.struct_size = sizeof desc, .only = "dram.copy"};
    wherry_roof *roof = NULL;
    wherry_status status = wherry_roof_measure(b->tool.device, &desc, NULL, NULL, &roof);
    const wherry_ceiling *copy = wherry_roof_ceiling(roof, "dram.copy");
    if (copy) b->copy = *copy;
    wherry_roof_destroy(roof);
    return status && status != WHERRY_STATUS_UNSUPPORTED ? tool_error(&b->tool, status, NULL) : EXIT_FINE;
}

static int profile(struct layer_bench *b, int phase, struct measurement *m, wherry_cost *groups)
{
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    size_t count = m->count;
    wherry_status status = costs_measure(&b->tool, &b->layer.batch.batch, (wherry_phase)phase, m->repeats, m->warm,
                                         groups, &count, &m->host[phase]);
    return status ? tool_error(&b->tool, status, NULL) : EXIT_FINE;
}

/* As many repeats as asked for, or as fit into ten seconds: every phase runs with and without timestamps. */
static int choose_repeats(struct layer_bench *b, struct measurement *m)
{
    const struct options *options = b->tool.options;
    int whole = phase_asked(options, WHERRY_PHASE_ALL) ? WHERRY_PHASE_ALL : options->phase;
    m->repeats = 1;
    int code = profile(b, whole, m, NULL);
    double seconds = m->host[whole] * (whole == WHERRY_PHASE_ALL ? 4 : 2);
    m->repeats = options->repeats ? options->repeats : 50;
    if (!options->repeats && seconds * m->repeats > 10) m->repeats = seconds > 2 ? 5 : (uint32_t)(10 / seconds);
    return code;
}

/* Groups keep the times of the whole step where that is measured: there caches are as in training. */
static int measure(struct layer_bench *b, int plan, struct measurement *m)
{
    const struct options *options = b->tool.options;
    wherry_session_desc desc = {.max_tokens = b->layer.batch.tokens,
                                .max_sequences = b->layer.batch.batch.sequences,
                                .max_length = b->layer.batch.longest,
                                .dtype = (wherry_dtype)options->dtype,
                                .training = &b->layer.training};
    int code = tool_open_session(&b->tool, plan_name(plan), desc);
    if (!code) code = choose_repeats(b, m);
    if (code) return code;
    m->warm = options->warm >= 0 ? options->warm : 0.5;
    m->count = b->tool.plan.groups;
    m->groups = need(calloc(m->count + 1, sizeof *m->groups));
    wherry_cost *groups = need(calloc(m->count + 1, sizeof *groups));
    for (int phase = PHASES - 1; phase >= 0 && !code; phase--) { /* the whole step last */
        if (!phase_asked(options, phase)) continue;
        code = profile(b, phase, m, groups);
        m->device[phase] = costs_total(groups, m->count).seconds;
        for (size_t n = 0; n < m->count; n++)
            if (!phase || groups[n].backward == (phase == WHERRY_PHASE_BACKWARD)) m->groups[n] = groups[n];
    }
    free(groups);
    /* Groups of a phase that was not asked for go. */
    size_t kept = 0;
    for (size_t n = 0; n < m->count; n++)
        if (*m->groups[n].name) m->groups[kept++] = m->groups[n];
    m->count = kept;
    return code;
}

/* ---- tables ---- */

/* Four digits, five characters: columns stay narrow. */
static const char *format_short(double value, char text[NUMBER_SIZE])
{
    snprintf(text, NUMBER_SIZE, "%.*f", value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0, value);
    return text;
}

/* At most four characters below 10,000, "-" for a division by nothing. */
static const char *format_rate(double amount, double seconds, char text[NUMBER_SIZE])
{
    double rate = seconds > 0 ? amount / seconds : 0;
    return format_ratio(amount, seconds, rate < 9.995 ? "%.2f" : rate < 99.95 ? "%.1f" : "%.0f", text);
}

static bool has_products(const wherry_cost *group) { return group->class_ == WHERRY_CLASS_CONTRACTION; }

/* Of the rate at which the device copies, 0 where that or the group's time is not known, or says nothing. */
static double copy_share(const struct layer_bench *b, const wherry_cost *group, double bytes, double seconds)
{
    if (has_products(group) || !(seconds > 0) || !(b->copy.value > 0)) return 0;
    return bytes / seconds / b->copy.value;
}

static void sum_cells(const struct layer_bench *b, struct table *table, const struct cost_sum *sum, const char *total)
{
    char text[NUMBER_SIZE];
    double bytes = sum->bytes_read + sum->bytes_written;
    if (total)
        table_cell(table, "%s", total);
    else if (sum->count > 1)
        table_cell(table, "%ux %s", sum->count, cost_sum_name(sum, false));
    else
        table_cell(table, "%s", cost_sum_name(sum, false));
    table_cell(table, "%s", format_short(1e3 * sum->seconds, text));
    table_cell(table, "%s", total ? "" : format_short(1e3 * sum->seconds_p05, text));
    table_cell(table, "%s", total ? "" : format_short(1e3 * sum->seconds_p95, text));
    table_cell(table, "%s", format_short(sum->bytes_read / 1e6, text));
    table_cell(table, "%s", format_short(sum->bytes_written / 1e6, text));
    table_cell(table, "%s", format_rate(bytes / 1e9, sum->seconds, text));
    table_cell(table, "%s", format_short(sum->flops / 1e9, text));
    table_cell(table, "%s", format_rate(sum->flops / 1e12, sum->seconds, text));
    double share = total ? 0 : copy_share(b, sum->first, bytes, sum->seconds);
    if (share > 0)
        table_cell(table, "%.0f", 100 * share);
    else
        table_cell(table, "-");
}

/* The kinds of group of one pass, and their sum; false: there are none. */
static bool pass_rows(const struct layer_bench *b, const struct measurement *m, bool backward, struct table *table)
{
    size_t first = 0, end, kinds;
    while (first < m->count && m->groups[first].backward != backward) first++;
    for (end = first; end < m->count && m->groups[end].backward == backward;) end++;
    if (first == end) return false;
    struct cost_sum *sums = costs_merge(m->groups + first, end - first, false, &kinds);
    for (size_t n = 0; n < kinds; n++) sum_cells(b, table, &sums[n], NULL);
    free(sums);
    struct cost_sum total = costs_total(m->groups + first, end - first);
    sum_cells(b, table, &total, backward ? "all backward" : "all forward");
    return true;
}

static void print_times(const struct layer_bench *b, const struct measurement *m, struct output *out)
{
    struct table table = {.columns = "<pass|>host ms|>device ms|>tokens/s|>Gflop"};
    struct cost_sum passes[PHASES];
    size_t forward = 0;
    while (forward < m->count && !m->groups[forward].backward) forward++;
    passes[WHERRY_PHASE_ALL] = costs_total(m->groups, m->count);
    passes[WHERRY_PHASE_FORWARD] = costs_total(m->groups, forward);
    passes[WHERRY_PHASE_BACKWARD] = costs_total(m->groups + forward, m->count - forward);
    for (int n = 1; n <= PHASES; n++) {
        int phase = n % PHASES; /* both behind its parts */
        if (!(m->host[phase] > 0) || !phase_asked(b->tool.options, phase)) continue;
        table_cell(&table, "%s", phase_names[phase]);
        table_cell(&table, "%.3f", 1e3 * m->host[phase]);
        table_cell(&table, "%.3f", 1e3 * m->device[phase]);
        table_cell(&table, "%.0f", b->layer.batch.tokens / m->host[phase]);
        table_cell(&table, "%.1f", passes[phase].flops / 1e9);
    }
    table_print(&table, out);
}

static void print_measurement(const struct layer_bench *b, const struct measurement *m, struct output *out)
{
    const wherry_session_plan *plan = &b->tool.plan;
    char saved[NUMBER_SIZE], all[NUMBER_SIZE];
    output_format(out, "\nplan %s, %s: medians of %u\n", plan->plan, dtype_name(plan->dtype), m->repeats);
    output_format(out, "%u groups, %u kernels a step; %s saved for the backward pass, %s in all\n", plan->groups,
                  plan->launches, format_bytes((double)plan->saved_bytes, saved),
                  format_bytes((double)plan->device_bytes, all));
    tool_notes(&b->tool, out);
    print_times(b, m, out);
    output_text(out, "\n");
    struct table table = {.columns = "~group|>ms|>p05|>p95|>MB in|>MB out|>GB/s|>Gflop|>TF/s|>%copy"};
    if (pass_rows(b, m, false, &table) + pass_rows(b, m, true, &table) == 2) {
        struct cost_sum total = costs_total(m->groups, m->count);
        sum_cells(b, &table, &total, "all");
    }
    table_print(&table, out);
}

static void print_head(const struct layer_bench *b, struct output *out)
{
    const struct tool *tool = &b->tool;
    char bytes[NUMBER_SIZE];
    output_format(out, "%s on %s (%.48s)\n", tool->options->model ? tool->options->model : tool->options->config,
                  tool->device_info.id, tool->device_info.name);
    output_format(out, "%.60s, driver %.60s\n", tool->device_info.api, tool->device_info.driver);
    output_format(out, "%u sequences, %u tokens; ", b->layer.batch.batch.sequences, b->layer.batch.tokens);
    layer_print(tool, &b->layer, out);
    if (b->copy.value > 0)
        output_format(out, "copy of %s: %.1f GB/s, read and written\n", format_bytes(b->copy.amount / 2, bytes),
                      b->copy.value / 1e9);
}

/* ---- JSON ---- */

static json_t *group_json(const struct layer_bench *b, const wherry_cost *group)
{
    json_t *value = cost_json(group, true, true);
    double share = copy_share(b, group, (double)group->bytes_read + (double)group->bytes_written, group->seconds);
    json_object_set_new(value, "phase", json_string(phase_names[group->backward ? 2 : 1]));
    json_object_set_new(value, "copy_share", share > 0 ? json_real(share) : json_null());
    return value;
}

static json_t *measurement_json(const struct layer_bench *b, const struct measurement *m)
{
    json_t *phases = need(json_object()), *groups = need(json_array());
    for (int phase = 0; phase < PHASES; phase++)
        if (phase_asked(b->tool.options, phase))
            json_object_set_new(
                phases, phase_names[phase],
                need(json_pack("{s:f, s:f}", "host_seconds", m->host[phase], "device_seconds", m->device[phase])));
    for (size_t n = 0; n < m->count; n++) json_array_append_new(groups, group_json(b, &m->groups[n]));
    return need(json_pack("{s:o, s:I, s:f, s:o, s:o}", "session", session_json(&b->tool), "repeats",
                          (json_int_t)m->repeats, "warm_seconds", m->warm, "phases", phases, "groups", groups));
}

static json_t *copy_json(const wherry_ceiling *copy)
{
    if (!(copy->value > 0)) return json_null();
    return need(json_pack("{s:I, s:f, s:f, s:f, s:f}", "bytes", (json_int_t)(copy->amount / 2), "bytes_per_second",
                          copy->value, "seconds", copy->time.median, "seconds_p05", copy->time.p05, "seconds_p95",
                          copy->time.p95));
}

static json_t *bench_json(const struct layer_bench *b, json_t *results)
{
    const struct random_batch *batch = &b->layer.batch;
    return need(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:O}", "run", run_json(b->tool.options), "device",
                          device_json(&b->tool.device_info), "model", model_json(&b->tool), "training",
                          layer_json(&b->tool, &b->layer), "copy", copy_json(&b->copy), "lengths", lengths_json(batch),
                          "sequences", (json_int_t)batch->batch.sequences, "tokens", (json_int_t)batch->tokens,
                          "results", results));
}

/* ---- the command ---- */

static int run_plans(struct layer_bench *b, struct output *out, json_t *results)
{
    int choice = b->tool.options->plan ? b->tool.options->plan : 1;
    for (int plan = choice == PLAN_ALL ? 1 : choice; plan <= (choice == PLAN_ALL ? PLAN_ALL - 1 : choice); plan++) {
        struct measurement m = {.groups = NULL};
        int code = measure(b, plan, &m);
        if (!code && results)
            json_array_append_new(results, measurement_json(b, &m));
        else if (!code)
            print_measurement(b, &m, out);
        free(m.groups);
        tool_close_session(&b->tool);
        if (code) return code;
    }
    return EXIT_FINE;
}

static int run(struct layer_bench *b)
{
    const struct options *options = b->tool.options;
    struct output out;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    json_t *results = options->json ? need(json_array()) : NULL;
    if (!results) print_head(b, &out);
    int code = run_plans(b, &out, results);
    if (!code && results) output_json(&out, bench_json(b, results));
    json_decref(results);
    return !output_close(&out, code == EXIT_FINE) && !code ? EXIT_OUTPUT : code;
}

int bench_layer_command(const struct options *options)
{
    static const uint32_t usual[] = {512, 512, 512, 512, 512, 512, 512, 512}; /* the paper's batch */
    struct layer_bench b = {.copy = {.value = 0}};
    int code = tool_open_context(&b.tool, options);
    if (!code) code = layer_open(&b.tool, usual, sizeof usual / sizeof *usual, &b.layer);
    if (!code) code = tool_open_device(&b.tool);
    if (!code) code = measure_copy(&b);
    if (!code) code = run(&b);
    layer_close(&b.layer);
    tool_close(&b.tool);
    return code;
}
