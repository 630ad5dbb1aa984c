/* Text written piece by piece into memory of a fixed size. Header only, so that the command and the tests use it, too.
 */
#ifndef WHERRY_BASE_TEXT_H
#define WHERRY_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct text_writer {
    char *at; /* ends with a 0 always */
    size_t size, used;
    bool cut; /* something did not fit: nothing more is added. Where the text is a key, that is an error */
};

/* Begins a text in `size` bytes, at least 1. */
static inline struct text_writer text_begin(char *at, size_t size)
{
    *at = 0;
    return (struct text_writer){.at = at, .size = size};
}

/* Goes on after the text that is there. */
static inline struct text_writer text_behind(char *at, size_t size)
{
    return (struct text_writer){.at = at, .size = size, .used = strlen(at)};
}

/* False: the text is cut, at the end of what fits. */
static inline bool text_add(struct text_writer *t, const char *format, ...) PRINTF_LIKE(2, 3);
static inline bool text_add(struct text_writer *t, const char *format, ...)
{
    size_t room = t->size - t->used;
    va_list ap;
    if (t->cut) return false;
    va_start(ap, format);
    int length = vsnprintf(t->at + t->used, room, format, ap);
    va_end(ap);
    if (length < 0) t->at[t->used] = 0; /* a character that can't be converted */
    t->cut = length < 0 || (size_t)length >= room;
    t->used = t->cut ? t->used + strlen(t->at + t->used) : t->used + (size_t)length;
    return !t->cut;
}

/* The bytes as digits of base 16, two each. */
static inline bool text_hex(struct text_writer *t, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) text_add(t, "%02x", bytes[i]);
    return !t->cut;
}

#endif
