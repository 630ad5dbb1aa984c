/* JSON that the command reads, whole and within bounds. */
#ifndef WHERRY_TOOLS_JSON_FILE_H
#define WHERRY_TOOLS_JSON_FILE_H

#include "base/json.h"

#include <stdio.h>

/* What a file of records or of a device's peaks may have: fifty times what the largest record has. */
extern const struct json_limits json_record;

/* As json_read reads it; an exit code, and has complained where it is not EXIT_FINE. `name` is what the text is called.
 */
int json_text_read(const char *text, size_t size, const char *name, const struct json_limits *limits, size_t flags,
                   json_t **out);
/* All that follows in `file`. */
int json_stream_read(FILE *file, const char *name, const struct json_limits *limits, size_t flags, json_t **out);

#endif
