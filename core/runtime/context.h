/* What the public handles are inside. */
#ifndef WHERRY_RUNTIME_CONTEXT_H
#define WHERRY_RUNTIME_CONTEXT_H

#include "backends/backend.h"
#include "wherry/wherry_measure.h"

struct wherry_context {
    struct host host;
    struct error error; /* of the last failed call */
};

struct wherry_device {
    struct wherry_context *context;
    const struct backend *backend;
    struct backend_device *handle;
    wherry_device_info info;
    wherry_timer_info timer; /* that wherry_measure found good; else its kind is "" */
};

/* The status of a call that ended with ok, after its error was recorded in the context. */
wherry_status context_status(struct wherry_context *context, bool ok);
/* Records an argument error. */
wherry_status context_invalid(struct wherry_context *context, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
