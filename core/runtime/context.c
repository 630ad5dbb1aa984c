/* Contexts: what an application lends the library, and the last error. */
#include "runtime/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"

enum { COMPILE_SECONDS = 120 };

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *wherry_version_string(void)
{
    return TEXT(WHERRY_VERSION_MAJOR) "." TEXT(WHERRY_VERSION_MINOR) "." TEXT(WHERRY_VERSION_PATCH);
}

uint32_t wherry_version_number(void)
{
    return WHERRY_VERSION_MAJOR * 10000 + WHERRY_VERSION_MINOR * 100 + WHERRY_VERSION_PATCH;
}

static void *default_alloc(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static void default_free(void *pointer, void *user)
{
    (void)user;
    free(pointer);
}

/* A cache that others may write to could have any kernel in it, so that there is none then. */
static void check_cache(struct wherry_context *context)
{
    char *folder = context->host.cache_dir;
    if (!*folder || cache_check(folder, &context->uncached)) return;
    fail_in(&context->uncached, "no cache is used");
    *folder = 0;
    host_log(&context->host, WHERRY_LOG_WARNING, "%s", context->uncached.text);
}

wherry_status wherry_context_create(const wherry_context_desc *desc, wherry_context **out)
{
    struct host host = {.alloc = default_alloc, .free = default_free};
    if (!out || (desc && (desc->struct_size != sizeof *desc || !desc->alloc != !desc->free)))
        return WHERRY_STATUS_INVALID_ARGUMENT;
    if (desc) {
        if (desc->alloc) host.alloc = desc->alloc, host.free = desc->free;
        host.log = desc->log;
        host.user = desc->user;
        host.unoptimized = desc->unoptimized;
        host.threads = desc->threads;
        host.low_priority = desc->low_priority;
        host.compile_seconds = desc->compile_seconds ? desc->compile_seconds : COMPILE_SECONDS;
        if (desc->compiler && strlen(desc->compiler) >= sizeof host.compiler) return WHERRY_STATUS_INVALID_ARGUMENT;
        if (desc->compiler && *desc->compiler) snprintf(host.compiler, sizeof host.compiler, "%s", desc->compiler);
        if (desc->compiler && !*desc->compiler) process_path(host.compiler, sizeof host.compiler);
    }
    if (desc && desc->cache_dir) {
        if (strlen(desc->cache_dir) >= sizeof host.cache_dir) return WHERRY_STATUS_INVALID_ARGUMENT;
        snprintf(host.cache_dir, sizeof host.cache_dir, "%s", desc->cache_dir);
    } else {
        cache_folder(host.cache_dir, sizeof host.cache_dir);
    }
    const char *compile_only = getenv("WHERRY_COMPILE_ONLY");
    host.compile_only = compile_only && !strcmp(compile_only, "1");
    struct error e = {0};
    struct wherry_context *context = host_alloc(&host, 1, sizeof *context, &e);
    if (!context) return WHERRY_STATUS_OUT_OF_HOST_MEMORY;
    context->host = host;
    context->errors.thread = thread_number();
    context->errors.serial = thread_serial();
    mutex_make(&context->lock);
    if (desc && desc->timed) {
        context->host.parts = &context->parts;
        parts_begin(&context->parts);
    }
    check_cache(context);
    *out = context;
    return WHERRY_STATUS_OK;
}

void wherry_context_destroy(wherry_context *context)
{
    if (!context) return;
    struct host host = context->host;
    for (struct thread_error *error = context->errors.next, *next; error; error = next) {
        next = error->next;
        host_free(&host, error);
    }
    mutex_free(&context->lock);
    host_free(&host, context);
}

/* NULL: the thread has none. */
static struct thread_error *error_find(struct wherry_context *context, uintptr_t thread)
{
    struct thread_error *found = &context->errors;
    mutex_enter(&context->lock);
    while (found && found->thread != thread) found = found->next;
    mutex_leave(&context->lock);
    if (found && found->serial != thread_serial()) { /* of one that has ended */
        found->error = (struct error){0};
        found->serial = thread_serial();
    }
    return found;
}

struct error *context_error(struct wherry_context *context)
{
    const uintptr_t thread = thread_number();
    struct thread_error *own = error_find(context, thread);
    struct error no_memory;
    if (own) return &own->error;
    if (!(own = host_alloc(&context->host, 1, sizeof *own, &no_memory))) return &context->spare.error;
    own->thread = thread;
    own->serial = thread_serial();
    mutex_enter(&context->lock);
    own->next = context->errors.next;
    context->errors.next = own;
    mutex_leave(&context->lock);
    return &own->error;
}

static const struct error *last_error(const wherry_context *context)
{
    struct wherry_context *locked = (struct wherry_context *)context; /* nothing but its lock changes */
    const struct thread_error *own = error_find(locked, thread_number());
    return own ? &own->error : &context->spare.error;
}

const char *wherry_last_error(const wherry_context *context)
{
    return context ? last_error(context)->text : "no context";
}

int wherry_last_native_error(const wherry_context *context) { return context ? last_error(context)->native : 0; }

wherry_status context_status(struct wherry_context *context, bool ok)
{
    return ok ? WHERRY_STATUS_OK : context_error(context)->status;
}

wherry_status context_needs_cache(struct wherry_context *context, const char *call)
{
    if (context->host.cache_dir[0]) return WHERRY_STATUS_OK;
    const struct error *why = &context->uncached;
    if (why->text[0]) {
        fail(context_error(context), why->status, "%s needs a cache folder; %s", call, why->text);
        return why->status;
    }
    return context_invalid(context, "%s needs a cache folder (wherry_context_desc.cache_dir)", call);
}

wherry_status context_invalid(struct wherry_context *context, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    fail_list(context_error(context), WHERRY_STATUS_INVALID_ARGUMENT, format, ap);
    va_end(ap);
    return WHERRY_STATUS_INVALID_ARGUMENT;
}
