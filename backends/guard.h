/* Compilers that may end the process: what is being compiled is written to the cache before, and taken out of it after.
 * Where a process finds what an earlier one left there, that program is not compiled again. */
#ifndef WHERRY_BACKENDS_GUARD_H
#define WHERRY_BACKENDS_GUARD_H

#include "base/host.h"

/* `key`: a hash of all that the program is made of and by. False: a process that has ended since began to compile it
 * and did not come back; `path` gets the file that says so. Without a cache folder nothing is guarded. */
bool guard_begin(const struct host *host, const char *kernel, uint64_t key, char path[800]);
void guard_end(const struct host *host, uint64_t key);
/* Fails with WHERRY_STATUS_COMPILE_FAILED: the sentence for a program that guard_begin refused. */
bool guard_fail(const char *kernel, const char *path, struct error *e);

#endif
