/* `wherry bench`: the time of an encode and of each of its groups. */
#include <stdlib.h>

#include "costs.h"
#include "session.h"
#include "system.h"

struct measurement {
    wherry_session_plan plan;
    wherry_prepare_info prepared;
    wherry_cost *groups;
    size_t count;
    uint32_t repeats;
    double warm, step_seconds;
};

static int create_batch(const struct tool *tool, struct random_batch *batch)
{
    const struct options *options = tool->options;
    if (options->lengths_count) {
        if (options->batch || options->seq)
            return complain(EXIT_USAGE, "give --lengths or --batch and --seq, not both");
        return random_batch_create(tool, options->lengths, options->lengths_count, batch);
    }
    uint32_t count = options->batch ? options->batch : 8, length = options->seq ? options->seq : 128;
    if (!options->seq && length > tool->model_info.max_tokens) length = tool->model_info.max_tokens;
    uint32_t *lengths = need(malloc(count * sizeof *lengths));
    for (uint32_t s = 0; s < count; s++) lengths[s] = length;
    int code = random_batch_create(tool, lengths, count, batch);
    free(lengths);
    return code;
}

/* As many repeats as asked for, or as fit into ten seconds. */
static int choose_repeats(struct tool *tool, const struct random_batch *batch, uint32_t *repeats)
{
    size_t room = (size_t)batch->tokens * tool->plan.embedding_size;
    float *values = need(malloc(room * sizeof *values));
    wherry_status status = WHERRY_STATUS_OK;
    double seconds = 0;
    for (int n = 0; n < 2 && !status && !system_stopped(); n++) { /* the first touches memory for the first time */
        double start = system_seconds();
        status = wherry_encode(tool->session, &batch->batch, values, room);
        seconds = system_seconds() - start;
    }
    free(values);
    if (status) return tool_error(tool, status, NULL);
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    *repeats = tool->options->repeats ? tool->options->repeats : 50;
    if (!tool->options->repeats && seconds * *repeats > 10) *repeats = seconds > 2 ? 5 : (uint32_t)(10 / seconds);
    return EXIT_FINE;
}

static int measure(struct tool *tool, const struct random_batch *batch, int plan, struct measurement *out)
{
    wherry_session_desc desc = {.max_tokens = batch->tokens,
                                .max_sequences = batch->batch.sequences,
                                .max_length = batch->longest,
                                .dtype = (wherry_dtype)tool->options->dtype};
    int code = tool_open_session(tool, plan_name(plan), desc);
    if (!code) code = choose_repeats(tool, batch, &out->repeats);
    if (code) return code;
    out->plan = tool->plan;
    out->prepared = tool->prepared;
    out->warm = tool->options->warm >= 0 ? tool->options->warm : 0.5;
    out->count = tool->plan.groups;
    out->groups = need(calloc(out->count + 1, sizeof *out->groups));
    wherry_status status = costs_measure(tool, &batch->batch, WHERRY_PHASE_ALL, out->repeats, out->warm, out->groups,
                                         &out->count, &out->step_seconds);
    if (out->count > tool->plan.groups) out->count = tool->plan.groups;
    return status ? tool_error(tool, status, NULL) : EXIT_FINE;
}

/* ---- writing ---- */

static void print_measurement(const struct tool *tool, const struct random_batch *batch, const struct measurement *m,
                              struct output *out)
{
    size_t kinds;
    char text[NUMBER_SIZE];
    struct cost_sum *sums = costs_merge(m->groups, m->count, false, &kinds);
    struct cost_sum total = costs_total(m->groups, m->count);
    struct table table = {.columns = "~group|~kernel|>times|>ms|>share|>MB|>GB/s|>Gflop/s|>flop/byte"};
    for (size_t n = 0; n <= kinds; n++) {
        const struct cost_sum *sum = n < kinds ? &sums[n] : &total;
        double bytes = sum->bytes_read + sum->bytes_written;
        table_cell(&table, "%s", n < kinds ? cost_sum_name(sum, false) : "total");
        table_cell(&table, "%s", n < kinds ? sum->first->kernel : "");
        table_cell(&table, "%u", sum->count);
        table_cell(&table, "%.3f", 1e3 * sum->seconds);
        table_cell(&table, "%s", format_ratio(100 * sum->seconds, total.seconds, "%.1f %%", text));
        table_cell(&table, "%.2f", bytes / 1e6);
        table_cell(&table, "%s", format_ratio(bytes / 1e9, sum->seconds, "%.1f", text));
        table_cell(&table, "%s", format_ratio(sum->flops / 1e9, sum->seconds, "%.0f", text));
        table_cell(&table, "%s", format_ratio(sum->flops, bytes, "%.1f", text));
    }
    free(sums);
    output_format(out, "\nplan %s, %s: %.3f ms, %.0f tokens/s (median of %u encodes)\n", m->plan.plan,
                  dtype_name(m->plan.dtype), 1e3 * m->step_seconds,
                  m->step_seconds > 0 ? batch->tokens / m->step_seconds : 0, m->repeats);
    output_format(out, "kernels: %u, %u of them compiled now; %s on the device\n", m->prepared.kernels,
                  m->prepared.kernels_compiled, format_bytes((double)m->plan.device_bytes, text));
    tool_notes(tool, out);
    output_text(out, "\n");
    table_print(&table, out);
}

static json_t *sum_json(const struct cost_sum *sum)
{
    return need(json_pack("{s:s, s:s, s:I, s:f, s:I, s:I, s:I}", "name", cost_kind(sum->first), "kernel",
                          sum->first->kernel, "count", (json_int_t)sum->count, "seconds", sum->seconds, "flops",
                          (json_int_t)sum->flops, "bytes_read", (json_int_t)sum->bytes_read, "bytes_written",
                          (json_int_t)sum->bytes_written));
}

static json_t *measurement_json(const struct tool *tool, const struct random_batch *batch, const struct measurement *m)
{
    size_t kinds;
    struct cost_sum *sums = costs_merge(m->groups, m->count, false, &kinds);
    json_t *by_kind = need(json_array()), *groups = need(json_array());
    for (size_t n = 0; n < kinds; n++) json_array_append_new(by_kind, sum_json(&sums[n]));
    for (size_t n = 0; n < m->count; n++) json_array_append_new(groups, cost_json(&m->groups[n], true, true));
    free(sums);
    return need(json_pack("{s:o, s:I, s:f, s:f, s:f, s:o, s:o}", "session", session_json(tool), "repeats",
                          (json_int_t)m->repeats, "warm_seconds", m->warm, "step_seconds", m->step_seconds,
                          "tokens_per_second", m->step_seconds > 0 ? batch->tokens / m->step_seconds : 0, "kinds",
                          by_kind, "groups", groups));
}

static int run_plans(struct tool *tool, const struct random_batch *batch, struct output *out, json_t *results)
{
    int choice = tool->options->plan ? tool->options->plan : 1;
    for (int plan = choice == PLAN_ALL ? 1 : choice; plan <= (choice == PLAN_ALL ? PLAN_ALL - 1 : choice); plan++) {
        struct measurement m = {.groups = NULL};
        int code = measure(tool, batch, plan, &m);
        if (!code && results)
            json_array_append_new(results, measurement_json(tool, batch, &m));
        else if (!code)
            print_measurement(tool, batch, &m, out);
        free(m.groups);
        tool_close_session(tool);
        if (!code && system_stopped()) code = complain(EXIT_STOPPED, "interrupted");
        if (code) return code;
    }
    return EXIT_FINE;
}

int bench_command(const struct options *options)
{
    struct tool tool;
    struct random_batch batch = {0};
    struct output out;
    int code = tool_open_context(&tool, options);
    if (!code) code = tool_open_model(&tool);
    if (!code) code = create_batch(&tool, &batch);
    if (!code) code = tool_open_device(&tool);
    if (!code && !output_open(&out, options->output)) {
        code = EXIT_OUTPUT;
    } else if (!code) {
        json_t *results = options->json ? need(json_array()) : NULL;
        if (!results)
            output_format(&out, "%s on %s (%s): %u sequences, %u tokens\n",
                          options->model ? options->model : options->config, tool.device_info.id, tool.device_info.name,
                          batch.batch.sequences, batch.tokens);
        code = run_plans(&tool, &batch, &out, results);
        if (!code && results)
            output_json(&out, need(json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:O}", "run", run_json(options), "device",
                                             device_json(&tool.device_info), "model", model_json(&tool), "lengths",
                                             lengths_json(&batch), "sequences", (json_int_t)batch.batch.sequences,
                                             "tokens", (json_int_t)batch.tokens, "results", results)));
        json_decref(results);
        if (!output_close(&out, code == EXIT_FINE) && !code) code = EXIT_OUTPUT;
    }
    random_batch_destroy(&batch);
    tool_close(&tool);
    return code;
}
