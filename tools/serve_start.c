/* `wherry serve`: becomes wherry-serve, which is a program of its own. */
#if defined(__linux__) || defined(__APPLE__)
#define _DEFAULT_SOURCE
#endif
#include "serve_start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "options.h"

#ifdef _WIN32

int serve_start(char **arguments)
{
    (void)arguments;
    return complain(EXIT_USAGE, "wherry serve is not there on Windows: wherry-serve is for Unix systems");
}

#else

#include <unistd.h>

enum { PATH_BYTES = 4096 };
static const char program[] = "wherry-serve";

/* The folder that this program is in, with a slash; false: not known. */
static bool own_folder(const char *first, char path[PATH_BYTES])
{
    ssize_t size = readlink("/proc/self/exe", path, PATH_BYTES - sizeof program);
    if (size <= 0) { /* no such system: by the name that it was called by, where that has a folder */
        size = (ssize_t)strlen(first);
        if (!strchr(first, '/') || (size_t)size >= PATH_BYTES - sizeof program) return false;
        memcpy(path, first, (size_t)size);
    }
    while (size > 0 && path[size - 1] != '/') size--;
    path[size] = 0;
    return size > 0;
}

int serve_start(char **arguments)
{
    char path[PATH_BYTES];
    bool beside = own_folder(arguments[0], path);
    arguments[0] = (char *)program;
    if (beside) {
        strcat(path, program);
        execv(path, arguments);
        if (errno != ENOENT) return complain(EXIT_DEVICE, "can't start %s: %s", path, strerror(errno));
    }
    execvp(program, arguments);
    if (errno != ENOENT) return complain(EXIT_DEVICE, "can't start %s: %s", program, strerror(errno));
    return complain(EXIT_USAGE,
                    "%s is not installed beside wherry or in PATH: it is built where libmicrohttpd is there "
                    "(libmicrohttpd-dev on Debian; see docs/serving.md)",
                    program);
}

#endif
