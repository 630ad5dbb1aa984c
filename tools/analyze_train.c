/* `wherry analyze --train`: the memory that training a whole model takes, by what it is for, and what a step computes
 * and moves, the loss and the optimizer too. */
#include <stdlib.h>
#include <string.h>

#include "analyze.h"
#include "analyze_ranks.h"
#include "commands.h"
#include "train_work.h"

/* What a device's peaks make of it. */
struct limit {
    double seconds[WHERRY_TRAIN_PARTS], all;
};

struct train_analysis {
    struct tool *tool;
    struct train_work work;
    wherry_train_memory memory;
    wherry_cost *groups;
    size_t count, parts[WHERRY_TRAIN_PARTS];
    wherry_dtype dtype;
    wherry_device_spec specs[DEVICE_SPECS_MAX];
    size_t spec_count;
    struct limit limits[DEVICE_SPECS_MAX];
    struct rank_analysis ranks; /* of no processes: none is wanted */
};

/* ---- counting ---- */

/* Twice: for their number, and for them. */
static int count_groups(struct train_analysis *a)
{
    struct tool *tool = a->tool;
    for (int time = 0; time < 2; time++) {
        a->memory.struct_size = sizeof a->memory;
        wherry_status status =
            wherry_trainer_plan(tool->context, tool->device, tool->model, &a->work.session, &a->work.trainer,
                                (uint32_t)a->work.masked, &a->memory, a->groups, &a->count, a->parts);
        if (status) return tool_error(tool, status, NULL);
        if (!a->groups) a->groups = need(calloc(a->count + 1, sizeof *a->groups));
    }
    return EXIT_FINE;
}

static size_t part_first(const struct train_analysis *a, int part)
{
    size_t first = 0;
    for (int p = 0; p < part; p++) first += a->parts[p];
    return first;
}

static void predict(struct train_analysis *a)
{
    for (size_t s = 0; s < a->spec_count; s++)
        for (int part = 0; part < WHERRY_TRAIN_PARTS; part++)
            for (size_t n = part_first(a, part); n < part_first(a, part + 1); n++) {
                wherry_work work;
                wherry_prediction p;
                bool session = part < WHERRY_TRAIN_LOSS;
                wherry_operator_work(&a->groups[n], &work);
                wherry_predict(&a->specs[s], session ? a->dtype : WHERRY_DTYPE_F32, &work, &p);
                a->limits[s].seconds[part] += p.limit_seconds;
                a->limits[s].all += p.limit_seconds;
            }
}

static int analyze(struct train_analysis *a)
{
    struct options options = *a->tool->options;
    if (options.layouts || options.dot || options.fuse || options.split || options.paper || options.all ||
        options.layer || options.encoder || options.inference)
        return complain(EXIT_USAGE, "--train goes with --model or --config, --task, --optimizer, --batch, --seq, "
                                    "--dtype, --plan, --save, --dropout, --memory-budget, --device-spec and "
                                    "--json");
    if (options.plan == PLAN_ALL) return complain(EXIT_USAGE, "--train plans one plan: name it");
    if (!options.ranks.count && (options.link || options.copy || options.measured || options.wire))
        return complain(EXIT_USAGE, "--link, --copy, --wire and --measured go with --ranks");
    if (options.device_spec) {
        int code = device_specs_read(options.device_spec, a->specs, &a->spec_count);
        if (code) return code;
    }
    /* Its kernels run all groups, as those of a GPU do. */
    if (!options.device) options.device = "reference";
    if (!options.dtype) options.dtype = WHERRY_DTYPE_F16;
    const struct options *own = a->tool->options;
    a->tool->options = &options;
    int code = train_work_open(a->tool, &a->work);
    if (!code) code = tool_open_device(a->tool);
    a->tool->options = own;
    if (code) return code;
    a->dtype = (wherry_dtype)options.dtype;
    a->work.session.plan = plan_name(options.plan ? options.plan : 1);
    code = count_groups(a);
    if (!code) predict(a);
    if (code || !options.ranks.count) return code;
    return rank_analysis_open(a->tool, &a->work, a->groups + part_first(a, WHERRY_TRAIN_BACKWARD),
                              a->parts[WHERRY_TRAIN_BACKWARD], &a->ranks);
}

/* ---- writing ---- */

static void print_memory(const struct train_analysis *a, struct output *out)
{
    struct table table = {.columns = "<memory|>MB|>%|>bytes a parameter|>a token"};
    uint64_t bytes[MEMORY_ROWS];
    train_memory_rows(&a->memory, bytes);
    for (int n = 0; n < MEMORY_ROWS; n++) {
        const char *name = memory_rows[n].name;
        bool tokens = !strcmp(name, "saved") || !strcmp(name, "workspace") || !strcmp(name, "loss"),
             parameters = !tokens && strcmp(name, "total") != 0;
        table_cell(&table, "%s", memory_rows[n].text);
        table_cell(&table, "%.1f", (double)bytes[n] / 1e6);
        table_cell(&table, "%.1f", 100 * (double)bytes[n] / (double)a->memory.total);
        table_cell(&table, parameters ? "%.2f" : "", (double)bytes[n] / (double)a->tool->model_info.parameters);
        table_cell(&table, tokens ? "%.0f" : "", (double)bytes[n] / (double)a->work.batch.tokens);
    }
    table_print(&table, out);
}

static void sum_cells(const struct train_analysis *a, struct table *table, size_t first, size_t end)
{
    struct cost_sum sum = costs_total(a->groups + first, end - first);
    char text[NUMBER_SIZE];
    table_cell(table, "%.3f", sum.flops / 1e9);
    table_cell(table, "%.2f", sum.bytes_read / 1e6);
    table_cell(table, "%.2f", sum.bytes_written / 1e6);
    table_cell(table, "%s", format_ratio(sum.flops, sum.bytes_read + sum.bytes_written, "%.1f", text));
}

static void print_groups(const struct train_analysis *a, struct output *out)
{
    struct table table = {.columns = "<part|~group|~kernel|>times|>Gflop|>MB in|>MB out|>flop/byte"};
    for (int part = 0; part < WHERRY_TRAIN_PARTS; part++) {
        size_t kinds;
        struct cost_sum *sums = costs_merge(a->groups + part_first(a, part), a->parts[part], false, &kinds);
        for (size_t n = 0; n < kinds; n++) {
            char text[NUMBER_SIZE];
            table_cell(&table, "%s", train_part_names[part]);
            table_cell(&table, "%s", cost_sum_name(&sums[n], false));
            table_cell(&table, "%s", sums[n].first->kernel);
            table_cell(&table, "%u", sums[n].count);
            table_cell(&table, "%.3f", sums[n].flops / 1e9);
            table_cell(&table, "%.2f", sums[n].bytes_read / 1e6);
            table_cell(&table, "%.2f", sums[n].bytes_written / 1e6);
            table_cell(&table, "%s",
                       format_ratio(sums[n].flops, sums[n].bytes_read + sums[n].bytes_written, "%.1f", text));
        }
        free(sums);
    }
    table_print(&table, out);
}

static void print_parts(const struct train_analysis *a, struct output *out)
{
    struct table table = {.columns = "<part|>groups|>Gflop|>MB in|>MB out|>flop/byte"};
    for (int part = 0; part <= WHERRY_TRAIN_PARTS; part++) {
        bool all = part == WHERRY_TRAIN_PARTS;
        size_t first = all ? 0 : part_first(a, part), end = all ? a->count : part_first(a, part + 1);
        table_cell(&table, "%s", all ? "all" : train_part_names[part]);
        table_cell(&table, "%zu", end - first);
        sum_cells(a, &table, first, end);
    }
    table_print(&table, out);
}

static void print_limits(const struct train_analysis *a, struct output *out)
{
    struct table table = {.columns = "~device|>forward ms|>backward|>loss|>optimizer|>step|>tokens/s"};
    for (size_t s = 0; s < a->spec_count; s++) {
        const struct limit *limit = &a->limits[s];
        table_cell(&table, "%s", a->specs[s].name);
        for (int part = 0; part < WHERRY_TRAIN_PARTS; part++) table_cell(&table, "%.3f", 1e3 * limit->seconds[part]);
        table_cell(&table, "%.3f", 1e3 * limit->all);
        table_cell(&table, "%.0f", (double)a->work.batch.tokens / limit->all);
    }
    if (!a->spec_count) return;
    output_text(out, "\nNo step can be faster, by the peaks of\n");
    table_print(&table, out);
}

static void print(const struct train_analysis *a, struct output *out)
{
    const struct tool *tool = a->tool;
    const struct options *options = tool->options;
    output_format(out, "%s: %s, %s, %u sequences of %u tokens\n%s, plan %s, %llu parameters\n\n",
                  options->config ? options->config : options->model, train_task_name(options),
                  train_optimizer_name(options), a->work.batch.batch.sequences, a->work.batch.longest,
                  dtype_name(a->dtype), a->work.session.plan, (unsigned long long)tool->model_info.parameters);
    print_memory(a, out);
    output_text(out, "\n");
    print_groups(a, out);
    output_text(out, "\n");
    print_parts(a, out);
    print_limits(a, out);
    if (options->ranks.count) rank_analysis_print(&a->ranks, out);
}

static json_t *limits_json(const struct train_analysis *a)
{
    json_t *list = need(json_array());
    for (size_t s = 0; s < a->spec_count; s++) {
        json_t *one = need(json_pack("{s:s, s:f, s:f}", "device", a->specs[s].name, "seconds", a->limits[s].all,
                                     "tokens_per_second", (double)a->work.batch.tokens / a->limits[s].all));
        for (int part = 0; part < WHERRY_TRAIN_PARTS; part++)
            json_object_set_new(one, train_part_names[part], json_real(a->limits[s].seconds[part]));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *analysis_json(const struct train_analysis *a)
{
    json_t *groups = need(json_array());
    for (int part = 0; part < WHERRY_TRAIN_PARTS; part++)
        for (size_t n = part_first(a, part); n < part_first(a, part + 1); n++) {
            json_t *group = cost_json(&a->groups[n], true);
            json_object_set_new(group, "part", json_string(train_part_names[part]));
            json_array_append_new(groups, group);
        }
    struct cost_sum total = costs_total(a->groups, a->count);
    json_t *ranks = a->tool->options->ranks.count ? rank_analysis_json(&a->ranks) : NULL;
    return need(json_pack(
        "{s:o, s:o, s:o, s:s, s:s, s:I, s:I, s:o, s:f, s:f, s:o, s:o, s:o*}", "run", run_json(a->tool->options),
        "model", model_json(a->tool), "training", train_work_json(a->tool, &a->work), "plan", a->work.session.plan,
        "dtype", dtype_name(a->dtype), "sequences", (json_int_t)a->work.batch.batch.sequences, "tokens",
        (json_int_t)a->work.batch.tokens, "memory", train_memory_json(&a->memory), "flops", total.flops, "bytes",
        total.bytes_read + total.bytes_written, "groups", groups, "limits", limits_json(a), "ranks", ranks));
}

int train_report(struct tool *tool)
{
    struct train_analysis a = {.tool = tool};
    struct output out;
    int code = analyze(&a);
    if (!code && !output_open(&out, tool->options->output)) code = EXIT_OUTPUT;
    if (!code) {
        if (tool->options->json)
            output_json(&out, analysis_json(&a));
        else
            print(&a, &out);
        code = output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
    }
    rank_analysis_close(&a.ranks);
    train_work_close(&a.work);
    free(a.groups);
    return code;
}
