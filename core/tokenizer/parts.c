/* What the parts of a tokenizer share while they are read from JSON. */
#include "tokenizer/parts.h"

#include <string.h>

bool part_wrong(const struct part_reader *r, const char *key, const char *wanted)
{
    return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is missing or is not %s", key, wanted);
}

bool part_bool(const struct part_reader *r, const json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value)) return part_wrong(r, key, "true or false");
    *out = json_is_true(value);
    return true;
}

bool part_optional_bool(const struct part_reader *r, const json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    return !value || json_is_null(value) || part_bool(r, object, key, out);
}

bool part_string(const struct part_reader *r, const json_t *object, const char *key, const char **out)
{
    *out = json_string_value(json_object_get(object, key));
    return *out || part_wrong(r, key, "a string");
}

bool part_count(const struct part_reader *r, const json_t *value, const char *key, uint32_t limit, uint32_t *out)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0) return part_wrong(r, key, "a whole number from 0 on");
    if (number >= limit)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "\"%s\" is %lld, but must be below %u", key, (long long)number,
                    limit);
    *out = (uint32_t)number;
    return true;
}

bool part_characters(const struct part_reader *r, const json_t *object, const char *key, struct list *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) return part_wrong(r, key, "a string");
    *out = (struct list){.host = r->host};
    return list_add_text(out, json_string_value(value), json_string_length(value), key, r->e);
}

bool part_character(const struct part_reader *r, const json_t *object, const char *key, uint32_t *out)
{
    struct list characters = {.host = r->host};
    bool ok = part_characters(r, object, key, &characters);
    if (ok && characters.count != 1) ok = part_wrong(r, key, "a string of one character");
    if (ok) *out = characters.items[0];
    list_free(&characters);
    return ok;
}

bool part_type(const struct part_reader *r, const json_t *part, const char *what, const char **out)
{
    *out = json_string_value(json_object_get(part, "type"));
    return *out || fail(r->e, WHERRY_STATUS_UNSUPPORTED, "its %s is of no kind: \"type\" is missing", what);
}

bool part_unsupported(const struct part_reader *r, const char *what, const char *type)
{
    return fail(r->e, WHERRY_STATUS_UNSUPPORTED, "its %s is \"%.100s\", which is not supported", what, type);
}
