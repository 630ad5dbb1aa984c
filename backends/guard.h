/* Compilers that may end the process: what is being compiled is written to the cache before, and taken out of it after.
 * Where a process finds what an earlier one left there, that program is compiled alone, and where it was alone when
 * that process ended, it is not compiled again. */
#ifndef WHERRY_BACKENDS_GUARD_H
#define WHERRY_BACKENDS_GUARD_H

#include "base/host.h"

enum guard_state {
    GUARD_FREE,
    GUARD_SUSPECT, /* it was compiled beside others by a process that has ended since: one of them is to blame */
    GUARD_REFUSED, /* it was compiled alone by one */
};

/* `key`: a hash of all that the program is made of and by; `path` gets the file that says so. Without a cache folder
 * all is free. Takes memory from the host for a moment where there is a file. */
enum guard_state guard_state(const struct host *host, uint64_t key, char path[800]);
/* Around a program's compilation. `alone`: nothing else is compiled at the same time. Both take no memory. */
void guard_begin(const struct host *host, const char *kernel, uint64_t key, bool alone);
void guard_end(const struct host *host, uint64_t key);
/* Fails with WHERRY_STATUS_COMPILE_FAILED: the sentence for a program that is refused. */
bool guard_fail(const char *kernel, const char *path, struct error *e);

#endif
