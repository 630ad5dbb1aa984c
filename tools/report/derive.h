/* The derived numbers of a record: all of them follow from its raw fields, here and nowhere else, so that a stored
 * record can be checked by deriving them again. */
#ifndef WHERRY_TOOLS_REPORT_DERIVE_H
#define WHERRY_TOOLS_REPORT_DERIVE_H

#include <jansson.h>
#include <wherry/wherry_measure.h>

/* Sets every derived field of the record: ceilings' values and which is the best, operations' derived numbers, shares
 * and checks, plans' sums, the sentinel's drift, the warnings that follow from these, the status. */
void record_derive(json_t *record);
/* The value of the device's best ceiling of this id; 0: none. */
double record_ceiling(const json_t *record, const json_t *entry, const char *id);
/* Whether the record has ceilings of the device that `entry` is about. */
bool record_has_roof(const json_t *record, const json_t *entry);
/* Adds a warning; `plan` and `op` may be NULL. */
void record_warn(json_t *record, const char *code, const char *plan, const char *op, const char *text);

extern const char *const class_names[3]; /* in the order in which they are listed */
enum { REGIMES = 5 };
extern const char *const regime_names[REGIMES];
/* Warnings that follow from the record; others are notes of whoever made it. */
extern const char *const derived_warnings[3];

#endif
