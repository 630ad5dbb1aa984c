/* What people are told on standard error, and the end of memory. */
#ifndef WHERRY_TOOLS_COMPLAIN_H
#define WHERRY_TOOLS_COMPLAIN_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/printf_like.h"

struct options;

/* Memory or the end of the process, with a message: the command's way of running out of memory. */
void *need(void *pointer);
/* What is printed, made harmless by utf8_show, as memory to free; with `lines` line ends stay. */
char *shown_text(bool lines, const char *format, va_list arguments);

/* From here on complaints name the process, from 1 on, of several that mpirun started. Where process 0 has the same to
 * say, it says it first, and ends the others meanwhile; of interruptions it alone speaks. */
void complain_as(unsigned process, const char *host);
/* Prints "wherry: <sentence>" on standard error, clearing a progress line first; returns `code`. */
int complain(int code, const char *format, ...) PRINTF_LIKE(2, 3);

/* A line on a terminal that is written over: nothing is printed unless standard error is a terminal, --quiet is absent
 * and more than a second has passed since progress_start. */
void progress_start(const struct options *options);
void progress_show(const char *format, ...) PRINTF_LIKE(1, 2);
void progress_end(void);

#endif
