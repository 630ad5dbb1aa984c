/* Latencies under load as tables: on a terminal, in Markdown, as CSV. */
#include <stdio.h>
#include <string.h>

#include "report/csv.h"
#include "report/format.h"
#include "report/loads.h"
#include "report/tables.h"
#include "report/titles.h"
#include "report/write.h"

static const char *const percentile_names[LOAD_PERCENTILES] = {"p50", "p90", "p99", "p99.9"};

/* Milliseconds, or why there is no such percentile. */
static const char *percentile_text(const struct record_load *load, int n, char text[NUMBER_SIZE])
{
    if (isfinite(load->percentiles[n])) return format_short(1e3 * load->percentiles[n], text);
    snprintf(text, NUMBER_SIZE, "too few: %.0f", (double)load->requests);
    return text;
}

/* Of a request's time, for the session that others have. */
static double waited_share(const struct record_load *load)
{
    return load->waited_seconds / (load->mean * (double)load->requests);
}

static const char *sessions_title(const struct record *record)
{
    return strcmp(record->workload.sessions, "per-client") == 0
               ? "a session for each client"
               : "one session, which clients get in the order in which they came";
}

/* ---- text ---- */

static void print_loads(const struct record *record, struct output *out)
{
    struct table table = {.columns = ">clients|>requests|>req/s|>min ms|>p50|>p99|>p99.9|>max|>mean|>wait%"};
    bool few[LOAD_PERCENTILES] = {false};
    char text[NUMBER_SIZE];
    for (size_t n = 0; n < record->load_count; n++) {
        const struct record_load *load = &record->loads[n];
        table_cell(&table, "%.0f", (double)load->clients);
        table_cell(&table, "%.0f", (double)load->requests);
        table_cell(&table, "%s", format_short(load->rate, text));
        table_cell(&table, "%s", format_short(1e3 * load->min, text));
        for (int p = 0; p < LOAD_PERCENTILES; p++) {
            if (p == LOAD_P90) continue; /* in 80 columns there is no room */
            bool known = isfinite(load->percentiles[p]);
            few[p] = few[p] || !known;
            table_cell(&table, "%s", known ? format_short(1e3 * load->percentiles[p], text) : "few");
        }
        table_cell(&table, "%s", format_short(1e3 * load->max, text));
        table_cell(&table, "%s", format_short(1e3 * load->mean, text));
        table_cell(&table, "%s", format_percent(waited_share(load), text));
    }
    table_print(&table, out);
    for (int p = 0; p < LOAD_PERCENTILES; p++)
        if (few[p])
            output_format(out, "few: too few requests for %s, which takes %.0f\n", percentile_names[p],
                          (double)histogram_needed(load_per_mille[p]));
}

static void print_idle(const struct record *record, struct output *out)
{
    char text[NUMBER_SIZE];
    for (size_t n = 0; n < record->idle_count; n++) {
        const struct record_idle *idle = &record->idles[n];
        bool first = !n || idle->idle_seconds != record->idles[n - 1].idle_seconds;
        if (first)
            output_format(out, "%sfirst request after %g s without any, ms: ", n ? "\n" : "", idle->idle_seconds);
        output_format(out, "%s%s", first ? "" : ", ", format_short(1e3 * idle->seconds, text));
    }
    if (record->idle_count) output_text(out, "\n");
}

void loads_text(struct output *out, const struct record *record)
{
    char text[NUMBER_SIZE];
    output_format(out, "plan %s, %s; %s in all\n", record->session_plan, record->session_dtype,
                  record->session_bytes > 0 ? format_bytes(record->session_bytes, text) : "-");
    output_format(out, "a request: %s\n",
                  record->workload.tokenized ? "a text is tokenized and encoded, its vector read back"
                                             : "token ids are encoded, the vector read back; there is no tokenizer");
    output_format(out, "closed loop: a client sends the next one when the last was answered\n%s\n\n",
                  sessions_title(record));
    print_loads(record, out);
    print_idle(record, out);
}

/* ---- Markdown ---- */

static void write_load(struct output *out, const struct record *record, const struct record_load *load)
{
    char text[NUMBER_SIZE], work[160];
    workload_title(record, work, sizeof work);
    output_text(out, "|");
    markdown_cell(out, work);
    markdown_cell(out, record_device_of(record, load->dev)->id);
    markdown_cell(out, record->session_dtype);
    markdown_cell(out, record->workload.sessions);
    output_format(out, " %.0f | %.0f |", (double)load->clients, (double)load->requests);
    markdown_cell(out, format_short(load->rate, text));
    markdown_cell(out, format_short(1e3 * load->min, text));
    for (int p = 0; p < LOAD_PERCENTILES; p++) markdown_cell(out, percentile_text(load, p, text));
    markdown_cell(out, format_short(1e3 * load->max, text));
    markdown_cell(out, format_short(1e3 * load->mean, text));
    markdown_cell(out, format_percent(waited_share(load), text));
    output_text(out, "\n");
}

static void write_idle(struct output *out, const struct record *record, const struct record_idle *idle)
{
    char text[NUMBER_SIZE], work[160];
    workload_title(record, work, sizeof work);
    output_text(out, "|");
    markdown_cell(out, work);
    markdown_cell(out, record_device_of(record, idle->dev)->id);
    markdown_cell(out, record->session_dtype);
    output_format(out, " %g |", idle->idle_seconds);
    markdown_cell(out, format_short(1e3 * idle->seconds, text));
    output_text(out, "\n");
}

void loads_markdown(struct output *out, const struct report *report)
{
    size_t loads = 0, idles = 0, r, n;
    for (r = 0; r < report->count; r++) {
        loads += report->records[r].load_count;
        idles += report->records[r].idle_count;
    }
    if (loads) {
        output_text(out, "\n");
        markdown_head(
            out, "workload|device|type|sessions|>clients|>requests|>requests/s|>min ms|>p50|>p90|>p99|>p99.9|>max|>"
                 "mean|>waiting %");
    }
    for (r = 0; r < report->count; r++)
        for (n = 0; n < report->records[r].load_count; n++)
            write_load(out, &report->records[r], &report->records[r].loads[n]);
    if (idles) {
        output_text(out, "\n");
        markdown_head(out, "workload|device|type|>seconds without requests|>the next one, ms");
    }
    for (r = 0; r < report->count; r++)
        for (n = 0; n < report->records[r].idle_count; n++)
            write_idle(out, &report->records[r], &report->records[r].idles[n]);
}

/* ---- CSV ---- */

static void begin_line(struct output *out, const struct record *record, uint64_t dev, double idle)
{
    char text[NUMBER_SIZE];
    csv_run(out, record, dev);
    output_text(out, ",");
    csv_text(out, record->session_plan);
    output_text(out, ",");
    csv_text(out, record->session_dtype);
    output_text(out, ",");
    csv_text(out, record->workload.sessions);
    output_format(out, ",%s,%s", record->workload.tokenized ? "true" : "false", format_exact(idle, text));
}

/* A pause has one request of one client, whose time is all that there is: the line's min, max and mean. */
void loads_csv(struct output *out, const struct report *report)
{
    output_format(out, "%s,plan,dtype,sessions,tokenized,idle_seconds", csv_run_names);
    csv_names(out, load_fields, "");
    output_text(out, "\r\n");
    for (size_t r = 0; r < report->count; r++) {
        const struct record *record = &report->records[r];
        for (size_t n = 0; n < record->load_count; n++) {
            begin_line(out, record, record->loads[n].dev, NAN);
            csv_values(out, load_fields, &record->loads[n]);
            output_text(out, "\r\n");
        }
        for (size_t n = 0; n < record->idle_count; n++) {
            const struct record_idle *idle = &record->idles[n];
            struct record_load line = {.clients = 1,
                                       .requests = 1,
                                       .seconds = idle->seconds,
                                       .min = idle->seconds,
                                       .max = idle->seconds,
                                       .mean = idle->seconds,
                                       .rate = NAN};
            for (int p = 0; p < LOAD_PERCENTILES; p++) line.percentiles[p] = NAN;
            begin_line(out, record, idle->dev, idle->idle_seconds);
            csv_values(out, load_fields, &line);
            output_text(out, "\r\n");
        }
    }
}
