/* Records as one HTML page: tools/report/page/page.html, which the build has put together, with the data inside. */
#include "report/page.h"

#include <string.h>

extern const unsigned char report_page[]; /* ends with a 0 */

/* Where the records go. */
static const char marker[] = "<!--records-->";

/* Inside <script> nothing but "<" can end the data or change how the rest is read, and JSON has it in strings only,
 * where it may be written as its number. */
static int write_escaped(const char *data, size_t size, void *out)
{
    size_t start = 0;
    for (size_t n = 0; n < size; n++) {
        if (data[n] != '<') continue;
        output_write(out, data + start, n - start);
        output_text(out, "\\u003c");
        start = n + 1;
    }
    output_write(out, data + start, size - start);
    return 0;
}

void page_write(struct output *out, json_t *records)
{
    const char *page = (const char *)report_page;
    const char *rest = strstr(page, marker);
    output_write(out, page, (size_t)(rest - page));
    size_t n;
    json_t *record;
    json_array_foreach(records, n, record)
    {
        output_text(out, "<script type=\"application/json\" class=\"record\">");
        /* 17 digits: the page's numbers are the file's. */
        if (json_dump_callback(record, write_escaped, out, JSON_COMPACT | JSON_REAL_PRECISION(17))) need(NULL);
        output_text(out, "</script>\n");
    }
    output_text(out, rest + sizeof marker - 1);
}
