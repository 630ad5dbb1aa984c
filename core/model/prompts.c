/* Texts that a model wants in front of others, by name: config_sentence_transformers.json. */
#include "model/prompts.h"

#include <string.h>

#include "base/folder.h"
#include "base/text.h"

/* More than any published model has. */
enum { PROMPTS_MOST = 4096, MARKS = 2 };

void prompts_free(const struct host *host, struct prompts *prompts)
{
    for (uint32_t i = 0; prompts->names && i < prompts->count; i++) host_free(host, prompts->names[i]);
    for (uint32_t i = 0; prompts->texts && i < prompts->count; i++) host_free(host, prompts->texts[i]);
    host_free(host, prompts->names);
    host_free(host, prompts->texts);
    memset(prompts, 0, sizeof *prompts);
}

static bool texts_take(const struct host *host, json_t *object, struct prompts *out, struct error *e)
{
    const char *name;
    json_t *text;
    uint32_t i = 0;
    json_object_foreach(object, name, text)
    {
        if (!json_is_string(text))
            return fail(e, WHERRY_STATUS_BAD_FORMAT, "the prompt \"%.100s\" is not a string: get the file again", name);
        if (!(out->names[i] = host_strdup(host, name, e)) ||
            !(out->texts[i] = host_strdup(host, json_string_value(text), e)))
            return false;
        i++;
    }
    return true;
}

/* In front of the prompt of that name, unless it begins with it; else a prompt of its own. */
static bool mark_take(const struct host *host, const char *name, const char *mark, struct prompts *out, struct error *e)
{
    uint32_t at = 0;
    size_t bytes = mark ? strlen(mark) : 0;
    while (at < out->count && strcmp(out->names[at], name)) at++;
    if (!bytes) return true;
    const char *text = at < out->count ? out->texts[at] : "";
    if (!strncmp(text, mark, bytes)) return true;
    char *both = host_alloc(host, bytes + strlen(text) + 1, 1, e);
    if (!both) return false;
    memcpy(both, mark, bytes);
    memcpy(both + bytes, text, strlen(text) + 1);
    if (at < out->count) host_free(host, out->texts[at]);
    out->texts[at] = both;
    if (at < out->count) return true;
    out->used = ++out->count;
    return (out->names[at] = host_strdup(host, name, e)) != NULL;
}

static bool marks_take(const struct host *host, const char *const *marks, struct prompts *out, struct error *e)
{
    return mark_take(host, "query", marks[0], out, e) && mark_take(host, "document", marks[1], out, e);
}

static bool default_take(const json_t *json, struct prompts *out, struct error *e)
{
    const json_t *value = json_object_get(json, "default_prompt_name");
    const char *name = json_string_value(value);
    if (!value || json_is_null(value)) return true;
    if (!name) return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"default_prompt_name\" is not a string: get the file again");
    for (out->used = 0; out->used < out->count && strcmp(out->names[out->used], name);) out->used++;
    return out->used < out->count ||
           fail(e, WHERRY_STATUS_BAD_FORMAT,
                "\"default_prompt_name\" is \"%.100s\", and \"prompts\" has none of that name: get the file again",
                name);
}

static bool dimensions_take(const json_t *json, struct prompts *out, struct error *e)
{
    const json_t *value = json_object_get(json, "truncate_dim");
    if (!value || json_is_null(value)) return true;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX)
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "\"truncate_dim\" is not a whole number of at least 1: get the file "
                    "again");
    out->dimensions = (uint32_t)json_integer_value(value);
    return true;
}

static bool prompts_parse(const struct host *host, const json_t *json, const char *const *marks, struct prompts *out,
                          struct error *e)
{
    json_t *prompts = json_object_get(json, "prompts");
    size_t count = json_object_size(prompts);
    if (!json_is_object(json)) return fail(e, WHERRY_STATUS_BAD_FORMAT, "it is not an object: get the file again");
    if (prompts && !json_is_null(prompts) && !json_is_object(prompts))
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"prompts\" is not an object: get the file again");
    if (count > PROMPTS_MOST)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "\"prompts\" has %zu of them: at most %d are read", count,
                    PROMPTS_MOST);
    out->count = out->used = (uint32_t)count;
    out->names = host_alloc(host, count + MARKS, sizeof *out->names, e);
    out->texts = out->names ? host_alloc(host, count + MARKS, sizeof *out->texts, e) : NULL;
    return out->texts && texts_take(host, prompts, out, e) && marks_take(host, marks, out, e) &&
           default_take(json, out, e) && dimensions_take(json, out, e);
}

bool prompts_read(const struct host *host, const char *folder, const char *const *marks, struct prompts *out,
                  struct error *e)
{
    static const char file[] = "config_sentence_transformers.json";
    bool has = false;
    json_t *json;
    memset(out, 0, sizeof *out);
    TRY(folder_has(host, folder, file, &has, e));
    if (!has) return true;
    TRY(json_file_read(host, folder, file, &json_config, 0, &json, e));
    return json_file_end(host, folder, file, json, prompts_parse(host, json, marks, out, e), e);
}

static bool none_found(const struct prompts *prompts, const char *name, struct error *e)
{
    char names[400];
    struct text_writer t = text_begin(names, sizeof names);
    for (uint32_t i = 0; i < prompts->count; i++) text_add(&t, "%s%.60s", i ? ", " : "", prompts->names[i]);
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "this model's files have no prompt \"%.60s\"%s%s", name,
                prompts->count ? ": they have " : ", and no others", names);
}

bool prompts_allow(const struct prompts *prompts, const char *text, struct error *e)
{
    return !*text || !prompts->excluded ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "this model's pooling leaves out the tokens of its prompts (include_prompt false), which is not "
                "supported");
}

bool prompts_find(const struct prompts *prompts, const char *name, const char **out, struct error *e)
{
    uint32_t at = prompts->used;
    for (at = name ? 0 : at; name && at < prompts->count && strcmp(prompts->names[at], name);) at++;
    if (name && at == prompts->count) return none_found(prompts, name, e);
    const char *text = at < prompts->count ? prompts->texts[at] : "";
    *out = text;
    return prompts_allow(prompts, text, e);
}
