/* Lines of several files, by number. */
#define _POSIX_C_SOURCE 200809L /* fseeko */
#include "train/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "options.h"
#include "system.h"

/* Beyond 2 GiB, too. */
#ifdef _WIN32
#define seek_to(file, offset) _fseeki64((file), (long long)(offset), SEEK_SET)
#else
#define seek_to(file, offset) fseeko((file), (off_t)(offset), SEEK_SET)
#endif

enum { CHUNK = 1 << 18, LINE_MAX_BYTES = 1 << 26 };

/* ---- the index ---- */

/* Where the scan of a file is. */
struct scan {
    uint64_t at, begin; /* bytes of the file; where the line begins */
    bool blank;         /* of the line so far */
    uint64_t hash;
};

static void add_line(struct lines *lines, uint64_t offset)
{
    if (lines->count == lines->room) {
        lines->room = lines->room ? 2 * lines->room : 1024;
        lines->offsets = need(realloc(lines->offsets, lines->room * sizeof *lines->offsets));
    }
    lines->offsets[lines->count++] = offset;
}

static int line_too_long(const struct line_file *file, uint64_t begin)
{
    return complain(EXIT_INPUT, "%s: the line that begins at byte %llu is longer than %d MiB", file->name,
                    (unsigned long long)begin, LINE_MAX_BYTES >> 20);
}

static int scan_chunk(struct lines *lines, const struct line_file *file, struct scan *s, const char *chunk, size_t size)
{
    for (size_t n = 0; n < size; n++, s->at++) {
        char c = chunk[n];
        s->hash = (s->hash ^ (unsigned char)c) * 0x100000001B3u; /* FNV-1a */
        if (c == '\n') {
            s->begin = s->at + 1;
            s->blank = true;
        } else if (s->blank && c != ' ' && c != '\t' && c != '\r') {
            s->blank = false;
            add_line(lines, s->begin);
        }
        if (s->at - s->begin > LINE_MAX_BYTES && s->at >= s->begin) return line_too_long(file, s->begin);
    }
    return EXIT_FINE;
}

/* UTF-16 has a NUL in each ASCII character, or a mark; no UTF-8 text begins so. */
static bool other_encoding(const char *data, size_t size)
{
    if (size >= 2 && (!memcmp(data, "\xFF\xFE", 2) || !memcmp(data, "\xFE\xFF", 2))) return true;
    return size >= 4 && ((!data[0] && !data[2]) || (!data[1] && !data[3]));
}

static int scan_file(struct lines *lines, struct line_file *file, char *chunk)
{
    struct scan scan = {.blank = true, .hash = 0xCBF29CE484222325u};
    file->first = lines->count;
    for (;;) {
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        errno = 0;
        size_t size = fread(chunk, 1, CHUNK, file->file), skipped = 0;
        if (!size && ferror(file->file))
            return complain(EXIT_INPUT, "can't read %s: %s", file->name, strerror(errno ? errno : EIO));
        if (!size) break;
        if (!scan.at && other_encoding(chunk, size))
            return complain(EXIT_INPUT,
                            "%s is UTF-16 or UTF-32, and training data must be UTF-8: convert it with iconv",
                            file->name);
        if (!scan.at && size >= 3 && !memcmp(chunk, "\xEF\xBB\xBF", 3)) scan.at = scan.begin = skipped = 3;
        int code = scan_chunk(lines, file, &scan, chunk + skipped, size - skipped);
        if (code) return code;
    }
    file->hash = scan.hash;
    file->bytes = scan.at;
    if (lines->count == file->first) return complain(EXIT_INPUT, "%s has no lines", file->name);
    return EXIT_FINE;
}

int lines_open(struct lines *lines, const char *const *paths, size_t count)
{
    *lines = (struct lines){.files = need(calloc(count ? count : 1, sizeof *lines->files))};
    char *chunk = need(malloc(CHUNK));
    int code = EXIT_FINE;
    for (size_t n = 0; n < count && !code; n++) {
        struct line_file *file = &lines->files[lines->n_files];
        file->name = paths[n];
        file->file = fopen(paths[n], "rb");
        if (!file->file) {
            code = complain(EXIT_INPUT, "can't open %s: %s", paths[n], strerror(errno));
            break;
        }
        lines->n_files++;
        code = scan_file(lines, file, chunk);
    }
    free(chunk);
    return code;
}

void lines_close(struct lines *lines)
{
    for (size_t n = 0; n < lines->n_files; n++) fclose(lines->files[n].file);
    free(lines->files);
    free(lines->offsets);
    free(lines->buffer);
    *lines = (struct lines){.files = NULL};
}

uint64_t lines_hash(const struct lines *lines)
{
    uint64_t hash = lines->count;
    for (size_t n = 0; n < lines->n_files; n++) hash = (hash ^ lines->files[n].hash) * 0x100000001B3u;
    return hash;
}

/* ---- reading ---- */

static struct line_file *file_of(const struct lines *lines, uint64_t number)
{
    size_t n = lines->n_files - 1;
    while (n && lines->files[n].first > number) n--;
    return &lines->files[n];
}

static int read_failed(const struct line_file *file)
{
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    return complain(EXIT_INPUT, "can't read %s: %s", file->name,
                    ferror(file->file) ? strerror(errno ? errno : EIO) : "it became shorter while it was read");
}

/* What lies between a line's begin and the next one's: the line, its end, and blank lines. */
static size_t span_of(const struct lines *lines, const struct line_file *file, uint64_t number)
{
    bool last = number + 1 == lines->count || file_of(lines, number + 1) != file;
    return (size_t)((last ? file->bytes : lines->offsets[number + 1]) - lines->offsets[number]);
}

int lines_read(struct lines *lines, uint64_t number, char **text, size_t *bytes)
{
    struct line_file *file = file_of(lines, number);
    size_t span = span_of(lines, file, number);
    errno = 0;
    clearerr(file->file);
    if (lines->buffer_room < span + 1) {
        lines->buffer_room = 2 * span + 1;
        lines->buffer = need(realloc(lines->buffer, lines->buffer_room));
    }
    if (seek_to(file->file, lines->offsets[number]) || fread(lines->buffer, 1, span, file->file) != span)
        return read_failed(file);
    const char *end = memchr(lines->buffer, '\n', span);
    size_t length = end ? (size_t)(end - lines->buffer) : span;
    if (length && lines->buffer[length - 1] == '\r') length--;
    lines->buffer[length] = 0;
    *text = lines->buffer;
    *bytes = length;
    return EXIT_FINE;
}

/* Counted when somebody is to be told. */
static uint64_t line_number(const struct line_file *file, uint64_t offset)
{
    uint64_t line = 1;
    char chunk[4096];
    if (seek_to(file->file, 0)) return 0;
    for (size_t size;
         offset && (size = fread(chunk, 1, offset < sizeof chunk ? (size_t)offset : sizeof chunk, file->file)) > 0;
         offset -= size)
        for (size_t n = 0; n < size; n++) line += chunk[n] == '\n';
    return line;
}

int lines_complain(const struct lines *lines, uint64_t number, const char *what)
{
    const struct line_file *file = file_of(lines, number);
    return complain(EXIT_INPUT, "%s, line %llu: %s", file->name,
                    (unsigned long long)line_number(file, lines->offsets[number]), what);
}
