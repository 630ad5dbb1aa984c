/* Runs of a prepared session. */
#ifndef WHERRY_RUNTIME_ENCODE_H
#define WHERRY_RUNTIME_ENCODE_H

#include "runtime/batches.h"

/* Runs the batch that session_batch filled in, after what is under way, or one phase of its training step. `upload`: a
 * tensor that is copied from input_storage before, `download`: one that is copied to output_storage after; -1: none.
 * step_seconds [n_calls] may be NULL: then those of s->timed, where there are any. */
bool session_run(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, int upload,
                 int download, double *step_seconds, struct error *e);

#endif
