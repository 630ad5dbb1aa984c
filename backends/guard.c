#include "backends/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/platform.h"

static void guard_path(const struct host *host, uint64_t key, char path[800])
{
    snprintf(path, 800, "%s/compiling-%016" PRIx64 ".txt", host->cache_dir, key);
}

bool guard_begin(const struct host *host, const char *kernel, uint64_t key, char path[800])
{
    char text[160], *have = NULL;
    bool exists = false, ended = false;
    size_t size = 0;
    struct error e;
    if (!host->cache_dir[0]) return true;
    guard_path(host, key, path);
    if (cache_read(host, path, sizeof text, &exists, &have, &size, &e) && exists) {
        ended = !process_runs(strtoull(have, NULL, 10)); /* else that one is at it now */
        host_free(host, have);
    }
    if (ended) return false;
    int length = snprintf(text, sizeof text, "%llu compiles %.100s\n", (unsigned long long)process_number(), kernel);
    if (!cache_write(path, text, (size_t)length, &e))
        host_log(host, WHERRY_LOG_WARNING, "compiling is not guarded: %s", e.text);
    return true;
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
        "the driver's compiler ended an earlier process while it compiled the kernel %s, which is not tried again: "
        "update the driver, or remove %.300s to try",
        kernel, path);
}
