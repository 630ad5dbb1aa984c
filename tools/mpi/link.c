/* The thread that speaks MPI. Others hand it what is to be started, and wait for it. It asks MPI again and again what
 * is done, with pauses that grow, so that it takes little of a core that computes; where there are cores enough,
 * without any for a while: a pause is longer than most messages take. */
#define _POSIX_C_SOURCE 200809L
#include "mpi/link.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/platform.h"
#include "complain.h"
#include "mpi/shared.h"
#include "options.h"
#include "system.h"
#include "threads.h"

enum { STARTS = 16, PIECE = 1 << 30 };
enum { BEATS = 1, ASKS, ANSWERS }; /* tags of signs of life, and of the counter */
enum { AWAKE_CORES = 4 };          /* of each process of a host */
static const double AWAKE_SECONDS = 2e-3;
static const double BEAT_SECONDS = 0.5, PAUSE_MOST = 2e-4, IDLE_PAUSE = 0.1, COUNTING_PAUSE = 2e-3;
/* After a message failed, mpirun ends the others: whoever has the cause speaks. */
static const double KILLED_WITHIN = 5;

/* What is started together. */
struct start {
    MPI_Request *requests;
    int n, room;
    wherry_message *messages; /* receives, then sends */
    size_t n_messages, n_receives, messages_room;
    double begin, end;
};

struct link {
    pthread_mutex_t mutex;
    pthread_cond_t change;
    struct task *task;
    struct link_place place;
    double silence;

    /* Numbers of starts: handed in, taken by the thread (its own), done, waited for. */
    uint64_t entered, taken, done, finished;
    struct start starts[STARTS];
    bool ready, closing, failed;
    int abort; /* exit code, 0: no */
    char problem[512];

    MPI_Comm messages, life;
    char beat_in, beat_out;
    MPI_Request from, to;
    double heard, told;
    bool awake; /* who waits does so without a pause at first */

    struct kept {
        struct kept *next;
        struct shared_memory *shared; /* [count] */
        uint32_t count;
    } * kept;

    /* The counter is process 0's; of the others each asks for one number at a time. */
    bool counting, asking; /* asking: until `answer` is there */
    uint64_t counter, answer;
    MPI_Request answering; /* a number on its way here */
};

static void pause_for(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

static bool good(struct link *l, int error, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (error == MPI_SUCCESS) return true;
    MPI_Error_string(error, text, &length);
    snprintf(l->problem, sizeof l->problem, "%s: %s", what, text);
    return false;
}

/* ---- messages: the link's thread ---- */

static bool piece_start(struct link *l, struct start *s, const wherry_message *m, bool send, size_t at)
{
    int bytes = m->bytes - at < PIECE ? (int)(m->bytes - at) : PIECE;
    char *data = (char *)m->data + at;
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 32;
        s->requests = need(realloc(s->requests, (size_t)s->room * sizeof *s->requests));
    }
    MPI_Request *request = &s->requests[s->n++];
    *request = MPI_REQUEST_NULL;
    return send ? good(l, MPI_Isend(data, bytes, MPI_BYTE, (int)m->process, 0, l->messages, request), "MPI_Isend")
                : good(l, MPI_Irecv(data, bytes, MPI_BYTE, (int)m->process, 0, l->messages, request), "MPI_Irecv");
}

static bool all_start(struct link *l, struct start *s, const wherry_message *messages, size_t count, bool send)
{
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        for (size_t at = 0; ok && at < messages[i].bytes; at += PIECE) ok = piece_start(l, s, &messages[i], send, at);
    return ok;
}

/* What was handed in; receives first, so that they wait for what comes. */
static bool take(struct link *l, uint64_t entered)
{
    for (; l->taken < entered; l->taken++) {
        struct start *s = &l->starts[l->taken % STARTS];
        s->n = 0;
        if (!all_start(l, s, s->messages, s->n_receives, false) ||
            !all_start(l, s, s->messages + s->n_receives, s->n_messages - s->n_receives, true))
            return false;
    }
    return true;
}

/* Whether the oldest that is not done is done now. */
static bool look(struct link *l, bool *done)
{
    struct start *s = &l->starts[l->done % STARTS];
    int flag = 0;
    *done = false;
    if (l->done == l->taken) return true;
    if (!good(l, MPI_Testall(s->n, s->requests, &flag, MPI_STATUSES_IGNORE), "MPI_Testall")) return false;
    if (flag) s->end = system_seconds();
    *done = flag != 0;
    return true;
}

/* ---- signs of life ---- */

static uint32_t before(const struct link *l)
{
    return (l->place.process + l->place.processes - 1) % l->place.processes;
}

static bool listen(struct link *l)
{
    return good(l, MPI_Irecv(&l->beat_in, 1, MPI_BYTE, (int)before(l), BEATS, l->life, &l->from), "MPI_Irecv");
}

/* To the next process in a ring, from the one before. */
static bool live(struct link *l)
{
    int in = 0, out = 0, next = (int)((l->place.process + 1) % l->place.processes);
    double now = system_seconds();
    if (l->place.processes == 1) return true;
    if (!good(l, MPI_Test(&l->from, &in, MPI_STATUS_IGNORE), "MPI_Test")) return false;
    if (in) {
        l->heard = now;
        if (!listen(l)) return false;
    }
    if (now - l->told >= BEAT_SECONDS) {
        if (!good(l, MPI_Test(&l->to, &out, MPI_STATUS_IGNORE), "MPI_Test")) return false;
        if (out && !good(l, MPI_Isend(&l->beat_out, 1, MPI_BYTE, next, BEATS, l->life, &l->to), "MPI_Isend"))
            return false;
        if (out) l->told = now;
    }
    if (now - l->heard < l->silence) return true;
    complain(0,
             "process %u of %u was not heard of for %.0f s: its host, its network or it itself is gone; what "
             "was kept is whole, and the same command goes on from there",
             before(l), l->place.processes, l->silence);
    MPI_Abort(l->messages, EXIT_DEVICE);
    return false;
}

/* ---- the counter that all share ---- */

/* Process 0 answers whoever asks. */
static bool answer_others(struct link *l)
{
    MPI_Status from;
    int asked = 0;
    char nothing;
    while (good(l, MPI_Iprobe(MPI_ANY_SOURCE, ASKS, l->life, &asked, &from), "MPI_Iprobe")) {
        if (!asked) return true;
        uint64_t number = l->counter++;
        l->counting = true;
        if (!good(l, MPI_Recv(&nothing, 1, MPI_BYTE, from.MPI_SOURCE, ASKS, l->life, MPI_STATUS_IGNORE), "MPI_Recv") ||
            !good(l, MPI_Send(&number, sizeof number, MPI_BYTE, from.MPI_SOURCE, ANSWERS, l->life), "MPI_Send"))
            return false;
    }
    return false;
}

/* *got: `answer` is the number asked for. */
static bool count(struct link *l, bool asking, bool *got)
{
    int done = 0;
    char nothing = 0;
    if (l->place.process == 0) {
        *got = asking;
        if (asking) l->answer = l->counter++;
        return answer_others(l);
    }
    if (asking && l->answering == MPI_REQUEST_NULL) {
        if (!good(l, MPI_Irecv(&l->answer, sizeof l->answer, MPI_BYTE, 0, ANSWERS, l->life, &l->answering),
                  "MPI_Irecv") ||
            !good(l, MPI_Send(&nothing, 1, MPI_BYTE, 0, ASKS, l->life), "MPI_Send"))
            return false;
    }
    if (!asking) return true;
    if (!good(l, MPI_Test(&l->answering, &done, MPI_STATUS_IGNORE), "MPI_Test")) return false;
    *got = done != 0;
    return true;
}

/* ---- the thread ---- */

static bool begin(struct link *l)
{
    int provided, rank, size;
    MPI_Comm local;
    if (!good(l, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread")) return false;
    if (provided < MPI_THREAD_FUNNELED) {
        snprintf(l->problem, sizeof l->problem, "this MPI allows no threads (MPI_THREAD_FUNNELED)");
        return false;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &l->messages);
    MPI_Comm_dup(MPI_COMM_WORLD, &l->life);
    MPI_Comm_set_errhandler(l->messages, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(l->life, MPI_ERRORS_RETURN);
    MPI_Comm_rank(l->messages, &rank);
    MPI_Comm_size(l->messages, &size);
    l->place.process = (uint32_t)rank;
    l->place.processes = (uint32_t)size;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &rank);
    MPI_Comm_size(local, &size);
    MPI_Comm_free(&local);
    l->place.local = (uint32_t)rank;
    l->place.locals = (uint32_t)size;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Get_processor_name(name, &size);
    snprintf(l->place.host, sizeof l->place.host, "%.100s", name);
    l->awake = system_cores() / (size_t)l->place.locals >= AWAKE_CORES;
    l->heard = system_seconds();
    l->to = l->answering = MPI_REQUEST_NULL;
    return l->place.processes == 1 || listen(l);
}

/* Under the lock: gives it back for a while, so long that nothing is late. */
static void rest(struct link *l, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    long long ns = until.tv_nsec + (long long)(seconds * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    pthread_cond_timedwait(&l->change, &l->mutex, &until);
}

static void serve(struct link *l)
{
    double wait = 0, moved = 0;
    uint64_t entered_before = 0;
    pthread_mutex_lock(&l->mutex);
    while (!l->closing) {
        uint64_t entered = l->entered;
        bool done = false, asking = l->asking, got = false;
        pthread_mutex_unlock(&l->mutex);
        bool ok = take(l, entered) && look(l, &done) && live(l) && count(l, asking, &got);
        if (done || l->taken != entered_before) moved = system_seconds();
        entered_before = l->taken;
        if (ok && !done && l->done < l->taken && l->awake && system_seconds() - moved < AWAKE_SECONDS) {
            sched_yield();
        } else if (ok && !done && l->done < l->taken) {
            pause_for(wait);
            wait = wait < PAUSE_MOST ? wait * 1.2 + 2e-6 : PAUSE_MOST;
        }
        if (done) wait = 0;
        if (!ok) pause_for(KILLED_WITHIN);
        pthread_mutex_lock(&l->mutex);
        if (l->abort) MPI_Abort(l->messages, l->abort);
        if (!ok) break;
        if (done) l->done++;
        if (got) l->asking = false;
        if (done || got) pthread_cond_broadcast(&l->change);
        if (l->done == l->entered && !l->closing && !l->abort) rest(l, l->counting ? COUNTING_PAUSE : IDLE_PAUSE);
    }
    l->failed = !l->closing;
    pthread_cond_broadcast(&l->change);
    while (l->failed && !l->closing && !l->abort) rest(l, IDLE_PAUSE);
    if (l->abort) MPI_Abort(l->messages, l->abort);
    pthread_mutex_unlock(&l->mutex);
}

static void end(struct link *l)
{
    if (l->failed) return; /* MPI_Finalize would wait for those that are gone */
    if (l->place.processes > 1) {
        MPI_Cancel(&l->from);
        MPI_Wait(&l->from, MPI_STATUS_IGNORE);
        MPI_Wait(&l->to, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&l->life);
    MPI_Comm_free(&l->messages);
    MPI_Finalize();
}

static void work(void *user)
{
    struct link *l = user;
    bool ok = begin(l);
    pthread_mutex_lock(&l->mutex);
    l->ready = true;
    l->failed = !ok;
    pthread_cond_broadcast(&l->change);
    pthread_mutex_unlock(&l->mutex);
    if (!ok) return;
    serve(l);
    end(l);
}

/* ---- other threads ---- */

const struct link_place *link_place_of(const struct link *l) { return &l->place; }

void link_keep(struct link *l, struct shared_memory *shared, uint32_t count)
{
    struct kept *kept = need(calloc(1, sizeof *kept));
    *kept = (struct kept){.next = l->kept, .shared = shared, .count = count};
    l->kept = kept;
}

static void kept_free(struct kept *kept)
{
    while (kept) {
        struct kept *next = kept->next;
        for (uint32_t i = 0; i < kept->count; i++) shared_close(&kept->shared[i]);
        free(kept->shared);
        free(kept);
        kept = next;
    }
}

static void link_free(struct link *l)
{
    kept_free(l->kept);
    for (int i = 0; i < STARTS; i++) {
        free(l->starts[i].requests);
        free(l->starts[i].messages);
    }
    pthread_cond_destroy(&l->change);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

struct link *link_open(double silence, struct link_place *place, char why[256])
{
    struct link *l = need(calloc(1, sizeof *l));
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->change, NULL);
    l->silence = silence;
    l->task = task_start(work, l);
    pthread_mutex_lock(&l->mutex);
    while (l->task && !l->ready) pthread_cond_wait(&l->change, &l->mutex);
    bool ok = l->task && !l->failed;
    pthread_mutex_unlock(&l->mutex);
    *place = l->place;
    if (ok) return l;
    snprintf(why, 256, "%.200s", l->task ? l->problem : "the system has no thread left");
    task_join(l->task);
    link_free(l);
    return NULL;
}

bool link_start(void *link, const wherry_message *sends, size_t n_sends, const wherry_message *receives,
                size_t n_receives)
{
    struct link *l = link;
    pthread_mutex_lock(&l->mutex);
    struct start *s = &l->starts[l->entered % STARTS];
    bool room = l->entered - l->finished < STARTS;
    if (!room) snprintf(l->problem, sizeof l->problem, "more than %d exchanges are under way", STARTS);
    if (room) {
        s->n_receives = n_receives;
        s->n_messages = n_receives + n_sends;
        if (s->n_messages > s->messages_room) {
            s->messages_room = 2 * s->n_messages;
            s->messages = need(realloc(s->messages, s->messages_room * sizeof *s->messages));
        }
        if (n_receives) memcpy(s->messages, receives, n_receives * sizeof *receives);
        if (n_sends) memcpy(s->messages + n_receives, sends, n_sends * sizeof *sends);
        s->begin = system_seconds();
        l->entered++;
        pthread_cond_broadcast(&l->change);
    }
    bool ok = room && !l->failed;
    pthread_mutex_unlock(&l->mutex);
    return ok;
}

bool link_finish(void *link, double *seconds)
{
    struct link *l = link;
    pthread_mutex_lock(&l->mutex);
    const double begin = l->awake && l->done == l->finished ? system_seconds() : 0;
    while (l->awake && l->done == l->finished && !l->failed && system_seconds() - begin < AWAKE_SECONDS) {
        pthread_mutex_unlock(&l->mutex);
        sched_yield();
        pthread_mutex_lock(&l->mutex);
    }
    while (l->done == l->finished && !l->failed) pthread_cond_wait(&l->change, &l->mutex);
    const struct start *s = &l->starts[l->finished % STARTS];
    bool ok = l->done != l->finished;
    *seconds = ok ? s->end - s->begin : 0;
    l->finished += ok;
    pthread_mutex_unlock(&l->mutex);
    return ok;
}

bool link_count(struct link *l, uint64_t *number)
{
    pthread_mutex_lock(&l->mutex);
    l->counting = l->asking = true;
    pthread_cond_broadcast(&l->change);
    while (l->asking && !l->failed) pthread_cond_wait(&l->change, &l->mutex);
    bool ok = !l->asking;
    *number = l->answer;
    pthread_mutex_unlock(&l->mutex);
    return ok;
}

const char *link_problem(void *link)
{
    struct link *l = link;
    return l->problem;
}

void link_close(struct link *l)
{
    pthread_mutex_lock(&l->mutex);
    l->closing = true;
    pthread_cond_broadcast(&l->change);
    pthread_mutex_unlock(&l->mutex);
    task_join(l->task);
    link_free(l);
}

void link_abort(struct link *l, int code)
{
    pthread_mutex_lock(&l->mutex);
    l->abort = code;
    pthread_cond_broadcast(&l->change);
    pthread_mutex_unlock(&l->mutex);
    pause_for(2 * KILLED_WITHIN); /* until mpirun ends it */
    exit(code);
}
