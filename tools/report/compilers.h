/* The table of what compilers make of kernels (data/compilers.json, scripts/compilers.py) as text, Markdown or a page. */
#ifndef WHERRY_TOOLS_REPORT_COMPILERS_H
#define WHERRY_TOOLS_REPORT_COMPILERS_H

#include <stdbool.h>

#include "options.h"

/* Whether the file, which stays as it is, is such a table. What can't be read is none: whoever reads it next says so. */
bool compilers_is_table(const char *path);
/* Writes it to --output in the format asked for. Returns an exit code. */
int compilers_report(const struct options *options, const char *path);

#endif
