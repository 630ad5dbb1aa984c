/* Tickets, and runs under way with those that are merged in them. */
#ifndef WHERRY_RUNTIME_FLIGHT_H
#define WHERRY_RUNTIME_FLIGHT_H

#include "runtime/batches.h"
#include "runtime/outside.h"
#include "runtime/results.h"

enum ticket_state { TICKET_WAITS, TICKET_RUNS, TICKET_DONE };

struct wherry_ticket {
    struct tickets *of;
    struct wherry_ticket *next; /* of the list that it is in: what waits, a run, what is to be told, what is free */
    enum ticket_state state;
    wherry_status status; /* when it is done, */
    struct error error;   /* and why */
    bool told;            /* there is no callback that is still to be called */
    bool ownerless;       /* destroyed by its caller, or never given out: it goes when it is done and told */
    bool caller_waits;    /* this is wherry_encode's */
    float *out;
    wherry_done done;
    void *user;
    wherry_batch batch;            /* the caller's, or what is kept of it: */
    uint32_t *kept;                /* offsets, ids, types, rows */
    size_t kept_words;             /* room there */
    struct share share;            /* of its run */
    const struct outside *outside; /* until it is entered: what it has of the application\'s; NULL: nothing */
};

/* Tickets in their order. */
struct ticket_list {
    struct wherry_ticket *first, *last;
};

/* A run under way. */
struct flight {
    /* Of the programs beside the session's (runtime/outside.h): `known` looks at ids, `wide` makes floats of results.
     * Without grids: there is none. */
    struct run run, known, wide;
    struct transfer downloads[2];
    struct batch_shape shape;
    uint32_t *offsets; /* [max sequences + 1] */
    void *output;      /* what it downloads */
    struct ticket_list tickets;
    bool external; /* its ticket has something of the application's: */
    struct outside outside;
    int next;         /* the first call that was not submitted yet */
    bool paused;      /* until `resume` nothing of it is under way */
    uint64_t resume;  /* by clock_ns() */
    uint64_t started; /* likewise: its last portion was submitted */
    bool watched;     /* that portion was seen to be not done yet */
    int from;         /* its first call */
};

/* What a session has of tickets. It stays after the session, until the last of them is destroyed. */
struct tickets {
    struct wherry_session *session; /* NULL: it is destroyed */
    struct wherry_context *context;
    struct flight flights[RUN_SLOTS];
    int oldest, n_flights; /* under way: `oldest` and those after it, in a circle */
    struct ticket_list waiting, untold, unused;
    size_t n_waiting, waiting_tokens, waiting_sequences;
    size_t n_owned; /* tickets that somebody will destroy */
    bool calling;   /* a callback */
    /* What several tickets are merged in, [max sequences + 1] and [max tokens]: made when the first one waits. */
    uint32_t *offsets, *rows;
    int32_t *ids, *types;
    struct aside *known_ids, *widen; /* made by the first run that wants it */
};

static inline void list_add(struct ticket_list *list, struct wherry_ticket *t)
{
    t->next = NULL;
    if (list->last)
        list->last->next = t;
    else
        list->first = t;
    list->last = t;
}

static inline struct wherry_ticket *list_take(struct ticket_list *list)
{
    struct wherry_ticket *t = list->first;
    if (!t) return NULL;
    list->first = t->next;
    if (!list->first) list->last = NULL;
    return t;
}

static inline bool list_remove(struct ticket_list *list, struct wherry_ticket *t)
{
    struct wherry_ticket *before = NULL, *at = list->first;
    for (; at && at != t; at = at->next) before = at;
    if (!at) return false;
    *(before ? &before->next : &list->first) = t->next;
    if (list->last == t) list->last = before;
    return true;
}

/* One more, or fewer, that waits. */
static inline void waiting_count(struct tickets *q, const struct wherry_ticket *t, bool more)
{
    const size_t sign = more ? 1 : (size_t)-1; /* which wraps */
    q->n_waiting += sign;
    q->waiting_tokens += sign * t->share.tokens;
    q->waiting_sequences += sign * t->share.sequences;
}

/* Makes the memory of a slot where it has none yet. */
bool flight_make(struct tickets *q, struct flight *f, struct error *e);
/* Takes what fits of what waits into the flight, and submits it, or its first portion. */
bool flight_start(struct tickets *q, struct flight *f, int slot, struct error *e);
/* Waits for it, at most so long, and submits what is left of it. *done: it is at its end, also after a failure. */
bool flight_await(struct tickets *q, struct flight *f, int slot, uint64_t timeout_ns, bool *done, struct error *e);

#endif
