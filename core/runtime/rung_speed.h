/* Whether a rung is worth taking: its kernels and those of the rungs below, timed on the session's device. */
#ifndef WHERRY_RUNTIME_RUNG_SPEED_H
#define WHERRY_RUNTIME_RUNG_SPEED_H

#include "plan/variants.h"
#include "runtime/session.h"

/* Of the rungs that calls of the session take and that nobody has seen to be faster on such devices, the highest one
 * (RUNG_BIT) that a small copy of the session is not faster with than without; `reason` says by how much. 0: none.
 * Measured once, and kept (rung_kept.h), so that later sessions decide alike. The session is covered, and its kernels
 * passed their check; `desc` is what it was made from. */
uint32_t rungs_slower(struct wherry_session *s, const wherry_session_desc *desc, char *reason, size_t reason_size);

#endif
