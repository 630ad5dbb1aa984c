/* The backward pass in pieces, so that gradients can be taken while the next piece runs: of a session that was told so
 * before it was prepared (wherry_session.divides). */
#ifndef WHERRY_RUNTIME_BACKWARD_H
#define WHERRY_RUNTIME_BACKWARD_H

#include "runtime/session.h"

/* Where the pass is divided: behind what makes about one of EXCHANGE_PIECES of all gradients, each. The steps are
 * there. */
bool backward_divide(struct wherry_session *s, struct error *e);
/* The piece behind which a gradient's tensor is as it stays. */
int backward_piece_of(const struct wherry_session *s, int tensor);
/* Submits piece `piece`, from 0 to s->n_pieces - 1, one after the other, behind what is under way; nobody waits. The
 * gradient of the output is what session_gradient_give left, for the first one. */
bool backward_submit(struct wherry_session *s, int piece, struct error *e);

#endif
