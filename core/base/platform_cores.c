/* How many cores a process may use, how much their cache holds, and whether it may use their tile registers. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include <sched.h>
#include <sys/syscall.h>
#endif

#include "base/platform_system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t quota_cores(const char *text)
{
    char *end, *rest;
    long long quota = strtoll(text, &end, 10), period = strtoll(end, &rest, 10);
    if (end == text || rest == end || quota <= 0 || period <= 0) return 0;
    return quota < period ? 1 : (size_t)(quota / period);
}

#ifdef _WIN32

size_t system_cores(void) { return GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }

size_t last_cache_bytes(void) { return 0; }

bool tiles_allowed(void) { return false; }

#else

#include <unistd.h>

#ifdef __linux__

enum { LINE = 4096 };

/* The first line of a file; false: there is none. */
static bool first_line(const char *path, char line[LINE])
{
    FILE *file = fopen(path, "r");
    bool ok = file && fgets(line, LINE, file);
    if (file) fclose(file);
    return ok;
}

/* Version 1 has quota and period in files of their own. */
static bool quota_text(const char *folder, bool second_version, char line[LINE])
{
    char path[LINE + 64], period[LINE];
    snprintf(path, sizeof path, "%s/%s", folder, second_version ? "cpu.max" : "cpu.cfs_quota_us");
    if (!first_line(path, line)) return false;
    if (second_version) return true;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!first_line(path, period)) return false;
    line[strcspn(line, "\n")] = 0;
    size_t used = strlen(line);
    snprintf(line + used, LINE - used, " %.32s", period);
    return true;
}

/* The least of the group's quota and those of the groups around it; a container sees its own as the root. */
static size_t quotas_least(const char *root, const char *group, bool second_version, size_t least)
{
    char folder[LINE], line[LINE];
    size_t top = strlen(root);
    if (top + strlen(group) >= sizeof folder) return least;
    snprintf(folder, sizeof folder, "%s%s", root, group);
    for (;;) {
        size_t cores = quota_text(folder, second_version, line) ? quota_cores(line) : 0;
        if (cores && cores < least) least = cores;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < top) return least;
        *slash = 0;
    }
}

/* Lines are "0::/group" of version 2 and "N:cpu,cpuacct:/group" of version 1. */
size_t group_cores(const char *processes, const char *mounts, size_t least)
{
    char line[LINE], first[LINE];
    FILE *file = fopen(processes, "r");
    snprintf(first, sizeof first, "%s/cpu", mounts);
    while (file && fgets(line, sizeof line, file)) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (!names[1])
            least = quotas_least(mounts, group, true, least);
        else if (!strcmp(names + 1, "cpu") || !strncmp(names + 1, "cpu,", 4) || strstr(names + 1, ",cpu"))
            least = quotas_least(first, group, false, least);
    }
    if (file) fclose(file);
    return least;
}

/* A number and, of sizes, its unit, in "index3/size" below the folder; 0: there is none. */
static size_t cache_number(const char *folder, int index, const char *name)
{
    char path[LINE], line[LINE], *end;
    int length = snprintf(path, sizeof path, "%s/index%d/%s", folder, index, name);
    if (length < 0 || (size_t)length >= sizeof path || !first_line(path, line)) return 0;
    unsigned long long number = strtoull(line, &end, 10);
    size_t unit = *end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : 1;
    return number > SIZE_MAX / unit ? 0 : (size_t)number * unit;
}

size_t cache_bytes_below(const char *folder)
{
    size_t last = 0, bytes = 0;
    for (int i = 0; i < 16; i++) {
        size_t level = cache_number(folder, i, "level");
        if (!level) break;
        if (level <= last) continue; /* of level 1 there are two */
        last = level;
        bytes = cache_number(folder, i, "size");
    }
    return bytes;
}

/* A machine of more than 1024 processors has no room in the set; then all that are online count. */
static size_t affinity(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 0 : (size_t)CPU_COUNT(&set);
}
#endif

size_t system_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = online > 0 ? (size_t)online : 1;
#ifdef __linux__
    size_t allowed = affinity();
    if (allowed && allowed < count) count = allowed;
    count = group_cores("/proc/self/cgroup", "/sys/fs/cgroup", count);
#endif
    return count;
}

/* sysconf's answer comes from the processor, which in a virtual machine may count what all of its packages have; Linux
 * itself says what one core shares. */
size_t last_cache_bytes(void)
{
    long bytes = 0;
#ifdef __linux__
    size_t known = cache_bytes_below("/sys/devices/system/cpu/cpu0/cache");
    if (known) return known;
#endif
#ifdef _SC_LEVEL3_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (size_t)bytes : 0;
}

bool tiles_allowed(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { ASK = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM: arch/x86/xstate.rst in Linux's documentation */
    return !syscall(SYS_arch_prctl, ASK, TILE_DATA);
#else
    return false;
#endif
}

#endif
