/* Memory and log of a context. */
#include "base/host.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

void *host_alloc_unset(const struct host *host, size_t count, size_t size, struct error *e)
{
    if (size && count > SIZE_MAX / size) {
        fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "%zu items of %zu bytes are more than an address can hold", count,
             size);
        return NULL;
    }
    size_t bytes = count * size;
    void *pointer = host->alloc(bytes ? bytes : 1, host->user);
    if (!pointer) {
        fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "out of host memory: %zu bytes were asked for", bytes);
        return NULL;
    }
    return pointer;
}

void *host_alloc(const struct host *host, size_t count, size_t size, struct error *e)
{
    void *pointer = host_alloc_unset(host, count, size, e);
    size_t bytes = count * size;
    if (pointer) memset(pointer, 0, bytes ? bytes : 1);
    return pointer;
}

void host_free(const struct host *host, void *pointer)
{
    if (pointer) host->free(pointer, host->user);
}

void *host_grow(const struct host *host, void *pointer, size_t old_count, size_t count, size_t size, struct error *e)
{
    void *grown = host_alloc(host, count, size, e);
    if (!grown) return NULL;
    if (old_count) memcpy(grown, pointer, old_count * size);
    host_free(host, pointer);
    return grown;
}

void *host_grow_one(const struct host *host, void *pointer, size_t count, size_t *room, size_t size, struct error *e)
{
    if (count < *room) return pointer;
    size_t more = *room ? 2 * *room : 16;
    void *grown = host_grow(host, pointer, count, more, size, e);
    if (grown) *room = more;
    return grown;
}

char *host_strdup(const struct host *host, const char *text, struct error *e)
{
    size_t n = strlen(text) + 1;
    char *copy = host_alloc(host, n, 1, e);
    if (copy) memcpy(copy, text, n);
    return copy;
}

void host_log(const struct host *host, wherry_log_level level, const char *format, ...)
{
    if (!host->log) return;
    char text[1024];
    va_list ap;
    va_start(ap, format);
    utf8_format(text, sizeof text, format, ap);
    va_end(ap);
    host->log(level, text, host->user);
}
