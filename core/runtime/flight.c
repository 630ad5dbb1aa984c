/* A run under way: filled with the tickets that fit, submitted as a whole or in portions, and waited for. */
#include "runtime/flight.h"

#include <string.h>

#include "base/platform.h"
#include "runtime/portions.h"

/* ---- filling ---- */

/* The next waiting ticket, if it fits behind those of the flight. */
static struct wherry_ticket *waiting_take(struct tickets *q, struct batch_shape *so_far)
{
    struct wherry_ticket *t = q->waiting.first;
    const struct batch_shape *limits = &q->session->limits;
    if (!t || so_far->tokens + t->share.tokens > limits->tokens ||
        (uint64_t)so_far->sequences + t->share.sequences > limits->sequences)
        return NULL;
    list_take(&q->waiting);
    waiting_count(q, t, false);
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
    for (; t; t = q->ids && !first->outside ? waiting_take(q, &so_far) : NULL) list_add(&f->tickets, t);
    wherry_batch batch = first->batch;
    if (first->next) {
        for (t = first; t; t = t->next) merge(q, t);
        batch = (wherry_batch){sizeof batch, so_far.sequences, q->offsets, q->ids, q->types, q->rows};
    }
    f->outside = first->outside ? *first->outside : (struct outside){0};
    session_batch_fill(s, &batch, &f->shape);
    memcpy(f->offsets, batch.offsets, ((size_t)batch.sequences + 1) * sizeof *f->offsets);
    f->shape.offsets = f->offsets;
    for (t = first; t; t = t->next) t->share.offsets = f->offsets;
}

bool flight_make(struct tickets *q, struct flight *f, struct error *e)
{
    const struct host *host = &q->context->host;
    const struct wherry_session *s = q->session;
    if (!f->offsets) f->offsets = host_alloc(host, (size_t)s->limits.sequences + 1, sizeof *f->offsets, e);
    if (f->offsets && !f->output) f->output = host_alloc_unset(host, s->schedule.max_download, 1, e);
    return f->output != NULL;
}

/* Ids that are on the device are copied there, in the place of the host's. */
static void ids_outside(const struct wherry_session *s, const struct flight *f, struct transfer *uploads, int *n)
{
    int at = 0;
    struct transfer t = session_transfer(s, &f->shape, session_ids(s), NULL);
    t.outside = &f->outside.ids;
    while (at < *n && (uploads[at].buffer != t.buffer || uploads[at].offset != t.offset)) at++;
    uploads[at] = t;
    if (at == *n) ++*n; /* after all of the host's as one */
}

/* The run's uploads and what it waits for, in front of it: ids that are none of the vocabulary are made 0. */
static bool known_submit(struct tickets *q, struct flight *f, int slot, struct error *e)
{
    struct wherry_session *s = q->session;
    struct aside *a = q->known_ids;
    a->grid = call_grid(&a->call, s->f16, s->words);
    f->known = f->run;
    f->known.grids = &a->grid;
    f->known.first = f->known.end = 0;
    f->known.waits = false;
    f->known.after = NULL;
    f->run.before = NULL;
    f->run.uploads = NULL;
    f->run.n_uploads = 0;
    bool ok = s->device->backend->program_submit(s->device->handle, a->program, &f->known, slot, e);
    f->known.uploads = NULL;
    if (!ok) f->known.grids = NULL;
    return ok;
}

/* Waits for a run beside the session's that is under way, which it is not for long. */
static bool aside_await(const struct tickets *q, const struct aside *a, struct run *run, int slot, struct error *e)
{
    const struct wherry_device *device = q->session->device;
    bool done;
    if (!run->grids) return true;
    *run = (struct run){0};
    return device->backend->program_wait(device->handle, a->program, slot, UINT64_MAX, &done, e);
}

static bool wide_submit(struct tickets *q, struct flight *f, int slot, struct error *e)
{
    struct wherry_session *s = q->session;
    struct aside *w = q->widen;
    w->grid = call_grid(&w->call, true, s->words);
    f->downloads[1] = (struct transfer){
        .buffer = w->buffer, .bytes = f->outside.result.rows * f->outside.result.row, .outside = &f->outside.result};
    f->wide = (struct run){
        .downloads = &f->downloads[1], .n_downloads = 1, .grids = &w->grid, .batch = &f->shape, .after = &f->outside};
    return s->device->backend->program_submit(s->device->handle, w->program, &f->wide, slot, e);
}

/* ---- running ---- */

/* The run's transfers at its end: what it gives to the host, and what to the application's buffer. */
static void downloads_fill(const struct wherry_session *s, struct flight *f, bool wide)
{
    const struct outside *o = &f->outside;
    const struct wherry_ticket *first = f->tickets.first;
    int n = 0;
    if (!f->external || (first && first->out))
        f->downloads[n++] = session_transfer(s, &f->shape, s->graph.output, f->output);
    if (o->result.buffer && !wide) {
        f->downloads[n] = session_transfer(s, &f->shape, s->graph.output, NULL);
        f->downloads[n].bytes = o->result.rows * o->result.row;
        f->downloads[n++].outside = &o->result;
    }
    f->run.downloads = f->downloads;
    f->run.n_downloads = n;
}

/* What is submitted at a time: all of it, or what the session's bound allows. */
static bool portion_submit(struct tickets *q, struct flight *f, int slot, struct error *e)
{
    struct wherry_session *s = q->session;
    const struct backend *backend = s->device->backend;
    const bool wide = f->external && outside_widens(s, &f->outside);
    const int end = s->portions ? portion_end(s, &f->shape, f->next) : s->n_calls;
    const bool first = !f->next, last = end == s->n_calls;
    struct transfer uploads[SESSION_UPLOADS + 1];
    f->run = (struct run){.grids = s->grids,
                          .batch = &f->shape,
                          .before = f->external && first ? &f->outside : NULL,
                          .after = f->external && last && !wide ? &f->outside : NULL,
                          .first = f->next,
                          .end = end,
                          .waits = f->tickets.last && f->tickets.last->caller_waits};
    if (first) {
        f->run.n_uploads = session_uploads(s, &f->shape, uploads);
        if (f->outside.ids.buffer) ids_outside(s, f, uploads, &f->run.n_uploads);
        f->run.uploads = uploads;
        for (int i = 0; i < s->n_calls; i++) s->grids[i] = call_grid(&s->calls[i], s->f16, s->words);
    }
    bool ok = device_executes(s->device, e) && (!first || !f->outside.ids.buffer || known_submit(q, f, slot, e));
    if (last) downloads_fill(s, f, wide);
    ok = ok && backend->program_submit(s->device->handle, s->program, &f->run, slot, e);
    f->run.uploads = NULL;
    if (ok && last && wide && !wide_submit(q, f, slot, e)) {
        struct error ignored;
        bool done;
        f->wide = (struct run){0};
        backend->program_wait(s->device->handle, s->program, slot, UINT64_MAX, &done, &ignored);
        ok = false;
    }
    if (!ok) {
        struct error ignored;
        aside_await(q, q->known_ids, &f->known, slot, &ignored);
        device_failed(s->device, e);
    }
    if (first || !ok) s->lengths_sent = s->types_sent = ok;
    f->started = s->portions ? clock_ns() : 0;
    f->watched = f->paused = false;
    f->from = f->next;
    f->next = end;
    return ok;
}

bool flight_start(struct tickets *q, struct flight *f, int slot, struct error *e)
{
    struct wherry_session *s = q->session;
    flight_fill(q, f);
    f->external = f->tickets.first->outside != NULL;
    f->known = f->wide = (struct run){0};
    f->next = 0;
    if ((f->outside.ids.buffer && !q->known_ids && !(q->known_ids = aside_known_ids(s, e))) ||
        (f->external && outside_widens(s, &f->outside) && !q->widen && !(q->widen = aside_widen(s, e)))) {
        s->lengths_sent = s->types_sent = false;
        return false;
    }
    return portion_submit(q, f, slot, e);
}

/* Waits for what is under way of it. A wait that did not begin at its end tells how long it took. */
static bool portion_await(struct tickets *q, struct flight *f, int slot, uint64_t timeout_ns, bool *done,
                          struct error *e)
{
    struct wherry_session *s = q->session;
    const struct backend *backend = s->device->backend;
    if (s->portions && timeout_ns) {
        TRY(backend->program_wait(s->device->handle, s->program, slot, 0, done, e));
        if (*done) return true;
        f->watched = !f->external; /* which may wait for others */
    }
    TRY(backend->program_wait(s->device->handle, s->program, slot, timeout_ns, done, e));
    if (*done && f->watched) portion_learn(s, &f->shape, f->from, f->next, 1e-9 * (double)(clock_ns() - f->started));
    f->watched = false;
    return true;
}

/* Of a flight that nobody wants any more, and whose end nobody was promised, the rest is left out. */
static bool at_end(const struct tickets *q, const struct flight *f)
{
    return f->next == q->session->n_calls || (!f->tickets.first && !f->external);
}

/* Sleeps through the pause, or the time that there is; whether the pause is over. */
static bool pause_pass(const struct flight *f, uint64_t end)
{
    for (uint64_t now; (now = clock_ns()) < f->resume;) {
        if (now >= end) return false;
        sleep_ns((f->resume < end ? f->resume : end) - now);
    }
    return true;
}

static bool portions_await(struct tickets *q, struct flight *f, int slot, uint64_t timeout_ns, bool *done,
                           struct error *e)
{
    const uint64_t now = clock_ns(), end = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    for (;;) {
        uint64_t clock = clock_ns();
        if (f->paused) {
            *done = false;
            if (!pause_pass(f, end)) return true;
            *done = true;
            TRY(portion_submit(q, f, slot, e));
            clock = clock_ns();
            *done = false;
            if (q->session->device->backend->submit_runs && clock >= end) return true;
        }
        uint64_t left = end == UINT64_MAX ? end : clock < end ? end - clock : 0;
        TRY(portion_await(q, f, slot, left, done, e));
        if (!*done || at_end(q, f)) return true;
        f->paused = true;
        f->resume = clock_ns() + q->session->pause_ns;
    }
}

bool flight_await(struct tickets *q, struct flight *f, int slot, uint64_t timeout_ns, bool *done, struct error *e)
{
    struct wherry_session *s = q->session;
    const struct backend *backend = s->device->backend;
    bool ok = s->portions ? portions_await(q, f, slot, timeout_ns, done, e)
                          : backend->program_wait(s->device->handle, s->program, slot, timeout_ns, done, e);
    if (!ok) device_failed(s->device, e);
    if (!*done) return ok;
    struct error other;
    bool aside = aside_await(q, q->known_ids, &f->known, slot, &other);
    aside = aside_await(q, q->widen, &f->wide, slot, &other) && aside;
    if (ok && !aside) *e = other;
    return ok && aside;
}
