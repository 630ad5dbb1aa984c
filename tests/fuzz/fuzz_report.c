/* Records, tunings and device specs: what is read is written in every format, checked, and compared with itself. */
#include "mutate.h"

#include "commands.h"
#include "device_spec.h"
#include "report/check.h"
#include "report/layouts.h"
#include "report/page.h"
#include "report/tuning.h"
#include "report/write.h"

/* An output that is kept in memory. */
static void begin(struct output *out, char **text, size_t *size)
{
    *out = (struct output){.file = open_memstream(text, size), .name = "memory"};
    CHECK(out->file != NULL);
}

/* What goes to terminals and into tables has no control characters but the ends of lines. */
static void end(struct output *out, char **text, const size_t *size, bool clean)
{
    CHECK(output_ok(out) && fclose(out->file) == 0);
    for (size_t i = 0; clean && i < *size; i++) {
        unsigned char c = (unsigned char)(*text)[i];
        CHECK((c >= 0x20 && c != 0x7F) || c == '\n' || c == '\r');
    }
    free(*text);
}

static void text_of_records(struct output *out, const struct report *report)
{
    static const struct options narrow, wide = {.wide = true, .all = true};
    text_write(out, report, &narrow);
    text_write(out, report, &wide);
}

static void write_all(const struct report *report, bool page)
{
    static void (*const of_records[])(struct output *, const struct report *) = {text_of_records, csv_write,
                                                                                 markdown_write, trace_write};
    static void (*const of_tunings[])(struct output *, const json_t *) = {tuning_text, tuning_csv, tuning_markdown},
                                                                    (*const of_layouts[])(struct output *,
                                                                                          const json_t *) = {
                                                                        layouts_text, layouts_csv, layouts_markdown};
    struct output out;
    char *text;
    size_t size;
    for (size_t n = 0; n < (report->tunings || report->layouts ? 3 : 4); n++) {
        begin(&out, &text, &size);
        if (report->tunings)
            of_tunings[n](&out, report->values);
        else if (report->layouts)
            of_layouts[n](&out, report->values);
        else
            of_records[n](&out, report);
        end(&out, &text, &size, true);
    }
    if (!page) return;
    begin(&out, &text, &size);
    page_write(&out, report->values,
               report->tunings   ? PAGE_TUNINGS
               : report->layouts ? PAGE_LAYOUTS
                                 : PAGE_RECORDS,
               "");
    end(&out, &text, &size, false);
}

static void check_all(const struct report *report)
{
    struct output out;
    char *text;
    size_t size;
    begin(&out, &text, &size);
    struct check check = {.out = &out, .file = "record.json"};
    for (size_t n = 0; n < report->count; n++) record_check(&report->records[n], &check);
    CHECK(check.wrong <= check.numbers);
    end(&out, &text, &size, true);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_json(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct options options;
    wherry_device_spec specs[DEVICE_SPECS_MAX];
    size_t count = 0;
    char path[600];
    fuzz_write("record.json", data, size);
    snprintf(path, sizeof path, "%s", fuzz_path("record.json"));
    struct report report = {.count = 0};
    if (report_load(&report, path, true)) {
        check_all(&report);
        write_all(&report, size % 8 == 0); /* a page is some 100 kB */
        options = (struct options){.files = {path, path}, .files_count = 2, .output = "/dev/null", .threshold = -1};
        diff_command(&options);
        options.json = true;
        diff_command(&options);
    }
    report_close(&report);
    if (device_specs_read(path, specs, &count) == EXIT_FINE) {
        CHECK(count == 1 && specs[0].bandwidth > 0 && specs[0].f32_flops > 0);
        CHECK(memchr(specs[0].name, 0, sizeof specs[0].name) != NULL);
    }
    strcat(path, "#0");
    device_specs_read(path, specs, &count);
    return 0;
}
