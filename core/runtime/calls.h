/* A group's calls with the sizes that the device, a tuning or the caller gives them, and the bytes that they move. */
#ifndef WHERRY_RUNTIME_CALLS_H
#define WHERRY_RUNTIME_CALLS_H

#include "runtime/session.h"
#include "wherry/wherry_measure.h"

/* A group's calls, and the bytes that they need for each other. `forced`: the sizes of each call (NULL: the static
 * table's); NULL: those that were tuned, where there are some. */
bool session_calls(struct wherry_session *s, const struct graph *g, const struct group *group,
                   const struct choice *const forced[GROUP_MAX_CALLS], struct call calls[GROUP_MAX_CALLS],
                   const char *reasons[GROUP_MAX_CALLS], int *count, uint64_t *scratch, struct error *e);

/* Of scratch, that a call needs at the session's limits. */
uint64_t session_scratch_bytes(const struct wherry_session *s, const struct call *call);

/* The bytes that a group moves on the session's device, of a session that is prepared and has `shape` in its tables.
 * False: nobody has counted these kernels, and *out has Q and its footprint alone. */
bool session_traffic(const struct wherry_session *s, const struct batch_shape *shape, int group, uint64_t cache_bytes,
                     wherry_traffic *out);

#endif
