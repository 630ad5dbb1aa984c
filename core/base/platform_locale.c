/* The locale of the calling thread. */
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE /* for <xlocale.h> */
#include "base/locale_plain.h"

#include <locale.h>
#include <stddef.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#ifdef _WIN32

/* Decimal points are single characters there, for which jansson itself looks. */
bool locale_plain(struct locale_kept *kept)
{
    *kept = (struct locale_kept){NULL, NULL};
    return true;
}

void locale_restore(struct locale_kept *kept) { (void)kept; }

#else

bool locale_plain(struct locale_kept *kept)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain) return false;
    kept->plain = (void *)plain;
    kept->before = (void *)uselocale(plain);
    return true;
}

void locale_restore(struct locale_kept *kept)
{
    uselocale((locale_t)kept->before);
    freelocale((locale_t)kept->plain);
    *kept = (struct locale_kept){NULL, NULL};
}

#endif
