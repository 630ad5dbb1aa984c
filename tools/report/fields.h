/* Reading the tree of a record (schema rl-1, docs/report.schema.json): fields that may be null. */
#ifndef WHERRY_TOOLS_REPORT_FIELDS_H
#define WHERRY_TOOLS_REPORT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* NAN where the field is null, absent or no number. `path` may have dots: "step.host.median". */
double field_number(const json_t *object, const char *path);
/* 0 where there is none. */
uint64_t field_bytes(const json_t *object, const char *path);
/* "" where there is none. */
const char *field_text(const json_t *object, const char *path);
bool field_true(const json_t *object, const char *path);
/* NULL where there is none; a null of JSON is none. */
json_t *field_get(const json_t *object, const char *path);
/* Of the 95 % interval of a time: the lower one (0), the upper one (1). NAN where there is none. */
double time_bound(const json_t *time, size_t side);

/* The entry of the record's array whose "dev" is this; NULL: none. */
json_t *record_device_of(const json_t *record, const json_t *entry);
/* The part of an operation's id after "layer.N.". */
const char *op_kind(const json_t *op);

#endif
