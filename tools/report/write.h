/* Records in every format that they can be written in. */
#ifndef WHERRY_TOOLS_REPORT_WRITE_H
#define WHERRY_TOOLS_REPORT_WRITE_H

#include "options.h"
#include "report/load.h"

/* As --format counts them. */
enum report_format { REPORT_TEXT = 1, REPORT_JSON, REPORT_CSV, REPORT_MARKDOWN, REPORT_TRACE, REPORT_HTML, REPORT_SVG };
#define REPORT_CHOICES "text|json|csv|markdown|trace|html|svg"

/* --format, --json, or what the ending of --output says; 0 where these contradict each other, having complained. */
int report_format(const struct options *options);
/* Writes records, or tunings, to --output in that format. Returns an exit code. */
int report_write(const struct options *options, const struct report *report);
/* One record, whose tree is up to date. */
int report_write_one(const struct options *options, struct record *record);

/* Records alone. */
void text_write(struct output *out, const struct report *report, const struct options *options);
void csv_write(struct output *out, const struct report *report);
void markdown_write(struct output *out, const struct report *report);
void trace_write(struct output *out, const struct report *report);

/* Those of latencies: a table of a record's loads, of all records' loads, or a line of CSV for each load and pause. */
void loads_text(struct output *out, const struct record *record);
void loads_markdown(struct output *out, const struct report *report);
void loads_csv(struct output *out, const struct report *report);

/* Parts of Markdown: a text, in which nothing is markup; a cell with its end; the head of a table, "a|b|>c", '>' for
 * columns of numbers. */
void markdown_text(struct output *out, const char *text);
void markdown_cell(struct output *out, const char *text);
void markdown_head(struct output *out, const char *columns);
/* A text as a field of CSV, quoted where it has to be, and no formula. */
void csv_text(struct output *out, const char *text);

#endif
