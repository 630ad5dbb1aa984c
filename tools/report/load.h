/* Reads files of records and tunings. */
#ifndef WHERRY_TOOLS_REPORT_LOAD_H
#define WHERRY_TOOLS_REPORT_LOAD_H

#include <jansson.h>

/* The records of a file ("-": standard input), one or an array of them, each with all that the schema asks for; NULL,
 * having complained, where it can't be read or is something else. */
json_t *records_load(const char *path);
/* The same, of records or of tunings (report/tuning.h), which are never together in a file. */
json_t *report_load(const char *path);

#endif
