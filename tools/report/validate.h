/* Whether a JSON value is a record. */
#ifndef WHERRY_TOOLS_REPORT_VALIDATE_H
#define WHERRY_TOOLS_REPORT_VALIDATE_H

#include "report/model.h"

/* Reads a record, to be closed, of whose tree it keeps a reference; false: the value is none, and what keeps it from
 * being one is in `why`. */
bool record_read(json_t *json, struct record *record, char why[256]);

#endif
