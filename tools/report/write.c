/* Records in every format that they can be written in: which one, and what their titles share. */
#include "report/write.h"

#include <string.h>

#include "base/utf8.h"
#include "report/fields.h"
#include "report/page.h"
#include "report/tuning.h"
#include "session.h"

/* ---- the format ---- */

static int format_of_name(const char *name)
{
    static const struct {
        const char *ending;
        enum report_format format;
    } endings[] = {{".trace.json", REPORT_TRACE}, {".json", REPORT_JSON}, {".csv", REPORT_CSV},
                   {".md", REPORT_MARKDOWN},      {".html", REPORT_HTML}, {".htm", REPORT_HTML}};
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

static void json_write(struct output *out, const json_t *records)
{
    const json_t *value = json_array_size(records) == 1 ? json_array_get(records, 0) : records;
    if (json_dump_callback(value, write_chunk, out, JSON_INDENT(1) | JSON_REAL_PRECISION(17))) need(NULL);
    output_text(out, "\n");
}

int report_write(const struct options *options, json_t *records)
{
    struct output out;
    int format = report_format(options);
    bool tunings = tuning_is(json_array_get(records, 0));
    if (tunings && format == REPORT_TRACE) {
        json_decref(records);
        return complain(EXIT_USAGE, "a tuning has no trace: nothing in it has a place in time");
    }
    bool opened = format && output_open(&out, options->output);
    if (opened) {
        switch (format) {
        case REPORT_JSON:
            json_write(&out, records);
            break;
        case REPORT_CSV:
            tunings ? tuning_csv(&out, records) : csv_write(&out, records);
            break;
        case REPORT_MARKDOWN:
            tunings ? tuning_markdown(&out, records) : markdown_write(&out, records);
            break;
        case REPORT_TRACE:
            trace_write(&out, records);
            break;
        case REPORT_HTML:
            page_write(&out, records, tunings);
            break;
        default:
            tunings ? tuning_text(&out, records) : text_write(&out, records, options);
        }
    }
    json_decref(records);
    if (!format) return EXIT_USAGE;
    return opened && output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}

/* ---- titles ---- */

void batch_title(const json_t *record, char *text, size_t size)
{
    const json_t *workload = json_object_get(record, "workload"), *length;
    const json_t *lengths = json_object_get(workload, "lengths"), *first = json_array_get(lengths, 0);
    bool even = first != NULL;
    size_t n;
    json_array_foreach(lengths, n, length) even = even && json_equal(length, first);
    if (even)
        snprintf(text, size, "%zu x %.0f", json_array_size(lengths), json_number_value(first));
    else
        snprintf(text, size, "%.0f sequences, %.0f tokens", field_number(workload, "sequences"),
                 field_number(workload, "tokens"));
}

void workload_title(const json_t *record, char *text, size_t size)
{
    const json_t *workload = json_object_get(record, "workload");
    const char *kind = field_text(workload, "kind");
    char batch[80];
    if (strcmp(kind, "roof") == 0) {
        snprintf(text, size, "ceilings");
        return;
    }
    const char *model = field_text(workload, "model.source");
    batch_title(record, batch, sizeof batch);
    double layers = field_number(workload, "model.layers");
    if (strcmp(kind, "layer") == 0)
        snprintf(text, size, "%.*s, %.0f layer%s in training, %s", utf8_cut(model, 60), model, layers,
                 layers == 1 ? "" : "s", batch);
    else
        snprintf(text, size, "%.*s, encoding %s", utf8_cut(model, 60), model, batch);
}

void plan_title(const json_t *record, const json_t *plan, char *text, size_t size)
{
    const char *name = field_text(plan, "plan"), *dtype = field_text(plan, "dtype");
    const char *device = field_text(record_device_of(record, plan), "id");
    snprintf(text, size, "%.*s, %.*s on %.*s", utf8_cut(name, 40), name, utf8_cut(dtype, 8), dtype,
             utf8_cut(device, 40), device);
}
