/* What programs of kernels over elements share: training's own, which are in no graph. */
#ifndef WHERRY_TRAIN_ELEMENTS_H
#define WHERRY_TRAIN_ELEMENTS_H

#include "runtime/session.h"
#include "train/adapters.h"

/* A call of work-groups as large as the device has use for; further constants are the caller's. */
void elements_call(const struct wherry_session *s, const char *kernel, struct call *out);
/* Whether the device has it; else "DEVICE FAILS: why". */
bool elements_runs(const struct wherry_session *s, const struct call *call, enum storage type, const char *fails,
                   struct error *e);
/* `words`: 32-bit words whatever the session stores. Slots come in ascending order. */
void elements_bind(struct step *step, uint8_t slot, bool words, bool written, struct buffer *buffer,
                   struct range range);

#endif
