/* What the library asks of the operating system, as far as POSIX and Windows have it alike. */
#include "base/platform_system.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { MAX_THREADS = 256 };

bool file_exists(const char *path, bool *exists, struct error *e)
{
    bool is_folder = false;
    TRY(system_exists(path, exists, &is_folder, e));
    return !is_folder ||
           fail(e, WHERRY_STATUS_IO, "%.600s is a folder, where a file is expected: put the file in its place", path);
}

static bool read_open(const struct host *host, system_file file, const char *path, uint64_t bytes, size_t max_bytes,
                      char **data, size_t *size, struct error *e)
{
    if (bytes > max_bytes || bytes >= SIZE_MAX) {
        system_close(file);
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "%.600s has %" PRIu64 " bytes; at most %zu are expected here", path,
                    bytes, max_bytes);
    }
    char *text = host_alloc(host, (size_t)bytes + 1, 1, e);
    size_t got = 0;
    bool ok = text && system_read(file, path, text, (size_t)bytes, &got, e);
    system_close(file);
    if (!ok) {
        host_free(host, text);
        return false;
    }
    text[got] = 0;
    *data = text;
    *size = got;
    return true;
}

bool file_read(const struct host *host, const char *path, size_t max_bytes, char **data, size_t *size, struct error *e)
{
    system_file file;
    uint64_t bytes;
    return system_open_read(path, &file, &bytes, e) && read_open(host, file, path, bytes, max_bytes, data, size, e);
}

bool cache_read(const struct host *host, const char *path, size_t max_bytes, bool *exists, char **data, size_t *size,
                struct error *e)
{
    system_file file;
    uint64_t bytes;
    TRY(system_open_cached(path, exists, &file, &bytes, e));
    return !*exists || read_open(host, file, path, bytes, max_bytes, data, size, e);
}

/* ---- libraries ---- */

void *library_open(const char *variable, const char *const *names, const char *symbol, char *why, size_t size)
{
    const char *const chosen[] = {variable ? getenv(variable) : NULL, NULL};
    if (chosen[0] && *chosen[0]) names = chosen;
    struct text_writer said = text_begin(why, size);
    for (size_t n = 0; names[n]; n++) {
        char one[256];
        void *library = system_library(names[n], one, sizeof one);
        if (library && library_get(library, symbol)) {
            *why = 0;
            return library;
        }
        if (library) snprintf(one, sizeof one, "%s has no %s", names[n], symbol);
        if (*names[n]) text_add(&said, "%s%s", said.used ? "; " : "", one);
    }
    return NULL;
}

library_function library_find(const char *const *names, const char *symbol)
{
    char why[1];
    void *library = library_open(NULL, names, symbol, why, sizeof why);
    return library ? library_get(library, symbol) : NULL;
}

bool folder_make(const char *path, struct error *e)
{
    char part[PATH_BYTES];
    size_t length = strlen(path);
    if (!length || length >= sizeof part) {
        return fail(e, WHERRY_STATUS_IO, "a folder's path must have 1 to %d bytes, not %zu", PATH_BYTES - 1, length);
    }
    for (size_t i = 0; i <= length; i++) {
        part[i] = path[i];
        if (i < length && !path_separates(path[i])) continue;
        part[i] = 0;
        if (!path_is_root(part)) TRY(system_make_folder(part, e));
        part[i] = path[i];
    }
    return true;
}

/* folder_make for the folder that `path` is in. */
static bool make_folder_of(const char *path, struct error *e)
{
    char folder[PATH_BYTES];
    size_t length = strlen(path);
    while (length && !path_separates(path[length - 1])) length--;
    while (length > 1 && path_separates(path[length - 1])) length--;
    if (!length) return true;
    if (length >= sizeof folder) return fail(e, WHERRY_STATUS_IO, "the path %.200s... is too long to be written", path);
    memcpy(folder, path, length);
    folder[length] = 0;
    return folder_make(folder, e);
}

bool cache_write(const char *path, const void *data, size_t size, struct error *e)
{
    return make_folder_of(path, e) && system_write_cached(path, data, size, e);
}

void cache_remove(const char *path) { remove(path); }

bool cache_append(const char *path, const void *data, size_t size, struct error *e)
{
    return make_folder_of(path, e) && system_append_cached(path, data, size, e);
}

static size_t cores_found;

static void find_cores(void) { cores_found = system_cores(); }

/* Asked for often, and the answer takes files: it is that of the process' first question. */
size_t core_count(void)
{
    static struct once flag = ONCE_INIT;
    run_once(&flag, find_cores);
    return cores_found;
}

struct parallel {
    shared_counter next;
    size_t count;
    void (*work)(size_t item, void *user);
    void *user;
};

static THREAD_RESULT parallel_run(void *argument)
{
    struct parallel *p = argument;
    for (uint64_t item; (item = counter_next(&p->next)) < p->count;) p->work((size_t)item, p->user);
    return 0;
}

void parallel_for(size_t count, size_t max_threads, void (*work)(size_t item, void *user), void *user)
{
    struct parallel p = {.count = count, .work = work, .user = user};
    size_t threads = core_count(), started = 0;
    if (max_threads && threads > max_threads) threads = max_threads;
    if (threads > count) threads = count;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    thread_handle others[MAX_THREADS];
    /* The caller is one of the threads, so the work gets done even when none can be made. */
    while (started + 1 < threads && thread_start(&others[started], parallel_run, &p)) started++;
    parallel_run(&p);
    for (size_t i = 0; i < started; i++) thread_join(others[i]);
}

void run_once(struct once *flag, void (*function)(void))
{
    enum { NOT_RUN, RUNNING, DONE };
    once_enter();
    while (flag->state == RUNNING) once_wait();
    if (flag->state == NOT_RUN) {
        flag->state = RUNNING;
        once_leave(); /* so that `function` may run_once something else */
        function();
        once_enter();
        flag->state = DONE;
        once_wake();
    }
    once_leave();
}
