/* What test programs of devices have: a context, the devices to test on, and calls that must succeed. Include it behind
 * cmocka. */
#ifndef WHERRY_TESTS_DEVICES_SUPPORT_H
#define WHERRY_TESTS_DEVICES_SUPPORT_H

#include "support.h"

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s", wherry_status_name(status_), wherry_last_error(context));                      \
    } while (0)

/* False: there is no context. */
static inline bool devices_open(void)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = getenv("WHERRY_TEST_CACHE")};
    if (wherry_context_create(&desc, &context)) return false;
    n_devices = support_devices(context, devices);
    return true;
}

#endif
