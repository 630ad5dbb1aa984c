/* Plans a session, step by step, in this order. Between the first two its rungs are chosen, for which its graph must be
 * there. */
#ifndef WHERRY_RUNTIME_PLAN_H
#define WHERRY_RUNTIME_PLAN_H

#include "runtime/session.h"

/* Everything up to the graph. `tuned`: with what was tuned on this device; device_limits are the device's. */
bool session_begin(struct wherry_session *s, const wherry_session_desc *desc, bool tuned, struct error *e);
/* Groups and calls, of what the rungs in device_limits run. */
bool session_cover(struct wherry_session *s, const wherry_session_desc *desc, struct error *e);
/* Plans the memory. *over: there is not that much; then session_remedy ends the error's sentence. */
bool session_place(struct wherry_session *s, const wherry_session_desc *desc, bool *over, struct error *e);
/* Most tokens with which this plan stays within its budget, 0: with none. */
uint32_t session_tokens_within(struct wherry_session *s, const wherry_session_desc *desc);
/* `tokens`: the largest batch that fits, 0: none does. Always false. */
bool session_remedy(uint32_t tokens, struct error *e);
/* Whether kernels can index all of it. */
bool session_finish(struct wherry_session *s, struct error *e);

#endif
