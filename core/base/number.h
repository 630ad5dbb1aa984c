/* Numbers as text, always with a '.', whatever locale the application has set: what one writes another reads. */
#ifndef WHERRY_BASE_NUMBER_H
#define WHERRY_BASE_NUMBER_H

enum { NUMBER_TEXT = 64 };

/* `format` is printf's of one double, such as "%.4g"; returns `text`. */
char *number_text(char text[NUMBER_TEXT], const char *format, double value);
/* The same in memory that lives as long as the block around it: an argument for "%s". */
#define NUMBER(format, value) number_text((char[NUMBER_TEXT]){0}, format, value)

/* The number that `text` begins with: [+-] digits [. digits] [e [+-] digits], or inf or nan as printf writes them.
 * `end`, which may be NULL, is set after it; to `text`, where there is none: the result is 0 then. */
double number_read(const char *text, const char **end);

#endif
