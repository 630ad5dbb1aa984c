/* Measured layouts as `wherry bench layouts --json` writes them (docs/layouts.schema.json): read, and as tables. */
#ifndef WHERRY_TOOLS_REPORT_LAYOUTS_H
#define WHERRY_TOOLS_REPORT_LAYOUTS_H

#include <jansson.h>
#include <stdbool.h>

#include "output.h"

#define LAYOUTS_SCHEMA "layouts-1"

/* Whether the value is meant to be one; it may be a wrong one. */
bool layouts_is(const json_t *value);
/* What keeps a value from being one, in `why`; false: it is none. */
bool layouts_validate(const json_t *value, char why[256]);

/* A row for each kernel and contraction, beside the paper's. */
void layouts_text(struct output *out, const json_t *values);
void layouts_markdown(struct output *out, const json_t *values);
void layouts_csv(struct output *out, const json_t *values);

#endif
