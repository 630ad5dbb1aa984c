/* Where results go: standard output, or a file that is replaced only when all of it is written; numbers, JSON, .npy and
 * tables. */
#ifndef WHERRY_TOOLS_OUTPUT_H
#define WHERRY_TOOLS_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/printf_like.h"
#include "complain.h"
#include "plain_text.h"

struct output {
    FILE *file;
    const char *name; /* for messages */
    char *target;     /* the file to replace; NULL: written in place */
    char *temporary;  /* what it is called until then */
    int error;        /* errno of the first failed write, 0: none */
};

/* Whether --output `path` can be written, as far as can be seen before any work; prints why not. */
bool output_check(const char *path);
/* path NULL or "-": standard output. On failure prints why and returns false. */
bool output_open(struct output *out, const char *path);
/* Bytes as they are. */
void output_write(struct output *out, const void *data, size_t size);
void output_text(struct output *out, const char *text);
/* For people: names within can't steer a terminal (utf8_show); line ends stay. */
void output_format(struct output *out, const char *format, ...) PRINTF_LIKE(2, 3);
/* Notes a failure (errno) of the caller's own on out->file. */
void output_fail(struct output *out);
/* Whether everything so far could be written. */
bool output_ok(const struct output *out);
/* `keep`: completes the file and puts it in its place, else removes it. Prints why when something could not be written,
 * and returns false then. Call exactly once for each successful open. */
bool output_close(struct output *out, bool keep);

/* ---- JSON ---- */

/* A JSON string in quotes; invalid UTF-8 becomes U+FFFD. */
void output_json_string(struct output *out, const char *text, size_t bytes);
/* Writes and releases the value. */
void output_json(struct output *out, json_t *value);

/* ---- .npy: [rows, columns] of a type as such files name it ("<f4") ---- */

/* The header for this many rows, always of the same size: written before the rows, and again when their number is
 * known. */
void npy_header(struct output *out, const char *descr, uint64_t rows, uint64_t columns);
/* Values of `size` bytes as the machine has them. */
void npy_row(struct output *out, const void *values, size_t count, size_t size);

/* ---- tables ---- */

/* Cells in the order of reading; the table is as wide as its cells, but a column marked '~' is clipped so that a line
 * has at most 80 columns, or `width`. */
struct table {
    const char *columns; /* "<name|>ms|~driver": left, right, left and clipped; no line of names without any */
    char **cells;
    size_t count, room;
    size_t width; /* 0: 80 */
};

void table_cell(struct table *table, const char *format, ...) PRINTF_LIKE(2, 3);
/* Prints it and gives its memory back. */
void table_print(struct table *table, struct output *out);

#endif
