/* What a session's elements are, and its weights'. */
#ifndef WHERRY_RUNTIME_TYPES_H
#define WHERRY_RUNTIME_TYPES_H

#include "runtime/session.h"

/* Gives the session its types: those that are asked for, if the device has them and the architecture's values fit; by
 * default f16 on a GPU that stores it, or, where these go beyond its range, bf16. */
bool types_resolve(struct wherry_session *s, const wherry_session_desc *desc, const struct device_limits *device,
                   struct error *e);
/* With its graph: where f16 does not hold a weight, the session is of bf16 from here on (`changed`), with a note; an
 * error where f16 was asked for. */
bool types_fit(struct wherry_session *s, const wherry_session_desc *desc, bool *changed, struct error *e);

#endif
