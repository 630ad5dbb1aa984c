/* Texts from a file, or from several, one at a time. */
#ifndef WHERRY_TOOLS_TEXT_SOURCE_H
#define WHERRY_TOOLS_TEXT_SOURCE_H

#include <stdio.h>

#include "jsonl.h"
#include "options.h"

struct text {
    const char *text, *pair; /* pair NULL: none. Valid until the next text is read */
    size_t text_bytes, pair_bytes;
    const char *id;   /* JSON as the input has it, NULL: none */
    const char *name; /* of its file; lives as long as the source */
    uint64_t line;    /* of that file, from 1 */
};

/* Where the next line begins. */
struct text_place {
    uint32_t file;
    uint64_t offset, line;
};

struct text_source {
    FILE *file;
    const char *name; /* of the file that is read */
    const char *const *paths;
    uint32_t count; /* of them; 0: standard input */
    struct text_place place;
    uint64_t left; /* bytes of lines until it seems to end: a line that begins before that is whole */
    enum input_kind kind;
    bool pairs;
    bool quiet, hint;            /* no notes; a note where lines look like JSONL. False after text_source_open */
    bool begun;                  /* a first chunk was read */
    uint32_t replaced;           /* lines with a note that half a surrogate pair was replaced */
    const unsigned char *memory; /* texts that are in no file: what is left of them */
    size_t memory_bytes;
    char *chunk; /* what was read of the file and not used yet: [at, end) */
    size_t at, end;
    char *buffer; /* the current line */
    size_t room;
    struct json_line json; /* JSONL: what `text` points into */
};

/* Paths live as long as the source; "-", or a count of 0: standard input. These complain and return an exit code. */
int text_source_open(struct text_source *source, const char *const *paths, uint32_t count, enum input_kind kind,
                     bool pairs);
/* One text a line; `name` for messages. */
void text_source_open_memory(struct text_source *source, const char *name, const unsigned char *texts, size_t bytes);
/* *more says whether there was a text. */
int text_source_next(struct text_source *source, struct text *out, bool *more);
void text_source_close(struct text_source *source);

/* ---- of files that can be read twice ---- */

/* Bytes of all files; an error where one is none that can be read twice. */
int text_source_bytes(const struct text_source *source, uint64_t *bytes);
/* Passes over lines of about so many bytes without looking into them: the line that goes over it is the last. *texts:
 * how many there are; `hash` is continued over them. *any: whether there was a line. */
int text_source_skip(struct text_source *source, uint64_t bytes, uint64_t *texts, uint64_t *hash, bool *any);
/* Goes on at a place that it had, for so many bytes (UINT64_MAX: to the end). */
int text_source_seek(struct text_source *source, struct text_place place, uint64_t bytes);

#endif
