/* UTF-8 from files, drivers and command lines: reading it, and showing it to people without being steered by it. */
#ifndef WHERRY_BASE_UTF8_H
#define WHERRY_BASE_UTF8_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_REPLACEMENT = 0xFFFD, UTF8_SHOWN_MAX = 4 };

/* One character from at least one byte; invalid UTF-8 gives U+FFFD for each maximal subpart (Unicode 3.9, table 3-8),
 * and sets *valid (which may be NULL) to false. Returns the bytes used. */
size_t utf8_decode(const char *text, size_t size, uint32_t *c, bool *valid);

/* The character's bytes; returns how many. */
size_t utf8_write(uint32_t c, char out[4]);

/* Copies text as a terminal may show it. What would steer the terminal or hide in the line is written out: control
 * characters as \n, \t, \r, \x1b or \u{9b}, invisible ones and those that turn the direction of writing as \u{202e},
 * bytes that are not UTF-8 as \xff. At most UTF8_SHOWN_MAX bytes for each of the text. What is too long for `size` is
 * cut between characters; the end is a NUL always. Returns the length. */
size_t utf8_show(const char *text, size_t bytes, char *to, size_t size);
/* The same in place. */
void utf8_show_within(char *text, size_t size);
/* Bytes of the longest beginning of text that has at most `most` of them and no half of a character: for "%.*s". */
int utf8_cut(const char *text, size_t most);
/* As vsnprintf for `size` up to 1024, then as utf8_show. */
void utf8_format(char *to, size_t size, const char *format, va_list ap);

#endif
