/* Records in every format that they can be written in: which one. */
#include "report/write.h"

#include <stdlib.h>
#include <string.h>

#include "report/layouts.h"
#include "report/loads.h"
#include "report/page.h"
#include "report/ranking.h"
#include "report/tuning.h"
#include "report/versus.h"
#include "session.h"

static int format_of_name(const char *name)
{
    static const struct {
        const char *ending;
        enum report_format format;
    } endings[] = {{".trace.json", REPORT_TRACE}, {".json", REPORT_JSON}, {".csv", REPORT_CSV},
                   {".md", REPORT_MARKDOWN},      {".html", REPORT_HTML}, {".htm", REPORT_HTML},
                   {".svg", REPORT_SVG}};
    size_t length = name ? strlen(name) : 0;
    for (size_t n = 0; n < sizeof endings / sizeof *endings; n++) {
        size_t own = strlen(endings[n].ending);
        if (length > own && strcmp(name + length - own, endings[n].ending) == 0) return endings[n].format;
    }
    return REPORT_TEXT;
}

int report_format(const struct options *options)
{
    if (options->json && options->report_format && options->report_format != REPORT_JSON)
        return complain(0, "--json is --format json, and --format says another one");
    if (options->json) return REPORT_JSON;
    return options->report_format ? options->report_format : format_of_name(options->output);
}

/* All digits, so that whoever reads the record derives the same from it. */
static int write_chunk(const char *data, size_t size, void *out)
{
    output_write(out, data, size);
    return 0;
}

static void json_write(struct output *out, const json_t *values)
{
    const json_t *value = json_array_size(values) == 1 ? json_array_get(values, 0) : values;
    if (json_dump_callback(value, write_chunk, out, JSON_INDENT(1) | JSON_REAL_PRECISION(17))) need(NULL);
    output_text(out, "\n");
}

/* How many records are of latencies. */
static size_t latencies(const struct report *report)
{
    size_t count = 0;
    for (size_t n = 0; n < report->count; n++) count += is_latency(&report->records[n]);
    return count;
}

static void write_section(struct output *out, const void *of)
{
    const struct report *report = of;
    curves_html(out, &report->curves);
    if (report->merged) ranking_html(out, report);
}

static void html_write(struct output *out, const struct report *report)
{
    char *lines = versus_lines(report); /* "" of tunings */
    enum page_kind kind = report->tunings ? PAGE_TUNINGS : report->layouts ? PAGE_LAYOUTS : PAGE_RECORDS;
    page_write_with(out, report->values, kind, lines, (struct page_section){write_section, report});
    free(lines);
}

/* Logs alone. */
static void curves_write(struct output *out, int format, const struct curves *curves)
{
    json_t *values = curves_json(curves);
    switch (format) {
    case REPORT_JSON:
        json_write(out, values);
        break;
    case REPORT_CSV:
        curves_csv(out, curves);
        break;
    case REPORT_MARKDOWN:
        curves_markdown(out, curves);
        break;
    case REPORT_SVG:
        curves_svg(out, curves);
        break;
    case REPORT_HTML: {
        const struct report alone = {.curves = *curves};
        page_write_with(out, values, PAGE_CURVES, "", (struct page_section){write_section, &alone});
        break;
    }
    default:
        curves_text(out, curves);
    }
    json_decref(values);
}

static void write_as(struct output *out, int format, const struct report *report, const struct options *options)
{
    bool tunings = report->tunings;
    switch (format) {
    case REPORT_JSON:
        json_write(out, report->values);
        break;
    case REPORT_CSV:
        tunings                              ? tuning_csv(out, report->values)
        : report->layouts                    ? layouts_csv(out, report->values)
        : latencies(report) == report->count ? loads_csv(out, report)
                                             : csv_write(out, report);
        break;
    case REPORT_MARKDOWN:
        tunings           ? tuning_markdown(out, report->values)
        : report->layouts ? layouts_markdown(out, report->values)
                          : markdown_write(out, report);
        loads_markdown(out, report);
        if (report->merged) ranking_markdown(out, report);
        if (report->curves.count) output_text(out, "\n"), curves_markdown(out, &report->curves);
        break;
    case REPORT_TRACE:
        trace_write(out, report);
        break;
    case REPORT_HTML:
        html_write(out, report);
        break;
    default:
        tunings           ? tuning_text(out, report->values)
        : report->layouts ? layouts_text(out, report->values)
                          : text_write(out, report, options);
        if (report->merged) ranking_text(out, report);
        if (report->curves.count) output_text(out, "\n"), curves_text(out, &report->curves);
    }
}

/* What a format has no place for. */
static int check_kinds(int format, const struct report *report)
{
    size_t loads = latencies(report);
    bool curves = report->curves.count > 0;
    if (format == REPORT_SVG && (!curves || report->values))
        return complain(EXIT_USAGE, "a picture is of logs of wherry train (.jsonl) alone: records, tunings and layouts "
                                    "have pages, .html");
    if (curves && format == REPORT_TRACE)
        return complain(EXIT_USAGE, "logs of trainings have no trace: nothing in them has a place in time");
    if (curves && report->values && (format == REPORT_JSON || format == REPORT_CSV))
        return complain(EXIT_USAGE, "JSON and CSV are of records, or of logs of trainings: give them separately");
    if (curves && report->values && (report->tunings || report->layouts))
        return complain(EXIT_USAGE, "logs of trainings go with records, or alone: not with tunings or layouts");
    if (report->tunings && format == REPORT_TRACE)
        return complain(EXIT_USAGE, "a tuning has no trace: nothing in it has a place in time");
    if (report->layouts && format == REPORT_TRACE)
        return complain(EXIT_USAGE, "measured layouts have no trace: nothing in them has a place in time");
    if (loads && format == REPORT_TRACE)
        return complain(EXIT_USAGE, "latencies have no trace: nothing in them has a place in time");
    if (loads && loads < report->count && format == REPORT_CSV)
        return complain(EXIT_USAGE, "CSV has a line for each operation, or for each load of latencies: give records of "
                                    "one kind");
    return EXIT_FINE;
}

int report_write(const struct options *options, const struct report *report)
{
    struct output out;
    int format = report_format(options), code = check_kinds(format, report);
    if (code) return code;
    if (!format) return EXIT_USAGE;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    if (report->values)
        write_as(&out, format, report, options);
    else
        curves_write(&out, format, &report->curves);
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

int report_write_one(const struct options *options, struct record *record)
{
    const struct report report = {.values = need(json_pack("[O]", record->json)), .records = record, .count = 1};
    int code = report_write(options, &report);
    json_decref(report.values);
    return code;
}
