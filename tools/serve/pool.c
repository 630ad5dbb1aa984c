/* Threads that read requests, tokenize their texts and write their answers. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/platform.h"
#include "complain.h"

struct job {
    void (*work)(struct worker *worker, void *what);
    void *what;
    struct job *next;
};

struct queue {
    struct job *first, *last;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    struct queue urgent, rest;
    bool stop;
    uint32_t threads;
    pthread_t thread[];
};

enum { THREADS_MOST = 256 };

static struct job *take(struct pool *pool)
{
    struct queue *queue = pool->urgent.first ? &pool->urgent : &pool->rest;
    struct job *job = queue->first;
    if (!job) return NULL;
    queue->first = job->next;
    if (!queue->first) queue->last = NULL;
    return job;
}

static void *work(void *user)
{
    struct pool *pool = user;
    struct worker worker = {.context = NULL};
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = ""};
    if (wherry_context_create(&desc, &worker.context)) need(NULL);
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        struct job *job;
        while (!(job = take(pool)) && !pool->stop) pthread_cond_wait(&pool->more, &pool->mutex);
        if (!job) break;
        pthread_mutex_unlock(&pool->mutex);
        job->work(&worker, job->what);
        free(job);
        pthread_mutex_lock(&pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    wherry_context_destroy(worker.context);
    return NULL;
}

struct pool *pool_create(uint32_t threads)
{
    size_t cores = system_cores();
    if (!threads) threads = (uint32_t)(!cores ? 1 : cores < THREADS_MOST ? cores : THREADS_MOST);
    struct pool *pool = need(calloc(1, sizeof *pool + threads * sizeof *pool->thread));
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->more, NULL);
    while (pool->threads < threads && !pthread_create(&pool->thread[pool->threads], NULL, work, pool)) pool->threads++;
    if (pool->threads) return pool;
    complain(0, "the system has no thread left");
    pool_destroy(pool);
    return NULL;
}

void pool_destroy(struct pool *pool)
{
    if (!pool) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t t = 0; t < pool->threads; t++) pthread_join(pool->thread[t], NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->more);
    free(pool);
}

uint32_t pool_threads(const struct pool *pool) { return pool->threads; }

void pool_add(struct pool *pool, void (*job_work)(struct worker *worker, void *what), void *what, bool first)
{
    struct job *job = need(malloc(sizeof *job));
    *job = (struct job){job_work, what, NULL};
    pthread_mutex_lock(&pool->mutex);
    struct queue *queue = first ? &pool->urgent : &pool->rest;
    if (queue->last)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    pthread_cond_signal(&pool->more);
    pthread_mutex_unlock(&pool->mutex);
}
