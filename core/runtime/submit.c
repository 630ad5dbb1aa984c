/* Runs under way: up to RUN_SLOTS of a session, each with the tickets that are merged in it; what waits starts when one
 * of them is done. No thread of its own: the callers of these functions are what makes it go on. */
#include "runtime/submit.h"

#include <string.h>

/* ---- lists ---- */

static void list_add(struct ticket_list *list, struct wherry_ticket *t)
{
    t->next = NULL;
    if (list->last)
        list->last->next = t;
    else
        list->first = t;
    list->last = t;
}

static struct wherry_ticket *list_take(struct ticket_list *list)
{
    struct wherry_ticket *t = list->first;
    if (!t) return NULL;
    list->first = t->next;
    if (!list->first) list->last = NULL;
    return t;
}

static bool list_remove(struct ticket_list *list, struct wherry_ticket *t)
{
    struct wherry_ticket *before = NULL, *at = list->first;
    for (; at && at != t; at = at->next) before = at;
    if (!at) return false;
    *(before ? &before->next : &list->first) = t->next;
    if (list->last == t) list->last = before;
    return true;
}

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

/* The next waiting ticket, if it fits behind those of the flight. */
static struct wherry_ticket *waiting_take(struct tickets *q, struct batch_shape *so_far)
{
    struct wherry_ticket *t = q->waiting.first;
    const struct batch_shape *limits = &q->session->limits;
    if (!t || so_far->tokens + t->share.tokens > limits->tokens ||
        (uint64_t)so_far->sequences + t->share.sequences > limits->sequences)
        return NULL;
    list_take(&q->waiting);
    q->n_waiting--;
    q->waiting_tokens -= t->share.tokens;
    t->share.first_sequence = so_far->sequences;
    t->share.first_token = (uint32_t)so_far->tokens;
    so_far->sequences += t->share.sequences;
    so_far->tokens += t->share.tokens;
    t->state = TICKET_RUNS;
    return t;
}

/* Behind what is there. */
static void merge(struct tickets *q, const struct wherry_ticket *t)
{
    const wherry_batch *b = &t->batch;
    const uint32_t sequence = t->share.first_sequence, token = t->share.first_token;
    for (uint32_t i = 0; i <= b->sequences; i++) q->offsets[sequence + i] = token + b->offsets[i];
    for (uint32_t i = 0; i < b->sequences; i++) q->rows[sequence + i] = b->rows ? b->rows[i] : 0;
    if (b->ids) memcpy(q->ids + token, b->ids, t->share.tokens * sizeof *b->ids);
    if (b->types)
        memcpy(q->types + token, b->types, t->share.tokens * sizeof *b->types);
    else
        memset(q->types + token, 0, t->share.tokens * sizeof *q->types);
}

/* Takes what fits of what waits, and fills the session's side of the batch with it. */
static void flight_fill(struct tickets *q, struct flight *f)
{
    struct wherry_session *s = q->session;
    struct batch_shape so_far = {0};
    struct wherry_ticket *t = waiting_take(q, &so_far), *first = t;
    for (; t; t = q->ids ? waiting_take(q, &so_far) : NULL) list_add(&f->tickets, t);
    wherry_batch batch = first->batch;
    if (first->next) {
        for (t = first; t; t = t->next) merge(q, t);
        batch = (wherry_batch){sizeof batch, so_far.sequences, q->offsets, q->ids, q->types, q->rows};
    }
    session_batch_fill(s, &batch, &f->shape);
    memcpy(f->offsets, batch.offsets, ((size_t)batch.sequences + 1) * sizeof *f->offsets);
    f->shape.offsets = f->offsets;
    for (t = first; t; t = t->next) t->share.offsets = f->offsets;
}

static bool flight_make(struct tickets *q, struct flight *f, struct error *e)
{
    const struct host *host = &q->context->host;
    const struct wherry_session *s = q->session;
    if (!f->offsets) f->offsets = host_alloc(host, (size_t)s->limits.sequences + 1, sizeof *f->offsets, e);
    if (f->offsets && !f->output) f->output = host_alloc_unset(host, s->schedule.max_download, 1, e);
    return f->output != NULL;
}

static bool flight_submit(struct tickets *q, struct flight *f, int slot, struct error *e)
{
    struct wherry_session *s = q->session;
    struct transfer uploads[SESSION_UPLOADS];
    int n = session_uploads(s, &f->shape, uploads);
    for (int i = 0; i < s->n_calls; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
    f->download = session_transfer(s, &f->shape, s->graph.output, f->output);
    f->run = (struct run){.uploads = uploads,
                          .n_uploads = n,
                          .downloads = &f->download,
                          .n_downloads = 1,
                          .grids = s->grids,
                          .batch = &f->shape,
                          .waits = f->tickets.last->caller_waits};
    bool ok = device_executes(s->device, e) &&
              s->device->backend->program_submit(s->device->handle, s->program, &f->run, slot, e);
    s->lengths_sent = s->types_sent = ok;
    return ok;
}

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
static int depth(const struct tickets *q) { return q->session->device->backend->submit_runs ? 1 : RUN_SLOTS; }

static void start_waiting(struct tickets *q)
{
    while (q->waiting.first && q->n_flights < depth(q)) {
        int slot = (q->oldest + q->n_flights) % RUN_SLOTS;
        struct flight *f = &q->flights[slot];
        struct error e;
        bool made = flight_make(q, f, &e);
        if (!made && q->n_flights) return; /* one slot has to do */
        flight_fill(q, f);
        if (flight_submit(q, f, slot, &e))
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
    bool ok = s->device->backend->program_wait(s->device->handle, s->program, q->oldest, timeout_ns, &done, &e);
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
        if (t->status) q->context->error = t->error;
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
    const bool now = t->caller_waits || (!q->calling && !q->session->device->backend->submit_runs);
    t->told = !t->done;
    t->share = (struct share){.sequences = t->batch.sequences, .tokens = t->batch.offsets[t->batch.sequences]};
    bool starts = now && !q->waiting.first && q->n_flights < depth(q);
    if (!starts) TRY(merging_make(q, e) && (t->caller_waits || ticket_keep(t, e)));
    list_add(&q->waiting, t);
    q->n_waiting++;
    q->waiting_tokens += t->share.tokens;
    if (now) start_waiting(q);
    return true;
}

void ticket_cancel(struct wherry_ticket *t, const char *why)
{
    struct tickets *q = t->of;
    struct error e;
    if (t->state == TICKET_WAITS && list_remove(&q->waiting, t)) {
        q->n_waiting--;
        q->waiting_tokens -= t->share.tokens;
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

bool tickets_drain(struct tickets *q, struct error *e)
{
    (void)e;
    while (q->n_flights) land(q, UINT64_MAX);
    return true;
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
    q->session = NULL;
    tickets_free(q);
}
