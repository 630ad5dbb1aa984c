/* Layers over a driver that works: OpenCL's and Vulkan's calls go through, but what the environment variable
 * WHERRY_NULL names, with commas between, does nothing and reports success:
 *   kernels  launches
 *   copies   copies between the host and the device
 *   queue    instead, whoever waits for the device is told that it is lost */
#ifndef WHERRY_TESTS_NULL_H
#define WHERRY_TESTS_NULL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool null_does(const char *what)
{
    const char *list = getenv("WHERRY_NULL");
    return list && strstr(list, what);
}

#endif
