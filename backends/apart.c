#include "backends/apart.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/platform.h"
#include "base/text.h"

/* ---- what is to be done: a file ---- */

static bool list_write(const struct apart *apart, const struct apart_program *programs, size_t count, const char *path,
                       struct error *e)
{
    size_t size = 256;
    for (size_t i = 0; i < count; i++) size += strlen(programs[i].kernel) + strlen(programs[i].form) + 2;
    char *text = host_alloc(apart->host, size, 1, e);
    if (!text) return false;
    struct text_writer t = text_begin(text, size);
    text_add(&t, "%s\n%s\n%016" PRIx64 "\n", APART_MAGIC, apart->device, apart->driver);
    for (size_t i = 0; i < count; i++) text_add(&t, "%s %s\n", programs[i].kernel, programs[i].form);
    bool ok = cache_write(path, text, t.used, e);
    host_free(apart->host, text);
    return ok;
}

/* ---- what the other process says: lines ---- */

struct listener {
    const struct apart *apart;
    size_t done, count;
    bool ended; /* it has said that it came to the end */
    bool cancelled;
    wherry_progress progress;
    void *user;
    char line[512];
    size_t used;
};

/* Whatever else there is, drivers said. */
static void take_line(struct listener *l)
{
    if (!strcmp(l->line, "end")) {
        l->ended = true;
    } else if (!strncmp(l->line, "done ", 5)) {
        l->done++;
        if (l->progress && l->done <= l->count && !l->progress(l->line + 5, l->done, l->count, l->user))
            l->cancelled = true;
    } else if (l->line[0]) {
        host_log(l->apart->host, WHERRY_LOG_INFO, "while kernels were compiled apart: %.400s", l->line);
    }
}

static void take_text(struct listener *l, const char *text, int size)
{
    for (int i = 0; i < size; i++) {
        if (text[i] != '\n') {
            if (l->used + 1 < sizeof l->line) l->line[l->used++] = text[i];
            continue;
        }
        l->line[l->used] = 0;
        take_line(l);
        l->used = 0;
    }
}

/* Hears it out. *how: how it ended. False: it could not be started. */
static bool listen_to(struct listener *l, const char *path, char how[96], struct error *e)
{
    const struct host *host = l->apart->host;
    const char *const arguments[] = {host->compiler, "compile", path, "--cache", host->cache_dir, NULL};
    const uint64_t limit = (uint64_t)host->compile_seconds * 1000000000u;
    struct child child;
    char text[512], ending[64];
    uint64_t heard = clock_ns();
    bool still = false;
    TRY(process_start(arguments, &child, e));
    l->done = l->used = 0;
    for (int got; !still && !l->cancelled && (got = process_read(&child, text, sizeof text, 250)) != 0;) {
        if (got > 0) {
            take_text(l, text, got);
            heard = clock_ns();
        } else if (l->progress && !l->progress("waiting for the compiler", l->done, l->count, l->user)) {
            l->cancelled = true;
        }
        still = clock_ns() - heard > limit;
    }
    process_finish(&child, still || l->cancelled, ending);
    if (still)
        snprintf(how, 96, "it stood still for %u s and was ended", host->compile_seconds);
    else
        snprintf(how, 96, "it ended with %s", ending);
    return true;
}

/* One that ends before its time is started again: what it was at is compiled alone then, and what it was at alone is
 * refused by the third. More mean that other kernels of these crash, too, or that something else is wrong. */
enum { STARTS = 16 };

static enum apart_way compile_all(struct listener *l, const char *path, struct error *e)
{
    const struct host *host = l->apart->host;
    char how[96] = "";
    for (int start = 0; start < STARTS; start++) {
        if (!listen_to(l, path, how, e)) {
            host_log(host, WHERRY_LOG_WARNING, "kernels are not compiled in a process apart: %s", e->text);
            return APART_GUARDED;
        }
        if (l->cancelled) {
            fail(e, WHERRY_STATUS_CANCELLED, "cancelled while kernels were compiled");
            return APART_FAILED;
        }
        if (l->ended) return APART_COMPILED;
        host_log(host, WHERRY_LOG_WARNING, "%s: the process that compiles kernels %s: %s", l->apart->device,
                 start ? "did so again" : "did not come to its end", how);
    }
    fail(e, WHERRY_STATUS_COMPILE_FAILED,
         "%s: the process that compiles kernels (%.200s compile) did not come to its end in %d attempts, the last time "
         "%s: update the driver, or compile without one (wherry_context_desc.compiler, WHERRY_COMPILER=none)",
         l->apart->device, host->compiler, STARTS, how);
    return APART_FAILED;
}

/* ---- what was compiled before: a line for each kernel, of whatever sizes ---- */

enum { KNOWN_BYTES = 1 << 20, LINE_BYTES = 96 };

static void known_path(const struct apart *apart, char path[800])
{
    snprintf(path, 800, "%s/compiled-%016" PRIx64 ".txt", apart->host->cache_dir, apart->driver);
}

/* Adds to `lines` those that the file lacks. */
static void list_unknown(const struct apart *apart, const struct apart_program *programs, size_t count,
                         struct text_writer *lines)
{
    char path[800], line[LINE_BYTES], *text = NULL;
    bool exists = false;
    size_t size = 0;
    struct error ignored;
    known_path(apart, path);
    if (!cache_read(apart->host, path, KNOWN_BYTES, &exists, &text, &size, &ignored) || !exists) text = NULL;
    for (size_t i = 0; i < count; i++) {
        snprintf(line, sizeof line, "%s %016" PRIx64 "\n", programs[i].kernel, programs[i].code);
        if ((!text || !strstr(text, line)) && !strstr(lines->at, line)) text_add(lines, "%s", line);
    }
    host_free(apart->host, text);
}

void apart_learn(const struct apart *apart, const struct apart_program *programs, size_t count)
{
    char path[800], text[16384];
    struct text_writer lines = text_begin(text, sizeof text);
    struct error e;
    if (!apart->host->cache_dir[0] || !count) return;
    known_path(apart, path);
    list_unknown(apart, programs, count, &lines);
    if (!lines.used || lines.cut || cache_append(path, text, lines.used, &e)) return;
    cache_remove(path);                            /* a link, say, which would stay one */
    if (!cache_append(path, text, lines.used, &e)) /* the kernels' own cache warns of the folder */
        host_log(apart->host, WHERRY_LOG_INFO, "what was compiled is not kept in mind: %s", e.text);
}

/* ---- all ---- */

enum apart_way apart_compile(const struct apart *apart, const struct apart_program *programs, size_t count,
                             wherry_progress progress, void *user, struct error *e)
{
    const struct host *host = apart->host;
    char path[800], text[16384];
    struct text_writer unknown = text_begin(text, sizeof text);
    if (!host->cache_dir[0] || !count) return apart->always ? APART_GUARDED : APART_PLAIN;
    list_unknown(apart, programs, count, &unknown);
    if (!apart->always && !unknown.used) return APART_PLAIN;
    if (host->teller || !host->compiler[0] || !apart->device[0]) return APART_GUARDED;
    snprintf(path, sizeof path, "%s/apart-%" PRIu64 "-%016" PRIx64 ".txt", host->cache_dir, process_number(),
             clock_ns());
    struct listener listener = {.apart = apart, .count = count, .progress = progress, .user = user};
    if (!list_write(apart, programs, count, path, e)) {
        host_log(host, WHERRY_LOG_WARNING, "kernels are not compiled in a process apart: %s", e->text);
        return APART_GUARDED;
    }
    enum apart_way way = compile_all(&listener, path, e);
    cache_remove(path);
    return way;
}

void apart_tell(const struct host *host, const char *kernel)
{
    char line[128];
    if (!host->teller) return;
    snprintf(line, sizeof line, "done %.100s\n", kernel);
    host->teller->write(line, host->teller->user);
}
