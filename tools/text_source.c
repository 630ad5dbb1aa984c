/* Texts from a file, or from several, one at a time. */
#include "text_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "hash.h"
#include "system.h"

enum { CHUNK = 1 << 16, LINE_MAX_BYTES = 1 << 26 };

static bool is_standard(const struct text_source *source, uint32_t n)
{
    return n >= source->count || strcmp(source->paths[n], "-") == 0;
}

static void file_close(struct text_source *source)
{
    if (source->file && source->file != stdin) fclose(source->file);
    source->file = NULL;
}

static int file_open(struct text_source *source, uint32_t n)
{
    file_close(source);
    source->place = (struct text_place){.file = n};
    source->at = source->end = 0;
    source->begun = false;
    source->name = is_standard(source, n) ? "standard input" : source->paths[n];
    source->file = is_standard(source, n) ? stdin : fopen(source->name, "rb");
    return source->file ? EXIT_FINE : complain(EXIT_INPUT, "can't open %s: %s", source->name, strerror(errno));
}

int text_source_open(struct text_source *source, const char *const *paths, uint32_t count, enum input_kind kind,
                     bool pairs)
{
    *source = (struct text_source){.kind = kind, .pairs = pairs, .paths = paths, .count = count, .left = UINT64_MAX};
    int code = file_open(source, 0);
    if (!code) source->chunk = need(malloc(CHUNK));
    return code;
}

void text_source_open_memory(struct text_source *source, const char *name, const unsigned char *texts, size_t bytes)
{
    *source = (struct text_source){
        .name = name, .left = UINT64_MAX, .memory = texts, .memory_bytes = bytes, .chunk = need(malloc(CHUNK))};
}

void text_source_close(struct text_source *source)
{
    file_close(source);
    json_line_clear(&source->json);
    free(source->chunk);
    free(source->buffer);
    *source = (struct text_source){0};
}

/* The name of the encoding that the input's first bytes show to be another than UTF-8, NULL: none. Without a mark it is
 * UTF-16 where bytes at odd places, or at even ones alone, are mostly 0: text of ASCII characters. */
static const char *other_encoding(const char *data, size_t bytes)
{
    size_t zeros[2] = {0, 0}, seen = bytes < 1024 ? bytes : 1024;
    if (bytes >= 4 && (!memcmp(data, "\xFF\xFE\0\0", 4) || !memcmp(data, "\0\0\xFE\xFF", 4))) return "UTF-32";
    if (bytes >= 2 && (!memcmp(data, "\xFF\xFE", 2) || !memcmp(data, "\xFE\xFF", 2))) return "UTF-16";
    for (size_t n = 0; n < seen; n++) zeros[n & 1] += !data[n];
    if (zeros[0] + zeros[1] < 2 || (zeros[0] && zeros[1]) || 4 * (zeros[0] + zeros[1]) < seen) return NULL;
    return zeros[0] ? "UTF-16BE" : "UTF-16LE";
}

/* Whether every line of the first chunk begins like an object of JSON. */
static bool looks_like_jsonl(const char *data, size_t bytes)
{
    const char *at = data, *end = data + bytes;
    bool any = false;
    if (bytes >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        while (at < stop && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
        if (at < stop && *at != '{') return false;
        if (at < stop) {
            for (at++; at < stop && (*at == ' ' || *at == '\t'); at++) continue;
            if (at < stop && *at != '"') return false;
            any = any || at < stop;
        }
        at = stop + (newline != NULL);
    }
    return any;
}

/* What the first bytes tell, once. */
static int look_at_begin(const struct text_source *source)
{
    const char *encoding = other_encoding(source->chunk, source->end);
    if (encoding)
        return complain(EXIT_INPUT, "%s is %s, and texts must be UTF-8: convert it, as in iconv -f %s -t UTF-8",
                        source->name, encoding, encoding);
    if (source->kind == INPUT_LINES && source->hint && !source->quiet && looks_like_jsonl(source->chunk, source->end))
        complain(0,
                 "note: the lines of %s look like JSON and are embedded as they stand; for their \"text\" say "
                 "--input jsonl, to leave this note out --input lines",
                 source->name);
    return EXIT_FINE;
}

static int read_chunk(struct text_source *source)
{
    bool first = !source->begun;
    errno = 0;
    source->at = 0;
    if (source->memory) {
        source->end = source->memory_bytes < CHUNK ? source->memory_bytes : CHUNK;
        memcpy(source->chunk, source->memory, source->end);
        source->memory += source->end;
        source->memory_bytes -= source->end;
        return EXIT_FINE;
    }
    source->end = fread(source->chunk, 1, CHUNK, source->file);
    source->begun = true;
    if (first && source->end) return look_at_begin(source);
    if (source->end || !ferror(source->file)) return EXIT_FINE;
    if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
    return complain(EXIT_INPUT, "can't read %s: %s", source->name, strerror(errno ? errno : EIO));
}

/* The next line of this file without its end, in source->buffer with a NUL after it. */
static int read_line_of_file(struct text_source *source, size_t *bytes, bool *more)
{
    size_t length = 0, taken = 0;
    *more = false;
    for (;;) {
        if (source->at == source->end) {
            int code = read_chunk(source);
            if (code) return code;
            if (!source->end) break;
        }
        *more = true;
        const char *from = source->chunk + source->at;
        const char *newline = memchr(from, '\n', source->end - source->at);
        size_t take = newline ? (size_t)(newline - from) : source->end - source->at;
        if (length + take > LINE_MAX_BYTES)
            return complain(EXIT_INPUT, "%s, line %llu: longer than %d MiB", source->name,
                            (unsigned long long)source->place.line + 1, LINE_MAX_BYTES >> 20);
        if (length + take + 1 > source->room) {
            source->room = 2 * (length + take + 1);
            source->buffer = need(realloc(source->buffer, source->room));
        }
        memcpy(source->buffer + length, from, take);
        length += take;
        source->at += take + (newline != NULL);
        taken += take + (newline != NULL);
        if (newline) break;
    }
    if (!*more) return EXIT_FINE;
    source->place.line++;
    source->place.offset += taken;
    source->left = source->left == UINT64_MAX ? source->left : source->left > taken ? source->left - taken : 0;
    if (length && source->buffer[length - 1] == '\r') length--;
    source->buffer[length] = 0;
    *bytes = length;
    if (source->place.line == 1 && length >= 3 && memcmp(source->buffer, "\xEF\xBB\xBF", 3) == 0) {
        memmove(source->buffer, source->buffer + 3, length - 2); /* a byte order mark is no part of the text */
        *bytes -= 3;
    }
    return EXIT_FINE;
}

static int read_line(struct text_source *source, size_t *bytes, bool *more)
{
    *more = false;
    while (source->left) {
        int code = read_line_of_file(source, bytes, more);
        if (code || *more || source->place.file + 1 >= source->count) return code;
        code = file_open(source, source->place.file + 1);
        if (code) return code;
    }
    return EXIT_FINE;
}

static int bad_line(const struct text_source *source, const char *what)
{
    return complain(EXIT_INPUT, "%s, line %llu: %s", source->name, (unsigned long long)source->place.line, what);
}

enum { REPLACED_NOTES = 5 };

static int parse_object(struct text_source *source, size_t bytes, struct text *out)
{
    struct json_line *json = &source->json;
    if (!json_line_read(json, source->buffer, bytes)) return bad_line(source, json->problem);
    if (json->surrogates && !source->quiet && source->replaced++ < REPLACED_NOTES)
        complain(0, "note: %s, line %llu: half of a surrogate pair (\\ud800 to \\udfff alone) became U+FFFD%s",
                 source->name, (unsigned long long)source->place.line,
                 source->replaced == REPLACED_NOTES ? "; further lines are not named" : "");
    *out = (struct text){.text = json->text,
                         .text_bytes = json->text_bytes,
                         .pair = json->pair,
                         .pair_bytes = json->pair_bytes,
                         .id = json->id,
                         .name = source->name,
                         .line = source->place.line};
    return EXIT_FINE;
}

static bool is_blank(const struct text_source *source, size_t bytes) { return strspn(source->buffer, " \t") >= bytes; }

int text_source_next(struct text_source *source, struct text *out, bool *more)
{
    size_t bytes = 0;
    for (;;) {
        int code = read_line(source, &bytes, more);
        if (code || !*more) return code;
        if (source->kind == INPUT_LINES) break;
        if (!is_blank(source, bytes)) return parse_object(source, bytes, out);
    }
    *out = (struct text){.text = source->buffer, .text_bytes = bytes, .name = source->name, .line = source->place.line};
    if (!source->pairs) return EXIT_FINE;
    const char *tab = memchr(source->buffer, '\t', bytes);
    if (!tab) return bad_line(source, "no tab between two texts, as --pairs needs");
    if (memchr(tab + 1, '\t', (size_t)(source->buffer + bytes - tab - 1)))
        return bad_line(source, "more than one tab, and --pairs takes two texts with one between them");
    out->text_bytes = (size_t)(tab - source->buffer);
    out->pair = tab + 1;
    out->pair_bytes = bytes - out->text_bytes - 1;
    return EXIT_FINE;
}

/* ---- of files that can be read twice ---- */

int text_source_bytes(const struct text_source *source, uint64_t *bytes)
{
    *bytes = 0;
    for (uint32_t n = 0; n < source->count || n == 0; n++) {
        FILE *file =
            is_standard(source, n) || system_is_special(source->paths[n]) ? NULL : fopen(source->paths[n], "rb");
        long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
        if (file) fclose(file);
        if (size < 0)
            return complain(EXIT_INPUT, "%s can't be read twice: with several processes texts are read from files",
                            is_standard(source, n) ? "standard input" : source->paths[n]);
        *bytes += (uint64_t)size;
    }
    return EXIT_FINE;
}

int text_source_skip(struct text_source *source, uint64_t bytes, uint64_t *texts, uint64_t *hash, bool *any)
{
    size_t length = 0;
    bool more = true;
    *texts = 0;
    *any = false;
    for (source->left = bytes;;) {
        int code = read_line(source, &length, &more);
        if (code || !more) return code;
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        *any = true;
        *texts += source->kind == INPUT_LINES || !is_blank(source, length);
        *hash = hash_more(hash_more(*hash, source->buffer, length), "\n", 1);
    }
}

int text_source_seek(struct text_source *source, struct text_place place, uint64_t bytes)
{
    int code = file_open(source, place.file);
    if (code) return code;
    if (place.offset && fseek(source->file, (long)place.offset, SEEK_SET))
        return complain(EXIT_INPUT, "can't read %s: %s", source->name, strerror(errno));
    source->begun = place.offset > 0;
    source->place = place;
    source->left = bytes;
    return EXIT_FINE;
}
