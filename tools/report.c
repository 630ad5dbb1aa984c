/* `wherry report`: stored records or tunings, written again in any format; records also checked. */
#include "commands.h"
#include "report/check.h"
#include "report/compilers.h"
#include "report/folder.h"
#include "report/write.h"
#include "session.h"

static size_t layouts_check_all(const json_t *values, struct check *check)
{
    size_t n;
    json_t *value;
    json_array_foreach(values, n, value) layouts_check(value, check);
    return json_array_size(values);
}

/* Goes on after a file that can't be read, so that one message names each. */
static int check_files(const struct options *options)
{
    struct output out;
    struct check check = {.out = &out};
    size_t records = 0;
    int code = EXIT_FINE;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    for (uint32_t f = 0; f < options->files_count; f++) {
        struct report report = {.count = 0};
        check.file = options->files[f];
        if (curves_is_log(check.file)) { /* nothing in it is derived */
            if (!curves_load(&report.curves, check.file)) code = EXIT_INPUT;
            report_close(&report);
            continue;
        }
        bool fine =
            is_folder(check.file) ? report_load_folder(&report, check.file) : report_load(&report, check.file, true);
        if (fine && report.tunings)
            fine =
                (complain(
                     0, "%s: a tuning, as wherry tune --json writes it, and no record: it has nothing that is derived",
                     check.file),
                 false);
        if (fine) {
            for (size_t n = 0; n < report.count; n++) record_check(&report.records[n], &check);
            if (report.layouts) records += layouts_check_all(report.values, &check);
            records += report.count;
        } else {
            code = EXIT_INPUT;
        }
        report_close(&report);
    }
    if (!code && check.wrong) code = EXIT_VERIFY;
    output_format(&out, "%zu record%s, %zu numbers checked, %zu wrong\n", records, records == 1 ? "" : "s",
                  check.numbers, check.wrong);
    return output_close(&out, true) ? code : EXIT_OUTPUT;
}

int report_command(const struct options *options)
{
    if (!options->files_count)
        return complain(EXIT_USAGE, "a file is missing: wherry report FILE..., records as wherry bench --json writes "
                                    "them, or tunings of wherry tune --json; \"-\" is standard input");
    if (options->check && (options->json || options->report_format))
        return complain(EXIT_USAGE, "--check has a format of its own: give it alone");
    if (options->check) return check_files(options);
    if (options->files_count == 1 && compilers_is_table(options->file)) return compilers_report(options, options->file);
    if (!report_format(options)) return EXIT_USAGE;
    struct report report = {.count = 0};
    bool fine = true;
    for (uint32_t n = 0; n < options->files_count && fine; n++)
        fine = curves_is_log(options->files[n]) ? curves_load(&report.curves, options->files[n])
               : is_folder(options->files[n])   ? report_load_folder(&report, options->files[n])
                                                : report_load(&report, options->files[n], true);
    int code = fine ? report_write(options, &report) : EXIT_INPUT;
    report_close(&report);
    return code;
}
