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

/* Takes the values over; NULL, having complained, where one does not fit. */
static json_t *all_fit(const char *path, json_t *values, bool (*fits)(const json_t *, char[256]), const char *name)
{
    size_t n;
    json_t *value;
    char why[256];
    json_array_foreach(values, n, value)
    {
        if (fits(value, why)) continue;
        if (json_array_size(values) > 1)
            complain(0, "%s: %s %zu: %s", path, name, n, why);
        else
            complain(0, "%s: %s", path, why);
        json_decref(values);
        return NULL;
    }
    return values;
}

json_t *records_load(const char *path)
{
    json_t *values = values_load(path);
    return values ? all_fit(path, values, record_validate, "record") : NULL;
}

json_t *report_load(const char *path)
{
    json_t *values = values_load(path);
    if (!values) return NULL;
    return tuning_is(json_array_get(values, 0)) ? all_fit(path, values, tuning_validate, "tuning")
                                                : all_fit(path, values, record_validate, "record");
}
