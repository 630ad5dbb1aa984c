/* PRINTF_LIKE(format, first): the compiler checks what is printed against the format, by their places among a
 * function's parameters. Header only: the command uses it, too. */
#ifndef WHERRY_BASE_PRINTF_LIKE_H
#define WHERRY_BASE_PRINTF_LIKE_H

#if defined(__MINGW32__) /* mingw's own stdio prints, not Windows': it knows %zu */
#define PRINTF_LIKE(format, first) __attribute__((__format__(__gnu_printf__, format, first)))
#elif defined(__GNUC__)
#define PRINTF_LIKE(format, first) __attribute__((__format__(__printf__, format, first)))
#else
#define PRINTF_LIKE(format, first)
#endif

#endif
