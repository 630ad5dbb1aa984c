/* A run cut into portions, each of which takes the device no longer than a bound. */
#ifndef WHERRY_RUNTIME_PORTIONS_H
#define WHERRY_RUNTIME_PORTIONS_H

#include "runtime/session.h"

/* What a call's time goes by: floating-point operations, and tokens. */
double call_units(const struct wherry_session *s, const struct batch_shape *shape, int call);
/* Runs a batch of so many tokens call by call: rates[n_calls] are seconds of a unit. The session's program is one whose
 * runs may begin and end at any call (schedule.divided). `shape` is what ran. */
bool calls_measure(struct wherry_session *s, uint32_t tokens, double *rates, struct batch_shape *shape,
                   struct error *e);
/* Of a prepared session with a bound: runs a small batch call by call, and keeps how long each took. */
bool portions_create(struct wherry_session *s, struct error *e);
void portions_destroy(struct wherry_session *s); /* of one without, nothing */
/* The call behind a portion that begins with `first`: as many as the bound has room for, at least one. */
int portion_end(const struct wherry_session *s, const struct batch_shape *shape, int first);
/* These calls took so long together. */
void portion_learn(struct wherry_session *s, const struct batch_shape *shape, int first, int end, double seconds);

#endif
