/* Runs of a prepared session. */
#ifndef WHERRY_RUNTIME_ENCODE_H
#define WHERRY_RUNTIME_ENCODE_H

#include "runtime/session.h"

/* Checks a batch against the limits and fills `shape` (with offsets kept by the session) and the host's side of the
 * batch buffer. */
bool session_batch(struct wherry_session *s, const wherry_batch *batch, struct batch_shape *shape, struct error *e);
/* Runs the batch that session_batch filled in, or one phase of its training step. `upload`: a tensor that is copied
 * from input_storage before, `download`: one that is copied to output_storage after; -1: none. step_seconds [n_calls]
 * may be NULL. */
bool session_run(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, int upload,
                 int download, double *step_seconds, struct error *e);
/* The copy of a tensor, as long as it is in this batch, to or from `storage`. */
struct transfer session_transfer(const struct wherry_session *s, const struct batch_shape *shape, int tensor,
                                 void *storage);
void session_floats(const struct wherry_session *s, const void *storage, size_t count, float *out);

#endif
