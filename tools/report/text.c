/* Records as tables on a terminal: 80 columns, or with --wide all there is to tell of an operation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/derive.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/rows.h"
#include "report/titles.h"
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
    cell_short(table, (row->d_read + row->d_written) / 1e6);
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
    table_cell(table, "%s", total ? "" : field_text(row->op, "kernel"));
    table_cell(table, "%c", total ? ' ' : row_class(row));
    table_cell(table, "%u", row->launches);
    cell_short(table, 1e6 * t);
    cell_short(table, total ? (double)NAN : 1e6 * row->p05);
    cell_short(table, total ? (double)NAN : 1e6 * row->p95);
    cell_short(table, total ? (double)NAN : 1e6 * row->ci_low);
    cell_short(table, total ? (double)NAN : 1e6 * row->ci_high);
    cell_percent(table, row->share);
    cell_short(table, row->q_read / 1e6);
    cell_short(table, row->q_written / 1e6);
    cell_short(table, row->d_read / 1e6);
    cell_short(table, row->d_written / 1e6);
    cell_short(table, (row->requested_read + row->requested_written) / 1e6);
    cell_rate(table, row_bandwidth(row) / 1e9);
    cell_rate(table, (row->q_read + row->q_written) / t / 1e9);
    cell_rate(table, row->flops / t / 1e12);
    cell_rate(table, row->flops / (row->q_read + row->q_written));
    cell_rate(table, row->flops / (row->d_read + row->d_written));
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

static void print_rows(const struct plan_ops *ops, const char *mode, bool wide, struct output *out)
{
    const char *phases[4];
    size_t phase_count = plan_phases(ops, phases, 4), count;
    struct table table = {.columns = wide ? wide_columns : table_columns, .width = wide ? 1000 : 0};
    for (size_t p = 0; p <= phase_count; p++) {
        if (p == phase_count && phase_count == 1) break; /* the sum is there already */
        struct row *rows = rows_merge(ops, mode, p < phase_count ? phases[p] : NULL, &count);
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

static void print_phases(const json_t *record, const json_t *plan, struct output *out)
{
    static const char *const names[] = {"forward", "backward", "both"};
    const json_t *phases = field_get(plan, "phases");
    double tokens = field_number(record, "workload.tokens");
    struct table table = {.columns = "<pass|>host ms|>device ms|>tokens/s"};
    if (!phases) return;
    for (size_t n = 0; n < 3; n++) {
        const json_t *phase = field_get(phases, names[n]);
        double host = field_number(phase, "host_seconds");
        if (!phase) continue;
        table_cell(&table, "%s", names[n]);
        cell_short(&table, 1e3 * host);
        cell_short(&table, 1e3 * field_number(phase, "device_seconds"));
        if (host > 0)
            table_cell(&table, "%.0f", tokens / host);
        else
            table_cell(&table, "-");
    }
    table_print(&table, out);
    output_text(out, "\n");
}

/* "classes |####==--|  T 63 %, S 25 %, E 12 %" */
static void print_classes(const json_t *plan, struct output *out)
{
    enum { BAR = 30 };
    const json_t *classes = json_object_get(plan, "by_class"), *entry;
    char bar[BAR + 1], text[NUMBER_SIZE];
    size_t n, at = 0;
    double sum = 0;
    memset(bar, '-', BAR);
    bar[BAR] = 0;
    json_array_foreach(classes, n, entry)
    {
        sum += field_number(entry, "share");
        if (!(sum >= 0) || n > 2) return; /* nothing was measured */
        for (; at < BAR && (double)at + 0.5 < sum * BAR; at++) bar[at] = "#=-"[n];
    }
    output_format(out, "classes |%s|", bar);
    json_array_foreach(classes, n, entry)
    {
        output_format(out, "%s %c %s %%", n ? "," : " ", "TSE"[n < 3 ? n : 2],
                      format_percent(field_number(entry, "share"), text));
    }
    output_text(out, "\n");
}

static void print_step(const json_t *record, const json_t *plan, struct output *out)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE], c[NUMBER_SIZE];
    double host = field_number(plan, "step.host.median"), gap = field_number(plan, "step.gap_seconds");
    output_format(out, "step %s, kernels %s", format_unit(host, "s", a),
                  format_unit(field_number(plan, "step.kernels.median"), "s", b));
    if (gap > 0) output_format(out, ", gaps %s (%s %%)", format_unit(gap, "s", a), format_percent(gap / host, b));
    if (field_number(plan, "limit_seconds") > 0)
        output_format(out, "\nlimit %s, headroom %.1fx", format_unit(field_number(plan, "limit_seconds"), "s", c),
                      field_number(plan, "headroom"));
    if (host > 0) output_format(out, ", %.0f tokens/s", field_number(record, "workload.tokens") / host);
    const json_t *regimes = field_get(plan, "by_regime");
    unsigned shown = 0;
    for (size_t n = 0; regimes && n < REGIMES; n++) {
        double seconds = field_number(regimes, regime_names[n]);
        if (seconds > 0)
            output_format(out, "%s%s %s %%", shown++ ? ", " : "\nregimes: ", regime_names[n],
                          format_percent(seconds / field_number(plan, "step.kernels.median"), a));
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

/* What runs each group, and what that takes of a multiprocessor. */
static void print_kernels(const struct plan_ops *ops, struct output *out)
{
    struct table table = {.columns = "<group|<kernel|~variant|>regs|>spill|>shared"};
    size_t count, k;
    struct row *rows = rows_merge(ops, plan_measured(ops, "warm") ? "warm" : "cold", NULL, &count);
    const json_t *kernel, *told[64];
    size_t n_told = 0;
    bool any = false;
    for (size_t n = 0; n < count; n++) {
        json_array_foreach(json_object_get(rows[n].op, "kernels"), k, kernel)
        {
            static const char *const numbers[] = {"registers", "spilled_bytes", "shared_bytes"};
            char name[128];
            row_name(&rows[n], name, sizeof name);
            table_cell(&table, "%s", k ? "" : name);
            table_cell(&table, "%s", field_text(kernel, "kernel"));
            table_cell(&table, "%s", field_text(kernel, "variant"));
            for (size_t i = 0; i < 3; i++) {
                double number = field_number(kernel, numbers[i]);
                if (isfinite(number))
                    table_cell(&table, "%.0f", number);
                else
                    table_cell(&table, "-");
            }
            any = true;
            bool told_already = !*field_text(kernel, "reason") || n_told == sizeof told / sizeof *told;
            for (size_t i = 0; i < n_told && !told_already; i++)
                told_already = !strcmp(field_text(told[i], "kernel"), field_text(kernel, "kernel")) &&
                               !strcmp(field_text(told[i], "reason"), field_text(kernel, "reason"));
            if (!told_already) told[n_told++] = kernel;
        }
    }
    if (any) {
        output_text(out, "\n");
        table_print(&table, out);
    }
    for (size_t i = 0; i < n_told; i++) print_reason(field_text(told[i], "kernel"), field_text(told[i], "reason"), out);
    free(rows);
}

static void print_plan(const json_t *record, const json_t *plan, const struct plan_ops *ops, bool wide,
                       struct output *out)
{
    size_t n;
    const json_t *note;
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    output_format(out, "\nplan %s, %s: medians of %.0f\n", field_text(plan, "plan"), field_text(plan, "dtype"),
                  field_number(plan, "repeats"));
    output_format(out, "%.0f groups, %.0f kernels a step", field_number(plan, "groups"),
                  field_number(plan, "launches"));
    if (field_number(plan, "saved_bytes") > 0)
        output_format(out, "; %s saved for the backward pass", format_bytes(field_number(plan, "saved_bytes"), a));
    if (field_number(plan, "device_bytes") > 0)
        output_format(out, "; %s in all", format_bytes(field_number(plan, "device_bytes"), b));
    output_text(out, "\n");
    if (*field_text(plan, "layouts")) output_format(out, "layouts: %s\n", field_text(plan, "layouts"));
    json_array_foreach(json_object_get(plan, "notes"), n, note)
    {
        if (json_is_string(note)) output_format(out, "note: %s\n", json_string_value(note));
    }
    print_phases(record, plan, out);
    bool warm = plan_measured(ops, "warm"), cold = plan_measured(ops, "cold");
    if (warm) print_rows(ops, "warm", wide, out);
    if (cold && (wide || !warm)) {
        output_text(out, "\ncold caches: each group alone, its buffers taken in turn\n");
        print_rows(ops, "cold", wide, out);
    }
    print_classes(plan, out);
    print_step(record, plan, out);
    print_kernels(ops, out);
    if (warm && cold && !wide) output_text(out, "times are of warm caches, as in the step; --wide has the cold ones\n");
}

/* ---- the device, its ceilings ---- */

static double highest(const json_t *record, const json_t *device, const char *const *ids, const char **id)
{
    double best = 0;
    for (; *ids; ids++) {
        double value = record_ceiling(record, device, *ids);
        if (value > best) {
            best = value;
            *id = *ids;
        }
    }
    return best;
}

static void print_ceilings(const json_t *record, const json_t *device, struct output *out)
{
    static const char *const memory[] = {"dram.read", "dram.write", "dram.copy", "dram.triad", NULL};
    static const char *const caches[] = {"cache.read", "cache.copy", NULL};
    static const char *const units[][2] = {
        {"compute.f32", "f32"}, {"compute.f16", "f16"}, {"compute.matrix", "matrix"}};
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    const char *id = "";
    if (!record_has_roof(record, device)) {
        output_text(out, "ceilings were not measured\n");
        return;
    }
    double best = highest(record, device, memory, &id), theory = field_number(device, "theoretical.bandwidth");
    output_format(out, "memory %s (%s)", format_unit(best, "B/s", a), *id ? id + 5 : "?");
    if (theory > 0)
        output_format(out, ", %.0f %% of %s by the %s", 100 * best / theory, format_unit(theory, "B/s", a),
                      field_text(device, "theoretical.source"));
    output_format(out, ", copy %s", format_unit(record_ceiling(record, device, "dram.copy"), "B/s", a));
    output_format(out, "\ncache %s", format_unit(highest(record, device, caches, &id), "B/s", a));
    if (field_number(device, "cache.bytes") > 0)
        output_format(out, " to %s", format_bytes(field_number(device, "cache.bytes"), b));
    output_format(out, ", launch %s\n", format_unit(record_ceiling(record, device, "launch.seconds"), "s", a));
    unsigned shown = 0;
    for (size_t n = 0; n < 3; n++) {
        double value = record_ceiling(record, device, units[n][0]);
        if (value > 0) output_format(out, "%s%s %s", shown++ ? ", " : "", units[n][1], format_unit(value, "flop/s", a));
    }
    output_text(out, shown ? "\n" : "");
}

static void print_devices(const json_t *record, struct output *out)
{
    size_t n;
    const json_t *device;
    json_array_foreach(json_object_get(record, "devices"), n, device)
    {
        output_format(out, "%s  %.60s\n", field_text(device, "id"), field_text(device, "name"));
        if (*field_text(device, "api"))
            output_format(out, "%.60s, driver %.60s\n", field_text(device, "api"), field_text(device, "driver"));
        print_ceilings(record, device, out);
        const char *status = field_text(device, "timer.status");
        if (*status)
            output_format(out, "timer: %s, %s", field_text(device, "timer.kind"), status);
        else
            output_text(out, "timer: not tested");
        double drift = field_number(record, "run.sentinel.drift");
        if (isfinite(drift)) output_format(out, "; drift %.1f %%", 100 * drift);
        output_text(out, "\n");
    }
}

/* All configurations, of a record that has nothing else. */
static void print_roof(const json_t *record, struct output *out)
{
    size_t n;
    const json_t *ceiling;
    char text[NUMBER_SIZE];
    struct table table = {.columns = "<ceiling|>value|>+-%|<type|~configuration"};
    json_array_foreach(json_object_get(record, "ceilings"), n, ceiling)
    {
        double median = field_number(ceiling, "time.median");
        double spread = (field_number(ceiling, "time.p95") - field_number(ceiling, "time.p05")) / 2;
        table_cell(&table, "%s%s", field_true(ceiling, "best") ? "" : "  ", field_text(ceiling, "id"));
        table_cell(&table, "%s", format_unit(field_number(ceiling, "value"), field_text(ceiling, "unit"), text));
        cell_percent(&table, spread / median);
        table_cell(&table, "%s", *field_text(ceiling, "dtype") ? field_text(ceiling, "dtype") : "-");
        table_cell(&table, "%s", field_text(ceiling, "config"));
    }
    output_text(out, "\n");
    table_print(&table, out);
}

static void print_workload(const json_t *record, struct output *out)
{
    char title[160];
    const json_t *training = field_get(record, "workload.training");
    workload_title(record, title, sizeof title);
    output_format(out, "%s\n", title);
    if (!training) return;
    double layers = field_number(training, "layers");
    output_format(out, "%.0f layer%s, %s, %s, dropout %g, saved: %s\n", layers, layers == 1 ? "" : "s",
                  field_true(training, "pre_layernorm") ? "pre-LN" : "post-LN", field_text(training, "activation"),
                  field_number(training, "dropout"), field_text(training, "save"));
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

void text_write(struct output *out, const json_t *records, const struct options *options)
{
    size_t r, n;
    const json_t *record, *plan, *warning;
    json_array_foreach(records, r, record)
    {
        if (r) output_text(out, "\n\n");
        print_workload(record, out);
        print_devices(record, out);
        struct op_groups groups = ops_group(record);
        json_array_foreach(json_object_get(record, "plans"), n, plan)
        {
            print_plan(record, plan, &groups.plans[n], options->wide, out);
        }
        op_groups_free(&groups);
        if (!json_array_size(json_object_get(record, "plans"))) print_roof(record, out);
        if (json_array_size(json_object_get(record, "warnings"))) output_text(out, "\n");
        json_array_foreach(json_object_get(record, "warnings"), n, warning)
        {
            const char *op = field_text(warning, "op");
            char line[512];
            snprintf(line, sizeof line, "! %.80s%s%.400s", op, *op ? ": " : "", field_text(warning, "text"));
            print_wrapped(out, line, "  ");
        }
    }
}
