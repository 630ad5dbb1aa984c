/* Fields of a request's JSON. */
#include "fields.h"

#include <stdarg.h>

#include "base/utf8.h"

bool field_wrong(struct call *call, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    utf8_format(text, sizeof text, format, arguments);
    va_end(arguments);
    call_fail(call, 422, ERROR_VALIDATION, FAILED_VALIDATION, "%s", text);
    return false;
}

const json_t *field_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

bool field_bool(struct call *call, const json_t *object, const char *name, bool *out)
{
    const json_t *value = field_of(object, name);
    if (!value) return true;
    if (!json_is_boolean(value)) return field_wrong(call, "`%s` is not true or false", name);
    *out = json_is_true(value);
    return true;
}

bool field_count(struct call *call, const json_t *object, const char *name, uint32_t *out)
{
    const json_t *value = field_of(object, name);
    if (!value) return true;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > UINT32_MAX)
        return field_wrong(call, "`%s` is not a whole number from 1 on", name);
    *out = (uint32_t)json_integer_value(value);
    return true;
}

bool field_string(struct call *call, const json_t *object, const char *name, const json_t **out)
{
    *out = field_of(object, name);
    return !*out || json_is_string(*out) || field_wrong(call, "`%s` is not a string", name);
}

bool field_needed(struct call *call, const json_t *object, const char *name, const json_t **out)
{
    if (!field_string(call, object, name, out)) return false;
    return *out || field_wrong(call, "`%s` is missing: a string is needed", name);
}
