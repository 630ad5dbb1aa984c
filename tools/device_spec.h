/* A device's peaks by name, from a file that lists them, or from a record of measured ceilings. */
#ifndef WHERRY_TOOLS_DEVICE_SPEC_H
#define WHERRY_TOOLS_DEVICE_SPEC_H

#include <wherry/wherry_measure.h>

#include "session.h"

enum { DEVICE_SPECS_MAX = 8 };

/* Reads "NAME|FILE[#N],...". Returns an exit code, and has complained when it is not EXIT_FINE. */
int device_specs_read(const char *text, wherry_device_spec specs[DEVICE_SPECS_MAX], size_t *count);
/* What the record's ceilings of device `dev` say; 0 where there is none. */
void device_spec_measured(const json_t *record, json_int_t dev, wherry_device_spec *out);
/* "--device-spec list": the names that there are, with their peaks. Returns an exit code. */
int device_sheets_report(const struct options *options);

#endif
