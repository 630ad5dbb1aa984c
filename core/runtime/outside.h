/* An application's own objects with a batch, and what is run for them beside the session's program: a kernel that looks
 * at the ids of its buffer, and one that makes floats of 16-bit results. */
#ifndef WHERRY_RUNTIME_OUTSIDE_H
#define WHERRY_RUNTIME_OUTSIDE_H

#include "runtime/session.h"

/* Takes over what the caller describes, for a batch that is not looked at but for its sizes; the rows of ids and
 * results are known then. */
bool session_outside(const struct wherry_session *s, const wherry_submit_desc *desc, const wherry_batch *batch,
                     struct outside *out, struct error *e);
/* Whether results have to be made floats of on the device. */
bool outside_widens(const struct wherry_session *s, const struct outside *outside);

/* The tensor of the batch's token ids. */
int session_ids(const struct wherry_session *s);

/* A program of one step before or behind the session's own. */
struct aside {
    struct buffer *buffer; /* its own, NULL: none */
    struct call call;
    struct step step;
    struct schedule schedule;
    struct grid grid;
    struct program *program;
};

/* Behind: the output as floats, in its buffer. NULL: failed. */
struct aside *aside_widen(const struct wherry_session *s, struct error *e);
/* Before, with the session's uploads: ids that are none of the vocabulary become 0. NULL: failed. */
struct aside *aside_known_ids(const struct wherry_session *s, struct error *e);
void aside_destroy(const struct wherry_session *s, struct aside *a); /* accepts NULL */

#endif
