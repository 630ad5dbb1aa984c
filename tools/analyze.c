/* `wherry analyze`: flop and bytes of operators and fusion groups, and what each plan saves. */
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "session.h"

struct analysis {
    struct tool tool;
    wherry_model_config config;
    wherry_analysis_desc desc;
    wherry_training_desc training;
    const char *name;
    wherry_analysis *plans[PLAN_ALL]; /* by choice, from 1 */
};

/* ---- what to count ---- */

static int describe_model(struct analysis *a)
{
    const struct options *options = a->tool.options;
    if (options->model || !options->config) {
        int code = tool_open_model(&a->tool);
        if (code) return code;
        a->config = a->tool.model_info.config;
        a->desc.pool = a->tool.model_info.pool;
        a->desc.normalize = a->tool.model_info.normalize;
    } else if (wherry_model_config_named(a->tool.context, options->config, &a->config)) {
        tool_error(&a->tool, WHERRY_STATUS_INVALID_ARGUMENT, NULL);
        return EXIT_USAGE;
    }
    a->name = options->model ? options->model : options->config;
    return EXIT_FINE;
}

static int describe(struct analysis *a)
{
    const struct options *options = a->tool.options;
    if (options->model && options->config) return complain(EXIT_USAGE, "give --model or --config, not both");
    if (options->training && options->inference)
        return complain(EXIT_USAGE, "give --training or --inference, not both");
    if (options->layer && options->encoder) return complain(EXIT_USAGE, "give --layer or --encoder, not both");
    if (options->dot && options->json) return complain(EXIT_USAGE, "give --dot or --json, not both");
    if (options->dot && options->plan == PLAN_ALL) return complain(EXIT_USAGE, "--dot draws one plan: name it");
    a->config.struct_size = sizeof a->config;
    int code = describe_model(a);
    if (code) return code;
    bool paper = options->config != NULL;
    a->desc.struct_size = sizeof a->desc;
    a->desc.config = &a->config;
    a->desc.batch = options->batch ? options->batch : 8;
    a->desc.length = options->seq ? options->seq : 512;
    uint32_t limit = options->model ? a->tool.model_info.max_tokens : a->config.positions;
    if (a->desc.length > limit) {
        if (options->seq) return complain(EXIT_USAGE, "--seq %u: this model takes at most %u", options->seq, limit);
        a->desc.length = limit;
    }
    a->desc.dtype = options->dtype ? (wherry_dtype)options->dtype : WHERRY_DTYPE_F16;
    a->training = (wherry_training_desc){.struct_size = sizeof a->training, .dropout = 0.1f};
    if (options->training || (paper && !options->inference)) a->desc.training = &a->training;
    a->desc.layer_only = options->layer || (paper && !options->encoder);
    if (options->activation)
        a->config.activation = (wherry_activation)(options->activation - 1);
    else if (paper && a->desc.training)
        a->config.activation = WHERRY_ACTIVATION_RELU;
    for (int plan = 1; plan < PLAN_ALL; plan++) {
        a->desc.plan = plan_name(plan);
        wherry_status status = wherry_analyze(a->tool.context, &a->desc, &a->plans[plan]);
        if (status) return tool_error(&a->tool, status, NULL);
    }
    return EXIT_FINE;
}

static bool plan_asked(const struct analysis *a, int plan)
{
    int choice = a->tool.options->plan;
    return choice == PLAN_ALL || plan == (choice ? choice : 1);
}

/* Bytes that the plan moves less than the unfused one, of 1. */
static double plan_saves(const struct analysis *a, int plan)
{
    double bytes[2];
    const int which[2] = {plan, PLAN_ALL - 1};
    for (int n = 0; n < 2; n++) {
        size_t count;
        const wherry_cost *groups = wherry_analysis_groups(a->plans[which[n]], &count);
        struct cost_sum total = costs_total(groups, count);
        bytes[n] = total.bytes_read + total.bytes_written;
    }
    return bytes[1] > 0 ? 1 - bytes[0] / bytes[1] : 0;
}

/* flop / 2^30 as the paper prints it: rounded to 3 decimals, trailing zeros off, "-" for none. */
static const char *format_paper(double flops, char text[NUMBER_SIZE])
{
    int length = snprintf(text, NUMBER_SIZE, "%.3f", flops / 1073741824.0);
    while (text[length - 1] == '0') text[--length] = 0;
    if (text[length - 1] == '.') text[--length] = 0;
    if (flops == 0) memcpy(text, "-", 2);
    return text;
}

/* ---- tables ---- */

static void cost_cells(struct table *table, const struct cost_sum *sum, bool paper)
{
    char text[NUMBER_SIZE];
    double n = sum->count ? sum->count : 1;
    if (sum->flops > 0 && sum->flops / n < 5e5)
        table_cell(table, "<0.001");
    else
        table_cell(table, "%.3f", sum->flops / n / 1e9);
    if (paper) table_cell(table, "%s", format_paper(sum->flops / n, text));
    table_cell(table, "%.2f", sum->bytes_read / n / 1e6);
    table_cell(table, "%.2f", sum->bytes_written / n / 1e6);
    table_cell(table, "%s", format_ratio(sum->flops, sum->bytes_read + sum->bytes_written, "%.1f", text));
}

static void print_operators(const struct analysis *a, struct output *out)
{
    size_t count, kinds;
    bool separate = a->tool.options->all;
    const wherry_cost *operators = wherry_analysis_operators(a->plans[1], &count);
    struct cost_sum *sums = costs_merge(operators, count, separate, &kinds);
    struct table table = {.columns = ">row|~operator|<class|>times|>Gflop|>2^30|>MB in|>MB out|>flop/byte"};
    for (size_t n = 0; n < kinds; n++) {
        if (sums[n].first->paper_row)
            table_cell(&table, "%u", sums[n].first->paper_row);
        else
            table_cell(&table, "-");
        table_cell(&table, "%s", cost_sum_name(&sums[n], separate));
        table_cell(&table, "%c", class_letter(sums[n].first->class_));
        table_cell(&table, "%u", sums[n].count);
        cost_cells(&table, &sums[n], true);
    }
    free(sums);
    for (int class_ = 0; class_ < 4; class_++) { /* three classes, then all */
        struct cost_sum total = {.count = 0};
        uint32_t members = 0;
        for (size_t n = 0; n < count; n++) {
            if (class_ < 3 && operators[n].class_ != (wherry_class)class_) continue;
            struct cost_sum one = costs_total(&operators[n], 1);
            members++;
            total.flops += one.flops;
            total.bytes_read += one.bytes_read;
            total.bytes_written += one.bytes_written;
        }
        table_cell(&table, "%s", "");
        table_cell(&table, "%s", class_ < 3 ? "total" : "total of all");
        table_cell(&table, "%s", class_ < 3 ? (const char *[]){"T", "S", "E"}[class_] : "");
        table_cell(&table, "%u", members);
        cost_cells(&table, &total, true);
    }
    table_print(&table, out);
}

static void print_groups(const struct analysis *a, int plan, struct output *out)
{
    size_t count, kinds;
    bool separate = a->tool.options->all;
    const wherry_cost *groups = wherry_analysis_groups(a->plans[plan], &count);
    struct cost_sum *sums = costs_merge(groups, count, separate, &kinds);
    struct table table = {.columns = "~group|~kernel|>ops|>times|>Gflop|>MB in|>MB out|>flop/byte"};
    for (size_t n = 0; n < kinds; n++) {
        table_cell(&table, "%s", cost_sum_name(&sums[n], separate));
        table_cell(&table, "%s", sums[n].first->kernel);
        table_cell(&table, "%u", sums[n].first->operators);
        table_cell(&table, "%u", sums[n].count);
        cost_cells(&table, &sums[n], false);
    }
    free(sums);
    output_format(out, "\nGroups of the plan %s\n", plan_name(plan));
    table_print(&table, out);
}

static void print_comparison(const struct analysis *a, struct output *out)
{
    struct table table = {.columns = "<plan|>launches|>MB|>saved|>flop/byte"};
    for (int plan = PLAN_ALL - 1; plan > 0; plan--) {
        char text[NUMBER_SIZE];
        size_t count;
        const wherry_cost *groups = wherry_analysis_groups(a->plans[plan], &count);
        struct cost_sum total = costs_total(groups, count);
        double bytes = total.bytes_read + total.bytes_written;
        table_cell(&table, "%s", plan_name(plan));
        table_cell(&table, "%zu", count);
        table_cell(&table, "%.2f", bytes / 1e6);
        table_cell(&table, "%.2f %%", 100 * plan_saves(a, plan));
        table_cell(&table, "%s", format_ratio(total.flops, bytes, "%.1f", text));
    }
    output_text(out, "\nFused against unfused\n");
    table_print(&table, out);
}

static void print_tables(const struct analysis *a, struct output *out)
{
    output_format(out, "%s: %u sequences of %u tokens, %s, %s, %s, %s\n\n", a->name, a->desc.batch, a->desc.length,
                  dtype_name(a->desc.dtype), a->desc.layer_only ? "one layer" : "whole encoder",
                  activation_name(a->config.activation), a->desc.training ? "training" : "inference");
    print_operators(a, out);
    for (int plan = 1; plan < PLAN_ALL; plan++)
        if (plan_asked(a, plan)) print_groups(a, plan, out);
    print_comparison(a, out);
}

/* ---- JSON ---- */

static json_t *plan_json(const struct analysis *a, int plan)
{
    size_t count;
    const wherry_cost *groups = wherry_analysis_groups(a->plans[plan], &count);
    struct cost_sum total = costs_total(groups, count);
    json_t *value = need(json_pack("{s:s, s:I, s:I, s:I, s:f}", "plan", plan_name(plan), "launches", (json_int_t)count,
                                   "bytes_read", (json_int_t)total.bytes_read, "bytes_written",
                                   (json_int_t)total.bytes_written, "saved", plan_saves(a, plan)));
    if (plan_asked(a, plan)) {
        json_t *list = need(json_array());
        for (size_t n = 0; n < count; n++) json_array_append_new(list, cost_json(&groups[n], true, false));
        json_object_set_new(value, "groups", list);
    }
    return value;
}

static json_t *analysis_json(const struct analysis *a)
{
    size_t count;
    const wherry_cost *operators = wherry_analysis_operators(a->plans[1], &count);
    json_t *list = need(json_array()), *plans = need(json_array());
    for (size_t n = 0; n < count; n++) {
        char text[NUMBER_SIZE];
        json_t *one = cost_json(&operators[n], false, false);
        json_object_set_new(one, "paper_gflop", json_string(format_paper(operators[n].flops, text)));
        json_array_append_new(list, one);
    }
    for (int plan = 1; plan < PLAN_ALL; plan++) json_array_append_new(plans, plan_json(a, plan));
    struct cost_sum total = costs_total(operators, count);
    return need(json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:s, s:b, s:b, s:I, s:o, s:o}", "run", run_json(a->tool.options),
        "model", text_json(a->name), "layers", (json_int_t)a->config.layers, "hidden", (json_int_t)a->config.hidden,
        "heads", (json_int_t)a->config.heads, "feed_forward", (json_int_t)a->config.feed_forward, "activation",
        activation_name(a->config.activation), "batch", (json_int_t)a->desc.batch, "length", (json_int_t)a->desc.length,
        "dtype", dtype_name(a->desc.dtype), "training", a->desc.training != NULL, "layer_only", a->desc.layer_only,
        "flops", (json_int_t)total.flops, "operators", list, "plans", plans));
}

int analyze_command(const struct options *options)
{
    struct analysis a = {.name = NULL};
    struct output out;
    int code = tool_open_context(&a.tool, options);
    if (!code) code = describe(&a);
    if (!code && !output_open(&out, options->output)) {
        code = EXIT_OUTPUT;
    } else if (!code) {
        if (options->dot)
            output_text(&out, wherry_analysis_dot(a.plans[options->plan ? options->plan : 1]));
        else if (options->json)
            output_json(&out, analysis_json(&a));
        else
            print_tables(&a, &out);
        if (!output_close(&out, true)) code = EXIT_OUTPUT;
    }
    for (int plan = 1; plan < PLAN_ALL; plan++) wherry_analysis_destroy(a.plans[plan]);
    tool_close(&a.tool);
    return code;
}
