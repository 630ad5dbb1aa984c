/* How much of a device's memory there is for sessions. */
#ifndef WHERRY_RUNTIME_DEVICE_MEMORY_H
#define WHERRY_RUNTIME_DEVICE_MEMORY_H

#include "runtime/session.h"

/* Whether the session's buffers fit beside what is in use, by the application's limit and by the driver's budget; with
 * the store's `memory` held. The message has the numbers. */
bool device_has_room(const struct wherry_session *s, struct error *e);
/* The same of so many bytes, of what the message names. */
bool device_has_bytes(const struct wherry_device *device, uint64_t bytes, const char *what, struct error *e);

#endif
