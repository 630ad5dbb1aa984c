/* `wherry analyze`: flop and bytes of operators and fusion groups, and what each plan saves. */
#include <stdlib.h>
#include <string.h>

#include "analyze.h"
#include "commands.h"
#include "groups.h"
#include "paper.h"

/* ---- what to count ---- */

/* The configuration that is meant, NULL: a model. The paper's is what layouts are counted of by default. */
static const char *config_name(const struct options *options)
{
    return options->config ? options->config : options->layouts && !options->model ? "bert-large" : NULL;
}

static int describe_model(struct analysis *a)
{
    const struct options *options = a->tool.options;
    const char *config = config_name(options);
    if (!config) {
        int code = tool_open_model(&a->tool);
        if (code) return code;
        a->config = a->tool.model_info.config;
        a->desc.pool = a->tool.model_info.pool;
        a->desc.normalize = a->tool.model_info.normalize;
        if (a->tool.model_info.words && !options->training) a->desc.output = WHERRY_OUTPUT_WORDS;
    } else if (wherry_model_config_named(a->tool.context, config, &a->config)) {
        tool_error(&a->tool, WHERRY_STATUS_INVALID_ARGUMENT, NULL);
        return EXIT_USAGE;
    }
    if (options->hidden) a->config.hidden = options->hidden;
    if (options->heads) a->config.heads = options->heads;
    if (options->feed_forward) a->config.feed_forward = options->feed_forward;
    a->name = config ? config : options->model;
    return EXIT_FINE;
}

static int describe(struct analysis *a)
{
    const struct options *options = a->tool.options;
    if (options->model && options->config) return complain(EXIT_USAGE, "give --model or --config, not both");
    if (!config_name(options) && (options->hidden || options->heads || options->feed_forward))
        return complain(EXIT_USAGE, "--hidden, --heads and --feed-forward change a --config; a --model has its own");
    if (!options->train && (options->ranks.count || options->link || options->copy || options->measured ||
                            options->wire || options->memory_budget))
        return complain(EXIT_USAGE, "--ranks, --link, --copy, --wire, --measured and --memory-budget go with --train");
    if (options->training && options->inference)
        return complain(EXIT_USAGE, "give --training or --inference, not both");
    if (options->layer && options->encoder) return complain(EXIT_USAGE, "give --layer or --encoder, not both");
    if (options->dot && options->json) return complain(EXIT_USAGE, "give --dot or --json, not both");
    if (options->dot && options->plan == PLAN_ALL) return complain(EXIT_USAGE, "--dot draws one plan: name it");
    bool what_if = options->fuse || options->split;
    if (what_if && options->plan == PLAN_ALL)
        return complain(EXIT_USAGE, "--fuse and --split start from one plan: name it");
    if (options->layouts && (options->dot || what_if || options->device_spec || options->all))
        return complain(EXIT_USAGE, "--layouts goes without --dot, --fuse, --split, --device-spec and --all");
    if (options->explain && !options->fuse) return complain(EXIT_USAGE, "--explain explains what --fuse does");
    if (options->fuse && strcmp(options->fuse, "auto") == 0 && (options->plan || options->split))
        return complain(EXIT_USAGE, "--fuse auto starts from single operators: it takes no --plan and no --split");
    if (options->device_spec && options->dot) return complain(EXIT_USAGE, "--dot draws a graph, without --device-spec");
    if (options->device_spec) {
        int code = device_specs_read(options->device_spec, a->specs, &a->spec_count);
        if (code) return code;
        if (what_if && a->spec_count > 1)
            return complain(EXIT_USAGE, "--fuse and --split are told for one device: name one in --device-spec");
    }
    if (options->save && options->inference) return complain(EXIT_USAGE, "--save is for training");
    a->config.struct_size = sizeof a->config;
    int code = describe_model(a);
    if (code) return code;
    bool paper = config_name(options) != NULL;
    a->desc.struct_size = sizeof a->desc;
    a->desc.config = &a->config;
    a->desc.batch = options->batch ? options->batch : 8;
    a->desc.length = options->seq ? options->seq : 512;
    a->desc.layer_only = options->layer || (paper && !options->encoder);
    uint32_t limit = options->model ? a->tool.model_info.max_tokens : a->config.positions - a->config.position_offset;
    if (a->desc.layer_only && options->seq) limit = UINT32_MAX; /* positions belong to the embeddings */
    if (a->desc.length > limit) {
        if (options->seq) return complain(EXIT_USAGE, "--seq %u: this model takes at most %u", options->seq, limit);
        a->desc.length = limit;
    }
    a->desc.dtype = options->dtype ? (wherry_dtype)options->dtype : WHERRY_DTYPE_F16;
    a->desc.weights = (wherry_weights)options->weights;
    a->training = (wherry_training_desc){.struct_size = sizeof a->training,
                                         .dropout = 0.1f,
                                         .save = (wherry_save)options->save,
                                         .qkv_products = options->qkv_products};
    if (options->training || options->save || (paper && !options->inference)) a->desc.training = &a->training;
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

/* ---- tables ---- */

static void cost_cells(struct table *table, const struct cost_sum *sum, bool paper)
{
    char text[NUMBER_SIZE];
    double n = sum->count ? sum->count : 1;
    if (sum->flops > 0 && sum->flops / n < 5e5)
        table_cell(table, "<0.001");
    else
        table_cell(table, "%.3f", sum->flops / n / 1e9);
    if (paper) table_cell(table, "%s", paper_format_flops(sum->flops / n, text));
    table_cell(table, "%.2f", sum->bytes_read / n / 1e6);
    table_cell(table, "%.2f", sum->bytes_written / n / 1e6);
    table_cell(table, "%s", format_ratio(sum->flops, sum->bytes_read + sum->bytes_written, "%.1f", text));
}

static const char *pass_name(const wherry_cost *cost) { return cost->backward ? "bwd" : "fwd"; }

/* What the table of operators says beside costs: the pass in training; how often, unless there is one layer alone. */
struct columns {
    bool pass, times;
    const char *text;
};

static struct columns operator_columns(const struct analysis *a)
{
    static const char *const texts[2][2] = {
        {">row|~operator|<class|>Gflop|>2^30|>MB in|>MB out|>flop/byte",
         ">row|~operator|<class|>times|>Gflop|>2^30|>MB in|>MB out|>flop/byte"},
        {">row|~operator|<pass|<class|>Gflop|>2^30|>MB in|>MB out|>flop/byte",
         ">row|~operator|<pass|<class|>times|>Gflop|>2^30|>MB in|>MB out|>flop/byte"}};
    struct columns columns = {.pass = a->desc.training != NULL, .times = !a->desc.layer_only};
    columns.text = texts[columns.pass][columns.times];
    return columns;
}

/* A line of sums over the rows of one class (3: all) and pass. */
static void print_total(struct table *table, const struct columns *columns, const wherry_cost *rows, size_t count,
                        unsigned class_, enum pass pass)
{
    struct cost_sum total = {.count = 0};
    uint32_t members = 0;
    for (size_t n = 0; n < count; n++) {
        if (class_ < 3 && rows[n].class_ != (wherry_class)class_) continue;
        if (pass != PASS_BOTH && rows[n].backward != (pass == PASS_BACKWARD)) continue;
        struct cost_sum one = costs_total(&rows[n], 1);
        members++;
        total.flops += one.flops;
        total.bytes_read += one.bytes_read;
        total.bytes_written += one.bytes_written;
    }
    table_cell(table, "%s", "");
    table_cell(table, "%s", class_ < 3 || pass != PASS_BOTH ? "total" : "total of all");
    if (columns->pass) table_cell(table, "%s", (const char *[]){"fwd", "bwd", ""}[pass]);
    table_cell(table, "%s", (const char *[]){"T", "S", "E", ""}[class_]);
    if (columns->times) table_cell(table, "%u", members);
    cost_cells(table, &total, true);
}

/* Those of the unfused plan, whose graph has nothing but what has to be computed. */
static void print_operators(const struct analysis *a, struct output *out)
{
    size_t count, kinds;
    bool separate = a->tool.options->all;
    const struct columns columns = operator_columns(a);
    const wherry_cost *rows = wherry_analysis_rows(a->plans[PLAN_ALL - 1], &count);
    struct cost_sum *sums = costs_merge(rows, count, separate, &kinds);
    struct table table = {.columns = columns.text};
    for (size_t n = 0; n < kinds; n++) {
        if (sums[n].first->paper_row)
            table_cell(&table, "%u", sums[n].first->paper_row);
        else
            table_cell(&table, "-");
        table_cell(&table, "%s", cost_sum_name(&sums[n], separate));
        if (columns.pass) table_cell(&table, "%s", pass_name(sums[n].first));
        table_cell(&table, "%c", class_letter(sums[n].first->class_));
        if (columns.times) table_cell(&table, "%u", sums[n].count);
        cost_cells(&table, &sums[n], true);
    }
    free(sums);
    for (unsigned class_ = 0; class_ < 3; class_++) print_total(&table, &columns, rows, count, class_, PASS_BOTH);
    for (int pass = PASS_FORWARD; columns.pass && pass <= PASS_BACKWARD; pass++)
        print_total(&table, &columns, rows, count, 3, (enum pass)pass);
    print_total(&table, &columns, rows, count, 3, PASS_BOTH);
    table_print(&table, out);
}

static void print_groups(const struct analysis *a, int plan, struct output *out)
{
    size_t count, kinds;
    bool separate = a->tool.options->all;
    const wherry_cost *groups = wherry_analysis_groups(a->plans[plan], &count);
    struct cost_sum *sums = costs_merge(groups, count, separate, &kinds);
    bool training = a->desc.training != NULL;
    struct table table = {.columns = training ? "~group|<pass|~kernel|>ops|>times|>Gflop|>MB in|>MB out|>flop/byte"
                                              : "~group|~kernel|>ops|>times|>Gflop|>MB in|>MB out|>flop/byte"};
    for (size_t n = 0; n < kinds; n++) {
        table_cell(&table, "%s", cost_sum_name(&sums[n], separate));
        if (training) table_cell(&table, "%s", pass_name(sums[n].first));
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
    bool training = a->desc.training != NULL;
    struct table table = {.columns = training ? "<plan|>launches|>Gflop|>MB|>MB fwd|>MB bwd|>saved|>flop/byte|>MB kept"
                                              : "<plan|>launches|>Gflop|>MB|>saved|>flop/byte"};
    for (int plan = PLAN_ALL - 1; plan > 0; plan--) {
        char text[NUMBER_SIZE];
        struct cost_sum parts[3];
        for (int pass = 0; pass < 3; pass++) parts[pass] = groups_total(a->plans[plan], (enum pass)pass);
        const struct cost_sum *total = &parts[PASS_BOTH];
        double bytes = total->bytes_read + total->bytes_written;
        table_cell(&table, "%s", plan_name(plan));
        table_cell(&table, "%u", total->count);
        table_cell(&table, "%.2f", total->flops / 1e9);
        table_cell(&table, "%.2f", bytes / 1e6);
        for (int pass = 0; training && pass < 2; pass++)
            table_cell(&table, "%.2f", (parts[pass].bytes_read + parts[pass].bytes_written) / 1e6);
        table_cell(&table, "%.2f %%", 100 * bytes_saved(a->plans[plan], a->plans[PLAN_ALL - 1]));
        table_cell(&table, "%s", format_ratio(total->flops, bytes, "%.1f", text));
        if (training) table_cell(&table, "%.2f", (double)wherry_analysis_saved_bytes(a->plans[plan]) / 1e6);
    }
    output_text(out, "\nFused against unfused\n");
    table_print(&table, out);
}

static void print_tables(const struct analysis *a, struct output *out)
{
    output_format(out, "%s: %u sequences of %u tokens, %s%s, %s, %s, %s\n\n", a->name, a->desc.batch, a->desc.length,
                  dtype_name(a->desc.dtype), a->desc.weights ? ", int8 weights" : "",
                  a->desc.layer_only ? "one layer" : "whole encoder", activation_name(a->config.activation),
                  a->desc.training ? "training" : "inference");
    if (a->spec_count) {
        predict_print(a, out);
        return;
    }
    print_operators(a, out);
    for (int plan = 1; plan < PLAN_ALL; plan++)
        if (plan_asked(a->tool.options, plan)) print_groups(a, plan, out);
    print_comparison(a, out);
}

/* ---- JSON ---- */

static json_t *plan_json(const struct analysis *a, int plan)
{
    struct cost_sum total = groups_total(a->plans[plan], PASS_BOTH),
                    backward = groups_total(a->plans[plan], PASS_BACKWARD);
    json_t *value = need(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "plan", plan_name(plan), "launches",
                                   (json_int_t)total.count, "flops", (json_int_t)total.flops, "bytes_read",
                                   (json_int_t)total.bytes_read, "bytes_written", (json_int_t)total.bytes_written,
                                   "bytes_backward", (json_int_t)(backward.bytes_read + backward.bytes_written),
                                   "bytes_kept", (json_int_t)wherry_analysis_saved_bytes(a->plans[plan]), "saved",
                                   bytes_saved(a->plans[plan], a->plans[PLAN_ALL - 1])));
    if (plan_asked(a->tool.options, plan)) json_object_set_new(value, "groups", groups_json(a->plans[plan]));
    return value;
}

static json_t *costs_json(const wherry_cost *costs, size_t count)
{
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++) {
        char text[NUMBER_SIZE];
        json_t *one = cost_json(&costs[n], false);
        json_object_set_new(one, "paper_gflop", json_string(paper_format_flops(costs[n].flops, text)));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *analysis_json(const struct analysis *a)
{
    size_t count, row_count;
    const wherry_cost *operators = wherry_analysis_operators(a->plans[PLAN_ALL - 1], &count);
    const wherry_cost *rows = wherry_analysis_rows(a->plans[PLAN_ALL - 1], &row_count);
    json_t *plans = need(json_array());
    for (int plan = 1; plan < PLAN_ALL; plan++) json_array_append_new(plans, plan_json(a, plan));
    struct cost_sum total = costs_total(operators, count);
    json_t *value = need(json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:s, s:b, s:b, s:I, s:o, s:o, s:o}", "run",
        run_json(a->tool.options), "model", text_json(a->name), "layers", (json_int_t)a->config.layers, "hidden",
        (json_int_t)a->config.hidden, "heads", (json_int_t)a->config.heads, "feed_forward",
        (json_int_t)a->config.feed_forward, "activation", activation_name(a->config.activation), "batch",
        (json_int_t)a->desc.batch, "length", (json_int_t)a->desc.length, "dtype", dtype_name(a->desc.dtype), "training",
        a->desc.training != NULL, "layer_only", a->desc.layer_only, "flops", (json_int_t)total.flops, "operators",
        costs_json(operators, count), "rows", costs_json(rows, row_count), "plans", plans));
    if (a->desc.weights) json_object_set_new(value, "weights", json_string(weights_name(a->desc.weights)));
    if (a->spec_count) json_object_set_new(value, "predictions", predict_json(a));
    return value;
}

static int print_analysis(struct analysis *a)
{
    const struct options *options = a->tool.options;
    struct output out;
    int code = describe(a);
    if (code) return code;
    if (options->fuse || options->split) return fusion_report(a);
    if (options->layouts) return layouts_report(a);
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    if (options->dot)
        output_text(&out, wherry_analysis_dot(a->plans[options->plan ? options->plan : 1]));
    else if (options->json)
        output_json(&out, analysis_json(a));
    else
        print_tables(a, &out);
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

int analyze_command(const struct options *options)
{
    struct analysis a = {.name = NULL};
    if (options->device_spec && strcmp(options->device_spec, "list") == 0) return device_sheets_report(options);
    int code = tool_open_context(&a.tool, options);
    if (!code)
        code = options->train ? train_report(&a.tool) : options->paper ? paper_report(&a.tool) : print_analysis(&a);
    for (int plan = 1; plan < PLAN_ALL; plan++) wherry_analysis_destroy(a.plans[plan]);
    tool_close(&a.tool);
    return code;
}
