/* How numbers are written: a few digits for readers, all of them for programs, "-" for what is not known. */
#ifndef WHERRY_TOOLS_REPORT_FORMAT_H
#define WHERRY_TOOLS_REPORT_FORMAT_H

#include "output.h"

/* Four digits: "0.123", "12.34", "1234". */
const char *format_short(double value, char text[NUMBER_SIZE]);
/* "3.90 TB/s": with the prefix that leaves one to three digits before the point. */
const char *format_unit(double value, const char *unit, char text[NUMBER_SIZE]);
/* A share as whole percent, with one digit below 10: "63", "0.4". */
const char *format_percent(double share, char text[NUMBER_SIZE]);
/* As few digits as read back as the same double; "" for what is no finite number. */
const char *format_exact(double value, char text[NUMBER_SIZE]);

#endif
