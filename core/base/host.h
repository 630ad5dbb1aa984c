/* What a context lends to everything below it: memory, a log, a cache folder. */
#ifndef WHERRY_BASE_HOST_H
#define WHERRY_BASE_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct parts;
struct file_source; /* base/source.h */
struct apart_teller;

struct host {
    void *(*alloc)(size_t size, void *user);
    void (*free)(void *pointer, void *user);
    void (*log)(wherry_log_level level, const char *text, void *user); /* may be NULL */
    void *user;
    char cache_dir[512];             /* "": nothing is cached */
    const struct file_source *files; /* that a model is read from, NULL: the system's folders */
    uint32_t threads;                /* that compute on the host's cores, at most; 0: no limit */
    struct parts *parts;             /* the account of where its time goes (base/parts.h), NULL: none is kept */
    bool unoptimized;                /* kernels are compiled without optimization where an API can say so */
    char compiler[512];       /* the program that compiles what may end the process (backends/apart.h); "": none */
    uint32_t compile_seconds; /* that it may take for one kernel */
    const struct apart_teller *teller; /* in that program; else NULL */
    bool low_priority;                 /* queues are made with low priority */
    bool compile_only; /* devices that do not execute may be opened, for compiling (WHERRY_COMPILE_ONLY) */
};

/* Zeroed memory for `count` items of `size` bytes; NULL and an error when there is none (count * size is checked).
 * count 0 gives a valid pointer. */
void *host_alloc(const struct host *host, size_t count, size_t size, struct error *e);
/* The same without zeros, for what is large and written whole: memory that is new comes page by page to whoever writes
 * it first, which may be many threads. */
void *host_alloc_unset(const struct host *host, size_t count, size_t size, struct error *e);
/* Accepts NULL. */
void host_free(const struct host *host, void *pointer);
/* As realloc, from old_count to count items; new items are zero. The old memory stays valid on failure. */
void *host_grow(const struct host *host, void *pointer, size_t old_count, size_t count, size_t size, struct error *e);
/* Memory with room for one more item after `count`: the same, or twice as much, `*room` being how many it holds. */
void *host_grow_one(const struct host *host, void *pointer, size_t count, size_t *room, size_t size, struct error *e);
char *host_strdup(const struct host *host, const char *text, struct error *e);
void host_log(const struct host *host, wherry_log_level level, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
