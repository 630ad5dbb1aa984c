/* What the tests take of POSIX and Windows names otherwise. Included in front of each test that is built for Windows;
 * those that need more of POSIX than this are not (tests/CMakeLists.txt). */
#ifndef WHERRY_TESTS_WINDOWS_POSIX_H
#define WHERRY_TESTS_WINDOWS_POSIX_H

#include <direct.h>
#include <errno.h>
#include <io.h>
#include <process.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* Windows' own _mktemp knows 26 names. */
static inline char *mkdtemp(char *path)
{
    static unsigned made;
    char *end = path + strlen(path) - 6, name[7];
    for (int tries = 0; tries < 1000; tries++) {
        snprintf(name, sizeof name, "%06x", ((unsigned)_getpid() * 0x9e37u + made++) & 0xffffff);
        memcpy(end, name, 6);
        if (!_mkdir(path)) return path;
        if (errno != EEXIST) return NULL;
    }
    return NULL;
}

/* Folders, too. */
static inline int posix_remove(const char *path) { return _unlink(path) && _rmdir(path); }

static inline int setenv(const char *name, const char *value, int replace)
{
    return !replace && getenv(name) ? 0 : _putenv_s(name, value);
}

static inline int unsetenv(const char *name) { return _putenv_s(name, ""); }

/* Not from several threads at once. */
static inline ssize_t pread(int file, void *to, size_t size, long long at)
{
    return _lseeki64(file, at, SEEK_SET) < 0 ? -1 : _read(file, to, (unsigned)size);
}

static inline ssize_t pwrite(int file, const void *from, size_t size, long long at)
{
    return _lseeki64(file, at, SEEK_SET) < 0 ? -1 : _write(file, from, (unsigned)size);
}

#define mkdir(path, mode) _mkdir(path)
#define remove(path) posix_remove(path)

/* Where temporary folders are made, without TMPDIR, which Wine itself would take: where the test was started. */
#undef P_tmpdir
#define P_tmpdir "."

#endif
