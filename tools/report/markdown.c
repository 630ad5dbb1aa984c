/* Records as Markdown, for issue pages and bench/results: one table over all plans, then one of the operations of each.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "report/format.h"
#include "report/rows.h"
#include "report/titles.h"
#include "report/versus.h"
#include "report/write.h"
#include "session.h"

static bool is_word(char c) { return (unsigned char)c < 0x80 && isalnum((unsigned char)c); }

/* Whether the character at `text` would begin markup: emphasis, code, a link, HTML, a cell's end. An underscore within
 * a word does not, and names have many; nor do a colon and a dot but in what looks like an address. */
static bool is_markup(const char *text, char before)
{
    switch (*text) {
    case '_':
        return !is_word(before) || !is_word(text[1]);
    case ':':
        return text[1] == '/' && text[2] == '/';
    case '.':
        return before == 'w' || before == 'W';
    default:
        return strchr("\\`*[]|~$", *text) != NULL;
    }
}

void markdown_text(struct output *out, const char *text)
{
    char before = 0;
    size_t bytes = strlen(text), room = UTF8_SHOWN_MAX * bytes + 1;
    char *shown = need(malloc(room)), *at = shown;
    for (utf8_show(text, bytes, shown, room); *at; before = *at++) {
        if (*at == '<' || *at == '&')
            output_text(out, *at == '<' ? "&lt;" : "&amp;");
        else if (is_markup(at, before))
            output_format(out, "\\%c", *at);
        else
            output_write(out, at, 1);
    }
    free(shown);
}

void markdown_cell(struct output *out, const char *text)
{
    output_text(out, " ");
    markdown_text(out, text);
    output_text(out, " |");
}

static void write_short(struct output *out, double value)
{
    char text[NUMBER_SIZE];
    markdown_cell(out, isfinite(value) ? format_short(value, text) : "");
}

static void write_percent(struct output *out, double share)
{
    char text[NUMBER_SIZE];
    markdown_cell(out, isfinite(share) ? format_percent(share, text) : "");
}

void markdown_head(struct output *out, const char *columns)
{
    output_text(out, "|");
    for (const char *at = columns; *at; at += *at == '|') {
        size_t length = strcspn(at, "|");
        output_format(out, " %.*s |", (int)(length - (*at == '>')), at + (*at == '>'));
        at += length;
    }
    output_text(out, "\n|");
    for (const char *at = columns; *at; at += *at == '|') {
        output_text(out, *at == '>' ? "---:|" : "---|");
        at += strcspn(at, "|");
    }
    output_text(out, "\n");
}

/* ---- all plans ---- */

static void write_plan(struct output *out, const struct record *record, const struct record_plan *plan,
                       const char *work)
{
    double host = plan->host.median;
    output_text(out, "|");
    markdown_cell(out, work);
    markdown_cell(out, record_device_of(record, plan->dev)->id);
    markdown_cell(out, plan->name);
    markdown_cell(out, plan->dtype);
    write_short(out, 1e3 * host);
    write_short(out, 1e3 * plan->steps[STEP_FORWARD].host_seconds);
    write_short(out, 1e3 * plan->steps[STEP_BACKWARD].host_seconds);
    write_short(out, 1e3 * plan->kernels.median);
    write_percent(out, plan->gap_seconds / host);
    write_short(out, 1e3 * plan->limit_seconds);
    if (isfinite(plan->headroom))
        output_format(out, " %.1f |", plan->headroom);
    else
        markdown_cell(out, "");
    output_format(out, " %.0f |", (double)plan->launches);
    write_short(out, plan->saved_bytes > 0 ? plan->saved_bytes / 1e6 : (double)NAN);
    if (host > 0)
        output_format(out, " %.0f |\n", record->workload.tokens / host);
    else
        output_text(out, " |\n");
}

static void write_versus(struct output *out, const struct report *report)
{
    char *lines = versus_lines(report);
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n")) {
        output_text(out, "\n");
        markdown_text(out, line);
        output_text(out, "\n");
    }
    free(lines);
}

static bool any_plans(const struct report *report)
{
    for (size_t r = 0; r < report->count; r++)
        if (report->records[r].plan_count) return true;
    return false;
}

static void write_plans(struct output *out, const struct report *report)
{
    if (!any_plans(report)) return;
    markdown_head(out,
                  "workload|device|plan|type|>step ms|>forward ms|>backward ms|>kernels ms|>gaps %|>limit ms|>headroom|"
                  ">kernels|>saved MB|>tokens/s");
    for (size_t r = 0; r < report->count; r++) {
        const struct record *record = &report->records[r];
        char work[160];
        workload_title(record, work, sizeof work);
        for (size_t n = 0; n < record->plan_count; n++) write_plan(out, record, &record->plans[n], work);
    }
}

/* ---- ceilings ---- */

static void write_device(struct output *out, const struct record *record, const struct record_device *device)
{
    static const char *const ids[] = {"dram.read",   "dram.write",  "dram.copy",      "dram.triad",    "cache.read",
                                      "compute.f32", "compute.f16", "compute.matrix", "launch.seconds"};
    char text[NUMBER_SIZE];
    output_text(out, "|");
    markdown_cell(out, device->id);
    markdown_cell(out, device->name);
    char driver[600];
    snprintf(driver, sizeof driver, "%.250s%s%.250s", device->driver, *device->quirks ? "; known of it: " : "",
             device->quirks);
    markdown_cell(out, driver);
    for (size_t n = 0; n < sizeof ids / sizeof *ids; n++) {
        const char *unit = n < 5 ? "B/s" : n < 8 ? "flop/s" : "s";
        double value = record_ceiling(record, device->dev, ids[n]);
        markdown_cell(out, value > 0 ? format_unit(value, unit, text) : "");
        if (n == 4) markdown_cell(out, device->cache_bytes > 0 ? format_bytes(device->cache_bytes, text) : "");
    }
    markdown_cell(out, device->timer_status);
    write_percent(out, record->drift);
    output_text(out, "\n");
}

static void write_ceilings(struct output *out, const struct report *report)
{
    markdown_head(out,
                  "device|name|driver|>read|>write|>copy|>triad|>cache|>cache edge|>f32|>f16|>matrix|>launch|timer|"
                  ">drift %");
    for (size_t r = 0; r < report->count; r++) {
        const struct record *record = &report->records[r];
        for (size_t n = 0; n < record->device_count; n++) write_device(out, record, &record->devices[n]);
    }
}

/* ---- operations of one plan ---- */

static void write_row(struct output *out, const struct row *warm, const struct row *cold)
{
    char name[128], text[80];
    const struct row *row = warm ? warm : cold;
    row_name(row, name, sizeof name);
    output_text(out, "|");
    markdown_cell(out, name);
    markdown_cell(out, row->op->kernel);
    markdown_cell(out, row->op->phase);
    output_format(out, " %c |", row_class(row));
    write_short(out, 1e6 * row->seconds);
    if (isfinite(row->p05 + row->p95))
        snprintf(text, sizeof text, "%.1f to %.1f", 1e6 * row->p05, 1e6 * row->p95);
    else
        text[0] = 0;
    markdown_cell(out, text);
    write_percent(out, row->share);
    write_short(out, bytes_sum(row->d_model) / 1e6);
    write_short(out, row_bandwidth(row) / 1e9);
    write_short(out, row->flops / row->seconds / 1e12);
    write_short(out, row->flops / bytes_sum(row->q));
    write_percent(out, row_roof(row));
    write_percent(out, row->mue / row->seconds);
    write_short(out, row_q_over_d(row));
    write_short(out, 1e6 * row->limit);
    write_short(out, row->seconds / row->limit);
    snprintf(text, sizeof text, "%s%s", row->regime ? row->regime : "", row->over ? " (over its ceiling)" : "");
    markdown_cell(out, text);
    write_short(out, cold ? 1e6 * cold->seconds : (double)NAN);
    write_short(out, cold ? row_bandwidth(cold) / 1e9 : (double)NAN);
    write_percent(out, cold ? row_roof(cold) : (double)NAN);
    output_text(out, "\n");
}

static void write_rows(struct output *out, const struct record_plan *plan)
{
    size_t count;
    bool warm = plan_measured(plan, WARM), has_cold = plan_measured(plan, COLD);
    struct row *rows = rows_merge(plan, WARM, NULL, &count);
    struct row *cold = rows_merge(plan, COLD, NULL, &count);
    markdown_head(
        out, "group|kernel|phase|class|>\302\265s|>p05 to p95|>share %|>MB|>GB/s|>Tflop/s|>flop/byte|>% of roof|>MUE "
             "%|>Q/D|>limit \302\265s|>headroom|regime|>cold \302\265s|>cold GB/s|>cold % of roof");
    for (size_t n = 0; n < count; n++) write_row(out, warm ? &rows[n] : NULL, has_cold ? &cold[n] : NULL);
    free(rows);
    free(cold);
}

static void write_record(struct output *out, const struct record *record)
{
    char work[160], title[128];
    workload_title(record, work, sizeof work);
    for (size_t n = 0; n < record->plan_count; n++) {
        const struct record_plan *plan = &record->plans[n];
        if (!plan_measured(plan, WARM) && !plan_measured(plan, COLD)) continue;
        plan_title(record, plan, title, sizeof title);
        output_text(out, "\n## ");
        markdown_text(out, work);
        output_text(out, ": plan ");
        markdown_text(out, title);
        output_text(out, "\n\n");
        if (!plan_modelled(plan)) output_format(out, "%s\n\n", not_modelled);
        write_rows(out, plan);
    }
}

static void write_warnings(struct output *out, const struct record *record)
{
    char work[160];
    workload_title(record, work, sizeof work);
    for (size_t w = 0; w < record->warning_count; w++) {
        const struct record_warning *warning = &record->warnings[w];
        const char *const parts[][2] = {{" on ", record->devices[0].id},
                                        {*warning->plan ? ", " : "", warning->plan},
                                        {*warning->op ? ", " : "", warning->op},
                                        {": ", warning->text}};
        output_text(out, w ? "- " : "\n- ");
        markdown_text(out, work);
        for (size_t n = 0; n < sizeof parts / sizeof *parts; n++) {
            output_text(out, parts[n][0]);
            markdown_text(out, parts[n][1]);
        }
        output_text(out, "\n");
    }
}

void markdown_write(struct output *out, const struct report *report)
{
    write_plans(out, report);
    output_text(out, any_plans(report) ? "\n" : "");
    write_ceilings(out, report);
    write_versus(out, report);
    for (size_t r = 0; r < report->count; r++) write_record(out, &report->records[r]);
    for (size_t r = 0; r < report->count; r++) write_warnings(out, &report->records[r]);
}
