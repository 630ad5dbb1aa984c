/* The application's locale, out of the way of libraries that read numbers. */
#ifndef WHERRY_BASE_LOCALE_PLAIN_H
#define WHERRY_BASE_LOCALE_PLAIN_H

#include <stdbool.h>

struct locale_kept {
    void *plain, *before; /* the platform's */
};

/* From here to locale_restore this thread reads and prints numbers as the C locale does, whatever the application has
 * set; other threads notice nothing. False: no memory. */
bool locale_plain(struct locale_kept *kept);
void locale_restore(struct locale_kept *kept);

#endif
