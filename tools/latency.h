/* Requests of one text each, from several threads at once, as a server has them: how long each takes. */
#ifndef WHERRY_TOOLS_LATENCY_H
#define WHERRY_TOOLS_LATENCY_H

#include "report/histogram.h"
#include "session.h"

struct request;
struct client;
struct turns;

struct latency {
    struct tool *tool;                /* with model and device open */
    const struct random_batch *batch; /* of the requests' lengths; its ids are those of models without a tokenizer */
    bool per_client;                  /* a session each; else one that clients get in turn */
    struct request *requests;         /* taken in turn */
    struct client *clients;
    uint32_t client_count;
    struct turns *turns;
    struct options *quietly; /* those of the clients' contexts */
};

/* What one number of clients gave. */
struct load {
    uint32_t clients;
    double warm_seconds;
    double seconds;             /* from the beginning of the first counted request to the end of the last */
    double waited;              /* for the shared session, over all requests */
    struct histogram histogram; /* of whole requests, waiting included */
};

/* All of these return an exit code, and have complained when it is not EXIT_FINE. */

/* Makes requests of the batch's lengths, and all that `clients` clients need, the session or sessions included. What
 * was opened is for latency_close, also after a failure. */
int latency_open(struct latency *latency, uint32_t clients);
void latency_close(struct latency *latency);
/* Each client sends its next request when the last one is answered, `warm` seconds without counting, then for
 * `seconds`, or where that is 0, until `requests` of them together were answered. A request that was begun is counted,
 * and each client has one at least where seconds are given. */
int latency_load(struct latency *latency, uint32_t clients, double warm, double seconds, uint32_t requests,
                 struct load *load);
/* One request after `idle` seconds in which the process does nothing. */
int latency_idle(struct latency *latency, double idle, double *seconds);

#endif
