/* Encoding without waiting: a batch is handed in, a ticket comes back, and the results arrive while one does something
 * else. Part of wherry.h.
 *
 * - Tickets of a session are done in the order in which they were submitted, but for those that are cancelled or fail
 *   at once. What is submitted while a run is under way waits, and is merged with what else waits, up to the session's
 *   limits; results do not depend on it, bit for bit. A second run begins behind the first where half of what the
 * session takes at a time waits, so that the device goes on with it while the host takes the results of the first and
 * fills in the next; else when the first is done. A ticket whose run failed fails with all that were in it.
 * - The library has no thread of its own that would go on with it: wherry_encode_submit, wherry_ticket_poll,
 *   wherry_ticket_wait and wherry_encode hand the device what waits and take what is there. A caller with nothing else
 *   to do waits; one with a loop polls any one of its tickets there, which goes on with all of the session's. The
 *   devices "cpu" and "reference" compute inside these calls, but not in wherry_encode_submit.
 * - Callbacks are called inside these calls, by the thread that made the call, in the order in which tickets are done,
 *   after what waits was handed to the device. A callback may submit to its session and destroy its ticket, but
 *   not the session; waiting, polling, cancelling and encoding there is WHERRY_STATUS_INVALID_ARGUMENT.
 * - A session and its tickets belong to one thread at a time. */
#ifndef WHERRY_WHERRY_ASYNC_H
#define WHERRY_WHERRY_ASYNC_H

#include "wherry/wherry.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wherry_ticket wherry_ticket;

/* `status` is what wherry_ticket_wait will return; where it is not 0, wherry_last_error says why during the call. */
typedef void (*wherry_done)(wherry_ticket *ticket, wherry_status status, void *user);

struct wherry_vulkan_submit; /* wherry_vulkan.h */
struct wherry_opencl_submit; /* wherry_opencl.h */

typedef struct wherry_submit_desc {
    uint32_t struct_size;
    /* As in wherry_encode. Written to until the ticket is done or destroyed, and belongs to the library until then. May
     * be NULL where the result goes to a buffer of the device's. */
    float *out;
    size_t out_floats;
    /* Called once when the ticket is done, in whatever way, but not after it was destroyed. NULL: nobody is told. */
    wherry_done done;
    void *user;
    /* The device's own objects, of the API of the session's device: what the batch waits for and signals, where its ids
     * come from and where its results go. NULL: none. Such a batch is handed to the device at once, in a run of its
     * own: WHERRY_STATUS_BUSY where two runs are under way or something waits. A call that fails has neither waited for
     * anything nor signals anything. */
    const struct wherry_vulkan_submit *vulkan;
    const struct wherry_opencl_submit *opencl;
} wherry_submit_desc;

/* Hands in a batch, which is copied where it has to wait. What wherry_encode would refuse is refused here, with the
 * same status and sentence. WHERRY_STATUS_BUSY: WHERRY_TICKETS_MAX tickets, or 16 times the session's max_tokens, wait
 * already: take results first. The session is prepared where it was not yet. `out` may be NULL where there is a
 * callback: then the ticket destroys itself after it. After the first few, submitting allocates nothing. */
enum { WHERRY_TICKETS_MAX = 1024 };
WHERRY_API wherry_status wherry_encode_submit(wherry_session *session, const wherry_batch *batch,
                                              const wherry_submit_desc *desc, wherry_ticket **out);

/* Waits until the ticket is done, at most so many nanoseconds (0: not at all, UINT64_MAX: for ever), and returns what
 * wherry_encode would have returned, as often as it is asked. WHERRY_STATUS_TIMEOUT: it is not done yet.
 * WHERRY_STATUS_CANCELLED: it was cancelled, or its session destroyed. On "cpu" and "reference" what is computed within
 * the call may take longer. */
WHERRY_API wherry_status wherry_ticket_wait(wherry_ticket *ticket, uint64_t timeout_ns);
/* The same without waiting. */
WHERRY_API wherry_status wherry_ticket_poll(wherry_ticket *ticket);
/* The ticket is done, with WHERRY_STATUS_CANCELLED, and `out` is the caller's again; its callback is called here. What
 * is under way on the device goes on to its end, unseen. WHERRY_STATUS_INVALID_ARGUMENT: it was done before. */
WHERRY_API wherry_status wherry_ticket_cancel(wherry_ticket *ticket);
/* Accepts NULL. Of one that is not done, the result is dropped, and its callback not called; `out` is the caller's
 * again. Before or after the end of its session, but before that of its context. */
WHERRY_API void wherry_ticket_destroy(wherry_ticket *ticket);

#ifdef __cplusplus
}
#endif
#endif
