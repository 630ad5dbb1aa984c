/* Where results go: standard output, or a file that is replaced only when all of it is written; numbers, JSON, .npy and
 * tables. */
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "complain.h"
#include "system.h"

/* ---- files ---- */

bool output_check(const char *path)
{
    if (!path || strcmp(path, "-") == 0) return true;
    if (!*path) {
        complain(0, "--output \"\": a file's name is missing; \"-\" is standard output");
        return false;
    }
    if (system_is_dangling(path)) {
        complain(0, "can't create %s: it is a link whose target is missing; delete it, or give another name", path);
        return false;
    }
    int code = system_writable(path);
    if (code == EISDIR) complain(0, "can't create %s: it is a folder; give a file's name in it", path);
    if (code && code != EISDIR) complain(0, "can't create %s: %s", path, strerror(code));
    return !code;
}

bool output_open(struct output *out, const char *path)
{
    *out = (struct output){.file = stdout, .name = "standard output"};
    if (!path || strcmp(path, "-") == 0) return true;
    out->name = path;
    if (!output_check(path)) return false;
    if (system_is_special(path)) {
        out->file = fopen(path, "wb");
    } else {
        out->target = need(system_resolve(path));
        size_t size = strlen(out->target) + 48;
        out->temporary = need(malloc(size));
        for (int attempt = 0; attempt < 100; attempt++) {
            snprintf(out->temporary, size, "%s.%lu-%d.part", out->target, system_process(), attempt);
            out->file = system_create(out->temporary, out->target);
            if (out->file || errno != EEXIST) break;
        }
    }
    if (out->file && out->temporary) system_temporary_add(out->temporary);
    if (out->file) return true;
    complain(0, "can't create %s: %s", path, strerror(errno));
    free(out->target);
    free(out->temporary);
    return false;
}

void output_fail(struct output *out)
{
    if (!out->error) out->error = errno ? errno : EIO;
}

void output_write(struct output *out, const void *data, size_t size)
{
    if (out->error) return;
    errno = 0;
    if (fwrite(data, 1, size, out->file) != size) output_fail(out);
}

void output_text(struct output *out, const char *text) { output_write(out, text, strlen(text)); }

void output_format(struct output *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = shown_text(true, format, arguments);
    va_end(arguments);
    output_text(out, text);
    free(text);
}

bool output_ok(const struct output *out) { return out->error == 0; }

static void output_complain(const struct output *out)
{
    if (out->error == EPIPE)
        complain(0, "can't write %s: its reader closed it before the end", out->name);
    else if (out->temporary)
        complain(0, "can't write %s: %s; nothing was replaced", out->name, strerror(out->error));
    else
        complain(0, "can't write %s: %s", out->name, strerror(out->error));
}

bool output_close(struct output *out, bool keep)
{
    errno = 0;
    if (!out->error && fflush(out->file)) output_fail(out);
    /* A special file need not support syncing, and has nothing to lose. */
    if (!out->error && keep && out->temporary && system_sync(out->file)) output_fail(out);
    if (out->file != stdout) {
        errno = 0;
        if (fclose(out->file)) output_fail(out);
    }
    if (out->temporary) {
        if (!out->error && keep && system_replace(out->temporary, out->target)) output_fail(out);
        if (out->error || !keep) remove(out->temporary);
        system_temporary_done(out->temporary);
    }
    if (out->error) output_complain(out);
    free(out->target);
    free(out->temporary);
    out->target = out->temporary = NULL;
    return out->error == 0;
}

/* ---- JSON ---- */

void output_json_string(struct output *out, const char *text, size_t bytes)
{
    char *quoted = need(malloc(JSON_QUOTED_MOST * bytes + 2));
    output_write(out, quoted, json_quote(text, bytes, quoted));
    free(quoted);
}

static int write_chunk(const char *data, size_t size, void *out)
{
    output_write(out, data, size);
    return 0;
}

void output_json(struct output *out, json_t *value)
{
    need(value);
    if (json_dump_callback(value, write_chunk, out, JSON_INDENT(2) | JSON_REAL_PRECISION(10))) need(NULL);
    output_text(out, "\n");
    json_decref(value);
}

/* ---- .npy ---- */

void npy_header(struct output *out, const char *descr, uint64_t rows, uint64_t columns)
{
    enum { SIZE = 128 };
    char header[SIZE + 1];
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10); /* version 1.0; 118 bytes follow */
    struct text_writer t = text_begin(header + 10, SIZE - 10);
    text_add(&t, "{'descr': '%s', 'fortran_order': False, 'shape': (%llu, %llu), }", descr, (unsigned long long)rows,
             (unsigned long long)columns);
    memset(t.at + t.used, ' ', t.size - 1 - t.used);
    header[SIZE - 1] = '\n';
    output_write(out, header, SIZE);
}

void npy_row(struct output *out, const void *values, size_t count, size_t size)
{
    const union {
        uint16_t word;
        unsigned char byte;
    } order = {1};
    const unsigned char *at = values;
    if (order.byte || size == 1) {
        output_write(out, values, count * size);
        return;
    }
    for (size_t n = 0; n < count; n++, at += size)
        for (size_t b = size; b > 0; b--) output_write(out, &at[b - 1], 1);
}

/* ---- tables ---- */

void table_cell(struct table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = shown_text(false, format, arguments);
    va_end(arguments);
    if (table->count == table->room) {
        table->room = table->room ? 2 * table->room : 64;
        table->cells = need(realloc(table->cells, table->room * sizeof *table->cells));
    }
    table->cells[table->count++] = text;
}

/* Columns of a terminal that the text takes: bytes that do not continue a character. */
static size_t text_width(const char *text)
{
    size_t width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void print_cell(struct output *out, const char *text, size_t width, char kind, bool last)
{
    size_t own = text_width(text);
    if (own > width) { /* only in a clipped column */
        size_t kept = 0, bytes = 0;
        while (text[bytes] && (((unsigned char)text[bytes] & 0xC0) == 0x80 || kept++ < width - 2)) bytes++;
        output_write(out, text, bytes);
        output_text(out, "..");
    } else {
        int blank = (int)(width - own);
        if (kind == '>') output_format(out, "%*s", blank, "");
        output_text(out, text);
        if (kind != '>' && !last) output_format(out, "%*s", blank, "");
    }
    output_text(out, last ? "\n" : "  ");
}

void table_print(struct table *table, struct output *out)
{
    enum { MAX_COLUMNS = 32, LINE = 80, LEAST = 12 };
    char kinds[MAX_COLUMNS], heads[MAX_COLUMNS][32];
    size_t widths[MAX_COLUMNS], columns = 0, total = 0, headed = 0;
    for (const char *at = table->columns; *at && columns < MAX_COLUMNS; columns++) {
        size_t length = strcspn(at + 1, "|");
        kinds[columns] = *at;
        snprintf(heads[columns], sizeof heads[columns], "%.*s", (int)length, at + 1);
        widths[columns] = text_width(heads[columns]);
        headed += widths[columns];
        at += 1 + length + (at[1 + length] == '|');
    }
    for (size_t n = 0; n < table->count; n++) {
        size_t width = text_width(table->cells[n]);
        if (width > widths[n % columns]) widths[n % columns] = width;
    }
    for (size_t c = 0; c < columns; c++) total += widths[c] + (c ? 2 : 0);
    for (; total > (table->width ? table->width : LINE); total--) { /* the widest clipped column gives way */
        size_t widest = columns;
        for (size_t c = 0; c < columns; c++)
            if (kinds[c] == '~' && widths[c] > LEAST && (widest == columns || widths[c] > widths[widest])) widest = c;
        if (widest == columns) break;
        widths[widest]--;
    }
    for (size_t c = 0; c < columns && headed; c++) print_cell(out, heads[c], widths[c], kinds[c], c + 1 == columns);
    for (size_t n = 0; n < table->count; n++)
        print_cell(out, table->cells[n], widths[n % columns], kinds[n % columns], n % columns + 1 == columns);
    for (size_t n = 0; n < table->count; n++) free(table->cells[n]);
    free(table->cells);
    *table = (struct table){.columns = table->columns};
}
