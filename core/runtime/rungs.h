/* Which kernels may compute a session's products. */
#ifndef WHERRY_RUNTIME_RUNGS_H
#define WHERRY_RUNTIME_RUNGS_H

#include "runtime/session.h"

/* Fills in device_limits and library of a session that session_begin began: what the device has, and `kernels` (as in
 * wherry_session_desc) lets it take. */
bool session_rungs(struct wherry_session *s, const char *kernels, struct error *e);

/* Whether what the session's calls take of it passes a check of its numbers (rung_check.h) and, where `kernels` does
 * not name it, is faster than what is below it (rung_speed.h). What does not is left out, with a note: *hold is false
 * then, and the session is to be covered again (session_cover). Fails where `kernels` names what fails its check. */
bool session_rungs_check(struct wherry_session *s, const wherry_session_desc *desc, bool *hold, struct error *e);

#endif
