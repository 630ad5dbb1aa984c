/* The processes of a command that mpirun started: which this is, which device it has, and how they end together.
 * Alone, all of this does nothing. */
#ifndef WHERRY_TOOLS_RANKS_H
#define WHERRY_TOOLS_RANKS_H

#include <wherry/wherry_train.h>

#include "session.h"

struct ranks {
    uint32_t process, processes; /* 0 of 1: alone */
    uint32_t local, locals;      /* of those on this host */
    bool started;                /* by mpirun, be it alone */
    struct link *link;           /* NULL: not */
    wherry_exchange exchange;    /* with a link */
    uint64_t counted;            /* without: numbers of ranks_count */
    char *device;                /* that was chosen for this process; owned */
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
/* Makes *number the sum of all processes' numbers. */
int ranks_sum(struct ranks *ranks, uint64_t *number);
/* Whether all have this number; complains "process 2 has other WHAT than process 0: HELP". */
int ranks_same(struct ranks *ranks, uint64_t number, const char *what, const char *help);
/* The next number, from 0, of a counter that all processes share. */
int ranks_count(struct ranks *ranks, uint64_t *number);
/* Makes `own`, the user's options, those of this process, until ranks_close: its device, where --device names none or
 * an API alone, is one of its host's, in turns; the device `cpu` has a part of the cores; and process 0 alone tells of
 * the work and keeps a log. */
int ranks_options(struct ranks *ranks, struct options *own);
/* Of so many steps, for one of them: bytes, seconds, and the share of these that was hidden behind other work. */
json_t *exchange_json(const wherry_exchange_times *times, uint32_t steps);

#endif
