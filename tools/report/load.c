/* Reads files of records and tunings. */
#include "report/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "complain.h"
#include "json_file.h"
#include "options.h"
#include "report/folder.h"
#include "report/layouts.h"
#include "report/tuning.h"
#include "report/validate.h"

/* These texts are printed on terminals. */
static json_t *printable(const json_t *text)
{
    size_t bytes = json_string_length(text);
    char *shown = need(malloc(UTF8_SHOWN_MAX * bytes + 1));
    json_t *value =
        need(json_stringn(shown, utf8_show(json_string_value(text), bytes, shown, UTF8_SHOWN_MAX * bytes + 1)));
    free(shown);
    return value;
}

static void clean_texts(json_t *value)
{
    size_t n;
    const char *key;
    json_t *entry;
    if (json_is_array(value)) {
        json_array_foreach(value, n, entry)
        {
            if (json_is_string(entry))
                json_array_set_new(value, n, printable(entry));
            else
                clean_texts(entry);
        }
    } else {
        json_object_foreach(value, key, entry)
        {
            if (json_is_string(entry))
                json_object_set_new(value, key, printable(entry));
            else
                clean_texts(entry);
        }
    }
}

/* The values of a file, one or an array of them, with texts that can be printed; NULL, having complained. */
static json_t *values_load(const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) return complain(0, "can't open %s: %s", path, strerror(errno)), NULL;
    json_t *value;
    int code = json_stream_read(file, path, &json_record, JSON_DECODE_ANY, &value);
    if (!standard) fclose(file);
    if (code == EXIT_DEVICE) exit(code); /* as need() does */
    if (code) return NULL;
    clean_texts(value);
    if (!json_is_array(value)) value = need(json_pack("[o]", value));
    if (json_array_size(value)) return value;
    complain(0, "%s: an empty array; a record, or an array of them, is expected", path);
    json_decref(value);
    return NULL;
}

/* Whether value n of these fits; complains where it does not. */
static bool value_fits(const char *path, const json_t *values, size_t n, const char *name, bool fits, const char *why)
{
    if (!fits && json_array_size(values) > 1)
        complain(0, "%s: %s %zu: %s", path, name, n, why);
    else if (!fits)
        complain(0, "%s: %s", path, why);
    return fits;
}

static bool add_records(struct report *report, const char *path, json_t *values)
{
    size_t n;
    json_t *value;
    char why[256];
    report->records =
        need(realloc(report->records, (report->count + json_array_size(values)) * sizeof *report->records));
    report->origins =
        need(realloc(report->origins, (report->count + json_array_size(values)) * sizeof *report->origins));
    json_array_foreach(values, n, value)
    {
        bool fits = record_read(value, &report->records[report->count], why);
        if (!value_fits(path, values, n, "record", fits, why)) return false;
        report->origins[report->count++] = (struct origin){.file = path_copy(path), .watts = (double)NAN};
    }
    return true;
}

/* Of files that are validated here alone. */
static bool values_fit(const char *path, const json_t *values, const char *name,
                       bool (*validate)(const json_t *value, char why[256]))
{
    size_t n;
    const json_t *value;
    char why[256];
    json_array_foreach(values, n, value)
    {
        if (!value_fits(path, values, n, name, validate(value, why), why)) return false;
    }
    return true;
}

enum kind { KIND_RECORDS, KIND_TUNINGS, KIND_LAYOUTS };
static const char *const kind_names[] = {"records", "tunings", "layouts"};

static enum kind kind_of(const struct report *report)
{
    return report->tunings ? KIND_TUNINGS : report->layouts ? KIND_LAYOUTS : KIND_RECORDS;
}

/* A report of nothing takes either kind; their pages and tables have nothing in common. */
static bool kind_fits(const struct report *report, const char *path, enum kind kind)
{
    if (!report->values || kind == kind_of(report)) return true;
    complain(0, "%s has %s and %s has %s: a report shows one kind, so give them separately", report->first,
             kind_names[kind_of(report)], path, kind_names[kind]);
    return false;
}

/* ---- folders ---- */

static bool is_record(const json_t *value)
{
    const char *schema = json_string_value(json_object_get(value, "schema"));
    return schema && strcmp(schema, RECORD_SCHEMA) == 0;
}

/* The file of an earlier record that is the same in every figure; NULL: none. */
static const char *earlier_file(const struct report *report, const json_t *value)
{
    for (size_t n = 0; n < report->count; n++)
        if (json_equal(report->records[n].json, value)) return report->origins[n].file;
    return NULL;
}

/* A file of a folder: as report_load, but for what is no record, and records that are there. */
static bool load_member(struct report *report, const char *path, size_t *passed_over)
{
    size_t n;
    json_t *value, *values = values_load(path), *fresh = need(json_array());
    bool records = values && json_array_size(values) > 0;
    if (values) json_array_foreach(values, n, value) records = records && is_record(value);
    if (records) json_array_foreach(values, n, value)
        {
            const char *earlier = earlier_file(report, value);
            if (earlier)
                complain(0, "%s: left out: the same record as %s", path, earlier);
            else if (json_array_append(fresh, value))
                need(NULL);
        }
    else if (values && !layouts_is(json_array_get(values, 0)) && !tuning_is(json_array_get(values, 0)))
        ++*passed_over;
    bool fine = values && (!json_array_size(fresh) || add_records(report, path, fresh));
    if (fine && json_array_extend(report->values, fresh)) need(NULL);
    json_decref(values);
    json_decref(fresh);
    return fine;
}

bool report_load_folder(struct report *report, const char *path)
{
    size_t count, before = report->count, passed_over = 0;
    char **files = folder_files(path, ".json", &count);
    bool fine = files != NULL;
    if (!report->values) report->values = need(json_array()), report->first = path;
    fine = fine && kind_fits(report, path, KIND_RECORDS);
    report->merged = true;
    for (size_t n = 0; n < count && fine; n++) {
        size_t had = report->count;
        const char *name = strrchr(files[n], '/') + 1;
        if (strcmp(name, "power.json") == 0) continue;
        fine = load_member(report, files[n], &passed_over);
        if (fine && report->count > had) power_read(path, name, &report->origins[had], report->count - had);
    }
    folder_files_free(files, count);
    if (fine && passed_over) complain(0, "%s: %zu JSON files that are no records passed over", path, passed_over);
    if (fine && report->count == before)
        complain(
            0,
            "%s: no record that is not there already: what wherry roof, bench and bench layer write with --json -o "
            "is expected",
            path);
    return fine && report->count > before;
}

bool report_load(struct report *report, const char *path, bool or_others)
{
    json_t *values = values_load(path);
    const json_t *first = json_array_get(values, 0);
    const enum kind kind = !or_others          ? KIND_RECORDS
                           : tuning_is(first)  ? KIND_TUNINGS
                           : layouts_is(first) ? KIND_LAYOUTS
                                               : KIND_RECORDS;
    bool fine = values &&
                (kind == KIND_TUNINGS   ? values_fit(path, values, "tuning", tuning_validate)
                 : kind == KIND_LAYOUTS ? values_fit(path, values, "record", layouts_validate)
                                        : add_records(report, path, values)) &&
                kind_fits(report, path, kind);
    if (fine && !report->values) {
        report->values = need(json_array());
        report->first = path;
        report->tunings = kind == KIND_TUNINGS;
        report->layouts = kind == KIND_LAYOUTS;
    }
    if (fine && json_array_extend(report->values, values)) need(NULL);
    json_decref(values);
    return fine;
}

void report_close(struct report *report)
{
    for (size_t n = 0; n < report->count; n++) {
        record_close(&report->records[n]);
        if (report->origins) free(report->origins[n].file);
    }
    free(report->records);
    free(report->origins);
    json_decref(report->values);
    curves_close(&report->curves);
    *report = (struct report){.count = 0};
}
