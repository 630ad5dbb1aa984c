/* Weights that sessions of a device have in common. What one session plans is an arena: some tensors of a model, and
 * the blocks that they lie in. A later session uses of all arenas what it needs, and has an arena of its own for the
 * rest. A tensor is the same one where model, weight, layer, type, order and the cut into pieces are. */
#ifndef WHERRY_RUNTIME_SHARED_WEIGHTS_H
#define WHERRY_RUNTIME_SHARED_WEIGHTS_H

#include "base/mutex.h"
#include "plan/memory.h"

struct wherry_session;
struct buffer;
struct weight_arena;

/* Of a device. */
struct weight_store {
    struct mutex lock;   /* of the arenas' list and counts of sessions */
    struct mutex memory; /* of their buffers; whoever makes them has it until the weights are there. Before `lock` */
    struct weight_arena *arenas;
};
void weight_store_make(struct weight_store *store);
void weight_store_free(struct weight_store *store); /* no session has anything of it */

/* What a session has of it. */
struct shared_weights {
    bool wanted; /* the session is of a kind that shares */
    struct memory_given given;
    struct placement *of;         /* [n_tensors], given.of */
    int *numbers;                 /* [n_tensors]: which one of its arena's such a tensor is */
    struct memory_block *blocks;  /* given.blocks */
    struct weight_arena **arenas; /* [given.n_blocks]: of which the block is */
    int *arena_blocks;            /* [given.n_blocks]: its number there */
    struct weight_arena *own;     /* the session's other weights: the blocks after the given ones; NULL: there are none,
                                     or they are nobody's but its own */
    bool held;                    /* buffers of all these exist, for this session, too */
};

/* Finds what the store has of the weights that the session's groups read, and keeps it there: what was found before is
 * given back. Without `wanted` nothing is found. */
bool shared_weights_find(struct wherry_session *s, struct error *e);
/* Lets others find the weights that were not found, as the session's memory plan has them. *again: others have put some
 * of them there meanwhile, so that memory is to be planned anew, after shared_weights_find. */
bool shared_weights_publish(struct wherry_session *s, bool *again, struct error *e);
void shared_weights_leave(struct wherry_session *s); /* gives all back; accepts one that found nothing */

/* Whether this block of the session's memory plan is of an arena. */
bool shared_weights_has(const struct wherry_session *s, int block);
/* Makes buffers of arenas that have none; the store's `memory` is held. */
bool shared_weights_hold(struct wherry_session *s, struct error *e);
void shared_weights_release(struct wherry_session *s); /* takes `memory`; what nobody holds is destroyed */
struct buffer *shared_weights_buffer(const struct wherry_session *s, int block);
/* Whether the block's weights are there already; and that they are, of all blocks. With `memory` held. */
bool shared_weights_ready(const struct wherry_session *s, int block);
void shared_weights_set_ready(struct wherry_session *s);

/* Bytes of buffers that shared_weights_hold would make, with `memory` held; and of the session's own arena. */
uint64_t shared_weights_missing(const struct wherry_session *s);
uint64_t shared_weights_own(const struct wherry_session *s);
/* Bytes of the session's weights that other sessions have, too. */
uint64_t shared_weights_bytes(const struct wherry_session *s);

#endif
