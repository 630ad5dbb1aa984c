/* Creates sessions: their plan, of the rungs that pass their checks. */
#ifndef WHERRY_RUNTIME_CREATE_H
#define WHERRY_RUNTIME_CREATE_H

#include "runtime/session.h"

/* wherry_session_create; `shares` false: its weights are its own, and may be written anew (session_weights). */
bool session_create(struct wherry_context *context, struct wherry_device *device, const struct wherry_model *model,
                    const wherry_session_desc *desc, bool shares, struct wherry_session **out, struct error *e);

#endif
