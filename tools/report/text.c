/* Records as tables on a terminal: 80 columns, or with --wide all there is to tell of an operation. */
#include <stdlib.h>
#include <string.h>

#include "report/format.h"
#include "report/loads.h"
#include "report/rows.h"
#include "report/titles.h"
#include "report/versus.h"
#include "report/write.h"
#include "session.h"

static const char table_columns[] = "~group|<c|>us|>+-%|>share|>MB|>GB/s|>TF/s|>%roof|>MUE|<regime";
static const char wide_columns[] =
    "<group|<kernel|<c|>launches|>us|>p05|>p95|>CI low|>CI high|>share|>Q in MB|>Q out MB|"
    ">D in MB|>D out MB|>asked MB|>GB/s|>Q GB/s|>TF/s|>flop/Q|>flop/D|>%roof|>%cache|"
    ">%copy|>MUE|>MUE theor.|>Q/D|>B/peak|>limit us|>headroom|<regime";

/* ---- cells ---- */

static void cell_short(struct table *table, double value)
{
    char text[NUMBER_SIZE];
    table_cell(table, "%s", format_short(value, text));
}

/* At most four characters below 10,000. */
static void cell_rate(struct table *table, double value)
{
    if (isfinite(value))
        table_cell(table, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
    else
        table_cell(table, "-");
}

static void cell_percent(struct table *table, double share)
{
    char text[NUMBER_SIZE];
    table_cell(table, "%s", format_percent(share, text));
}

static void cell_ratio(struct table *table, double ratio)
{
    if (isfinite(ratio))
        table_cell(table, "%.2f", ratio);
    else
        table_cell(table, "-");
}

static void cell_regime(struct table *table, const struct row *row)
{
    table_cell(table, "%s%s", row->regime && *row->regime ? row->regime : "-", row->over ? " !" : "");
}

static void row_cells(struct table *table, const struct row *row, const char *total)
{
    char name[128];
    if (!total) row_name(row, name, sizeof name);
    table_cell(table, "%s", total ? total : name);
    table_cell(table, "%c", total ? ' ' : row_class(row));
    cell_short(table, 1e6 * row->seconds);
    cell_percent(table, total ? (double)NAN : (row->p95 - row->p05) / 2 / row->seconds);
    cell_percent(table, row->share);
    cell_short(table, bytes_sum(row->d_model) / 1e6);
    cell_rate(table, row_bandwidth(row) / 1e9);
    cell_rate(table, row->flops / row->seconds / 1e12);
    cell_percent(table, total ? row->roof_memory / row->seconds : row_roof(row));
    cell_percent(table, row->mue / row->seconds);
    if (total)
        table_cell(table, "%s", row->over ? "!" : "");
    else
        cell_regime(table, row);
}

static void wide_cells(struct table *table, const struct row *row, const char *total)
{
    char name[128];
    double t = row->seconds;
    if (!total) row_name(row, name, sizeof name);
    table_cell(table, "%s", total ? total : name);
    table_cell(table, "%s", total ? "" : row->op->kernel);
    table_cell(table, "%c", total ? ' ' : row_class(row));
    table_cell(table, "%u", row->launches);
    cell_short(table, 1e6 * t);
    cell_short(table, total ? (double)NAN : 1e6 * row->p05);
    cell_short(table, total ? (double)NAN : 1e6 * row->p95);
    cell_short(table, total ? (double)NAN : 1e6 * row->ci_low);
    cell_short(table, total ? (double)NAN : 1e6 * row->ci_high);
    cell_percent(table, row->share);
    cell_short(table, row->q.read / 1e6);
    cell_short(table, row->q.written / 1e6);
    cell_short(table, row->d_model.read / 1e6);
    cell_short(table, row->d_model.written / 1e6);
    cell_short(table, bytes_sum(row->requested) / 1e6);
    cell_rate(table, row_bandwidth(row) / 1e9);
    cell_rate(table, bytes_sum(row->q) / t / 1e9);
    cell_rate(table, row->flops / t / 1e12);
    cell_rate(table, row->flops / bytes_sum(row->q));
    cell_rate(table, row->flops / bytes_sum(row->d_model));
    cell_percent(table, row->roof_memory / t);
    cell_percent(table, row->roof_cache / t);
    cell_percent(table, row->copy_share / t);
    cell_percent(table, row->mue / t);
    cell_percent(table, row->mue_theoretical / t);
    cell_ratio(table, row_q_over_d(row));
    cell_ratio(table, row->mue / t / row_q_over_d(row));
    cell_short(table, 1e6 * row->limit);
    cell_ratio(table, t / row->limit);
    cell_regime(table, row);
}

static void print_rows(const struct record_plan *plan, enum mode mode, bool wide, struct output *out)
{
    const char *phases[8];
    size_t phase_count = plan_phases(plan, phases, sizeof phases / sizeof *phases), count;
    struct table table = {.columns = wide ? wide_columns : table_columns, .width = wide ? 1000 : 0};
    for (size_t p = 0; p <= phase_count; p++) {
        if (p == phase_count && phase_count == 1) break; /* the sum is there already */
        struct row *rows = rows_merge(plan, mode, p < phase_count ? phases[p] : NULL, &count);
        struct row total = rows_total(rows, count);
        char name[64];
        for (size_t n = 0; n < count && p < phase_count; n++) (wide ? wide_cells : row_cells)(&table, &rows[n], NULL);
        snprintf(name, sizeof name, "all %.40s", p < phase_count && phase_count > 1 ? phases[p] : "");
        if (p == phase_count || phase_count == 1) name[3] = 0;
        (wide ? wide_cells : row_cells)(&table, &total, name);
        free(rows);
    }
    table_print(&table, out);
}

/* ---- a plan ---- */

static void print_steps(const struct record *record, const struct record_plan *plan, struct output *out)
{
    struct table table = {.columns = "<pass|>host ms|>device ms|>tokens/s"};
    if (!plan->has_steps) return;
    for (size_t n = 0; n < STEP_PARTS; n++) {
        const struct record_step *step = &plan->steps[n];
        if (!step->measured) continue;
        table_cell(&table, "%s", step_names[n]);
        cell_short(&table, 1e3 * step->host_seconds);
        cell_short(&table, 1e3 * step->device_seconds);
        if (step->host_seconds > 0)
            table_cell(&table, "%.0f", record->workload.tokens / step->host_seconds);
        else
            table_cell(&table, "-");
    }
    table_print(&table, out);
    output_text(out, "\n");
}

static void print_memory(const struct record_plan *plan, struct output *out)
{
    struct table table = {.columns = "<memory|>MB|>%"};
    if (!plan->has_memory) return;
    for (size_t n = 0; n < MEMORY_ROWS; n++) {
        table_cell(&table, "%s", memory_rows[n].text);
        table_cell(&table, "%.1f", plan->memory[n] / 1e6);
        table_cell(&table, "%.1f", 100 * plan->memory[n] / plan->memory[MEMORY_ROWS - 1]);
    }
    table_print(&table, out);
    output_text(out, "\n");
}

static void print_exchange(const struct record_plan *plan, struct output *out)
{
    char sent[NUMBER_SIZE], seconds[NUMBER_SIZE], hidden[NUMBER_SIZE];
    if (!(plan->processes > 0)) return;
    output_format(out, "%.0f processes, each with this batch: a step sends %s, in %s, %s %% of them hidden\n",
                  plan->processes, format_bytes(plan->exchange_bytes, sent),
                  format_unit(plan->exchange_seconds, "s", seconds), format_percent(plan->exchange_hidden, hidden));
}

/* "classes |####==--|  T 63 %, S 25 %, E 12 %" */
static void print_classes(const struct record_plan *plan, struct output *out)
{
    enum { BAR = 30 };
    char bar[BAR + 1], text[NUMBER_SIZE];
    size_t at = 0;
    double sum = 0;
    memset(bar, '-', BAR);
    bar[BAR] = 0;
    for (size_t n = 0; n < plan->class_count; n++) {
        sum += plan->classes[n].share;
        if (!(sum >= 0) || n > 2) return; /* nothing was measured */
        for (; at < BAR && (double)at + 0.5 < sum * BAR; at++) bar[at] = "#=-"[n];
    }
    output_format(out, "classes |%s|", bar);
    for (size_t n = 0; n < plan->class_count; n++)
        output_format(out, "%s %c %s %%", n ? "," : " ", class_letter((wherry_class)n),
                      format_percent(plan->classes[n].share, text));
    output_text(out, "\n");
}

static void print_step(const struct record *record, const struct record_plan *plan, struct output *out)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE];
    double host = plan->host.median, kernels = plan->kernels.median, gap = plan->gap_seconds;
    output_format(out, "step %s, kernels %s", format_unit(host, "s", a), format_unit(kernels, "s", b));
    if (gap > 0) output_format(out, ", gaps %s (%s %%)", format_unit(gap, "s", a), format_percent(gap / host, b));
    if (plan->limit_seconds > 0)
        output_format(out, "\nlimit %s, headroom %.1fx", format_unit(plan->limit_seconds, "s", c), plan->headroom);
    if (host > 0) output_format(out, ", %.0f tokens/s", fmax(plan->processes, 1) * record->workload.tokens / host);
    unsigned shown = 0;
    for (size_t n = 0; n < REGIMES; n++) {
        double seconds = plan->regimes[regime_order[n]];
        if (seconds > 0)
            output_format(out, "%s%s %s %%", shown++ ? ", " : "\nregimes: ", wherry_regime_name(regime_order[n]),
                          format_percent(seconds / kernels, a));
    }
    output_text(out, "\n");
}

/* "kernel: why", wrapped. */
static void print_reason(const char *kernel, const char *reason, struct output *out)
{
    enum { LINE = 80 };
    size_t at = strlen(kernel) + 1;
    output_format(out, "%s:", kernel);
    while (*reason) {
        size_t word = strcspn(reason, " ");
        bool fits = at + 1 + word <= LINE;
        output_format(out, "%s%.*s", fits ? " " : "\n  ", (int)word, reason);
        at = (fits ? at + 1 : 2) + word;
        reason += word;
        reason += strspn(reason, " ");
    }
    output_text(out, "\n");
}

static void cell_whole(struct table *table, double number)
{
    if (isfinite(number))
        table_cell(table, "%.0f", number);
    else
        table_cell(table, "-");
}

/* Kernels whose reasons are told, each once. */
struct reasons {
    const struct record_kernel *list[64];
    size_t count;
};

static void add_reason(struct reasons *reasons, const struct record_kernel *kernel)
{
    if (!*kernel->reason || reasons->count == sizeof reasons->list / sizeof *reasons->list) return;
    for (size_t n = 0; n < reasons->count; n++)
        if (!strcmp(reasons->list[n]->name, kernel->name) && !strcmp(reasons->list[n]->reason, kernel->reason)) return;
    reasons->list[reasons->count++] = kernel;
}

/* What runs each group, and what that takes of a multiprocessor. */
static void print_kernels(const struct record_plan *plan, struct output *out)
{
    struct table table = {.columns = "<group|<kernel|~variant|>regs|>spill|>shared"};
    struct reasons reasons = {.count = 0};
    size_t count;
    struct row *rows = rows_merge(plan, plan_measured(plan, WARM) ? WARM : COLD, NULL, &count);
    for (size_t n = 0; n < count; n++) {
        for (size_t k = 0; k < rows[n].op->kernel_count; k++) {
            const struct record_kernel *kernel = &rows[n].op->kernels[k];
            char name[128];
            row_name(&rows[n], name, sizeof name);
            table_cell(&table, "%s", k ? "" : name);
            table_cell(&table, "%s", kernel->name);
            table_cell(&table, "%s", kernel->variant);
            cell_whole(&table, kernel->registers);
            cell_whole(&table, kernel->spilled_bytes);
            cell_whole(&table, kernel->shared_bytes);
            add_reason(&reasons, kernel);
        }
    }
    if (table.count) {
        output_text(out, "\n");
        table_print(&table, out);
    }
    for (size_t n = 0; n < reasons.count; n++) print_reason(reasons.list[n]->name, reasons.list[n]->reason, out);
    free(rows);
}

static void print_plan(const struct record *record, const struct record_plan *plan, bool wide, struct output *out)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    output_format(out, "\nplan %s, %s: medians of %.0f\n", plan->name, plan->dtype, (double)plan->repeats);
    output_format(out, "%.0f groups, %.0f kernels a step", (double)plan->groups, (double)plan->launches);
    if (plan->saved_bytes > 0)
        output_format(out, "; %s saved for the backward pass", format_bytes(plan->saved_bytes, a));
    if (plan->device_bytes > 0) output_format(out, "; %s in all", format_bytes(plan->device_bytes, b));
    output_text(out, "\n");
    if (*plan->layouts) output_format(out, "layouts: %s\n", plan->layouts);
    for (size_t n = 0; n < plan->note_count; n++) output_format(out, "note: %s\n", plan->notes[n]);
    print_steps(record, plan, out);
    print_memory(plan, out);
    print_exchange(plan, out);
    bool warm = plan_measured(plan, WARM), cold = plan_measured(plan, COLD);
    if (warm) print_rows(plan, WARM, wide, out);
    if (cold && (wide || !warm)) {
        output_text(out, "\ncold caches: each group alone, its buffers taken in turn\n");
        print_rows(plan, COLD, wide, out);
    }
    if ((warm || cold) && !plan_modelled(plan)) output_format(out, "%s\n", not_modelled);
    print_classes(plan, out);
    print_step(record, plan, out);
    print_kernels(plan, out);
    if (warm && cold && !wide) output_text(out, "times are of warm caches, as in the step; --wide has the cold ones\n");
}

/* ---- the device, its ceilings ---- */

static double highest(const struct record *record, uint64_t dev, const char *const *ids, const char **id)
{
    double best = 0;
    for (; *ids; ids++) {
        double value = record_ceiling(record, dev, *ids);
        if (value > best) {
            best = value;
            *id = *ids;
        }
    }
    return best;
}

static void print_ceilings(const struct record *record, const struct record_device *device, struct output *out)
{
    static const char *const memory[] = {"dram.read", "dram.write", "dram.copy", "dram.triad", NULL};
    static const char *const caches[] = {"cache.read", "cache.copy", NULL};
    static const char *const units[][2] = {
        {"compute.f32", "f32"}, {"compute.f16", "f16"}, {"compute.matrix", "matrix"}};
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    const char *id = "";
    uint64_t dev = device->dev;
    if (!record_has_roof(record, dev)) {
        output_text(out, "ceilings were not measured\n");
        return;
    }
    double best = highest(record, dev, memory, &id), theory = device->peak_bandwidth;
    output_format(out, "memory %s (%s)", format_unit(best, "B/s", a), *id ? id + 5 : "?");
    if (theory > 0)
        output_format(out, ", %.0f %% of %s by the %s", 100 * best / theory, format_unit(theory, "B/s", a),
                      device->peak_source);
    output_format(out, ", copy %s", format_unit(record_ceiling(record, dev, "dram.copy"), "B/s", a));
    output_format(out, "\ncache %s", format_unit(highest(record, dev, caches, &id), "B/s", a));
    if (device->cache_bytes > 0) output_format(out, " to %s", format_bytes(device->cache_bytes, b));
    output_format(out, ", launch %s\n", format_unit(record_ceiling(record, dev, "launch.seconds"), "s", a));
    unsigned shown = 0;
    for (size_t n = 0; n < 3; n++) {
        double value = record_ceiling(record, dev, units[n][0]);
        if (value > 0) output_format(out, "%s%s %s", shown++ ? ", " : "", units[n][1], format_unit(value, "flop/s", a));
    }
    output_text(out, shown ? "\n" : "");
}

static void print_device(const struct record *record, const struct record_device *device, struct output *out)
{
    output_format(out, "%s  %.60s\n", device->id, device->name);
    if (*device->api) output_format(out, "%.60s, driver %.60s\n", device->api, device->driver);
    if (*device->device_class) output_format(out, "sizes for the class %.40s\n", device->device_class);
    if (*device->quirks) output_format(out, "known of its driver: %.200s\n", device->quirks);
    if (is_latency(record)) return; /* by the host's clock, and nothing is set against ceilings */
    print_ceilings(record, device, out);
    if (*device->timer_status)
        output_format(out, "timer: %s, %s", device->timer_kind, device->timer_status);
    else
        output_text(out, "timer: not tested");
    if (isfinite(record->drift)) output_format(out, "; drift %.1f %%", 100 * record->drift);
    output_text(out, "\n");
}

/* All configurations, of a record that has nothing else. */
static void print_roof(const struct record *record, struct output *out)
{
    char text[NUMBER_SIZE];
    struct table table = {.columns = "<ceiling|>value|>+-%|<type|~configuration"};
    for (size_t n = 0; n < record->ceiling_count; n++) {
        const struct record_ceiling *ceiling = &record->ceilings[n];
        const wherry_time *time = &ceiling->time;
        table_cell(&table, "%s%s", ceiling->best ? "" : "  ", ceiling->id);
        table_cell(&table, "%s", format_unit(ceiling->value, ceiling->unit, text));
        cell_percent(&table, (time->p95 - time->p05) / 2 / time->median);
        table_cell(&table, "%s", *ceiling->dtype ? ceiling->dtype : "-");
        table_cell(&table, "%s", ceiling->config);
    }
    output_text(out, "\n");
    table_print(&table, out);
}

static void print_workload(const struct record *record, struct output *out)
{
    char title[160];
    double layers = record->workload.layers;
    workload_title(record, title, sizeof title);
    output_format(out, "%s\n", title);
    if (!record->workload.has_training) return;
    if (*record->workload.task) output_format(out, "%s, ", record->workload.optimizer);
    output_format(out, "%.0f layer%s, %s, %s, dropout %g, saved: %s\n", layers, layers == 1 ? "" : "s",
                  record->workload.pre_layernorm ? "pre-LN" : "post-LN", record->workload.activation,
                  record->workload.dropout, record->workload.save);
}

/* In lines of at most 80 bytes; those after the first begin with `indent`. */
static void print_wrapped(struct output *out, const char *text, const char *indent)
{
    size_t width = 80;
    for (;;) {
        size_t take = strlen(text);
        if (take > width) {
            for (take = width; take > 1 && text[take] != ' ';) take--;
            if (take == 1) take = width;
        }
        output_write(out, text, take);
        output_text(out, "\n");
        text += take;
        text += strspn(text, " ");
        if (!*text) break;
        output_text(out, indent);
        width = 80 - strlen(indent);
    }
}

static void print_warnings(const struct record *record, struct output *out)
{
    if (record->warning_count) output_text(out, "\n");
    for (size_t n = 0; n < record->warning_count; n++) {
        const struct record_warning *warning = &record->warnings[n];
        char line[512];
        snprintf(line, sizeof line, "! %.80s%s%.400s", warning->op, *warning->op ? ": " : "", warning->text);
        print_wrapped(out, line, "  ");
    }
}

void text_write(struct output *out, const struct report *report, const struct options *options)
{
    for (size_t r = 0; r < report->count; r++) {
        const struct record *record = &report->records[r];
        if (r) output_text(out, "\n\n");
        print_workload(record, out);
        for (size_t n = 0; n < record->device_count; n++) print_device(record, &record->devices[n], out);
        for (size_t n = 0; n < record->plan_count; n++) print_plan(record, &record->plans[n], options->wide, out);
        if (is_latency(record))
            loads_text(out, record);
        else if (!record->plan_count)
            print_roof(record, out);
        print_warnings(record, out);
    }
    char *lines = versus_lines(report);
    if (*lines) output_text(out, "\n");
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n")) print_wrapped(out, line, "  ");
    free(lines);
}
