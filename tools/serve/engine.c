/* The models on their device, and the thread that runs batches of what waits for them. */
#include "engine.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"
#include "clock.h"
#include "complain.h"
#include "options.h"

struct batch {
    struct item **items;
    uint32_t count, tokens;
    int32_t *ids, *types;
    uint32_t *offsets;
    float *out;
    size_t out_floats;
};

struct engine {
    struct models *models;
    struct metrics *metrics;
    const struct settings *settings;
    void (*on_lost)(void *user);
    void *user;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows, and of all queues */
    pthread_cond_t work, idle;
    uint32_t holders, waiting;
    bool stop, lost;
    double began; /* the batch that runs; 0: none */
    /* The thread's own. */
    struct batch batch;
    uint64_t number; /* of batches */
};

/* ---- taking ---- */

static bool went_away(int socket)
{
    char byte;
    if (socket < 0) return false;
    ssize_t got = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Whether the call's items need not run any more: each batch asks its client once. */
static bool is_dead(struct engine *e, struct call *call)
{
    if (call->asked != e->number) {
        call->asked = e->number;
        if (went_away(call->socket)) {
            call->gone = true;
            call_fail(call, 503, ERROR_BACKEND, FAILED_DROPPED, "the client went away");
        } else if (clock_now() > call->deadline) {
            call_fail(call, 503, ERROR_OVERLOADED, FAILED_TIMEOUT, "the request waited for longer than %g s",
                      e->settings->timeout);
        } else if (e->lost) {
            call_fail(call, 503, ERROR_UNHEALTHY, FAILED_UNHEALTHY, "the device was lost; it is being opened again");
        }
    }
    return atomic_load(&call->failed);
}

static struct item *pop(struct engine *e, struct lane *lane)
{
    struct item *item = lane->first;
    lane->first = item->next;
    if (!lane->first) lane->last = NULL;
    e->waiting--;
    return item;
}

/* The lane whose first text has waited longest; NULL: nothing waits. */
static struct lane *oldest(struct engine *e)
{
    struct lane *best = NULL;
    for (uint32_t m = 0; m < e->models->count; m++)
        for (int k = 0; k < LANES; k++) {
            struct lane *lane = &e->models->of[m].lanes[k];
            if (lane->first && (!best || lane->first->queued < best->first->queued)) best = lane;
        }
    return best;
}

/* Fills the batch from the lane; returns those that will not run, linked. */
static struct item *take(struct engine *e, struct lane *lane)
{
    struct batch *b = &e->batch;
    struct item *dropped = NULL;
    uint32_t most = lane->session ? lane->plan.max_sequences : 1; /* opened for the first, at the next turn for more */
    b->count = b->tokens = 0;
    e->number++;
    while (lane->first && b->count < most) {
        bool dead = is_dead(e, lane->first->call);
        if (!dead && b->tokens + lane->first->count > e->models->batch_tokens) break;
        struct item *item = pop(e, lane);
        if (dead) {
            item->next = dropped;
            dropped = item;
            continue;
        }
        b->items[b->count++] = item;
        b->tokens += item->count;
    }
    return dropped;
}

/* ---- running ---- */

static void pack(struct batch *b)
{
    uint32_t at = 0;
    b->offsets[0] = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct item *item = b->items[i];
        memcpy(b->ids + at, item->ids, item->count * sizeof *b->ids);
        if (item->types)
            memcpy(b->types + at, item->types, item->count * sizeof *b->types);
        else
            memset(b->types + at, 0, item->count * sizeof *b->types);
        b->offsets[i + 1] = at += item->count;
    }
}

static bool is_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static size_t index_in_call(const struct item *item) { return (size_t)(item - item->call->items); }

/* Results to their items; where some are no numbers, those say so. */
static void hand_out(struct engine *e, const struct lane *lane, bool check)
{
    const float *from = e->batch.out;
    for (uint32_t i = 0; i < e->batch.count; i++) {
        struct item *item = e->batch.items[i];
        item->width = lane->plan.embedding_size;
        item->rows = lane->per_token ? item->count : 1;
        size_t floats = (size_t)item->rows * item->width;
        if (check && !is_finite(from, floats)) {
            call_fail(item->call, 424, ERROR_BACKEND, FAILED_INFERENCE,
                      "text %zu: the result is not finite; wherry verify tells whether the device computes right",
                      index_in_call(item));
        } else {
            item->values = need(malloc(floats * sizeof *item->values));
            memcpy(item->values, from, floats * sizeof *item->values);
        }
        from += floats;
    }
}

static void fail_batch(struct engine *e, unsigned status, enum error_type type, enum failure failure, const char *why)
{
    for (uint32_t i = 0; i < e->batch.count; i++) call_fail(e->batch.items[i]->call, status, type, failure, "%s", why);
}

static void lose(struct engine *e, const char *why)
{
    complain(0, "the device is lost: %s", why);
    metrics_count(e->metrics, COUNT_DEVICES_LOST, 1);
    pthread_mutex_lock(&e->mutex);
    bool first = !e->lost;
    e->lost = true;
    pthread_mutex_unlock(&e->mutex);
    if (first) e->on_lost(e->user);
}

static void fail_status(struct engine *e, wherry_status status)
{
    const char *why = wherry_last_error(e->models->context);
    if (!*why) why = wherry_status_name(status);
    if (status == WHERRY_STATUS_DEVICE_LOST) {
        lose(e, why);
        fail_batch(e, 503, ERROR_UNHEALTHY, FAILED_UNHEALTHY, "the device was lost; it is being opened again");
    } else {
        complain(0, "a batch failed: %s", why);
        fail_batch(e, 424, ERROR_BACKEND, FAILED_INFERENCE, why);
    }
}

static void note_times(struct engine *e, double start, double end, const struct lane *lane)
{
    const struct batch *b = &e->batch;
    for (uint32_t i = 0; i < b->count; i++) {
        struct item *item = b->items[i];
        item->call->queueing += start - item->queued;
        item->call->running += end - start;
    }
    metrics_count(e->metrics, COUNT_BATCHES, 1);
    metrics_count(e->metrics, COUNT_TOKENS, b->tokens);
    metrics_observe(e->metrics, BATCH_SIZE, b->count);
    metrics_observe(e->metrics, BATCH_TOKENS, b->tokens);
    metrics_ran(e->metrics, end - start, lane->bytes_once > 0 ? lane->bytes_once + lane->bytes_token * b->tokens : 0);
    if (e->settings->verbose)
        complain(0, "%s: %u texts, %u tokens in %.2f ms", lane->model->name, b->count, b->tokens, 1e3 * (end - start));
}

static wherry_status open_lane(struct engine *e, struct lane *lane)
{
    wherry_status status = models_open_lane(e->models, lane);
    pthread_mutex_lock(&e->mutex);
    lane->open = !status;
    pthread_mutex_unlock(&e->mutex);
    return status;
}

static void run(struct engine *e, struct lane *lane)
{
    struct batch *b = &e->batch;
    wherry_status status = lane->session ? WHERRY_STATUS_OK : open_lane(e, lane);
    if (status) {
        fail_status(e, status);
        return;
    }
    size_t rows = lane->per_token ? e->models->batch_tokens : lane->plan.max_sequences;
    if (rows * lane->plan.embedding_size > b->out_floats) {
        b->out_floats = rows * lane->plan.embedding_size;
        b->out = need(realloc(b->out, b->out_floats * sizeof *b->out));
    }
    pack(b);
    const wherry_batch view = {
        .struct_size = sizeof view, .sequences = b->count, .offsets = b->offsets, .ids = b->ids, .types = b->types};
    double start = clock_now();
    status = wherry_encode(lane->session, &view, b->out, b->out_floats);
    note_times(e, start, clock_now(), lane);
    if (status && status != WHERRY_STATUS_VERIFY_FAILED)
        fail_status(e, status);
    else
        hand_out(e, lane, status == WHERRY_STATUS_VERIFY_FAILED);
}

/* ---- the thread ---- */

static void finish(struct item *dropped, struct batch *b)
{
    while (dropped) {
        struct item *item = dropped;
        dropped = item->next;
        call_item_done(item);
    }
    for (uint32_t i = 0; i < b->count; i++) call_item_done(b->items[i]);
}

static void *dispatch(void *user)
{
    struct engine *e = user;
    pthread_mutex_lock(&e->mutex);
    for (;;) {
        struct lane *lane;
        while (!(lane = oldest(e)) && !e->stop) pthread_cond_wait(&e->work, &e->mutex);
        if (!lane) break;
        struct item *dropped = take(e, lane);
        e->began = e->batch.count ? clock_now() : 0;
        pthread_mutex_unlock(&e->mutex);
        if (e->batch.count) run(e, lane);
        finish(dropped, &e->batch);
        pthread_mutex_lock(&e->mutex);
        e->began = 0;
    }
    pthread_mutex_unlock(&e->mutex);
    return NULL;
}

/* ---- made and given back ---- */

static void batch_create(struct batch *b, uint32_t tokens)
{
    b->items = need(malloc((size_t)tokens * sizeof *b->items));
    b->ids = need(malloc((size_t)tokens * sizeof *b->ids));
    b->types = need(malloc((size_t)tokens * sizeof *b->types));
    b->offsets = need(malloc(((size_t)tokens + 1) * sizeof *b->offsets));
}

static void destroy(struct engine *e)
{
    models_close(e->models);
    free(e->batch.items);
    free(e->batch.ids);
    free(e->batch.types);
    free(e->batch.offsets);
    free(e->batch.out);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->idle);
    pthread_mutex_destroy(&e->mutex);
    free(e);
}

int engine_open(const struct settings *settings, struct metrics *metrics, void (*lost)(void *user), void *user,
                struct engine **out)
{
    struct models *models;
    int code = models_open(settings, &models);
    if (code) return code;
    struct engine *e = need(calloc(1, sizeof *e));
    e->models = models;
    e->metrics = metrics;
    e->settings = settings;
    e->on_lost = lost;
    e->user = user;
    batch_create(&e->batch, models->batch_tokens);
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->work, NULL);
    pthread_cond_init(&e->idle, NULL);
    if (pthread_create(&e->thread, NULL, dispatch, e)) {
        destroy(e);
        return complain(EXIT_DEVICE, "the system has no thread left");
    }
    *out = e;
    return EXIT_FINE;
}

void engine_close(struct engine *e)
{
    if (!e) return;
    pthread_mutex_lock(&e->mutex);
    while (e->holders) pthread_cond_wait(&e->idle, &e->mutex);
    e->stop = true;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->mutex);
    pthread_join(e->thread, NULL);
    destroy(e);
}

void engine_hold(struct engine *e)
{
    pthread_mutex_lock(&e->mutex);
    e->holders++;
    pthread_mutex_unlock(&e->mutex);
}

void engine_drop(struct engine *e)
{
    pthread_mutex_lock(&e->mutex);
    if (!--e->holders) pthread_cond_broadcast(&e->idle);
    pthread_mutex_unlock(&e->mutex);
}

/* ---- asked ---- */

uint32_t engine_models(const struct engine *e) { return e->models->count; }
struct served *engine_model(struct engine *e, uint32_t index) { return &e->models->of[index]; }
const wherry_device_info *engine_device(const struct engine *e) { return &e->models->device_info; }
uint32_t engine_batch_tokens(const struct engine *e) { return e->models->batch_tokens; }

void engine_queue(struct engine *e, struct call *call, enum lane_kind kind)
{
    struct lane *lane = &call->model->lanes[kind];
    atomic_store(&call->remaining, call->count);
    pthread_mutex_lock(&e->mutex);
    double now = clock_now();
    for (uint32_t i = 0; i < call->count; i++) {
        struct item *item = &call->items[i];
        item->queued = now;
        item->next = NULL;
        if (lane->last)
            lane->last->next = item;
        else
            lane->first = item;
        lane->last = item;
    }
    e->waiting += call->count;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->mutex);
}

struct engine_state engine_ask(struct engine *e)
{
    pthread_mutex_lock(&e->mutex);
    struct engine_state state = {.lost = e->lost,
                                 .running = e->began > 0 ? clock_now() - e->began : 0,
                                 .waiting = e->waiting,
                                 .roof = e->models->roof,
                                 .prepare_seconds = e->models->prepare_seconds,
                                 .kernels = e->models->kernels,
                                 .kernels_compiled = e->models->kernels_compiled};
    pthread_mutex_unlock(&e->mutex);
    return state;
}

bool engine_plan(struct engine *e, const struct lane *lane, wherry_session_plan *out)
{
    pthread_mutex_lock(&e->mutex);
    bool open = lane->open;
    if (open) *out = lane->plan;
    pthread_mutex_unlock(&e->mutex);
    return open;
}
