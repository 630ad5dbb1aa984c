/* Tensors of a prepared session: read, or given random values. */
#ifndef WHERRY_RUNTIME_TRAIN_H
#define WHERRY_RUNTIME_TRAIN_H

#include "runtime/session.h"

/* The first `count` values of a tensor, in the order of the model's files, however it lies. */
bool session_tensor_read(const struct wherry_session *s, int tensor, float *out, size_t count, struct error *e);
/* For measuring and verify: random values in training's x and loss gradient; in a part of a plan in everything that its
 * groups read and none before them makes. */
bool session_random_inputs(struct wherry_session *s, const struct batch_shape *shape, struct error *e);

#endif
