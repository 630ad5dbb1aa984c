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
/* The same of measured layouts, which `value` is (report/layouts.h). */
void layouts_check(const json_t *value, struct check *check);

/* Prints what is wrong at a place. */
void check_wrong(struct check *check, const char *path, const char *why);
/* Every field of `derived` against the one that is stored; what is stored besides is not looked at. */
void check_compare(struct check *check, const char *path, const json_t *stored, const json_t *derived);

#endif
