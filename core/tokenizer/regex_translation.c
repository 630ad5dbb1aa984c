/* A pattern on its way from one notation to the other: what is read of it next, and what is written. */
#include "tokenizer/regex_translation.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

bool regex_refuse(struct translation *t, const char *what)
{
    return fail(t->e, WHERRY_STATUS_UNSUPPORTED, "the pattern \"%.*s\" has %s at byte %zu, which is not supported",
                utf8_cut(t->text, t->size < 300 ? t->size : 300), t->text, what, t->at);
}

bool regex_emit(struct translation *t, const char *format, ...)
{
    enum { MOST = 256 };
    if (t->room - t->count < MOST) {
        size_t room = 2 * t->room + MOST;
        char *out = host_grow(t->host, t->out, t->count, room, 1, t->e);
        if (!out) return false;
        t->out = out;
        t->room = room;
    }
    va_list ap;
    va_start(ap, format);
    t->count += (size_t)vsnprintf(t->out + t->count, MOST, format, ap);
    va_end(ap);
    return true;
}

char regex_peek(const struct translation *t, size_t ahead)
{
    return t->at + ahead < t->size ? t->text[t->at + ahead] : 0;
}

uint32_t regex_take(struct translation *t)
{
    uint32_t c = 0;
    t->at += utf8_decode(t->text + t->at, t->size - t->at, &c, NULL);
    return c;
}

bool regex_emit_character(struct translation *t, uint32_t c) { return regex_emit(t, "\\x{%x}", (unsigned)c); }
