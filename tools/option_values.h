/* Rows of the table of options, and what their values are read as. */
#ifndef WHERRY_TOOLS_OPTION_VALUES_H
#define WHERRY_TOOLS_OPTION_VALUES_H

#include "options.h"

enum option_kind { FLAG, TEXT, CHOICE, PLAN, COUNT, SIZE, SECONDS, NUMBER, LIST, FILES };

struct option {
    const char *name;
    char letter; /* 0: none */
    unsigned commands;
    enum option_kind kind;
    size_t offset;      /* in struct options */
    const char *values; /* choices "a|b", else what the help calls the value */
    double low, high;   /* of numbers */
    const char *help;
};

extern const struct option option_table[];
extern const size_t option_count;

/* Reads `text` into the option's place in `out`; complains and returns false where it is no such value. */
bool option_set(const struct option *o, const char *text, struct options *out);

#endif
