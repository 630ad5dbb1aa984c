/* `wherry tune`'s compiling by several processes of its own before anything is measured (--jobs, --compile-share). */
#ifndef WHERRY_TOOLS_TUNE_JOBS_H
#define WHERRY_TOOLS_TUNE_JOBS_H

#include <wherry/wherry_measure.h>

#include "session.h"

/* --compile-share, where it was given, into the description; an exit code. */
int tune_parse_share(const struct options *options, wherry_tune_desc *desc);
/* Starts as many processes of this command as --jobs says, each with its share, and waits for them; an exit code. What
 * one of them does not compile is compiled when it is tried. */
int tune_jobs(const struct tool *tool);

#endif
