/* A device's peaks by name, from a file that lists them, or from a record of measured ceilings. */
#include "device_spec.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "json_file.h"

/* ---- names ---- */

static bool same_word(const char *a, const char *b)
{
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) a++, b++;
    return !*a && !*b;
}

static const wherry_device_spec *find_named(const char *name)
{
    const wherry_device_spec *spec;
    for (size_t n = 0; (spec = wherry_device_spec_at(n)) != NULL; n++)
        if (same_word(spec->name, name)) return spec;
    return NULL;
}

/* ---- a file of peaks ---- */

static const struct key {
    const char *name;
    enum { KEY_REAL, KEY_COUNT, KEY_TEXT } kind;
    bool required;
    size_t offset, size; /* in wherry_device_spec */
    double low;          /* below it somebody meant another unit */
    const char *unit;
} keys[] = {
    {"name", KEY_TEXT, false, offsetof(wherry_device_spec, name), sizeof(((wherry_device_spec *)0)->name), 0, ""},
    {"source", KEY_TEXT, false, offsetof(wherry_device_spec, source), sizeof(((wherry_device_spec *)0)->source), 0, ""},
    {"bandwidth", KEY_REAL, true, offsetof(wherry_device_spec, bandwidth), 0, 1e6, "bytes per second"},
    {"matrix_flops", KEY_REAL, true, offsetof(wherry_device_spec, matrix_flops), 0, 1e6, "flop per second"},
    {"f32_flops", KEY_REAL, true, offsetof(wherry_device_spec, f32_flops), 0, 1e6, "flop per second"},
    {"cache_bandwidth", KEY_REAL, false, offsetof(wherry_device_spec, cache_bandwidth), 0, 1e6, "bytes per second"},
    {"cache_bytes", KEY_COUNT, false, offsetof(wherry_device_spec, cache_bytes), 0, 1, "bytes"},
    {"launch_seconds", KEY_REAL, false, offsetof(wherry_device_spec, launch_seconds), 0, 0, "seconds"},
};

static int read_key(const char *file, const struct key *key, const json_t *value, wherry_device_spec *out)
{
    char *to = (char *)out + key->offset;
    if (key->kind == KEY_TEXT) {
        if (!json_is_string(value)) return complain(EXIT_INPUT, "%s: \"%s\" must be a text", file, key->name);
        if (json_string_length(value) >= key->size)
            return complain(EXIT_INPUT, "%s: \"%s\" is longer than %zu bytes", file, key->name, key->size - 1);
        snprintf(to, key->size, "%s", json_string_value(value));
        return EXIT_FINE;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number <= 0)
        return complain(EXIT_INPUT, "%s: \"%s\" must be a number above 0 (%s)", file, key->name, key->unit);
    if (number < key->low)
        return complain(EXIT_INPUT, "%s: \"%s\" is %g: it is given in %s, without prefixes, as in 3.35e12", file,
                        key->name, number, key->unit);
    if (key->kind == KEY_COUNT && number > 1e18)
        return complain(EXIT_INPUT, "%s: \"%s\" is %g: that is more than any cache", file, key->name, number);
    if (key->kind == KEY_COUNT)
        *(uint64_t *)(void *)to = (uint64_t)number;
    else
        *(double *)(void *)to = number;
    return EXIT_FINE;
}

static int read_peaks(const char *file, const json_t *root, wherry_device_spec *out)
{
    const char *name;
    json_t *value;
    snprintf(out->name, sizeof out->name, "%.63s", file);
    json_object_foreach((json_t *)root, name, value)
    {
        const struct key *key = NULL;
        for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
            if (strcmp(keys[n].name, name) == 0) key = &keys[n];
        if (!key)
            return complain(EXIT_INPUT,
                            "%s: unknown key \"%s\"; there are name, source, bandwidth, matrix_flops, f32_flops, "
                            "cache_bandwidth, cache_bytes, launch_seconds",
                            file, name);
        int code = read_key(file, key, value, out);
        if (code) return code;
    }
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
        if (keys[n].required && !json_object_get(root, keys[n].name))
            return complain(EXIT_INPUT, "%s: \"%s\" is missing (%s)", file, keys[n].name, keys[n].unit);
    return EXIT_FINE;
}

/* ---- a record of measured ceilings ---- */

/* The highest value of the ids that begin so, among the device's; 0: there is none. */
static double highest(const json_t *record, json_int_t dev, const char *prefix)
{
    size_t n;
    json_t *one;
    double most = 0;
    json_array_foreach(json_object_get(record, "ceilings"), n, one)
    {
        const char *id = json_string_value(json_object_get(one, "id"));
        double value = json_number_value(json_object_get(one, "value"));
        if (!id || json_integer_value(json_object_get(one, "dev")) != dev) continue;
        if (strncmp(id, prefix, strlen(prefix)) == 0 && isfinite(value) && value > most) most = value;
    }
    return most;
}

void device_spec_measured(const json_t *record, json_int_t dev, wherry_device_spec *out)
{
    out->bandwidth = highest(record, dev, "dram.");
    out->f32_flops = highest(record, dev, "compute.f32");
    out->matrix_flops = highest(record, dev, "compute.matrix");
    if (!(out->matrix_flops > 0)) out->matrix_flops = highest(record, dev, "compute."); /* no matrix unit */
    out->cache_bandwidth = highest(record, dev, "cache.");
    out->launch_seconds = highest(record, dev, "launch.seconds");
}

/* The device number `wanted` of the record, or its only one where that is < 0. */
static int choose_device(const char *file, const json_t *record, json_int_t wanted, const json_t **out)
{
    const json_t *devices = json_object_get(record, "devices");
    size_t n, count = json_array_size(devices);
    json_t *one;
    if (wanted < 0 && count > 1)
        return complain(EXIT_USAGE, "%s has %zu devices: name one by its number, as in %s#0", file, count, file);
    json_array_foreach(devices, n, one)
    {
        if (wanted >= 0 && json_integer_value(json_object_get(one, "dev")) != wanted) continue;
        *out = one;
        return EXIT_FINE;
    }
    if (wanted < 0) return complain(EXIT_INPUT, "%s: the record has no device", file);
    return complain(EXIT_USAGE, "%s has no device number %d", file, (int)wanted);
}

static int read_record(const char *file, const json_t *record, json_int_t wanted, wherry_device_spec *out)
{
    const json_t *device = NULL;
    int code = choose_device(file, record, wanted, &device);
    if (code) return code;
    json_int_t dev = json_integer_value(json_object_get(device, "dev"));
    const char *name = json_string_value(json_object_get(device, "name")),
               *id = json_string_value(json_object_get(device, "id")),
               *utc = json_string_value(json_object_get(json_object_get(record, "run"), "utc"));
    snprintf(out->name, sizeof out->name, "%s", name && *name ? name : id && *id ? id : file);
    snprintf(out->source, sizeof out->source, "ceilings measured%s%s%s%s", id ? " through " : "", id ? id : "",
             utc ? ", " : "", utc ? utc : "");
    device_spec_measured(record, dev, out);
    double bytes = json_number_value(json_object_get(json_object_get(device, "cache"), "bytes"));
    if (bytes > 0 && bytes < 1e18) out->cache_bytes = (uint64_t)bytes;
    if (!(out->bandwidth > 0))
        return complain(EXIT_INPUT, "%s: no ceiling \"dram.*\" of this device; wherry roof --json measures it", file);
    if (!(out->f32_flops > 0))
        return complain(EXIT_INPUT, "%s: no ceiling \"compute.f32\" of this device; wherry roof --json measures it",
                        file);
    return EXIT_FINE;
}

/* ---- either ---- */

/* An array of one record is that record. */
static int read_root(const char *file, const json_t *root, json_int_t device, wherry_device_spec *out)
{
    if (json_is_array(root) && json_array_size(root) == 1) root = json_array_get(root, 0);
    if (!json_is_object(root)) return complain(EXIT_INPUT, "%s: an object with a device's peaks is wanted", file);
    const json_t *schema = json_object_get(root, "schema");
    if (!schema) {
        if (device >= 0) return complain(EXIT_USAGE, "%s lists one device's peaks: it has no #%d", file, (int)device);
        return read_peaks(file, root, out);
    }
    if (!json_is_string(schema) || strcmp(json_string_value(schema), "rl-1") != 0)
        return complain(EXIT_INPUT, "%s: \"schema\" is not \"rl-1\", the one of records that this version reads", file);
    return read_record(file, root, device, out);
}

/* A number after the last '#' chooses a device, unless there is a file of that very name. */
static int read_one(char *word, wherry_device_spec *out)
{
    const wherry_device_spec *named = find_named(word);
    json_int_t device = -1;
    memset(out, 0, sizeof *out);
    if (named) return *out = *named, EXIT_FINE;
    FILE *file = fopen(word, "rb");
    char *number = strrchr(word, '#');
    if (!file && number && number[1] && strlen(number) < 6 && strspn(number + 1, "0123456789") == strlen(number + 1)) {
        *number++ = 0;
        for (device = 0; *number; number++) device = 10 * device + (*number - '0');
        file = fopen(word, "rb");
    }
    if (!file) {
        int reason = errno;
        return complain(EXIT_USAGE,
                        "--device-spec %s: none of those that wherry analyze --device-spec list names, and "
                        "no file that can be read: %s",
                        word, strerror(reason));
    }
    json_t *root;
    int code = json_stream_read(file, word, &json_record, 0, &root);
    fclose(file);
    if (code) return code;
    code = read_root(word, root, device, out);
    json_decref(root);
    return code;
}

int device_specs_read(const char *text, wherry_device_spec specs[DEVICE_SPECS_MAX], size_t *count)
{
    *count = 0;
    for (const char *at = text;; at++) {
        char word[4096];
        size_t length = strcspn(at, ",");
        if (!length) return complain(EXIT_USAGE, "--device-spec %s: a name is missing", text);
        if (length >= sizeof word) return complain(EXIT_USAGE, "--device-spec: a name is too long");
        if (*count == DEVICE_SPECS_MAX)
            return complain(EXIT_USAGE, "--device-spec takes at most %d devices", DEVICE_SPECS_MAX);
        memcpy(word, at, length);
        word[length] = 0;
        int code = read_one(word, &specs[*count]);
        if (code) return code;
        ++*count;
        at += length;
        if (!*at) return EXIT_FINE;
    }
}
