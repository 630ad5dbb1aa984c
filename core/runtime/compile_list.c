/* In a process apart: what another one wrote down is compiled into the cache (backends/apart.h). */
#include <stdlib.h>
#include <string.h>

#include "backends/apart.h"
#include "base/platform.h"
#include "runtime/context.h"
#include "runtime/device_list.h"
#include "wherry/wherry_compile.h"

enum { LIST_BYTES = 64 << 20, LIST_PROGRAMS = 1 << 16 };

struct compile_list {
    char device[32];
    uint64_t driver;
    struct apart_program *programs; /* their forms are parts of the text */
    size_t count;
};

/* The next line, its end cut off; NULL: there is none. */
static char *next_line(char **text)
{
    char *line = *text, *end = line ? strchr(line, '\n') : NULL;
    if (!end) return NULL;
    *end = 0;
    *text = end + 1;
    return line;
}

static bool read_program(char *line, struct apart_program *out)
{
    char *space = strchr(line, ' ');
    if (!space || space == line || (size_t)(space - line) >= sizeof out->kernel) return false;
    memcpy(out->kernel, line, (size_t)(space - line));
    out->kernel[space - line] = 0;
    out->form = space + 1;
    return true;
}

static bool read_list(struct wherry_context *context, char *text, const char *path, struct compile_list *list)
{
    struct error *e = context_error(context);
    const char *magic = next_line(&text), *device = next_line(&text), *driver = next_line(&text);
    size_t room = 0;
    if (!driver || strcmp(magic, APART_MAGIC) || strlen(device) >= sizeof list->device)
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "%.300s lists nothing that this version compiles", path);
    memcpy(list->device, device, strlen(device) + 1);
    list->driver = strtoull(driver, NULL, 16);
    for (char *line; (line = next_line(&text)); list->count++) {
        struct apart_program *grown =
            host_grow_one(&context->host, list->programs, list->count, &room, sizeof *grown, e);
        if (!grown) return false;
        list->programs = grown;
        if (list->count == LIST_PROGRAMS || !read_program(line, &grown[list->count]))
            return fail(e, WHERRY_STATUS_BAD_FORMAT, "%.300s: program %zu can't be read", path, list->count + 1);
    }
    return true;
}

/* "vulkan:0": no other driver is looked at. */
static const struct backend *backend_of(const char *id, size_t *index)
{
    const char *colon = strchr(id, ':');
    size_t b = 0;
    if (!colon || colon[1] < '0' || colon[1] > '9') return NULL;
    *index = strtoul(colon + 1, NULL, 10);
    while (b < backends_count && (strncmp(backends[b]->name, id, (size_t)(colon - id)) != 0 ||
                                  strlen(backends[b]->name) != (size_t)(colon - id)))
        b++;
    return b < backends_count && backends[b]->compile ? backends[b] : NULL;
}

static bool compile_list(struct wherry_context *context, const struct compile_list *list)
{
    struct error *e = context_error(context);
    wherry_device_info info = {0};
    size_t index;
    const struct backend *backend = backend_of(list->device, &index);
    if (!backend) return fail(e, WHERRY_STATUS_NO_DEVICE, "this build compiles nothing for \"%s\"", list->device);
    struct backend_device *device = device_open_handle(&context->host, backend, index, NULL, &info, e);
    bool ok = device && backend->compile(device, list->driver, list->programs, list->count, e);
    backend->close(device);
    return ok;
}

wherry_status wherry_compile_list(wherry_context *context, const char *path, wherry_line_callback write, void *user)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct compile_list list = {.count = 0};
    struct error *e = context_error(context);
    char *text = NULL;
    size_t size = 0;
    bool exists = false;
    if (!path || !write) return context_invalid(context, "wherry_compile_list: path or write is NULL");
    wherry_status status = context_needs_cache(context, "wherry_compile_list");
    if (status) return status;
    const struct apart_teller teller = {write, user};
    context->host.teller = &teller;
    bool ok = cache_read(&context->host, path, LIST_BYTES, &exists, &text, &size, e) &&
              (exists || fail(e, WHERRY_STATUS_IO, "%.300s is missing", path)) &&
              read_list(context, text, path, &list) && compile_list(context, &list);
    if (ok) write("end\n", user);
    host_free(&context->host, list.programs);
    host_free(&context->host, text);
    context->host.teller = NULL;
    return context_status(context, ok);
}
