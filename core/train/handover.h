/* The way between a training session and a loss, on the device: rows of the session's output to the loss, and the
 * loss's gradients by them back, whatever type the session stores. Submitted behind what is under way, and not waited
 * for.
 *
 * Values that are not finite are flagged in the optimizer's sums, so that the device leaves out the step. */
#ifndef WHERRY_TRAIN_HANDOVER_H
#define WHERRY_TRAIN_HANDOVER_H

#include "train/loss.h"
#include "train/optimizer.h"

struct handover;

/* The session is prepared; it, the loss and the optimizer, which is the session's, outlive it. NULL: failed. */
struct handover *handover_create(const struct wherry_session *session, const struct loss *loss,
                                 const struct optimizer *optimizer, struct error *e);
/* The kernels' calls, without memory, and what runs them. */
enum { HANDOVER_CALLS = 2 };
void handover_calls(const struct wherry_session *session, struct call out[HANDOVER_CALLS]);
const struct schedule *handover_schedule(const struct handover *handover, struct program **program);
void handover_destroy(struct handover *handover); /* accepts NULL */
/* The first `rows` of the session's output, of its last forward pass, become the loss's rows from number `at` on.
 * `first`: of a step, whose flags begin with it. */
bool handover_take(struct handover *handover, size_t rows, size_t at, bool first, struct error *e);
/* The loss's gradients by its rows from number `at` on become the gradient of the session's output. */
bool handover_give(struct handover *handover, size_t rows, size_t at, bool first, struct error *e);
/* A step begins whose rows do not go this way: nothing is flagged. Accepts NULL. */
bool handover_clear(struct handover *handover, struct error *e);
/* Waits for both; accepts NULL. Fails with WHERRY_STATUS_VERIFY_FAILED where a row of the step was not finite. */
bool handover_wait(struct handover *handover, struct error *e);

#endif
