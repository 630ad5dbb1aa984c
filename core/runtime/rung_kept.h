/* Checks of kernels that were passed, and what rungs were measured to be, kept in the cache folder, so that the next
 * process need not repeat them. Of checks only what was passed is: a failure may have passed by then, and nothing that
 * failed can be taken for good. And what a context knows of both. */
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
/* Of the measurement of a rung: device, driver and kernels, whether the session has few rows, and whether it trains. */
bool rung_speed_key_make(const struct wherry_session *s, enum rung rung, struct rung_key *out);

enum { RUNG_RESULT = 32 };

/* What was found, a word: "passed", or a number. A file that is damaged is none, and the log has a warning. */
bool rung_kept(const struct host *host, const struct rung_key *key, char result[RUNG_RESULT]);
/* Keeps it. What can't be kept is found out again, and the log has a warning. */
void rung_keep(const struct host *host, const struct rung_key *key, const char *result);

/* The same in this context, on this device: false where nothing is known; `reason`, NULL: nothing is against it. */
bool rung_recall(const struct wherry_session *s, const struct rung_key *key, struct rung_check *out);
void rung_remember(struct wherry_session *s, const struct rung_key *key, const char *reason);

#endif
