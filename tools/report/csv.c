/* Records as CSV (RFC 4180): a line for each operation, every number with all its digits. */
#include <inttypes.h>
#include <string.h>

#include "report/csv.h"
#include "report/format.h"
#include "report/load.h"
#include "report/tables.h"
#include "report/write.h"

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

/* Nothing for what is not known: a spreadsheet's empty cell is not a zero. Whole numbers as such, however large. */
static void write_number(struct output *out, double value)
{
    char text[NUMBER_SIZE];
    if (value == trunc(value) && fabs(value) < 0x1p63)
        output_format(out, "%.0f", value);
    else
        output_text(out, format_exact(value, text));
}

static void write_value(struct output *out, enum field_type type, const void *at)
{
    switch (type) {
    case FIELD_TEXT:
        csv_text(out, *(const char *const *)at);
        break;
    case FIELD_COUNT:
        output_format(out, "%" PRIu64, *(const uint64_t *)at);
        break;
    case FIELD_SAMPLES:
        output_format(out, "%" PRIu32, *(const uint32_t *)at);
        break;
    case FIELD_FLAG:
        output_text(out, *(const bool *)at ? "true" : "false");
        break;
    default:
        write_number(out, *(const double *)at);
    }
}

void csv_names(struct output *out, struct fields fields, const char *mode)
{
    for (size_t n = 0; n < fields.count; n++)
        if (fields.list[n].column) output_format(out, ",%s%s%s", mode, *mode ? "_" : "", fields.list[n].column);
}

void csv_values(struct output *out, struct fields fields, const void *from)
{
    for (size_t n = 0; n < fields.count; n++) {
        const struct field *field = &fields.list[n];
        if (!field->column) continue;
        output_text(out, ",");
        if (from) write_value(out, field->type, (const char *)from + field->offset);
    }
}

const char csv_run_names[] = "run,utc,device,device_name,driver,workload,model,sequences,tokens";

void csv_run(struct output *out, const struct record *record, uint64_t dev)
{
    const struct record_device *device = record_device_of(record, dev);
    const char *texts[] = {record->run_id,        record->utc,           device->id, device->name, device->driver,
                           record->workload.kind, record->workload.model};
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        csv_text(out, texts[n]);
        output_text(out, ",");
    }
    write_number(out, record->workload.sequences);
    output_text(out, ",");
    write_number(out, record->workload.tokens);
}

static void write_head(struct output *out)
{
    output_format(out, "%s,plan", csv_run_names);
    csv_names(out, op_fields, "");
    for (int m = 0; m < MODES; m++) {
        csv_names(out, time_fields, mode_names[m]);
        csv_names(out, derived_fields, mode_names[m]);
    }
    output_text(out, "\r\n");
}

static void write_op(struct output *out, const struct record *record, const struct record_op *op)
{
    csv_run(out, record, op->dev);
    output_text(out, ",");
    csv_text(out, op->plan);
    csv_values(out, op_fields, op);
    for (int m = 0; m < MODES; m++) {
        const struct record_mode *mode = &op->modes[m];
        csv_values(out, time_fields, time_known(&mode->time) ? &mode->time : NULL);
        csv_values(out, derived_fields, mode->is_derived ? mode : NULL);
    }
    output_text(out, "\r\n");
}

void csv_write(struct output *out, const struct report *report)
{
    write_head(out);
    for (size_t r = 0; r < report->count; r++)
        for (size_t n = 0; n < report->records[r].op_count; n++)
            write_op(out, &report->records[r], &report->records[r].ops[n]);
}
