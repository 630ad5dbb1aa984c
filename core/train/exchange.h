/* Messages between the processes that train one model (wherry_exchange). */
#ifndef WHERRY_TRAIN_EXCHANGE_H
#define WHERRY_TRAIN_EXCHANGE_H

#include <wherry/wherry_train.h>

#include "base/host.h"

/* Messages to a process at a time, at most: more than some buckets have, of as many parts as a tree has. */
enum { EXCHANGE_EACH = 6 * 24 + 16 };

struct exchange {
    wherry_exchange of; /* processes 1: nobody is there to send to */
    const struct host *host;
    wherry_message *sends, *receives; /* [EXCHANGE_EACH * processes]; owned */
    size_t n_sends, n_receives;       /* of what is put together */
    wherry_exchange_times times;
};

bool exchange_check(const wherry_exchange *desc, struct error *e);
/* `desc` is checked; NULL: this process is alone. */
bool exchange_open(const struct host *host, const wherry_exchange *desc, struct exchange *out, struct error *e);
void exchange_close(struct exchange *x); /* accepts a zeroed one */

/* Puts a message into what exchange_start starts; one without bytes is none. */
void exchange_send(struct exchange *x, uint32_t to, const void *data, size_t bytes);
void exchange_receive(struct exchange *x, uint32_t from, void *data, size_t bytes);
bool exchange_start(struct exchange *x, struct error *e);
/* Waits for the oldest that was started. */
bool exchange_finish(struct exchange *x, struct error *e);
/* As wherry_exchange.share, which is there. */
bool exchange_share(struct exchange *x, size_t bytes, void **memory, struct error *e);
/* Every process gets what each has: process p has the bytes from begins[p] to begins[p + 1] of `all`. */
bool exchange_gather(struct exchange *x, void *all, const size_t *begins, struct error *e);
/* Whether `value` is the same everywhere; false and the first process that has another. */
bool exchange_same(struct exchange *x, uint64_t value, uint32_t *other, bool *same, struct error *e);

#endif
