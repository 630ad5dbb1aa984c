/* Verifies some of a session's groups. */
#ifndef WHERRY_RUNTIME_VERIFY_H
#define WHERRY_RUNTIME_VERIFY_H

#include "runtime/session.h"

/* wherry_verify of the groups i with wanted[i], in their order; NULL: of all. All are run. */
wherry_status session_verify(wherry_session *session, const wherry_batch *batch, const bool *wanted, uint32_t replays,
                             wherry_verify_callback callback, void *user, wherry_verify_summary *summary);

#endif
