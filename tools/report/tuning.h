/* Tunings as `wherry tune --json` writes them (docs/tuning.schema.json): read, and as tables. Microseconds and
 * milliseconds as the keys say; null is what was not measured. */
#ifndef WHERRY_TOOLS_REPORT_TUNING_H
#define WHERRY_TOOLS_REPORT_TUNING_H

#include <jansson.h>
#include <stdbool.h>

#include "output.h"

/* Whether the value is meant to be a tuning; it may be a wrong one. */
bool tuning_is(const json_t *value);
/* What keeps a value from being a tuning, in `why`; false: it is none. */
bool tuning_validate(const json_t *value, char why[256]);

/* Of an array of tunings the figures of each plan, and a row for each operator, or for each kernel call where there are
 * no layouts. CSV has both kinds of rows, and no figures. */
void tuning_text(struct output *out, const json_t *tunings);
void tuning_markdown(struct output *out, const json_t *tunings);
void tuning_csv(struct output *out, const json_t *tunings);

#endif
