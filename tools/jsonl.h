/* One line of JSON Lines: an object with a text, perhaps a second one, and an id that stays as it is written. */
#ifndef WHERRY_TOOLS_JSONL_H
#define WHERRY_TOOLS_JSONL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

/* Zero before the first line. */
struct json_line {
    json_t *object;          /* what `text` and `pair` point into */
    const char *text, *pair; /* NULL: none */
    size_t text_bytes, pair_bytes;
    char *id;               /* the value as the line has it, NULL: none */
    bool surrogates;        /* half a pair, escaped, became U+FFFD */
    char problem[JSON_WHY]; /* what is wrong, for people, where the line was refused */
};

/* Replaces what was read before; false: `problem` says why. The rest of `line` stays untouched. */
bool json_line_read(struct json_line *line, const char *text, size_t bytes);
void json_line_clear(struct json_line *line);

#endif
