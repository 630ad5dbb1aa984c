/* An application's own objects with a batch, and the kernel that makes floats of 16-bit results for its buffer. */
#ifndef WHERRY_RUNTIME_OUTSIDE_H
#define WHERRY_RUNTIME_OUTSIDE_H

#include "runtime/session.h"

/* Takes over what the caller describes, for a batch that is not looked at but for its sizes; the rows of ids and
 * results are known then. */
bool session_outside(const struct wherry_session *s, const wherry_submit_desc *desc, const wherry_batch *batch,
                     struct outside *out, struct error *e);
/* Whether results have to be made floats of on the device. */
bool outside_widens(const struct wherry_session *s, const struct outside *outside);

/* A program of one step behind the session's own. */
struct widen {
    struct buffer *buffer; /* the output as floats */
    struct call call;
    struct step step;
    struct schedule schedule;
    struct grid grid;
    struct program *program;
};

/* NULL: failed. */
struct widen *widen_create(const struct wherry_session *s, struct error *e);
void widen_destroy(const struct wherry_session *s, struct widen *w); /* accepts NULL */

#endif
