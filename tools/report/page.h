/* Records (docs/report.schema.json) as one HTML page that needs nothing else: style, script and data are in it. */
#ifndef WHERRY_TOOLS_REPORT_PAGE_H
#define WHERRY_TOOLS_REPORT_PAGE_H

#include <jansson.h>

#include "output.h"

/* `records`: an array; it stays the caller's. */
void page_write(struct output *out, json_t *records);

#endif
