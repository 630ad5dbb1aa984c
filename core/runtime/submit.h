/* Runs under way, and the tickets that wait for one. */
#ifndef WHERRY_RUNTIME_SUBMIT_H
#define WHERRY_RUNTIME_SUBMIT_H

#include "runtime/batches.h"
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
    wherry_batch batch; /* the caller's, or what is kept of it: */
    uint32_t *kept;     /* offsets, ids, types, rows */
    size_t kept_words;  /* room there */
    struct share share; /* of its run */
};

/* Tickets in their order. */
struct ticket_list {
    struct wherry_ticket *first, *last;
};

/* A run under way. */
struct flight {
    struct run run;
    struct transfer download;
    struct batch_shape shape;
    uint32_t *offsets; /* [max sequences + 1] */
    void *output;      /* what it downloads */
    struct ticket_list tickets;
};

/* What a session has of tickets. It stays after the session, until the last of them is destroyed. */
struct tickets {
    struct wherry_session *session; /* NULL: it is destroyed */
    struct wherry_context *context;
    struct flight flights[RUN_SLOTS];
    int oldest, n_flights; /* under way: `oldest` and those after it, in a circle */
    struct ticket_list waiting, untold, unused;
    size_t n_waiting, waiting_tokens;
    size_t n_owned; /* tickets that somebody will destroy */
    bool calling;   /* a callback */
    /* What several tickets are merged in, [max sequences + 1] and [max tokens]: made when the first one waits. */
    uint32_t *offsets, *rows;
    int32_t *ids, *types;
};

/* Of a session whose memory has been made. */
struct tickets *tickets_create(struct wherry_session *s, struct error *e);
/* The end of the session: what is under way is waited for, what is not done is cancelled, and told. Accepts NULL. */
void tickets_close(struct tickets *q);
/* Waits for all that is under way, and starts nothing: whatever else the session is to do comes after it. */
bool tickets_drain(struct tickets *q, struct error *e);

/* One that is not in any list; fails with WHERRY_STATUS_BUSY where enough wait. */
struct wherry_ticket *ticket_new(struct tickets *q, uint32_t tokens, struct error *e);
/* The end of one that is in no list. */
void ticket_retire(struct wherry_ticket *t);
/* Its caller has no use for it any more. */
void ticket_release(struct wherry_ticket *t);
/* Hands in a ticket whose batch and `out` are set and checked. Fails where there is no memory to keep the batch in. */
bool ticket_enter(struct tickets *q, struct wherry_ticket *t, struct error *e);
/* Takes it out of whatever it is in; it is done, with this status. */
void ticket_cancel(struct wherry_ticket *t, const char *why);
/* Waits for the oldest run, if there is one, at most so long; takes its results, starts what waits and calls callbacks.
 * Whether a run was done. */
bool tickets_go_on(struct tickets *q, uint64_t timeout_ns);
/* Calls the callbacks of what is done. */
void tickets_tell(struct tickets *q);

#endif
