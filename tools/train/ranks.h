/* The processes of a training that mpirun started: which this is, which device it has, and how they end together.
 * Alone, all of this does nothing. */
#ifndef WHERRY_TOOLS_TRAIN_RANKS_H
#define WHERRY_TOOLS_TRAIN_RANKS_H

#include <wherry/wherry_train.h>

#include "session.h"

struct ranks {
    uint32_t process, processes; /* 0 of 1: alone */
    uint32_t local, locals;      /* of those on this host */
    bool started;                /* by mpirun, be it alone */
    struct link *link;           /* NULL: not */
    wherry_exchange exchange;    /* with a link */
};

/* Whether mpirun, or the like of it, started this process. */
bool ranks_started(void);
/* These complain and return an exit code; all processes call them. */
int ranks_open(struct ranks *ranks, const struct options *options);
/* Waits for the others. Accepts a zeroed one. */
void ranks_close(struct ranks *ranks);
/* After an error of this process: ends all of them. Returns where it is alone. */
void ranks_abort(struct ranks *ranks, int code);
/* Makes *flag true where it is so in any process. */
int ranks_any(struct ranks *ranks, bool *flag);
/* Whether all have this number; complains "process 2 has other WHAT than process 0: HELP". */
int ranks_same(struct ranks *ranks, uint64_t number, const char *what, const char *help);
/* Opens the tool's context with the process' own options, which it may change: process 0 tells of the run and leaves
 * what comes of it, others compute. Where --device names none, or an API alone, each process has one of its host's, in
 * turns; *device: memory to free after the context. */
int ranks_open_context(struct ranks *ranks, struct tool *tool, struct options *own, char **device);
/* Of so many steps, for one of them: bytes, seconds, and the share of these that was hidden behind other work. */
json_t *exchange_json(const wherry_exchange_times *times, uint32_t steps);

#endif
