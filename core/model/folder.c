/* Files of a model folder: paths that stay inside it, and JSON. */
#include "model/folder.h"

#include <stdio.h>
#include <string.h>

#include "base/platform.h"

/* The largest JSON files of published models are tokenizers of some 20 MB; those read here have less. */
static const size_t json_max_bytes = (size_t)32 << 20;

char *path_join(const struct host *host, const char *folder, const char *name, struct error *e)
{
    size_t length = strlen(folder), bytes = length + strlen(name) + 2;
    char *path = host_alloc(host, bytes, 1, e);
    if (!path) return NULL;
    const char *between = *name && length && folder[length - 1] != '/' ? "/" : "";
    snprintf(path, bytes, "%s%s%s", folder, between, name);
    return path;
}

bool path_is_inside(const char *name)
{
    if (*name == '/' || *name == '\\' || strchr(name, ':')) return false;
    while (*name) {
        size_t n = strcspn(name, "/\\");
        if (n == 2 && name[0] == '.' && name[1] == '.') return false;
        name += n + (name[n] != 0);
    }
    return true;
}

bool folder_has(const struct host *host, const char *folder, const char *name, bool *has, struct error *e)
{
    char *path = path_join(host, folder, name, e);
    if (!path) return false;
    bool ok = file_exists(path, has, e);
    host_free(host, path);
    return ok;
}

static bool json_parse(const char *path, const char *text, size_t size, size_t flags, json_t **out, struct error *e)
{
    json_error_t at;
    *out = json_loadb(text, size, flags | JSON_REJECT_DUPLICATES, &at);
    if (*out) return true;
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%.500s is not valid JSON (line %d, column %d: %s): the file is damaged, get it again", path, at.line,
                at.column, at.text);
}

bool json_file_read(const struct host *host, const char *folder, const char *name, size_t flags, json_t **out,
                    struct error *e)
{
    char *path = path_join(host, folder, name, e), *text = NULL;
    size_t size = 0;
    bool ok =
        path && file_read(host, path, json_max_bytes, &text, &size, e) && json_parse(path, text, size, flags, out, e);
    host_free(host, text);
    host_free(host, path);
    return ok;
}
