/* A team of threads that stays (platform.h). */
#include "base/platform_system.h"

enum { MAX_WORKERS = 256, SPINS = 2000 }; /* turns of some nanoseconds, 20 to 100 us in all */

struct workers {
    const struct host *host;
    size_t count;
    thread_handle others[MAX_WORKERS - 1];
    struct seat {
        struct workers *workers;
        size_t thread;
    } seats[MAX_WORKERS];

    system_lock lock;
    system_condition change; /* of `job`, `phase` or `closing` */
    shared_counter job;      /* raised for each workers_run */
    shared_counter phase;    /* raised whenever all have met */
    shared_counter arrived;  /* of those who are to meet */
    shared_counter sleepers;
    shared_counter next; /* workers_take */
    uint64_t met;        /* workers_met */
    bool closing;
    void (*work)(size_t thread, void *user);
    void *user;
};

/* ---- waiting: awake for a while, then asleep ---- */

static void wait_past(struct workers *w, shared_counter *counter, uint64_t value, int spins)
{
    for (int i = 0; i < spins; i++) {
        if (counter_get(counter) != value) return;
        thread_pause();
    }
    lock_enter(&w->lock);
    counter_next(&w->sleepers);
    while (counter_get(counter) == value && !w->closing) condition_wait(&w->change, &w->lock);
    counter_set(&w->sleepers, counter_get(&w->sleepers) - 1); /* only under the lock */
    lock_leave(&w->lock);
}

/* A sleeper counts itself before it looks at the counter for the last time, and whoever raises the counter looks for
 * sleepers after that: one of both sees the other. */
static void advance(struct workers *w, shared_counter *counter)
{
    counter_next(counter);
    if (!counter_get(&w->sleepers)) return;
    lock_enter(&w->lock);
    condition_wake(&w->change);
    lock_leave(&w->lock);
}

void workers_meet(struct workers *w)
{
    uint64_t phase = counter_get(&w->phase);
    if (counter_next(&w->arrived) + 1 < w->count) {
        wait_past(w, &w->phase, phase, SPINS);
        return;
    }
    counter_set(&w->arrived, 0);
    counter_set(&w->next, 0);
    w->met = clock_ns();
    advance(w, &w->phase);
}

uint64_t workers_met(const struct workers *w) { return w->met; }

size_t workers_take(struct workers *w) { return (size_t)counter_next(&w->next); }

/* ---- the team ---- */

static THREAD_RESULT serve(void *argument)
{
    const struct seat *seat = argument;
    struct workers *w = seat->workers;
    for (uint64_t job = 0;; job++) {
        wait_past(w, &w->job, job, 0);
        if (counter_get(&w->job) == job) return 0; /* closing */
        w->work(seat->thread, w->user);
        workers_meet(w);
    }
}

size_t workers_wanted(size_t most)
{
    size_t count = core_count();
    if (most && count > most) count = most;
    return count < MAX_WORKERS ? count : MAX_WORKERS;
}

struct workers *workers_create(const struct host *host, size_t most, struct error *e)
{
    size_t count = workers_wanted(most);
    struct workers *w = host_alloc(host, 1, sizeof *w, e);
    if (!w) return NULL;
    w->host = host;
    w->count = 1;
    lock_make(&w->lock, &w->change);
    for (; w->count < count; w->count++) {
        struct seat *seat = &w->seats[w->count];
        *seat = (struct seat){w, w->count};
        if (!thread_start(&w->others[w->count - 1], serve, seat)) break;
    }
    return w;
}

void workers_destroy(struct workers *w)
{
    if (!w) return;
    lock_enter(&w->lock);
    w->closing = true;
    condition_wake(&w->change);
    lock_leave(&w->lock);
    for (size_t i = 0; i + 1 < w->count; i++) thread_join(w->others[i]);
    lock_free(&w->lock, &w->change);
    host_free(w->host, w);
}

size_t workers_count(const struct workers *w) { return w->count; }

void workers_run(struct workers *w, void (*work)(size_t thread, void *user), void *user)
{
    w->work = work;
    w->user = user;
    counter_set(&w->next, 0);
    w->met = clock_ns();
    advance(w, &w->job);
    work(0, user);
    workers_meet(w);
}
