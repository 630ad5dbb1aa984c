/* Kernels that one launch would take too long for: how long each takes, and in how many launches it runs. */
#ifndef WHERRY_RUNTIME_LAUNCHES_H
#define WHERRY_RUNTIME_LAUNCHES_H

#include "runtime/session.h"

/* Takes wherry_session_desc.max_launch_ms. */
bool launches_resolve(struct wherry_session *s, double max_launch_ms, struct error *e);
/* Whether some of a session's steps may take longer than the bound, on a slow device at its limits. */
bool launches_doubtful(const struct wherry_session *s);
/* Measures the calls by the session's program (calls_measure), and divides those that take longer; `any`: there are
 * some, which the notes tell. The program does not know of it: it is made anew. */
bool launches_divide(struct wherry_session *s, bool *any, struct error *e);

#endif
