/* Messages between processes that mpirun started. */
#ifndef WHERRY_TOOLS_MPI_LINK_H
#define WHERRY_TOOLS_MPI_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <wherry/wherry_train.h>

enum { LINK_NAME = 128 };

struct link;
struct link_place {
    uint32_t process, processes; /* of all */
    uint32_t local, locals;      /* of those on this host */
    char host[LINK_NAME];
};

/* Every process calls this. One thread, the link's own, speaks MPI from its first call to its last
 * (MPI_THREAD_FUNNELED). `silence`: seconds without a sign of life from the process before this one, after which it
 * ends the job. NULL, and `why`. */
struct link *link_open(double silence, struct link_place *place, char why[256]);
/* Every process calls this, and waits for the others. */
void link_close(struct link *link);
/* Ends the processes of the whole job, this one too. */
void link_abort(struct link *link, int code);
/* What wherry_exchange has, with the link as its user. */
bool link_start(void *link, const wherry_message *sends, size_t n_sends, const wherry_message *receives,
                size_t n_receives);
bool link_finish(void *link, double *seconds);
const char *link_problem(void *link);
/* By all processes at the same time; the memory is the link's. */
bool link_share(void *link, size_t bytes, void **memory);
/* For link_share: this process' place; and memory to be closed with the link, `shared` being its own then. */
const struct link_place *link_place_of(const struct link *link);
struct shared_memory;
void link_keep(struct link *link, struct shared_memory *shared, uint32_t count);
/* The next number, from 0, of a counter that all processes share: each gets numbers that no other gets. Any of them may
 * ask at any time until one calls link_close; a process asks for one at a time. False: link_problem says why. */
bool link_count(struct link *link, uint64_t *number);

#endif
