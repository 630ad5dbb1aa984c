/* Fields of a request's JSON. A wrong type is the call's error (422), and false. null is as if the field were absent.
 */
#ifndef WHERRY_SERVE_FIELDS_H
#define WHERRY_SERVE_FIELDS_H

#include "call.h"

/* NULL: absent, or null. */
const json_t *field_of(const json_t *object, const char *name);
bool field_bool(struct call *call, const json_t *object, const char *name, bool *out);
/* Of at least 1; absent: *out stays. */
bool field_count(struct call *call, const json_t *object, const char *name, uint32_t *out);
/* Absent: *out is NULL. */
bool field_string(struct call *call, const json_t *object, const char *name, const json_t **out);
/* The field has to be there, and be a string. */
bool field_needed(struct call *call, const json_t *object, const char *name, const json_t **out);
/* Refuses the request for what is wrong with its JSON; returns false. */
bool field_wrong(struct call *call, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
