/* Whether a JSON value is a record. */
#ifndef WHERRY_TOOLS_REPORT_VALIDATE_H
#define WHERRY_TOOLS_REPORT_VALIDATE_H

#include <jansson.h>
#include <stdbool.h>

/* What keeps a value from being a record, in `why`; false: it is none. */
bool record_validate(const json_t *record, char why[256]);

#endif
