/* The check of kernels' numbers: those of a session that are of a rung above the portable ones, on the device, against
 * their references. */
#ifndef WHERRY_RUNTIME_RUNG_CHECK_H
#define WHERRY_RUNTIME_RUNG_CHECK_H

#include "plan/variants.h"
#include "runtime/session.h"

/* Whether these kernels, compiled with the session's own constants, compute rightly on the session's device, now or
 * when it was looked at before (rung_kept.h). Returns the rungs (RUNG_BIT) of those that do not, or that can't be
 * checked, 0: all do; `reason` says why. The session is covered (session_cover), `desc` what it was made from. */
uint32_t rungs_failing(struct wherry_session *s, const wherry_session_desc *desc, char *reason, size_t reason_size);

/* The rungs that calls of the session take, the portable one not among them. */
uint32_t rungs_taken(const struct wherry_session *s);

#endif
