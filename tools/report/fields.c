/* Reading the tree of a record: fields that may be null. */
#include "report/fields.h"

#include <math.h>
#include <string.h>

json_t *field_get(const json_t *object, const char *path)
{
    const json_t *at = object;
    while (at) {
        char name[48];
        size_t length = strcspn(path, ".");
        if (length >= sizeof name) return NULL;
        memcpy(name, path, length);
        name[length] = 0;
        at = json_object_get(at, name);
        if (!path[length]) break;
        path += length + 1;
    }
    return json_is_null(at) ? NULL : (json_t *)at;
}

double field_number(const json_t *object, const char *path)
{
    const json_t *value = field_get(object, path);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

uint64_t field_bytes(const json_t *object, const char *path)
{
    const json_t *value = field_get(object, path);
    if (json_is_integer(value)) return json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
    double number = json_number_value(value); /* 0 of anything else */
    return number > 0 && number < 1.8e19 ? (uint64_t)number : 0;
}

const char *field_text(const json_t *object, const char *path)
{
    const char *text = json_string_value(field_get(object, path));
    return text ? text : "";
}

bool field_true(const json_t *object, const char *path) { return json_is_true(field_get(object, path)); }

double time_bound(const json_t *time, size_t side)
{
    const json_t *bound = json_array_get(json_object_get(time, "ci95"), side);
    return json_is_number(bound) ? json_number_value(bound) : (double)NAN;
}

json_t *record_device_of(const json_t *record, const json_t *entry)
{
    size_t n;
    json_t *device;
    double dev = field_number(entry, "dev");
    json_array_foreach(json_object_get(record, "devices"), n, device)
    {
        if (field_number(device, "dev") == dev) return device;
    }
    return NULL;
}

const char *op_kind(const json_t *op)
{
    const char *id = field_text(op, "id");
    if (strncmp(id, "layer.", 6) != 0) return id;
    const char *dot = strchr(id + 6, '.');
    return dot ? dot + 1 : id;
}
