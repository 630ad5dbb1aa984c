/* Which kernels may compute a session's products. */
#ifndef WHERRY_RUNTIME_RUNGS_H
#define WHERRY_RUNTIME_RUNGS_H

#include "runtime/session.h"

/* Fills in device_limits and library of a session that session_begin began; `kernels`: as in wherry_session_desc. */
bool session_rungs(struct wherry_session *s, const char *kernels, struct error *e);

#endif
