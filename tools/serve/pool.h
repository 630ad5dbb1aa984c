/* Threads that read requests, tokenize their texts and write their answers. */
#ifndef WHERRY_SERVE_POOL_H
#define WHERRY_SERVE_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <wherry/wherry.h>

/* A thread's own. */
struct worker {
    wherry_context *context; /* contexts belong to one thread at a time */
};

struct pool;
/* threads 0: one for each core. Complains and returns NULL where there is none. */
struct pool *pool_create(uint32_t threads);
/* What waits is done first. Accepts NULL. */
void pool_destroy(struct pool *pool);
uint32_t pool_threads(const struct pool *pool);
/* `first`: before all that waits. */
void pool_add(struct pool *pool, void (*work)(struct worker *worker, void *what), void *what, bool first);

#endif
