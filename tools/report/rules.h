/* Fields of JSON objects: what they have to be, and where C has them. */
#ifndef WHERRY_TOOLS_REPORT_RULES_H
#define WHERRY_TOOLS_REPORT_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* What a field is in a structure (report/fields.h reads and writes it). A value of another type is none. */
enum field_type {
    FIELD_NONE = 0, /* it is in none */
    FIELD_TEXT,     /* const char *, the JSON value's own; "": none */
    FIELD_NUMBER,   /* double; NAN: none */
    FIELD_WHOLE,    /* the same of whole numbers */
    FIELD_COUNT,    /* uint64_t; 0: none */
    FIELD_SAMPLES,  /* uint32_t, as far as that goes */
    FIELD_FLAG,     /* bool */
    FIELD_THERE,    /* bool: there is a value, and it is not null */
    FIELD_LOW,      /* double: the first number of an array, */
    FIELD_HIGH,     /* and the second */
    FIELD_TIME      /* wherry_time; `median` NAN, n 0: none */
};

struct field {
    const char *path; /* "step.host" */
    /* 's' text, 'n' number not below 0, 'i' index, 'b' true or false, 'o' object, 'a' array, 't' a time; upper case: or
     * null. 'M': as 'N', and may be missing. '*': anything; '-': and nothing at all */
    char rule;
    enum field_type type;
    size_t offset;      /* of the structure */
    bool derived;       /* it follows from others, and is written when they changed */
    const char *column; /* of CSV; NULL: none */
};

/* Those of one kind of object. */
struct fields {
    const struct field *list;
    size_t count;
};
#define FIELDS(list) ((struct fields){list, sizeof list / sizeof *list})

extern const struct fields time_fields; /* of wherry_time */

/* What has this path, NULL: nothing. *beyond is set where a value on the way is null, below which there is nothing to
 * ask for. */
json_t *value_at(const json_t *object, const char *path, bool *beyond);
/* What does not fit is in `why`, with its place after `where`. */
bool object_fits(const json_t *object, struct fields fields, const char *where, char why[256]);

#endif
