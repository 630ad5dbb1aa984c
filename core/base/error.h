/* How failure travels inside the library: a function that can fail returns false (or NULL) and the sentence is made
 * once, where the cause is known. */
#ifndef WHERRY_BASE_ERROR_H
#define WHERRY_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/printf_like.h"
#include "wherry/wherry.h"

struct error {
    wherry_status status;
    int native;      /* VkResult or cl_int */
    int timer;       /* a wherry_timer_status where the run failed because the device's timer lies, else 0 */
    char text[1024]; /* UTF-8 that any terminal may show (utf8.h) */
};

/* Always false, so that one can `return fail(e, ...)`. */
bool fail(struct error *e, wherry_status status, const char *format, ...) PRINTF_LIKE(3, 4);
bool fail_list(struct error *e, wherry_status status, const char *format, va_list ap);
/* The same with the driver's code. */
bool fail_native(struct error *e, wherry_status status, int native, const char *format, ...) PRINTF_LIKE(4, 5);
/* The failure of a timed run whose stamps make no sense: `timer` is a wherry_timer_status. */
bool fail_timer(struct error *e, int timer, const char *format, ...) PRINTF_LIKE(3, 4);
/* Puts "where: " before the text of an error on its way up. Always false. */
bool fail_in(struct error *e, const char *where);

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if (!(call)) return false;                                                                                     \
    } while (0)

#endif
