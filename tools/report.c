/* `wherry report`: stored records or tunings, written again in any format; records also checked. */
#include "commands.h"
#include "report/check.h"
#include "report/fields.h"
#include "report/load.h"
#include "report/tuning.h"
#include "report/write.h"
#include "session.h"

/* All records, or all tunings, of all files; NULL, having complained. Their pages and tables have nothing in common, so
 * both together are refused. */
static json_t *load_all(const struct options *options)
{
    json_t *all = need(json_array());
    for (uint32_t n = 0; n < options->files_count; n++) {
        json_t *loaded = report_load(options->files[n]);
        bool other = loaded && n && tuning_is(json_array_get(loaded, 0)) != tuning_is(json_array_get(all, 0));
        if (other)
            complain(0, "%s has %s and %s has %s: a report shows one kind, so give them separately", options->files[0],
                     tuning_is(json_array_get(all, 0)) ? "tunings" : "records", options->files[n],
                     tuning_is(json_array_get(loaded, 0)) ? "tunings" : "records");
        bool fine = loaded && !other && !json_array_extend(all, loaded);
        json_decref(loaded);
        if (!fine) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* Goes on after a file that can't be read, so that one message names each. */
static int check_files(const struct options *options)
{
    struct output out;
    struct check check = {.out = &out};
    size_t n, records = 0;
    json_t *record;
    int code = EXIT_FINE;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    for (uint32_t f = 0; f < options->files_count; f++) {
        json_t *loaded = records_load(options->files[f]);
        if (!loaded) code = EXIT_INPUT;
        check.file = options->files[f];
        json_array_foreach(loaded, n, record)
        {
            record_check(record, &check);
            records++;
        }
        json_decref(loaded);
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
    if (!report_format(options)) return EXIT_USAGE;
    json_t *records = load_all(options);
    return records ? report_write(options, records) : EXIT_INPUT;
}
