/* What came out, as each dialect writes it. */
#ifndef WHERRY_SERVE_ANSWERS_H
#define WHERRY_SERVE_ANSWERS_H

#include "call.h"
#include "models.h"
#include "settings.h"

/* Floats that the items' results will have, all of them together, before they run. */
size_t answer_floats(const struct call *call, enum lane_kind lane);
/* Writes call->answer of the items' values. */
void answer_write(struct call *call);
/* /decode, which needs no device. */
void answer_decode(struct call *call);

#endif
