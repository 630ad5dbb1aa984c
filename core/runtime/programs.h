/* What a session's device compiles, and what that takes. */
#ifndef WHERRY_RUNTIME_PROGRAMS_H
#define WHERRY_RUNTIME_PROGRAMS_H

#include "runtime/session.h"

/* Of a call of a prepared session. */
void session_kernel_use(const struct wherry_session *s, int call, wherry_kernel_use *out);

#endif
