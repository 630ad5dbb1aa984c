/* Runs of a prepared session. */
#ifndef WHERRY_RUNTIME_ENCODE_H
#define WHERRY_RUNTIME_ENCODE_H

#include "runtime/batches.h"

/* Runs the batch that session_batch filled in, after what is under way, or one phase of its training step. `upload`: a
 * tensor that is copied from input_storage before, `download`: one that is copied to output_storage after; -1: none.
 * step_seconds [n_calls] may be NULL: then those of s->timed, where there are any. */
bool session_run(struct wherry_session *s, const struct batch_shape *shape, wherry_phase phase, int upload,
                 int download, double *step_seconds, struct error *e);

/* Submits a run of this batch in a slot, whatever is under way in the others, and does not wait; grids and batch of
 * *run are filled in here. */
bool session_submit(struct wherry_session *s, int slot, const struct batch_shape *shape, const struct run *run,
                    struct error *e);
/* A phase of the training step of the batch that session_batch filled in, to be followed by others on the device's
 * queue: its floats stay where they are but for what `outside`, copied, says (NULL: nothing), and nobody waits. */
bool session_pass(struct wherry_session *s, wherry_phase phase, const struct outside *outside, struct error *e);
/* A part of one: calls from `first` to, without, `end`. */
struct pass_part {
    const struct outside *outside;
    int slot, first, end;
    int upload, download; /* tensors: from input_storage before, to output_storage after it; -1: none */
    bool listed;          /* the batch's lists go with it */
};
bool session_pass_part(struct wherry_session *s, const struct pass_part *part, struct error *e);
/* Waits for the passes that are under way; the first failure of them. */
bool session_passes_wait(struct wherry_session *s, struct error *e);
/* The end of the session's memory: waits, too. */
void session_passes_leave(struct wherry_session *s);

#endif
