/* What one device is to the host's cores, where records have the same work on both. */
#ifndef WHERRY_TOOLS_REPORT_VERSUS_H
#define WHERRY_TOOLS_REPORT_VERSUS_H

#include "report/load.h"

/* A line for each device that ran what the device cpu ran in another record, ended by '\n': "opencl:0 (...) is 30.0
 * times as fast as cpu (...): ...". "" where there is none. To be freed. */
char *versus_lines(const struct report *report);

#endif
