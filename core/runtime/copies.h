/* Copies between the host's memory and the device's that go on beside what the device computes, where the backend has
 * them (backend.h); elsewhere they are waited for. */
#ifndef WHERRY_RUNTIME_COPIES_H
#define WHERRY_RUNTIME_COPIES_H

#include "runtime/context.h"

/* Whole pages, to be pinned. */
enum { COPIES_PAGE = 1 << 16 };

/* A buffer for such copies. */
struct buffer *device_buffer_copied(struct wherry_device *device, uint64_t bytes, struct error *e);
/* *out NULL: there is nothing to pin for this device. */
bool device_pin(struct wherry_device *device, void *memory, uint64_t bytes, struct pinned **out, struct error *e);
void device_unpin(struct wherry_device *device, struct pinned *pinned); /* accepts NULL */
/* As copies_up, copy_down and copy_wait. */
bool device_copies_up(struct wherry_device *device, const struct transfer *list, int n, struct error *e);
bool device_copy_down(struct wherry_device *device, const struct transfer *copy, int ticket, struct error *e);
bool device_copy_wait(struct wherry_device *device, int ticket, struct error *e);

#endif
