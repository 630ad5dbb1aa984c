/* What one device is to the host's cores, where records have the same work on both. */
#ifndef WHERRY_TOOLS_REPORT_VERSUS_H
#define WHERRY_TOOLS_REPORT_VERSUS_H

#include "report/load.h"

/* A line for each device that ran what the device cpu ran in another record, ended by '\n': "opencl:0 (...) is 30.0
 * times as fast as cpu (...): ...". "" where there is none. To be freed. */
char *versus_lines(const struct report *report);

/* What a record's workload is, whatever type its values have, and which phases of the plan were measured: records with
 * the same text did the same work. `plan` may be NULL. To be freed. */
char *record_work_text(const struct record *record, const struct record_plan *plan);
/* The plan of the device whose step took least; NULL: none was measured. */
const struct record_plan *record_fastest_plan(const struct record *record, uint64_t dev);

#endif
