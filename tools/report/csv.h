/* Parts of lines of CSV. */
#ifndef WHERRY_TOOLS_REPORT_CSV_H
#define WHERRY_TOOLS_REPORT_CSV_H

#include "output.h"
#include "report/model.h"
#include "report/rules.h"

/* Of the fields that are columns: their names, each behind a comma and `mode`; their values, or empty cells where
 * `from` is NULL. */
void csv_names(struct output *out, struct fields fields, const char *mode);
void csv_values(struct output *out, struct fields fields, const void *from);
/* What a line begins with: the run, the device, the work; and the names of that. */
extern const char csv_run_names[];
void csv_run(struct output *out, const struct record *record, uint64_t dev);

#endif
