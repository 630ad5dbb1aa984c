/* Numbers and texts as files and answers have them, in memory. */
#ifndef WHERRY_TOOLS_PLAIN_TEXT_H
#define WHERRY_TOOLS_PLAIN_TEXT_H

#include <stddef.h>

enum { NUMBER_SIZE = 32, JSON_QUOTED_MOST = 6 };
/* As few digits, 6 to 9, as are sure to read back as the same float; returns the length. Independent of the locale. */
size_t format_float(float value, char text[NUMBER_SIZE]);
/* "1.23 GB", decimal units. */
const char *format_bytes(double bytes, char text[NUMBER_SIZE]);
/* Copies valid UTF-8, U+FFFD in place of what is not; `to` has room for 3 * bytes. Returns the length. */
size_t repair_utf8(const char *text, size_t bytes, char *to);
/* A JSON string in quotes, without a NUL after it; invalid UTF-8 becomes U+FFFD. `to` has room for JSON_QUOTED_MOST *
 * bytes + 2. Returns the length. */
size_t json_quote(const char *text, size_t bytes, char *to);

#endif
