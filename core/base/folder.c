/* Files of a model folder: paths that stay inside it, and JSON. */
#include "base/folder.h"

#include <stdio.h>
#include <string.h>

#include "base/source.h"

const struct json_limits json_config = {.bytes = (size_t)4 << 20, .values = 1 << 18, .depth = 64};
const struct json_limits json_index = {.bytes = (size_t)16 << 20, .values = 1 << 18, .depth = 64};
const struct json_limits json_tokenizer = {.bytes = (size_t)64 << 20, .values = 3 << 20, .depth = 64};
const struct json_limits json_tokenizer_config = {.bytes = (size_t)16 << 20, .values = 1 << 20, .depth = 64};

char *path_join(const struct host *host, const char *folder, const char *name, struct error *e)
{
    size_t length = strlen(folder), bytes = length + strlen(name) + 2;
    char *path = host_alloc(host, bytes, 1, e);
    if (!path) return NULL;
    const char *between = *name && length && folder[length - 1] != '/' ? "/" : "";
    snprintf(path, bytes, "%s%s%s", folder, between, name);
    return path;
}

bool folder_has(const struct host *host, const char *folder, const char *name, bool *has, struct error *e)
{
    char *path = path_join(host, folder, name, e);
    if (!path) return false;
    bool ok = source_exists(host, path, has, e);
    host_free(host, path);
    return ok;
}

static bool json_parse(const char *path, const char *text, size_t size, const struct json_limits *limits, size_t flags,
                       json_t **out, struct error *e)
{
    char why[JSON_WHY];
    wherry_status status = json_read(text, size, limits, flags, out, why);
    return !status || fail(e, status, "%.500s: %s%s", path, why,
                           status == WHERRY_STATUS_BAD_FORMAT ? ": the file is damaged, get it again" : "");
}

bool json_file_end(const struct host *host, const char *folder, const char *name, json_t *json, bool ok,
                   struct error *e)
{
    json_decref(json);
    if (ok) return true;
    struct error other;
    char *path = path_join(host, folder, name, &other);
    fail_in(e, path ? path : name);
    host_free(host, path);
    return false;
}

bool json_file_read(const struct host *host, const char *folder, const char *name, const struct json_limits *limits,
                    size_t flags, json_t **out, struct error *e)
{
    char *path = path_join(host, folder, name, e), *text = NULL;
    size_t size = 0;
    bool ok = path && source_read_all(host, path, limits->bytes, &text, &size, e) &&
              json_parse(path, text, size, limits, flags, out, e);
    host_free(host, text);
    host_free(host, path);
    return ok;
}
