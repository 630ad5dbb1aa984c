/* The one place where JSON is parsed: what a file may ask of memory and time is bounded before anything is built. */
#ifndef WHERRY_BASE_JSON_H
#define WHERRY_BASE_JSON_H

#include <jansson.h>

#include "wherry/wherry.h"

/* What a kind of file may have at most. A value takes some 100 bytes of memory, an empty object, the dearest, some 210.
 */
struct json_limits {
    size_t bytes;
    size_t values;  /* of arrays and objects, at all levels */
    unsigned depth; /* arrays and objects in each other */
};

enum { JSON_WHY = 256 };

/* Parses one value. Duplicate keys, invalid UTF-8 and anything after the value are errors; `flags` are jansson's,
 * besides these. The result is given back by json_decref. Otherwise: OUT_OF_HOST_MEMORY or BAD_FORMAT, and in `why`
 * what is wrong, to go after the name of the file and ": ". */
wherry_status json_read(const char *text, size_t size, const struct json_limits *limits, size_t flags, json_t **out,
                        char why[JSON_WHY]);

#endif
