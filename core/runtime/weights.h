/* A session's weights on their way to the device. */
#ifndef WHERRY_RUNTIME_WEIGHTS_H
#define WHERRY_RUNTIME_WEIGHTS_H

#include "runtime/session.h"

/* Reads, checks and converts all weights that a group of the session reads, and copies them to its buffers. `progress`
 * may be NULL. */
bool session_weights(struct wherry_session *s, wherry_progress progress, void *user, struct error *e);

#endif
