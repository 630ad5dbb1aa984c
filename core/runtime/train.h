/* Tensors of a prepared session: read, or given random values. */
#ifndef WHERRY_RUNTIME_TRAIN_H
#define WHERRY_RUNTIME_TRAIN_H

#include "runtime/session.h"

/* The first `count` values of a tensor, in the order of the model's files, however it lies. */
bool session_tensor_read(const struct wherry_session *s, int tensor, float *out, size_t count, struct error *e);
/* All values of a weight, in the same order, to where it lies. No run is under way, and the weight is no other
 * session's.
 */
bool session_tensor_write(const struct wherry_session *s, int tensor, const float *values, struct error *e);
/* The two passes of a prepared session that trains from ids, submitted behind what is under way; nobody waits
 * (session_passes_wait). The output stays on the device, and the gradient by it is there when the backward pass's turn
 * comes. `outside`: objects of the application's, copied; NULL: none. */
bool session_forward(struct wherry_session *s, const wherry_batch *batch, const wherry_step *step,
                     const struct outside *outside, struct error *e);
bool session_backward(struct wherry_session *s, const struct outside *outside, struct error *e);
/* The same with floats of the host's: the output, which session_output_take waits for, at any time before the next
 * forward pass; and the gradient that session_gradient_give left. */
bool session_forward_read(struct wherry_session *s, const wherry_batch *batch, const wherry_step *step,
                          struct error *e);
bool session_output_take(struct wherry_session *s, float *out, size_t floats, struct error *e);
bool session_backward_given(struct wherry_session *s, struct error *e);
/* What wherry_backward does before its run: the gradient is checked, and in input_storage. */
bool session_gradient_give(struct wherry_session *s, const float *gradient, size_t gradient_floats, struct error *e);
/* The tensor that is gradient number `index` of wherry_gradient_read, -1: there are fewer. */
int session_gradient(const struct wherry_session *s, size_t index);
/* For measuring and verify: random values in training's x and loss gradient; in a part of a plan in everything that its
 * groups read and none before them makes. */
bool session_random_inputs(struct wherry_session *s, const struct batch_shape *shape, struct error *e);

#endif
