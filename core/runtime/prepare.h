/* Makes a planned session runnable. */
#ifndef WHERRY_RUNTIME_PREPARE_H
#define WHERRY_RUNTIME_PREPARE_H

#include "runtime/session.h"

/* The step of a call of this group, on the session's own memory. */
void session_step(const struct wherry_session *s, const struct call *call, int group, struct step *step);
bool session_prepare(struct wherry_session *s, wherry_progress progress, void *user, wherry_prepare_info *info,
                     struct error *e);

#endif
