/* Where the time goes from a command's start to its first result. */
#ifndef WHERRY_TOOLS_TIMINGS_H
#define WHERRY_TOOLS_TIMINGS_H

#include "session.h"

/* Prints what the context's account says now (wherry_context_parts) on standard error: a table, or with --json an
 * object on one line. */
void timings_print(struct tool *tool);

#endif
