/* Plans a session, step by step, in this order. Between the first two its rungs are chosen (runtime/rungs.h). */
#ifndef WHERRY_RUNTIME_PLAN_H
#define WHERRY_RUNTIME_PLAN_H

#include "runtime/session.h"

/* Everything up to the graph. `tuned`: with what was tuned on this device; device_limits are the device's. */
bool session_begin(struct wherry_session *s, const wherry_session_desc *desc, bool tuned, struct error *e);
/* Groups and calls, of what the rungs in device_limits run. `only`: as in wherry_session_desc; `optional`: also rows of
 * the plan that are. */
bool session_cover(struct wherry_session *s, const char *only, bool optional, struct error *e);
/* Takes that back, and what was planned after it, for other rungs. */
void session_uncover(struct wherry_session *s);
/* Between the two: has what was covered run on no more than these, the calls being as they are. */
void session_shrink(struct wherry_session *s, uint32_t tokens, uint32_t longest);
/* Plans the memory. *over: there is not that much; then session_remedy ends the error's sentence. */
bool session_place(struct wherry_session *s, const wherry_session_desc *desc, bool *over, struct error *e);
/* Most tokens with which this plan stays within its budget, 0: with none. */
uint32_t session_tokens_within(struct wherry_session *s, const wherry_session_desc *desc);
/* `tokens`: the largest batch that fits, 0: none does. Always false. */
bool session_remedy(uint32_t tokens, struct error *e);
/* Whether kernels can index all of it. */
bool session_finish(struct wherry_session *s, struct error *e);

#endif
