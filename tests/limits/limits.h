/* Layers over a driver that works: they report lower limits than it has, those that the environment variable
 * WHERRY_LIMITS names ("local=128,shared=16384,..."), and end the process at the first call that goes beyond one.
 *   local      work-items of a work-group
 *   shared     bytes of shared memory of a work-group (calls: OpenCL, whose driver says what a kernel has)
 *   binding    bytes of one argument (Vulkan)
 *   buffer     bytes of one allocation
 *   groups     work-groups in each dimension
 *   alignment  of an argument's offset (Vulkan)
 *   slots      storage buffers of a shader (Vulkan)
 *   subgroup   work-items of a sub-group, the only size (Vulkan)
 *   half       0: 16-bit floats are not stored (Vulkan)
 *   crash      1: whatever is compiled ends the process; else a kernel whose code has so many bytes does
 *   hang       compiling a kernel whose code has so many bytes does not come to an end
 *   gpu        1: the device is a GPU
 *   priority   1: queues of low priority are an extension's, 2: which refuses to make one
 *   families   that the device has: there is one more then, with one queue, which only copies (Vulkan)
 * "held-groups=0" and the like: calls are held to this one, which is not reported. */
#ifndef WHERRY_TESTS_LIMITS_H
#define WHERRY_TESTS_LIMITS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The limit of this name; `otherwise`: it is not lowered. */
static inline uint64_t limit(const char *name, uint64_t otherwise)
{
    const char *list = getenv("WHERRY_LIMITS");
    size_t length = strlen(name);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && at[length] == '=') return strtoull(at + length + 1, NULL, 10);
    return otherwise;
}

static inline uint64_t lower(const char *name, uint64_t value)
{
    uint64_t most = limit(name, value);
    return most < value ? most : value;
}

static inline void hold(const char *name, uint64_t value, const char *call)
{
    char held[64];
    snprintf(held, sizeof held, "held-%s", name);
    uint64_t most = limit(held, limit(name, UINT64_MAX));
    if (value <= most) return;
    fprintf(stderr, "limits: %s: %s of %llu, the limit is %llu\n", call, name, (unsigned long long)value,
            (unsigned long long)most);
    abort();
}

/* `bytes`: of the kernel's code. */
static inline void compile(uint64_t bytes)
{
    uint64_t crash = limit("crash", 0);
    if (crash && (crash == 1 || crash == bytes)) raise(SIGKILL);
    while (bytes && limit("hang", 0) == bytes) pause();
}

#endif
