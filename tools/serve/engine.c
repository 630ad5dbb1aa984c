/* The models on their device, and the thread that runs batches of what waits for them. */
#include "engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"
#include "batch.h"
#include "clock.h"
#include "complain.h"
#include "options.h"

/* Two batches are under way on a device, so that it goes on with the second while the host takes the first one's
 * results. While one runs, the thread looks for another this often. */
enum { FLIGHT = 2, LOOK_NS = 50000 };

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
    struct batch batches[FLIGHT];
    uint32_t first, running; /* a ring: the oldest that runs, and how many do */
    uint64_t number;         /* of batches */
    double ended;            /* when the last one did */
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
    lane->tokens -= item->count;
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
static struct item *take(struct engine *e, struct lane *lane, struct batch *b)
{
    struct item *dropped = NULL;
    uint32_t most = lane->session ? lane->plan.max_sequences : 1; /* opened for the first, at the next turn for more */
    b->lane = lane;
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

/* Whether what waits is to run now. Where a batch runs already, the next one begins behind it once it is half as large,
 * so that it is not one of the few that came first. Devices of the host's cores compute in this thread: no second one
 * gains by that. */
static bool is_time(const struct engine *e, const struct lane *lane)
{
    if (!e->running) return true;
    const char *id = e->models->device_info.id;
    bool host = !strcmp(id, "cpu") || !strcmp(id, "reference");
    return !host && e->running < FLIGHT && 2 * lane->tokens >= e->batches[e->first].tokens;
}

/* ---- running ---- */

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

static void fail_status(struct engine *e, struct batch *b, wherry_status status)
{
    const char *why = wherry_last_error(e->models->context);
    if (!*why) why = wherry_status_name(status);
    if (status == WHERRY_STATUS_DEVICE_LOST) {
        lose(e, why);
        batch_fail(b, 503, ERROR_UNHEALTHY, FAILED_UNHEALTHY, "the device was lost; it is being opened again");
    } else {
        complain(0, "a batch failed: %s", why);
        batch_fail(b, 424, ERROR_BACKEND, FAILED_INFERENCE, why);
    }
    batch_finish(b);
}

static wherry_status open_lane(struct engine *e, struct lane *lane)
{
    wherry_status status = models_open_lane(e->models, lane);
    pthread_mutex_lock(&e->mutex);
    lane->open = !status;
    pthread_mutex_unlock(&e->mutex);
    return status;
}

static void begin(struct engine *e, struct batch *b)
{
    wherry_status status = b->lane->session ? WHERRY_STATUS_OK : open_lane(e, b->lane);
    if (!status) {
        const wherry_batch view = batch_pack(b, e->models->batch_tokens);
        const wherry_submit_desc desc = {.struct_size = sizeof desc, .out = b->out, .out_floats = b->out_floats};
        b->submitted = clock_now();
        status = wherry_encode_submit(b->lane->session, &view, &desc, &b->ticket);
    }
    if (status)
        fail_status(e, b, status);
    else
        e->running++;
}

/* A batch has the device from when the one before it ended. */
static void note_times(struct engine *e, const struct batch *b, double end)
{
    const struct lane *lane = b->lane;
    double start = b->submitted > e->ended ? b->submitted : e->ended;
    e->ended = end;
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

/* The oldest batch that runs, if it ends now: while there is room for another, it is not waited for long. */
static void end_oldest(struct engine *e)
{
    struct batch *b = &e->batches[e->first];
    wherry_status status = wherry_ticket_wait(b->ticket, e->running < FLIGHT ? LOOK_NS : UINT64_MAX);
    if (status == WHERRY_STATUS_TIMEOUT) return;
    note_times(e, b, clock_now());
    e->first = (e->first + 1) % FLIGHT;
    e->running--;
    if (status && status != WHERRY_STATUS_VERIFY_FAILED) {
        fail_status(e, b, status);
    } else {
        batch_hand_out(b, status == WHERRY_STATUS_VERIFY_FAILED);
        batch_finish(b);
    }
    wherry_ticket_destroy(b->ticket);
    b->ticket = NULL;
}

/* ---- the thread ---- */

static void drop(struct item *dropped)
{
    while (dropped) {
        struct item *item = dropped;
        dropped = item->next;
        call_item_done(item);
    }
}

static void *dispatch(void *user)
{
    struct engine *e = user;
    for (;;) {
        struct lane *lane;
        struct item *dropped = NULL;
        struct batch *b = NULL;
        pthread_mutex_lock(&e->mutex);
        while (!(lane = oldest(e)) && !e->running && !e->stop) {
            e->began = 0;
            pthread_cond_wait(&e->work, &e->mutex);
        }
        if (lane && is_time(e, lane)) {
            b = &e->batches[(e->first + e->running) % FLIGHT];
            dropped = take(e, lane, b);
        }
        if (!e->running) e->began = b && b->count ? clock_now() : 0;
        if (e->running) e->began = e->batches[e->first].submitted;
        bool over = !lane && !e->running;
        pthread_mutex_unlock(&e->mutex);
        if (over) return NULL;
        if (b && b->count) begin(e, b);
        drop(dropped);
        if (!b && e->running) end_oldest(e);
    }
}

/* ---- made and given back ---- */

static void destroy(struct engine *e)
{
    models_close(e->models);
    for (int b = 0; b < FLIGHT; b++) batch_destroy(&e->batches[b]);
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
    for (int b = 0; b < FLIGHT; b++) batch_create(&e->batches[b], models->batch_tokens);
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
        lane->tokens += item->count;
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
