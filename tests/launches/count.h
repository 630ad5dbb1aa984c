/* Counts what reaches a driver, for test_launches.c: a backend's own structures are seen by one file each. */
#ifndef WHERRY_TESTS_LAUNCHES_COUNT_H
#define WHERRY_TESTS_LAUNCHES_COUNT_H

#include <stdbool.h>
#include <stdint.h>

struct backend_device;

/* Kernels that are enqueued, of all devices. */
void opencl_count(bool on);
extern uint32_t opencl_counted;
/* Submissions to a device's queues. */
void vulkan_count(struct backend_device *device, bool on);
extern uint32_t vulkan_counted;

#endif
