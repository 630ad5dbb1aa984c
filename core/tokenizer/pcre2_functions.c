/* Opens PCRE2's library. */
#include "tokenizer/pcre2_functions.h"

#ifndef WHERRY_PCRE2_LOADED

bool pcre2_functions_load(struct error *e)
{
    (void)e;
    return true;
}

#else

#include <stdio.h>

#include "base/platform.h"

struct pcre2_functions pcre2_functions;

static struct once functions_once = ONCE_INIT;
static char functions_missing[500];

static void functions_open(void)
{
    static const char *const names[] = {
#if defined(_WIN32)
        "libpcre2-8-0.dll",
        "pcre2-8.dll",
#elif defined(__APPLE__)
        "libpcre2-8.0.dylib",
        "libpcre2-8.dylib",
#else
        "libpcre2-8.so.0",
        "libpcre2-8.so",
#endif
        NULL,
    };
    const char *missing = NULL;
    void *library =
        library_open("WHERRY_PCRE2_LIBRARY", names, "pcre2_compile_8", functions_missing, sizeof functions_missing);
    if (!library) return;
#define LOAD(name)                                                                                                     \
    if (!(name = (__typeof__(name))library_get(library, #name))) missing = #name;
    PCRE2_FUNCTIONS(LOAD)
#undef LOAD
    if (missing) snprintf(functions_missing, sizeof functions_missing, "the library has no %s", missing);
}

bool pcre2_functions_load(struct error *e)
{
    run_once(&functions_once, functions_open);
    return !functions_missing[0] ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "the tokenizer has patterns, which are matched by PCRE2: install it (Debian, Ubuntu: libpcre2-8-0). "
                "Tried: %s",
                functions_missing);
}

#endif
