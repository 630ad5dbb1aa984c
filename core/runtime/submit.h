/* Runs under way, and the tickets that wait for one. */
#ifndef WHERRY_RUNTIME_SUBMIT_H
#define WHERRY_RUNTIME_SUBMIT_H

#include "runtime/flight.h"

/* Of a session whose memory has been made. */
struct tickets *tickets_create(struct wherry_session *s, struct error *e);
/* The end of the session: what is under way is waited for, what is not done is cancelled, and told. Accepts NULL. */
void tickets_close(struct tickets *q);
/* Waits for all that is under way, and starts nothing: whatever else the session is to do comes after it. */
bool tickets_drain(struct tickets *q, struct error *e);

/* One that is not in any list; fails with WHERRY_STATUS_BUSY where enough wait. */
struct wherry_ticket *ticket_new(struct tickets *q, uint32_t tokens, struct error *e);
/* The end of one that is in no list. */
void ticket_retire(struct wherry_ticket *t);
/* Its caller has no use for it any more. */
void ticket_release(struct wherry_ticket *t);
/* Hands in a ticket whose batch and `out` are set and checked. Fails where there is no memory to keep the batch in. */
bool ticket_enter(struct tickets *q, struct wherry_ticket *t, struct error *e);
/* Of one that is done since it was entered: false where it failed, and then nobody is told. */
bool ticket_refuse(struct wherry_ticket *t, struct error *e);
/* Takes it out of whatever it is in; it is done, with this status. */
void ticket_cancel(struct wherry_ticket *t, const char *why);
/* Waits for the oldest run, if there is one, at most so long; takes its results, starts what waits and calls callbacks.
 * Whether a run was done. */
bool tickets_go_on(struct tickets *q, uint64_t timeout_ns);
/* Calls the callbacks of what is done. */
void tickets_tell(struct tickets *q);

#endif
