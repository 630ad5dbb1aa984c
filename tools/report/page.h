/* Records (docs/report.schema.json), tunings (docs/tuning.schema.json), or layouts (docs/layouts.schema.json), as one
 * HTML page that needs nothing else: style, script and data are in it. The data is all of them, each gzip-compressed
 * and in base64: the page's button gives them back, and without a browser (the first one) sed -n
 * 's/.*class="record">\(.*\)<.script>/\1/p' page.html | head -n 1 | base64 -d | gunzip */
#ifndef WHERRY_TOOLS_REPORT_PAGE_H
#define WHERRY_TOOLS_REPORT_PAGE_H

#include <jansson.h>

#include "output.h"

enum page_kind { PAGE_RECORDS, PAGE_TUNINGS, PAGE_LAYOUTS, PAGE_CURVES };

/* `records`: an array of that kind; it stays the caller's. `lines`: what is said below the first
 * table (report/versus.h), each ended by '\n'. */
void page_write(struct output *out, json_t *records, enum page_kind kind, const char *lines);
/* The same with a section of the caller's own after the overview: `section` writes it (NULL: none) from `of`. */
struct page_section {
    void (*write)(struct output *out, const void *of);
    const void *of;
};
void page_write_with(struct output *out, json_t *records, enum page_kind kind, const char *lines,
                     struct page_section section);

#endif
