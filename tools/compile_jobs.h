/* Compiling by several processes of the command's own before anything is measured (--jobs, --compile-share): drivers
 * whose compiler serves one thread of a process at a time serve several processes. */
#ifndef WHERRY_TOOLS_COMPILE_JOBS_H
#define WHERRY_TOOLS_COMPILE_JOBS_H

#include "session.h"

struct compile_jobs {
    const char *what;  /* it is for */
    const char *cache; /* the folder that the processes compile into; NULL: the command's */
    double until;      /* of system_seconds(): who is at it then is asked to stop; INFINITY: never */
};

/* --compile-share, where it was given: which share, from 0, and of how many; else *shares is 0. An exit code. */
int compile_share(const struct options *options, uint32_t *share, uint32_t *shares);
/* How many processes --jobs says, or what is usual on the device; 1: this one compiles. An exit code. */
int compile_jobs_count(const struct tool *tool, uint32_t *jobs);
/* Starts so many processes of this command, each with its share, and waits for them; an exit code. What one of them
 * does not compile is compiled when it is run. */
int compile_jobs_run(const struct tool *tool, uint32_t jobs, const struct compile_jobs *desc);

#endif
