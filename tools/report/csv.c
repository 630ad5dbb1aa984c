/* Records as CSV (RFC 4180): a line for each operation, every number with all its digits. */
#include <string.h>

#include "report/derive.h"
#include "report/fields.h"
#include "report/format.h"
#include "report/write.h"

/* Fields of an operation, by name of the column. */
static const struct column {
    const char *name, *path;
} columns[] = {{"op", "id"},
               {"class", "class"},
               {"phase", "phase"},
               {"layer", "layer"},
               {"paper_row", "paper_row"},
               {"kernel", "kernel"},
               {"variant", "variant"},
               {"launches", "launches"},
               {"store", "dtype.store"},
               {"accumulate", "dtype.accumulate"},
               {"operators", "operators"},
               {"flops", "flops"},
               {"q_read", "bytes.q.r"},
               {"q_written", "bytes.q.w"},
               {"d_read", "bytes.d_model.r"},
               {"d_written", "bytes.d_model.w"},
               {"requested_read", "bytes.requested.r"},
               {"requested_written", "bytes.requested.w"},
               {"d_counter", "bytes.d_counter"},
               {"footprint_bytes", "footprint_bytes"},
               {"share", "share"},
               {"cold_sets", "cold_sets"},
               {"exceeds_peak", "checks.exceeds_peak"},
               {"timer_ok", "checks.timer_ok"},
               {"remeasured", "checks.remeasured"}};
static const char *const time_fields[] = {"median", "p05", "p95", "min", "mean", "cv", "n", "outliers", "first"};
static const char *const derived_fields[] = {
    "bandwidth",       "bandwidth_unique", "bandwidth_requested", "flops_per_second", "intensity",
    "intensity_model", "roof_memory",      "roof_cache",          "copy_share",       "mue",
    "mue_theoretical", "q_over_d",         "b_over_peak",         "limit_seconds",    "headroom",
    "regime",          "over_peak"};
static const char *const modes[2] = {"warm", "cold"};

#define COUNT(list) (sizeof list / sizeof *list)

/* A spreadsheet takes a text that begins like a formula for one, and runs it: an apostrophe in front keeps it a text.
 */
void csv_text(struct output *out, const char *text)
{
    bool formula = *text && strchr("=+-@\t\r", *text), quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted) output_text(out, "\"");
    if (formula) output_text(out, "'");
    for (; *text; text++) {
        if (*text == '"') output_text(out, "\"");
        output_write(out, text, 1);
    }
    if (quoted) output_text(out, "\"");
}

/* Nothing for null: a spreadsheet's empty cell is not a zero. */
static void write_value(struct output *out, const json_t *value)
{
    char text[NUMBER_SIZE];
    if (json_is_string(value))
        csv_text(out, json_string_value(value));
    else if (json_is_integer(value))
        output_format(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        output_text(out, format_exact(json_real_value(value), text));
    else if (json_is_boolean(value))
        output_text(out, json_is_true(value) ? "true" : "false");
}

static void write_head(struct output *out)
{
    output_text(out, "run,utc,device,device_name,driver,workload,model,sequences,tokens,plan");
    for (size_t n = 0; n < COUNT(columns); n++) output_format(out, ",%s", columns[n].name);
    for (int m = 0; m < 2; m++) {
        for (size_t n = 0; n < COUNT(time_fields); n++) output_format(out, ",%s_%s", modes[m], time_fields[n]);
        output_format(out, ",%s_ci_low,%s_ci_high", modes[m], modes[m]);
        for (size_t n = 0; n < COUNT(derived_fields); n++) output_format(out, ",%s_%s", modes[m], derived_fields[n]);
    }
    output_text(out, "\r\n");
}

static void write_op(struct output *out, const json_t *record, const json_t *op)
{
    const json_t *device = record_device_of(record, op);
    const json_t *first[] = {field_get(record, "run.id"),
                             field_get(record, "run.utc"),
                             field_get(device, "id"),
                             field_get(device, "name"),
                             field_get(device, "driver"),
                             field_get(record, "workload.kind"),
                             field_get(record, "workload.model.source"),
                             field_get(record, "workload.sequences"),
                             field_get(record, "workload.tokens"),
                             field_get(op, "plan")};
    for (size_t n = 0; n < COUNT(first); n++) {
        if (n) output_text(out, ",");
        write_value(out, first[n]);
    }
    for (size_t n = 0; n < COUNT(columns); n++) {
        output_text(out, ",");
        write_value(out, field_get(op, columns[n].path));
    }
    for (int m = 0; m < 2; m++) {
        const json_t *time = field_get(op, modes[m]), *derived = field_get(field_get(op, "derived"), modes[m]);
        for (size_t n = 0; n < COUNT(time_fields); n++) {
            output_text(out, ",");
            write_value(out, field_get(time, time_fields[n]));
        }
        for (size_t side = 0; side < 2; side++) {
            output_text(out, ",");
            write_value(out, json_array_get(json_object_get(time, "ci95"), side));
        }
        for (size_t n = 0; n < COUNT(derived_fields); n++) {
            output_text(out, ",");
            write_value(out, field_get(derived, derived_fields[n]));
        }
    }
    output_text(out, "\r\n");
}

void csv_write(struct output *out, const json_t *records)
{
    size_t r, o;
    const json_t *record, *op;
    write_head(out);
    json_array_foreach(records, r, record)
    {
        json_array_foreach(json_object_get(record, "ops"), o, op) write_op(out, record, op);
    }
}
