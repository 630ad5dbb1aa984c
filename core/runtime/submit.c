/* Runs under way: up to RUN_SLOTS of a session, each with the tickets that are merged in it; what waits starts when one
 * of them is done. No thread of its own: the callers of these functions are what makes it go on. */
#include "runtime/submit.h"

#include <string.h>

/* ---- life ---- */

struct tickets *tickets_create(struct wherry_session *s, struct error *e)
{
    const struct host *host = &s->context->host;
    struct tickets *q = host_alloc(host, 1, sizeof *q, e);
    if (!q) return NULL;
    q->session = s;
    q->context = s->context;
    q->flights[0].output = s->output_storage;
    if ((q->flights[0].offsets = host_alloc(host, (size_t)s->limits.sequences + 1, sizeof *q->flights[0].offsets, e)))
        return q;
    host_free(host, q);
    return NULL;
}

static void ticket_free(struct tickets *q, struct wherry_ticket *t)
{
    host_free(&q->context->host, t->kept);
    host_free(&q->context->host, t);
}

/* The memory of the session's; with the last ticket, all of it. */
static void tickets_free(struct tickets *q)
{
    const struct host *host = &q->context->host;
    for (int i = 0; i < RUN_SLOTS; i++) {
        host_free(host, q->flights[i].offsets);
        if (i) host_free(host, q->flights[i].output);
        q->flights[i] = (struct flight){0};
    }
    host_free(host, q->offsets);
    host_free(host, q->ids);
    q->offsets = NULL;
    q->ids = NULL;
    for (struct wherry_ticket *t; (t = list_take(&q->unused));) ticket_free(q, t);
    if (!q->n_owned) host_free(host, q);
}

struct wherry_ticket *ticket_new(struct tickets *q, uint32_t tokens, struct error *e)
{
    enum { BATCHES_WAITING = 16 };
    const uint64_t most = BATCHES_WAITING * q->session->limits.tokens;
    if (q->n_waiting >= WHERRY_TICKETS_MAX || q->waiting_tokens + tokens > most) {
        fail(e, WHERRY_STATUS_BUSY, "%zu tickets with %zu tokens wait already: wait for the first of them",
             q->n_waiting, q->waiting_tokens);
        return NULL;
    }
    struct wherry_ticket *t = list_take(&q->unused);
    if (!t && !(t = host_alloc(&q->context->host, 1, sizeof *t, e))) return NULL;
    *t = (struct wherry_ticket){.of = q, .kept = t->kept, .kept_words = t->kept_words};
    q->n_owned++;
    return t;
}

void ticket_retire(struct wherry_ticket *t)
{
    struct tickets *q = t->of;
    q->n_owned--;
    if (q->session) {
        list_add(&q->unused, t);
        return;
    }
    ticket_free(q, t);
    if (!q->n_owned) tickets_free(q);
}

static void ticket_done(struct wherry_ticket *t, const struct error *why)
{
    t->state = TICKET_DONE;
    t->status = why ? why->status : WHERRY_STATUS_OK;
    if (why) t->error = *why;
    if (!t->told)
        list_add(&t->of->untold, t);
    else if (t->ownerless)
        ticket_retire(t);
}

/* ---- what waits ---- */

static size_t batch_words(const wherry_batch *b)
{
    size_t tokens = b->offsets[b->sequences], sequences = b->sequences;
    return sequences + 1 + (b->ids ? tokens : 0) + (b->types ? tokens : 0) + (b->rows ? sequences : 0);
}

static const void *keep_list(uint32_t **at, const void *from, size_t words)
{
    uint32_t *to = *at;
    if (!from) return NULL;
    memcpy(to, from, words * sizeof *to);
    *at += words;
    return to;
}

/* Makes the batch the ticket's own. */
static bool ticket_keep(struct wherry_ticket *t, struct error *e)
{
    const struct host *host = &t->of->context->host;
    wherry_batch *b = &t->batch;
    size_t words = batch_words(b), tokens = b->offsets[b->sequences],
           room = 256; /* for a sentence of whatever length */
    if (words > t->kept_words) {
        while (room < words) room *= 2;
        uint32_t *kept = host_alloc_unset(host, room, sizeof *kept, e);
        if (!kept) return false;
        host_free(host, t->kept);
        t->kept = kept;
        t->kept_words = room;
    }
    uint32_t *at = t->kept;
    b->offsets = keep_list(&at, b->offsets, (size_t)b->sequences + 1);
    b->ids = keep_list(&at, b->ids, tokens);
    b->types = keep_list(&at, b->types, tokens);
    b->rows = keep_list(&at, b->rows, b->sequences);
    return true;
}

static bool merging_make(struct tickets *q, struct error *e)
{
    if (q->ids) return true;
    const struct host *host = &q->context->host;
    const struct batch_shape *limits = &q->session->limits;
    if (!q->offsets) q->offsets = host_alloc(host, 2 * (size_t)limits->sequences + 1, sizeof *q->offsets, e);
    q->ids = q->offsets ? host_alloc(host, 2 * (size_t)limits->tokens, sizeof *q->ids, e) : NULL;
    if (!q->ids) return false;
    q->rows = q->offsets + limits->sequences + 1;
    q->types = q->ids + limits->tokens;
    return true;
}

/* ---- starting ---- */

/* Gives each its results, or the error. */
static void flight_end(struct tickets *q, struct flight *f, const struct error *failed)
{
    for (struct wherry_ticket *t; (t = list_take(&f->tickets));) {
        struct error e;
        if (failed)
            ticket_done(t, failed);
        else if (t->out && !session_results(q->session, f->output, &t->share, t->out, &e))
            ticket_done(t, &e);
        else
            ticket_done(t, NULL);
    }
}

/* Runs that are under way at a time. */
static int depth(const struct tickets *q)
{
    return q->session->device->backend->submit_runs || q->session->portions ? 1 : RUN_SLOTS;
}

/* Whether what waits, with `more`, is to be started. A second run of a few tickets would be done hardly sooner, and
 * take a place from those that come meanwhile: it begins behind the first where there is half a run's work, or somebody
 * else's objects that can't wait. */
static bool worth_starting(const struct tickets *q, const struct wherry_ticket *first, const struct wherry_ticket *more)
{
    const struct batch_shape *limits = &q->session->limits;
    if (!q->n_flights) return true;
    if (q->n_flights >= depth(q)) return false;
    if (first->outside) return true;
    size_t tokens = q->waiting_tokens + (more ? more->share.tokens : 0),
           sequences = q->waiting_sequences + (more ? more->share.sequences : 0);
    return 2 * tokens >= limits->tokens || 2 * sequences >= limits->sequences;
}

static void start_waiting(struct tickets *q)
{
    while (q->waiting.first && worth_starting(q, q->waiting.first, NULL)) {
        int slot = (q->oldest + q->n_flights) % RUN_SLOTS;
        struct flight *f = &q->flights[slot];
        struct error e;
        if (!flight_make(q, f, &e)) return; /* one slot has to do, which has its memory since it was prepared */
        if (flight_start(q, f, slot, &e))
            q->n_flights++;
        else
            flight_end(q, f, &e);
    }
}

/* Waits for the oldest run; whether one was done. */
static bool land(struct tickets *q, uint64_t timeout_ns)
{
    struct wherry_session *s = q->session;
    struct error e;
    bool done = true;
    if (!q->n_flights) return false;
    struct flight *f = &q->flights[q->oldest];
    bool ok = flight_await(q, f, q->oldest, timeout_ns, &done, &e);
    if (!done) return false;
    q->n_flights--;
    q->oldest = q->n_flights ? (q->oldest + 1) % RUN_SLOTS : 0; /* one at a time needs one slot */
    if (!ok) s->lengths_sent = s->types_sent = false;
    flight_end(q, f, ok ? NULL : &e);
    return true;
}

/* ---- what tickets.c and others use ---- */

void tickets_tell(struct tickets *q)
{
    if (q->calling) return;
    q->calling = true;
    for (struct wherry_ticket *t; (t = list_take(&q->untold));) {
        t->told = true;
        if (t->status) *context_error(q->context) = t->error;
        bool ownerless = t->ownerless;
        t->done(t, t->status, t->user);
        if (ownerless) ticket_retire(t);
    }
    q->calling = false;
}

bool tickets_go_on(struct tickets *q, uint64_t timeout_ns)
{
    if (!q->n_flights) start_waiting(q);
    bool landed = land(q, timeout_ns);
    if (landed && !q->session->device->backend->submit_runs) start_waiting(q);
    tickets_tell(q);
    return landed;
}

bool ticket_enter(struct tickets *q, struct wherry_ticket *t, struct error *e)
{
    const bool now = t->caller_waits || !q->session->device->backend->submit_runs;
    t->told = !t->done;
    t->share = (struct share){.sequences = t->batch.sequences, .tokens = t->batch.offsets[t->batch.sequences]};
    bool starts = now && !q->waiting.first && worth_starting(q, t, t);
    if (!starts) TRY(merging_make(q, e) && (t->caller_waits || ticket_keep(t, e)));
    list_add(&q->waiting, t);
    waiting_count(q, t, true);
    if (now) start_waiting(q);
    if (t->outside && t->state == TICKET_WAITS) {
        list_remove(&q->waiting, t);
        waiting_count(q, t, false);
        return fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "out of host memory for a second run under way");
    }
    t->outside = NULL;
    return true;
}

bool tickets_start_now(const struct tickets *q) { return !q->waiting.first && q->n_flights < depth(q); }

void ticket_cancel(struct wherry_ticket *t, const char *why)
{
    struct tickets *q = t->of;
    struct error e;
    if (t->state == TICKET_WAITS && list_remove(&q->waiting, t)) {
        waiting_count(q, t, false);
    }
    for (int i = 0; t->state == TICKET_RUNS && i < RUN_SLOTS; i++) list_remove(&q->flights[i].tickets, t);
    fail(&e, WHERRY_STATUS_CANCELLED, "%s", why);
    ticket_done(t, &e);
}

void ticket_release(struct wherry_ticket *t)
{
    struct tickets *q = t->of;
    if (t->ownerless) return;
    t->ownerless = true;
    if (!t->told) list_remove(&q->untold, t);
    t->told = true;
    if (t->state == TICKET_DONE)
        ticket_retire(t);
    else
        ticket_cancel(t, "");
}

bool ticket_refuse(struct wherry_ticket *t, struct error *e)
{
    if (!t->status) return true;
    if (!t->told) list_remove(&t->of->untold, t);
    t->told = true;
    *e = t->error;
    return false;
}

void tickets_drain(struct tickets *q)
{
    while (q->n_flights) land(q, UINT64_MAX);
}

void tickets_close(struct tickets *q)
{
    static const char why[] = "the session of this ticket was destroyed";
    if (!q) return;
    for (int i = 0; i < RUN_SLOTS; i++)
        while (q->flights[i].tickets.first) ticket_cancel(q->flights[i].tickets.first, why);
    while (q->waiting.first) ticket_cancel(q->waiting.first, why);
    while (q->n_flights) land(q, UINT64_MAX);
    tickets_tell(q);
    aside_destroy(q->session, q->known_ids);
    aside_destroy(q->session, q->widen);
    q->session = NULL;
    tickets_free(q);
}
