/* A pattern on its way from Oniguruma's notation to PCRE2's, shared by the files that do parts of it. */
#ifndef WHERRY_TOKENIZER_REGEX_TRANSLATION_H
#define WHERRY_TOKENIZER_REGEX_TRANSLATION_H

#include "base/host.h"

enum { DEEPEST = 64 };
#define NO_ATOM SIZE_MAX

struct group {
    size_t first;  /* where it begins in `out` */
    bool caseless; /* outside it */
    bool atom;     /* it may be repeated: it is no look around */
};

struct translation {
    const struct host *host;
    const char *text;
    size_t size, at;
    char *out;
    size_t count, room;
    size_t atom; /* where in `out` what may be repeated begins */
    struct group groups[DEEPEST];
    size_t depth;
    bool begins;   /* an alternative begins: options may be set for all of it */
    bool caseless; /* letters match those of other case */
    uint32_t last; /* the literal before this one, caseless; 0: none */
    struct error *e;
};

/* "the pattern ... has WHAT at byte N, which is not supported". Always false. */
bool regex_refuse(struct translation *t, const char *what);
/* Appends to what is written: at most 255 bytes. */
bool regex_emit(struct translation *t, const char *format, ...) PRINTF_LIKE(2, 3);
/* The byte that many behind the next one; 0: the pattern ends before. */
char regex_peek(const struct translation *t, size_t ahead);
/* Takes the next character. */
uint32_t regex_take(struct translation *t);
bool regex_emit_character(struct translation *t, uint32_t c);

/* ---- classes (regex_classes.c) ---- */

/* The items of \w, to go in brackets. */
bool regex_emit_word(struct translation *t);
/* What is after a backslash, `inside` a class in brackets or not: one character, *c, or a class, which is written; *set
 * tells. */
bool regex_escape(struct translation *t, bool inside, bool *set, uint32_t *c);
/* A class in brackets, after its "[". */
bool regex_class(struct translation *t);

#endif
