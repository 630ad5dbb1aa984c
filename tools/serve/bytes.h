/* A text that grows: bodies of requests and of answers. */
#ifndef WHERRY_SERVE_BYTES_H
#define WHERRY_SERVE_BYTES_H

#include <stddef.h>

#include "base/printf_like.h"

struct bytes {
    char *at; /* NULL while it is empty; no NUL after it */
    size_t used, room;
};

/* Room for so many more; running out of memory ends the process, as everywhere in the tools. */
char *bytes_room(struct bytes *b, size_t more);
void bytes_put(struct bytes *b, const void *data, size_t size);
void bytes_text(struct bytes *b, const char *text);
/* Up to 1023 bytes. */
void bytes_format(struct bytes *b, const char *format, ...) PRINTF_LIKE(2, 3);
void bytes_free(struct bytes *b);

/* ---- JSON ---- */

void bytes_quoted(struct bytes *b, const char *text, size_t size);
void bytes_name(struct bytes *b, const char *text); /* quoted, up to its NUL */
/* As short as it reads back as the same float. */
void bytes_float(struct bytes *b, float value);
void bytes_floats(struct bytes *b, const float *values, size_t count); /* with brackets */
/* Of the floats as 32 bits each, the lowest byte first, in quotes: what OpenAI's clients ask for. */
void bytes_base64(struct bytes *b, const float *values, size_t count);
/* Six digits: what is for people and graphs. */
void bytes_number(struct bytes *b, double value);

#endif
