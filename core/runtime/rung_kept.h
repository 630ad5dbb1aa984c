/* Checks of kernels that were passed, kept in the cache folder, so that the next process need not repeat them. Only
 * what was passed is: a failure may have passed by then, and nothing that failed can be taken for good. */
#ifndef WHERRY_RUNTIME_RUNG_KEPT_H
#define WHERRY_RUNTIME_RUNG_KEPT_H

#include "plan/variants.h"
#include "runtime/session.h"

/* What the result of a check depends on: the library's version, the device and its driver, the kernels' sources, and
 * which calls of kernels, with which constants, a group has: what the check compiles and runs is what the session
 * does. */
struct rung_key {
    char text[1024];
};

bool rung_key_make(const struct wherry_session *s, int group, struct rung_key *out);
/* Whether it was passed. A file that is damaged is none, and the log has a warning. */
bool rung_kept(const struct host *host, const struct rung_key *key);
/* Keeps that it was. What can't be kept is checked again, and the log has a warning. */
void rung_keep(const struct host *host, const struct rung_key *key);

#endif
