/* From a request whose bytes are there to an answer whose bytes are. */
#include "server.h"

#include <pthread.h>
#include <stdlib.h>

#include "answers.h"
#include "clock.h"
#include "complain.h"
#include "options.h"
#include "request.h"
#include "tokens.h"

struct server {
    const struct settings *settings;
    struct metrics *metrics;
    struct pool *pool;
    pthread_mutex_t mutex;
    pthread_cond_t told;
    struct engine *engine; /* under the mutex, as are events */
    unsigned events;
    atomic_uint working; /* calls taken and not answered */
    atomic_uint unsent;  /* taken and not released */
    atomic_bool stopping;
    double started;
};

/* Of a call's texts tokenized as one job, and answers of at most so many floats. */
enum { SHARE = 16, ANSWER_FLOATS_MOST = 1 << 24 };

/* ---- the answer ---- */

struct answering { /* what a call's `user` is */
    struct server *server;
    void (*answered)(struct call *call);
};

static void note_parts(struct server *s, const struct call *call, enum histogram whole)
{
    double count = call->count ? call->count : 1;
    metrics_observe(s->metrics, whole, clock_now() - call->received);
    metrics_observe(s->metrics, whole + 1, call->tokenizing / count);
    metrics_observe(s->metrics, whole + 2, call->queueing / count);
    metrics_observe(s->metrics, whole + 3, call->running / count);
}

static bool predicts(const struct call *call) { return call->task == TASK_RERANK || call->task == TASK_PREDICT; }

static void note(struct server *s, const struct call *call)
{
    if (call->failure) {
        metrics_failed(s->metrics, call->failure);
        return;
    }
    bool runs = call->task != TASK_TOKENIZE && call->task != TASK_DECODE;
    metrics_count(s->metrics, call->list ? COUNT_SUCCESS_BATCH : COUNT_SUCCESS_SINGLE, 1);
    if (!runs) return;
    note_parts(s, call, TIME_REQUEST);
    if (!predicts(call)) note_parts(s, call, TIME_EMBED);
    metrics_count(s->metrics, predicts(call) ? COUNT_PREDICT_SUCCESS : COUNT_EMBED_SUCCESS, call->count);
}

static void finish(struct call *call)
{
    struct answering *a = call->user;
    call->tokenizing = 1e-9 * (double)atomic_load(&call->tokenizing_ns);
    note(a->server, call);
    if (call->engine) engine_drop(call->engine);
    call->engine = NULL;
    void (*answered)(struct call *) = a->answered;
    atomic_fetch_sub(&a->server->working, 1);
    free(a);
    call->user = NULL;
    answered(call);
}

static void write_answer(struct worker *worker, void *what)
{
    struct call *call = what;
    (void)worker;
    if (!atomic_load(&call->failed)) answer_write(call);
    finish(call);
}

/* The engine's thread has other things to do. */
static void all_ran(struct call *call, void *user)
{
    struct answering *a = user;
    pool_add(a->server->pool, write_answer, call, true);
}

/* ---- the tokens ---- */

struct share {
    struct call *call;
    uint32_t first, end;
};

static void queue_items(struct call *call)
{
    struct answering *a = call->user;
    bool raw = !call->normalize || call->dimensions;
    enum lane_kind lane = models_lane(call->model, call->task, raw);
    size_t floats = answer_floats(call, lane);
    if (floats > ANSWER_FLOATS_MOST) {
        call_fail(call, 422, ERROR_VALIDATION, FAILED_VALIDATION,
                  "the answer would have %zu numbers, the limit is %d: send fewer texts at a time", floats,
                  ANSWER_FLOATS_MOST);
        finish(call);
        return;
    }
    for (uint32_t i = 0; i < call->count; i++) {
        call->tokens += call->items[i].count;
        metrics_observe(a->server->metrics, INPUT_LENGTH, call->items[i].count);
    }
    metrics_count(a->server->metrics, predicts(call) ? COUNT_PREDICT : COUNT_EMBED, call->count);
    call->done = all_ran;
    engine_queue(call->engine, call, lane);
}

static void tokenize_share(struct worker *worker, void *what)
{
    struct share *share = what;
    struct call *call = share->call;
    double start = clock_now();
    for (uint32_t i = share->first; i < share->end && !atomic_load(&call->failed); i++)
        tokens_make(worker, &call->items[i]);
    atomic_fetch_add(&call->tokenizing_ns, (uint64_t)(1e9 * (clock_now() - start)));
    free(share);
    if (atomic_fetch_sub(&call->shares, 1) > 1) return; /* other threads have the rest */
    if (atomic_load(&call->failed))
        finish(call);
    else
        queue_items(call);
}

/* This thread has the first share. */
static void tokenize_all(struct server *s, struct worker *worker, struct call *call)
{
    uint32_t shares = (call->count + SHARE - 1) / SHARE, threads = pool_threads(s->pool), count = call->count;
    if (shares > threads) shares = threads;
    if (!shares) shares = 1;
    atomic_store(&call->shares, shares);
    struct share *mine = NULL;
    for (uint32_t n = 0; n < shares; n++) {
        struct share *share = need(malloc(sizeof *share));
        *share = (struct share){call, (uint32_t)((uint64_t)count * n / shares),
                                (uint32_t)((uint64_t)count * (n + 1) / shares)};
        if (n)
            pool_add(s->pool, tokenize_share, share, true);
        else
            mine = share;
    }
    tokenize_share(worker, mine); /* after which the call may be gone */
}

static void write_tokens(struct worker *worker, struct call *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        bytes_text(&call->answer, i ? "," : "[");
        if (!tokens_write(worker, &call->items[i], &call->answer)) return;
        if (call->answer.used > (size_t)ANSWER_FLOATS_MOST * sizeof(float)) {
            call_fail(call, 422, ERROR_VALIDATION, FAILED_VALIDATION,
                      "the answer is too large: send fewer texts at a time");
            return;
        }
    }
    bytes_text(&call->answer, "]");
}

/* ---- the request ---- */

static void begin(struct worker *worker, void *what)
{
    struct call *call = what;
    struct server *s = ((struct answering *)call->user)->server;
    const char *unhealthy = server_unhealthy(s);
    call->engine = unhealthy ? NULL : server_engine(s);
    if (!call->engine) {
        call_fail(call, 503, ERROR_UNHEALTHY, FAILED_UNHEALTHY, "%s", unhealthy ? unhealthy : "no device is open");
        finish(call);
        return;
    }
    if (!request_read(call, s->settings, worker->context)) {
        finish(call);
        return;
    }
    metrics_count(s->metrics, call->list ? COUNT_BATCH : COUNT_SINGLE, 1);
    if (call->task == TASK_TOKENIZE || call->task == TASK_DECODE) {
        if (call->task == TASK_DECODE)
            answer_decode(call);
        else
            write_tokens(worker, call);
        finish(call);
    } else {
        tokenize_all(s, worker, call);
    }
}

bool server_take(struct server *s, struct call *call, void (*answered)(struct call *call))
{
    if (atomic_fetch_add(&s->working, 1) >= s->settings->concurrent) {
        atomic_fetch_sub(&s->working, 1);
        call_fail(call, 429, ERROR_OVERLOADED, FAILED_OVERLOADED,
                  "Model is overloaded: %u requests are in work or waiting", s->settings->concurrent);
        metrics_failed(s->metrics, call->failure);
        return false;
    }
    atomic_fetch_add(&s->unsent, 1);
    call->taken = true;
    struct answering *a = need(malloc(sizeof *a));
    *a = (struct answering){s, answered};
    call->user = a;
    call->received = clock_now();
    call->deadline = call->received + s->settings->timeout;
    pool_add(s->pool, begin, call, false);
    return true;
}

void server_release(struct server *s, struct call *call)
{
    if (call->taken) atomic_fetch_sub(&s->unsent, 1);
    call_free(call);
}

/* ---- engines ---- */

static void tell_lost(void *user) { server_tell(user, EVENT_LOST); }

bool server_reload(struct server *s)
{
    struct engine *fresh, *old;
    if (engine_open(s->settings, s->metrics, tell_lost, s, &fresh)) {
        metrics_count(s->metrics, COUNT_RELOADS_FAILED, 1);
        return false;
    }
    pthread_mutex_lock(&s->mutex);
    old = s->engine;
    s->engine = fresh;
    pthread_mutex_unlock(&s->mutex);
    engine_close(old);
    metrics_count(s->metrics, COUNT_RELOADS, 1);
    return true;
}

struct engine *server_engine(struct server *s)
{
    pthread_mutex_lock(&s->mutex);
    struct engine *engine = s->engine;
    if (engine) engine_hold(engine);
    pthread_mutex_unlock(&s->mutex);
    return engine;
}

const char *server_unhealthy(struct server *s)
{
    if (atomic_load(&s->stopping)) return "the server is stopping";
    struct engine *engine = server_engine(s);
    if (!engine) return "no device is open";
    struct engine_state state = engine_ask(engine);
    engine_drop(engine);
    if (state.lost) return "the device was lost; it is being opened again";
    if (state.running > s->settings->timeout) return "the device has not ended its batch";
    return NULL;
}

/* ---- events ---- */

void server_tell(struct server *s, enum event event)
{
    pthread_mutex_lock(&s->mutex);
    s->events |= event;
    pthread_cond_signal(&s->told);
    pthread_mutex_unlock(&s->mutex);
}

unsigned server_wait(struct server *s, double seconds)
{
    const struct timespec end = clock_later(seconds);
    pthread_mutex_lock(&s->mutex);
    int code = 0;
    while (!s->events && !code) code = pthread_cond_timedwait(&s->told, &s->mutex, &end);
    unsigned events = s->events;
    s->events = 0;
    pthread_mutex_unlock(&s->mutex);
    return events;
}

/* ---- made, asked, given back ---- */

int server_open(const struct settings *settings, struct server **out)
{
    struct server *s = need(calloc(1, sizeof *s));
    s->settings = settings;
    s->metrics = metrics_create();
    s->started = clock_now();
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->told, NULL);
    int code = engine_open(settings, s->metrics, tell_lost, s, &s->engine);
    if (!code && !(s->pool = pool_create(settings->workers))) code = EXIT_DEVICE;
    *out = s;
    return code;
}

void server_close(struct server *s)
{
    if (!s) return;
    pool_destroy(s->pool);
    engine_close(s->engine);
    metrics_destroy(s->metrics);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->told);
    free(s);
}

void server_stop(struct server *s) { atomic_store(&s->stopping, true); }
bool server_stopping(const struct server *s) { return atomic_load(&((struct server *)s)->stopping); }
struct metrics *server_metrics(const struct server *s) { return s->metrics; }
const struct settings *server_settings(const struct server *s) { return s->settings; }
uint32_t server_workers(const struct server *s) { return pool_threads(s->pool); }
uint32_t server_calls(const struct server *s) { return atomic_load(&((struct server *)s)->unsent); }
double server_started(const struct server *s) { return s->started; }
