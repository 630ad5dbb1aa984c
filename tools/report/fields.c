/* JSON's trees: single fields, and structures by tables of fields. */
#include "report/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "session.h"

json_t *field_get(const json_t *object, const char *path)
{
    bool beyond = false;
    json_t *value = value_at(object, path, &beyond);
    return json_is_null(value) ? NULL : value;
}

static double number_of(const json_t *value) { return json_is_number(value) ? json_number_value(value) : (double)NAN; }

double field_number(const json_t *object, const char *path) { return number_of(field_get(object, path)); }

const char *field_text(const json_t *object, const char *path)
{
    const char *text = json_string_value(field_get(object, path));
    return text ? text : "";
}

bool field_true(const json_t *object, const char *path) { return json_is_true(field_get(object, path)); }

/* ---- values ---- */

json_t *number_json(double value) { return need(isfinite(value) ? json_real(value) : json_null()); }

static json_t *whole_json(double value)
{
    return need(isfinite(value) ? json_integer((json_int_t)value) : json_null());
}

static json_t *count_json(uint64_t value) { return need(json_integer((json_int_t)value)); }

json_t *time_json(const wherry_time *time)
{
    if (!time->n) return need(json_null());
    json_t *value = need(json_object());
    fields_write(value, time_fields, false, time);
    return value;
}

/* ---- structures ---- */

static uint64_t count_of(const json_t *value)
{
    return json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0; /* 0 of anything else */
}

static void read_field(const json_t *value, enum field_type type, void *at)
{
    switch (type) {
    case FIELD_NONE:
        break;
    case FIELD_TEXT:
        *(const char **)at = json_is_string(value) ? json_string_value(value) : "";
        break;
    case FIELD_NUMBER:
    case FIELD_WHOLE:
        *(double *)at = number_of(value);
        break;
    case FIELD_COUNT:
        *(uint64_t *)at = count_of(value);
        break;
    case FIELD_SAMPLES:
        *(uint32_t *)at = count_of(value) < UINT32_MAX ? (uint32_t)count_of(value) : UINT32_MAX;
        break;
    case FIELD_FLAG:
        *(bool *)at = json_is_true(value);
        break;
    case FIELD_THERE:
        *(bool *)at = value != NULL;
        break;
    case FIELD_LOW:
    case FIELD_HIGH:
        *(double *)at = number_of(json_array_get(value, type == FIELD_HIGH));
        break;
    case FIELD_TIME:
        fields_read(value, time_fields, at);
    }
}

void fields_read(const json_t *object, struct fields fields, void *into)
{
    for (size_t n = 0; n < fields.count; n++) {
        const struct field *field = &fields.list[n];
        if (field->type) read_field(field_get(object, field->path), field->type, (char *)into + field->offset);
    }
}

/* Where there may be none, an empty text is none, and NULL is null. */
static json_t *text_value(const struct field *field, const char *text)
{
    if (!text) return need(json_null());
    return field->rule == '-' && !*text ? NULL : text_json(text);
}

/* NULL: nothing is to be set. */
static json_t *field_json(const struct field *field, const void *at)
{
    switch (field->type) {
    case FIELD_TEXT:
        return text_value(field, *(const char *const *)at);
    case FIELD_NUMBER:
        return number_json(*(const double *)at);
    case FIELD_WHOLE:
        return whole_json(*(const double *)at);
    case FIELD_COUNT:
        return count_json(*(const uint64_t *)at);
    case FIELD_SAMPLES:
        return count_json(*(const uint32_t *)at);
    case FIELD_FLAG:
        return need(json_boolean(*(const bool *)at));
    case FIELD_LOW:
        return need(json_pack("[o]", number_json(*(const double *)at)));
    case FIELD_TIME:
        return time_json(at);
    default:
        return NULL;
    }
}

/* Sets what has this path, making the objects on the way; a null on it is no place for anything. */
static void set_at(json_t *object, const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    if (!dot) {
        json_object_set_new(object, path, value);
        return;
    }
    char name[48];
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    json_t *below = json_object_get(object, name);
    if (!below) json_object_set_new(object, name, below = need(json_object()));
    if (json_is_null(below))
        json_decref(value);
    else
        set_at(below, dot + 1, value);
}

void fields_write(json_t *object, struct fields fields, bool derived, const void *from)
{
    for (size_t n = 0; n < fields.count; n++) {
        const struct field *field = &fields.list[n];
        const void *at = (const char *)from + field->offset;
        if (derived && !field->derived) continue;
        json_t *value = field_json(field, at);
        if (field->type == FIELD_HIGH)
            json_array_append_new(json_object_get(object, field->path), number_json(*(const double *)at));
        else if (value)
            set_at(object, field->path, value);
    }
}
