/* Whether a record's derived numbers are those that follow from its raw ones. */
#ifndef WHERRY_TOOLS_REPORT_CHECK_H
#define WHERRY_TOOLS_REPORT_CHECK_H

#include "output.h"
#include "report/model.h"

struct check {
    struct output *out;
    const char *file; /* for messages */
    size_t numbers, wrong;
};

/* Derives everything again and prints each field that differs, or that its raw neighbours contradict. Adds to the
 * counts. */
void record_check(const struct record *record, struct check *check);

#endif
