/* Rules that the fields of an object have to fit. */
#ifndef WHERRY_TOOLS_REPORT_RULES_H
#define WHERRY_TOOLS_REPORT_RULES_H

#include <jansson.h>
#include <stdbool.h>

/* 's' text, 'n' number not below 0, 'i' index, 'b' true or false, 'o' object, 'a' array, 't' a time; upper case: or
 * null. 'M': as 'N', and may be missing. '*': anything */
struct rule {
    const char *path;
    char kind;
};
#define RULES(list) list, sizeof list / sizeof *list

/* What does not fit is in `why`, with its place after `where`. */
bool object_fits(const json_t *object, const struct rule *rules, size_t count, const char *where, char why[256]);

#endif
