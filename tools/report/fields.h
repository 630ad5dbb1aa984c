/* JSON's trees: single fields, which may be null, and all of an object by a table of them (report/rules.h), as
 * structures of C. */
#ifndef WHERRY_TOOLS_REPORT_FIELDS_H
#define WHERRY_TOOLS_REPORT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <wherry/wherry_measure.h>

#include "report/rules.h"

/* ---- one field ---- */

/* NAN where the field is null, absent or no number. `path` may have dots: "step.host.median". */
double field_number(const json_t *object, const char *path);
/* "" where there is none. */
const char *field_text(const json_t *object, const char *path);
bool field_true(const json_t *object, const char *path);
/* NULL where there is none; a null of JSON is none. */
json_t *field_get(const json_t *object, const char *path);

/* ---- values ---- */

/* A number, null where it is not finite. */
json_t *number_json(double value);
/* null where n is 0. */
json_t *time_json(const wherry_time *time);

/* ---- structures ---- */

/* Fills in what the fields are in `*into`, of an object that fits their rules; where it lacks one, or is NULL, with
 * none. Texts are the tree's. */
void fields_read(const json_t *object, struct fields fields, void *into);
/* Sets the fields in the object, or the derived ones alone; but none below a null. */
void fields_write(json_t *object, struct fields fields, bool derived, const void *from);

#endif
