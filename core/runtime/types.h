/* What a session's elements are, and its weights'. */
#ifndef WHERRY_RUNTIME_TYPES_H
#define WHERRY_RUNTIME_TYPES_H

#include "runtime/session.h"

/* Whether the device has the types that are asked for, which the session has already as its own. */
bool types_check(const struct wherry_session *s, const wherry_session_desc *desc, const struct device_limits *device,
                 struct error *e);

#endif
