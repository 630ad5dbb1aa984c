#include "backends/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"

static void guard_path(const struct host *host, uint64_t key, char path[800])
{
    snprintf(path, 800, "%s/compiling-%016" PRIx64 ".txt", host->cache_dir, key);
}

static const char alone_words[] = " alone\n";

enum guard_state guard_state(const struct host *host, uint64_t key, char path[800])
{
    enum guard_state state = GUARD_FREE;
    bool exists = false;
    char *have = NULL;
    size_t size = 0;
    struct error e;
    path[0] = 0;
    if (!host->cache_dir[0]) return GUARD_FREE;
    guard_path(host, key, path);
    if (!cache_read(host, path, 160, &exists, &have, &size, &e) || !exists) return GUARD_FREE;
    if (!process_runs(strtoull(have, NULL, 10))) /* else that one is at it now */
        state = strstr(have, alone_words) ? GUARD_REFUSED : GUARD_SUSPECT;
    host_free(host, have);
    return state;
}

void guard_begin(const struct host *host, const char *kernel, uint64_t key, bool alone)
{
    char text[160], path[800];
    struct error e;
    if (!host->cache_dir[0]) return;
    guard_path(host, key, path);
    int length = snprintf(text, sizeof text, "%llu compiles %.100s%s", (unsigned long long)process_number(), kernel,
                          alone ? alone_words : " beside others\n");
    if (!cache_write(path, text, (size_t)length, &e) && alone) /* logs are for one thread */
        host_log(host, WHERRY_LOG_WARNING, "compiling is not guarded: %s", e.text);
}

void guard_end(const struct host *host, uint64_t key)
{
    char path[800];
    if (!host->cache_dir[0]) return;
    guard_path(host, key, path);
    cache_remove(path);
}

bool guard_fail(const char *kernel, const char *path, struct error *e)
{
    return fail(
        e, WHERRY_STATUS_COMPILE_FAILED,
        "the driver's compiler ended an earlier process, or stood still, at the kernel %s, which is not tried again: "
        "update the driver, or remove %.300s to try",
        kernel, path);
}
