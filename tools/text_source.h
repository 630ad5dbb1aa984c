/* Texts from a file, one at a time. */
#ifndef WHERRY_TOOLS_TEXT_SOURCE_H
#define WHERRY_TOOLS_TEXT_SOURCE_H

#include <stdio.h>

#include "jsonl.h"
#include "options.h"

struct text {
    const char *text, *pair; /* pair NULL: none. Valid until the next text is read */
    size_t text_bytes, pair_bytes;
    const char *id; /* JSON as the input has it, NULL: none */
    uint64_t line;  /* from 1 */
};

struct text_source {
    FILE *file;
    const char *name;
    enum input_kind kind;
    bool pairs;
    bool quiet, hint; /* no notes; a note where lines look like JSONL. False after text_source_open */
    bool begun;       /* a first chunk was read */
    uint64_t line;
    uint32_t replaced; /* lines with a note that half a surrogate pair was replaced */
    char *chunk;       /* what was read of the file and not used yet: [at, end) */
    size_t at, end;
    char *buffer; /* the current line */
    size_t room;
    struct json_line json; /* JSONL: what `text` points into */
};

/* path NULL or "-": standard input. These complain and return an exit code. */
int text_source_open(struct text_source *source, const char *path, enum input_kind kind, bool pairs);
/* *more says whether there was a text. */
int text_source_next(struct text_source *source, struct text *out, bool *more);
void text_source_close(struct text_source *source);

#endif
