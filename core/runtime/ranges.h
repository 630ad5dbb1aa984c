/* Whether f16 holds a session's weights. */
#ifndef WHERRY_RUNTIME_RANGES_H
#define WHERRY_RUNTIME_RANGES_H

#include "runtime/session.h"

/* Of those weights of the session's graph that are stored as its type says. Where one is beyond, `cause` says which,
 * with file, tensor, place and value. What is no number is nothing of that: copying the weights tells. */
bool weights_beyond_f16(const struct wherry_session *s, bool *beyond, struct error *cause, struct error *e);

#endif
