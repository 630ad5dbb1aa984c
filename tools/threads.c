/* Threads of the command, and a lock that they get in the order in which they came. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "threads.h"

#include <stdbool.h>
#include <stdlib.h>

#include "complain.h"

#ifdef _WIN32
#include <windows.h>
typedef SRWLOCK mutex;
typedef CONDITION_VARIABLE condition;
static void mutex_init(mutex *m) { InitializeSRWLock(m); }
static void mutex_end(mutex *m) { (void)m; }
static void mutex_lock(mutex *m) { AcquireSRWLockExclusive(m); }
static void mutex_unlock(mutex *m) { ReleaseSRWLockExclusive(m); }
static void condition_init(condition *c) { InitializeConditionVariable(c); }
static void condition_end(condition *c) { (void)c; }
static void condition_wait(condition *c, mutex *m) { SleepConditionVariableSRW(c, m, INFINITE, 0); }
static void condition_wake(condition *c) { WakeConditionVariable(c); }
#else
#include <pthread.h>
#include <signal.h>
typedef pthread_mutex_t mutex;
typedef pthread_cond_t condition;
static void mutex_init(mutex *m) { pthread_mutex_init(m, NULL); }
static void mutex_end(mutex *m) { pthread_mutex_destroy(m); }
static void mutex_lock(mutex *m) { pthread_mutex_lock(m); }
static void mutex_unlock(mutex *m) { pthread_mutex_unlock(m); }
static void condition_init(condition *c) { pthread_cond_init(c, NULL); }
static void condition_end(condition *c) { pthread_cond_destroy(c); }
static void condition_wait(condition *c, mutex *m) { pthread_cond_wait(c, m); }
static void condition_wake(condition *c) { pthread_cond_signal(c); }
#endif

/* ---- threads ---- */

struct task {
    void (*work)(void *user);
    void *user;
#ifdef _WIN32
    HANDLE handle;
#else
    pthread_t handle;
#endif
};

#ifdef _WIN32

static DWORD WINAPI run(LPVOID task)
{
    const struct task *t = task;
    t->work(t->user);
    return 0;
}

static bool start(struct task *t) { return (t->handle = CreateThread(NULL, 0, run, t, 0, NULL)) != NULL; }

static void join(struct task *t)
{
    WaitForSingleObject(t->handle, INFINITE);
    CloseHandle(t->handle);
}

#else

static void *run(void *task)
{
    const struct task *t = task;
    t->work(t->user);
    return NULL;
}

/* Signals are for the main thread, which asks for them. */
static bool start(struct task *t)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int code = pthread_create(&t->handle, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code == 0;
}

static void join(struct task *t) { pthread_join(t->handle, NULL); }

#endif

struct task *task_start(void (*work)(void *user), void *user)
{
    struct task *task = need(malloc(sizeof *task));
    task->work = work;
    task->user = user;
    if (start(task)) return task;
    free(task);
    return NULL;
}

void task_join(struct task *task)
{
    if (task) join(task);
    free(task);
}

/* ---- turns ---- */

struct waiting {
    condition woken;
    bool turn;
    struct waiting *next;
};

struct turns {
    mutex mutex;
    bool taken;
    struct waiting *first, *last; /* on the waiting threads' stacks */
};

struct turns *turns_create(void)
{
    struct turns *turns = need(calloc(1, sizeof *turns));
    mutex_init(&turns->mutex);
    return turns;
}

void turns_destroy(struct turns *turns)
{
    if (turns) mutex_end(&turns->mutex);
    free(turns);
}

/* Holding the mutex. */
static void wait_for_turn(struct turns *turns)
{
    struct waiting me = {.turn = false};
    condition_init(&me.woken);
    if (turns->last)
        turns->last->next = &me;
    else
        turns->first = &me;
    turns->last = &me;
    while (!me.turn) condition_wait(&me.woken, &turns->mutex);
    condition_end(&me.woken);
}

void turns_take(struct turns *turns)
{
    mutex_lock(&turns->mutex);
    if (turns->taken)
        wait_for_turn(turns);
    else
        turns->taken = true;
    mutex_unlock(&turns->mutex);
}

/* It stays taken where somebody waits: the first of them has it. */
void turns_give(struct turns *turns)
{
    mutex_lock(&turns->mutex);
    struct waiting *next = turns->first;
    turns->taken = next != NULL;
    if (next) {
        turns->first = next->next;
        if (!turns->first) turns->last = NULL;
        next->turn = true;
        condition_wake(&next->woken); /* under the mutex: it may be gone right after */
    }
    mutex_unlock(&turns->mutex);
}
