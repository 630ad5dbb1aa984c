/* The calls of wherry_async.h, and wherry_encode, which is a ticket that is waited for at once. */
#include <string.h>

#include "base/parts.h"
#include "base/platform.h"
#include "runtime/batches.h"
#include "runtime/submit.h"

/* What no batch changes. */
static wherry_status ready(wherry_session *s, const char *call)
{
    if (s->graph.out_gradient >= 0)
        return context_invalid(s->context, "%s: this session trains: use wherry_forward", call);
    if (session_labels(s))
        return context_invalid(s->context, "%s: this session gives the loss of masked tokens: use wherry_forward",
                               call);
    if (s->part) return context_invalid(s->context, "%s: this session has a part of its plan alone", call);
    return s->prepared ? WHERRY_STATUS_OK : wherry_session_prepare(s, NULL, NULL, NULL);
}

static bool fits(const struct wherry_session *s, const wherry_batch *batch, size_t out_floats, struct error *e)
{
    const struct share all = {.sequences = batch->sequences, .tokens = batch->offsets[batch->sequences]};
    size_t count = session_rows(s, &all) * session_row_floats(s);
    if (out_floats >= count) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "room for %zu floats, the result has %zu", out_floats, count);
}

/* ---- submitting ---- */

/* Whatever is wrong with the batch and where its results go. */
static bool submit_check(struct wherry_session *s, const wherry_batch *batch, const wherry_submit_desc *desc,
                         struct outside *outside, struct error *e)
{
    if (desc->vulkan || desc->opencl) {
        TRY(session_batch_check(s, batch, false, e) && session_outside(s, desc, batch, outside, e));
        if (outside->gradient.buffer)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "a buffer of gradients is for wherry_backward_submit");
        if (!outside->ids.buffer) TRY(session_batch_check(s, batch, true, e));
    } else {
        TRY(session_batch_check(s, batch, true, e));
    }
    if (desc->out) return fits(s, batch, desc->out_floats, e);
    return outside->result.buffer || fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                                          "wherry_encode_submit: there is no `out` for the result, and no buffer");
}

/* What has something of the application's is handed to the device now or not at all. */
static bool starts_now(struct tickets *q, struct error *e)
{
    if (tickets_start_now(q)) return true;
    return fail(
        e, WHERRY_STATUS_BUSY,
        "as many runs as there can be are under way, or tickets wait: a batch with objects of the application's "
        "would have to wait, which it can't");
}

static bool submit(struct wherry_session *s, const wherry_batch *batch, const wherry_submit_desc *desc,
                   wherry_ticket **out, struct error *e)
{
    struct tickets *q = s->tickets;
    struct outside outside = {0};
    TRY(submit_check(s, batch, desc, &outside, e));
    const bool has_outside = desc->vulkan || desc->opencl;
    if (q->n_flights && !q->calling && !s->device->backend->submit_runs) tickets_go_on(q, 0);
    if (has_outside) TRY(starts_now(q, e));
    struct wherry_ticket *t = ticket_new(q, batch->offsets[batch->sequences], e);
    if (!t) return false;
    t->batch = *batch;
    if (outside.ids.buffer) t->batch.ids = NULL;
    if (has_outside) t->outside = &outside;
    t->out = desc->out;
    t->done = desc->done;
    t->user = desc->user;
    t->ownerless = !out;
    bool entered = ticket_enter(q, t, e);
    if (has_outside && entered && t->state == TICKET_DONE) entered = ticket_refuse(t, e);
    if (!entered) {
        ticket_retire(t);
        return false;
    }
    if (out) *out = t;
    return true;
}

wherry_status wherry_encode_submit(wherry_session *session, const wherry_batch *batch, const wherry_submit_desc *desc,
                                   wherry_ticket **out)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    if (!batch || !desc) return context_invalid(context, "wherry_encode_submit: batch or desc is NULL");
    if (desc->struct_size != sizeof *desc)
        return context_invalid(context, "wherry_submit_desc.struct_size is %u, this library's is %zu",
                               desc->struct_size, sizeof *desc);
    if (!out && !desc->done)
        return context_invalid(context, "wherry_encode_submit: neither a ticket nor a callback is wanted: nobody would "
                                        "know when the result is there");
    wherry_status status = ready(session, "wherry_encode_submit");
    if (status) return status;
    wherry_ticket *ticket = NULL;
    int before = part_enter(&context->host, PART_RUN);
    struct error e;
    bool ok = submit(session, batch, desc, out ? &ticket : NULL, &e);
    if (ok && out) *out = ticket;
    tickets_tell(session->tickets); /* whose errors are not this call's */
    if (!ok) *context_error(context) = e;
    part_leave(&context->host, before);
    return context_status(context, ok);
}

/* ---- waiting ---- */

static uint64_t left(uint64_t start, uint64_t timeout_ns)
{
    if (timeout_ns == UINT64_MAX || !timeout_ns) return timeout_ns;
    uint64_t passed = clock_ns() - start;
    return passed < timeout_ns ? timeout_ns - passed : 0;
}

/* Goes on with the session until the ticket is done or the time is over: where runs are computed in this call, after
 * the one that it was over in. */
static void ticket_await(struct wherry_ticket *t, uint64_t timeout_ns)
{
    const bool computes = t->of->session->device->backend->submit_runs;
    const uint64_t start = timeout_ns && timeout_ns != UINT64_MAX ? clock_ns() : 0;
    uint64_t remains = timeout_ns;
    while (t->state != TICKET_DONE) {
        bool landed = tickets_go_on(t->of, remains);
        remains = left(start, timeout_ns);
        if (!remains && (!landed || computes)) return;
    }
}

static wherry_status ticket_wait(wherry_ticket *ticket, uint64_t timeout_ns, const char *call)
{
    if (!ticket) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct tickets *q = ticket->of;
    struct wherry_context *context = q->context;
    if (q->calling) return context_invalid(context, "%s is called from a callback, where nothing goes on", call);
    int before = part_enter(&context->host, PART_RUN);
    if (ticket->state != TICKET_DONE)
        ticket_await(ticket, timeout_ns);
    else if (q->session)
        tickets_go_on(q, 0); /* with the others */
    part_leave(&context->host, before);
    if (ticket->state != TICKET_DONE) {
        fail(context_error(context), WHERRY_STATUS_TIMEOUT, "the ticket's batch is not done yet");
        return WHERRY_STATUS_TIMEOUT;
    }
    if (ticket->status) *context_error(context) = ticket->error;
    return ticket->status;
}

wherry_status wherry_ticket_wait(wherry_ticket *ticket, uint64_t timeout_ns)
{
    return ticket_wait(ticket, timeout_ns, "wherry_ticket_wait");
}

wherry_status wherry_ticket_poll(wherry_ticket *ticket) { return ticket_wait(ticket, 0, "wherry_ticket_poll"); }

/* ---- ending ---- */

wherry_status wherry_ticket_cancel(wherry_ticket *ticket)
{
    if (!ticket) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct tickets *q = ticket->of;
    if (q->calling) return context_invalid(q->context, "wherry_ticket_cancel is called from a callback");
    if (ticket->state == TICKET_DONE)
        return context_invalid(q->context, "wherry_ticket_cancel: the ticket is done already (%s)",
                               wherry_status_name(ticket->status));
    ticket_cancel(ticket, "the ticket was cancelled");
    tickets_tell(q);
    return WHERRY_STATUS_OK;
}

void wherry_ticket_destroy(wherry_ticket *ticket)
{
    if (ticket) ticket_release(ticket);
}

/* ---- wherry_encode ---- */

/* A ticket of its own: nothing is allocated, and the batch stays where it is. */
static bool encode(struct wherry_session *s, const wherry_batch *batch, float *out, size_t out_floats, struct error *e)
{
    struct wherry_ticket ticket = {.of = s->tickets, .caller_waits = true, .out = out};
    TRY(session_batch_check(s, batch, true, e) && fits(s, batch, out_floats, e));
    ticket.batch = *batch;
    TRY(ticket_enter(s->tickets, &ticket, e));
    ticket_await(&ticket, UINT64_MAX);
    if (ticket.status) *e = ticket.error;
    return !ticket.status;
}

wherry_status wherry_encode(wherry_session *session, const wherry_batch *batch, float *out, size_t out_floats)
{
    if (!session) return WHERRY_STATUS_INVALID_ARGUMENT;
    struct wherry_context *context = session->context;
    if (!batch || !out) return context_invalid(context, "wherry_encode: batch or out is NULL");
    wherry_status status = ready(session, "wherry_encode");
    if (status) return status;
    if (session->tickets->calling)
        return context_invalid(context, "wherry_encode is called from a callback, where nothing goes on");
    int before = part_enter(&context->host, PART_RUN);
    bool ok = encode(session, batch, out, out_floats, context_error(context));
    part_leave(&context->host, before);
    return context_status(context, ok);
}
