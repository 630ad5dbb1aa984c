/* What each specialization constant of a kernel is (core/interface/interface.h has their numbers and meanings): one row
 * a constant, for OpenCL's compiler, for the lists of candidates, and for the names of works. */
#ifndef WHERRY_PLAN_CONSTANTS_H
#define WHERRY_PLAN_CONSTANTS_H

#include <stdbool.h>

enum constant_role {
    CONSTANT_WORK = 1, /* says what is computed: another value is another work */
    CONSTANT_SIZE,     /* chosen by shape and device: what a tuning varies */
    CONSTANT_VALUE,    /* a number that is only computed with, or that follows from the others */
};

struct constant_row {
    const char *name;    /* in OpenCL C */
    const char *unknown; /* why a kernel that does not know it runs no call that has it */
    enum constant_role role;
    bool second; /* a group's second kernel takes it from the first */
};

/* By number; CONST_COUNT of them. */
extern const struct constant_row constants[];

#endif
