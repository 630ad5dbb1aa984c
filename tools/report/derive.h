/* The derived numbers of a record: all of them follow from its raw fields, here and nowhere else, so that a stored
 * record can be checked by deriving them again. */
#ifndef WHERRY_TOOLS_REPORT_DERIVE_H
#define WHERRY_TOOLS_REPORT_DERIVE_H

#include "report/model.h"

/* Makes every derived field of the record: ceilings' values and which is the best, operations' derived numbers, shares
 * and checks, plans' sums, the sentinel's drift, the warnings that follow from these, the status. The tree is left as
 * it is: record_write. */
void record_derive(struct record *record);
/* Whether a warning follows from the record; others are notes of whoever made it. */
bool warning_is_derived(const struct record_warning *warning);

#endif
