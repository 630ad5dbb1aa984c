/* What the library asks of POSIX systems. */
#include "base/platform_system.h"

#ifndef _WIN32

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const unsigned char empty_file[1];

/* ---- files ---- */

static bool fail_system(struct error *e, const char *what, const char *path, int code)
{
    char text[128] = "";
    if (strerror_r(code, text, sizeof text)) snprintf(text, sizeof text, "system error %d", code);
    const char *remedy = code == ENOENT                     ? " (check the path)"
                         : code == EACCES || code == EPERM  ? " (check the permissions)"
                         : code == ENOSPC || code == EDQUOT ? " (make room and try again)"
                                                            : "";
    return fail(e, WHERRY_STATUS_IO, "%s %.600s failed: %s%s", what, path, text, remedy);
}

bool system_open_read(const char *path, system_file *file, uint64_t *size, struct error *e)
{
    struct stat st;
    do { /* O_NONBLOCK: a pipe without a writer must not hang us */
        *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (*file < 0 && errno == EINTR);
    if (*file < 0) return fail_system(e, "opening", path, errno);
    if (fstat(*file, &st)) {
        int code = errno;
        close(*file);
        return fail_system(e, "asking the size of", path, code);
    }
    if (!S_ISREG(st.st_mode)) {
        close(*file);
        return fail(e, WHERRY_STATUS_IO, "%.600s is not a regular file: give the path of a file", path);
    }
    *size = (uint64_t)st.st_size;
    return true;
}

bool file_map(const char *path, struct file_map *out, struct error *e)
{
    int file;
    uint64_t size;
    TRY(system_open_read(path, &file, &size, e));
    struct file_map map = {empty_file, 0, NULL};
    bool ok = true;
    if (size > SIZE_MAX) {
        ok = fail(e, WHERRY_STATUS_IO, "%.600s has %" PRIu64 " bytes, more than this process can address", path, size);
    } else if (size) {
        void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED) {
            ok = fail_system(e, "mapping", path, errno);
        } else {
            map = (struct file_map){data, (size_t)size, data};
        }
    }
    close(file);
    if (ok) *out = map;
    return ok;
}

void file_unmap(struct file_map *map)
{
    if (map->handle) munmap(map->handle, map->size);
    *map = (struct file_map){0};
}

static bool fail_dangling(const char *path, struct error *e)
{
    char target[PATH_BYTES];
    ssize_t length = readlink(path, target, sizeof target);
    return fail(e, WHERRY_STATUS_IO,
                "%.400s is a link to %.*s, which is missing: fetch the file again, or the whole "
                "folder",
                path, (int)(length > 0 && length < 400 ? length : 0), target);
}

bool file_exists(const char *path, bool *exists, struct error *e)
{
    struct stat st;
    *exists = !stat(path, &st);
    if (*exists) return !S_ISDIR(st.st_mode) || fail_is_folder(path, e);
    if (errno == ENOENT && !lstat(path, &st)) return fail_dangling(path, e);
    return errno == ENOENT || errno == ENOTDIR || fail_system(e, "looking for", path, errno);
}

bool system_read(system_file file, const char *path, char *data, size_t size, size_t *got, struct error *e)
{
    *got = 0;
    while (*got < size) {
        ssize_t n = read(file, data + *got, size - *got < READ_CHUNK ? size - *got : READ_CHUNK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_system(e, "reading", path, errno);
        if (!n) break;
        *got += (size_t)n;
    }
    return true;
}

void system_close(system_file file) { close(file); }

/* Returns 0 or the errno of what failed. */
static int write_all(int file, const unsigned char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(file, data + done, size - done < READ_CHUNK ? size - done : READ_CHUNK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        done += (size_t)n;
    }
    /* EINVAL: a file system that has nothing to sync. */
    return fsync(file) && errno != EINVAL ? errno : 0;
}

/* The rename is in place already; a folder that can't be synced can't be helped. */
static void sync_folder_of(const char *path)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 0;
    snprintf(folder, sizeof folder, "%.*s", length ? length : 1, length ? path : slash ? "/" : ".");
    int file = open(folder, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    fsync(file);
    close(file);
}

static bool replace(const char *path, const struct stat *old, const void *data, size_t size, struct error *e)
{
    char temporary[PATH_BYTES];
    int file = -1;
    for (int attempt = 0; attempt < 100; attempt++) {
        int n = snprintf(temporary, sizeof temporary, "%s.%ld-%" PRIx64 ".tmp", path, (long)getpid(), clock_ns());
        if (n < 0 || (size_t)n >= sizeof temporary) {
            return fail(e, WHERRY_STATUS_IO, "the path %.200s... is too long to be written", path);
        }
        file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || (errno != EEXIST && errno != EINTR)) break;
    }
    if (file < 0) return fail_system(e, "creating a temporary file beside", path, errno);
    int code = write_all(file, data, size);
    if (!code && old && fchmod(file, old->st_mode & 07777) && errno != EPERM && errno != ENOTSUP) code = errno;
    if (close(file) && !code) code = errno;
    if (!code && rename(temporary, path)) code = errno;
    if (code) {
        unlink(temporary);
        return fail_system(e, "writing", path, code);
    }
    sync_folder_of(path);
    return true;
}

bool file_replace(const char *path, const void *data, size_t size, struct error *e)
{
    struct stat st;
    bool exists = !stat(path, &st);
    if (exists && !S_ISREG(st.st_mode)) { /* a rename would put a file in the place of a device or a pipe */
        return fail(e, WHERRY_STATUS_IO, "%.600s is not a regular file and is not replaced: give another path", path);
    }
    /* A link stays a link: its target is replaced. */
    char *target = exists ? realpath(path, NULL) : NULL;
    bool ok = replace(target ? target : path, exists ? &st : NULL, data, size, e);
    free(target);
    return ok;
}

bool file_append(const char *path, const void *data, size_t size, struct error *e)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) return fail_system(e, "opening", path, errno);
    int code = write_all(file, data, size);
    if (close(file) && !code) code = errno;
    return !code || fail_system(e, "writing", path, code);
}

bool system_make_folder(const char *path, struct error *e)
{
    struct stat st;
    if (!mkdir(path, 0700)) return true;
    int code = errno;
    if (!stat(path, &st)) {
        if (S_ISDIR(st.st_mode)) return true;
        code = ENOTDIR;
    }
    return fail_system(e, "making the folder", path, code);
}

bool path_separates(char c) { return c == '/'; }

bool path_is_root(const char *path) { return !*path; }

void cache_folder(char *path, size_t size)
{
    if (!size) return;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && *cache == '/') {
        n = snprintf(path, size, "%s/wherry", cache);
    } else if (home && *home == '/') {
        n = snprintf(path, size, "%s/.cache/wherry", home);
    }
    if (n < 0 || (size_t)n >= size) *path = 0;
}

/* ---- clock and threads ---- */

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t counter_next(shared_counter *counter) { return atomic_fetch_add(counter, 1); }

size_t core_count(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (size_t)n : 1;
}

bool thread_start(thread_handle *thread, thread_function run, void *argument)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return false;
    /* Drivers compile kernels on these threads, and some C libraries give a thread 128 KiB only. */
    pthread_attr_setstacksize(&attributes, (size_t)8 << 20);
    bool ok = !pthread_create(thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return ok;
}

void thread_join(thread_handle thread) { pthread_join(thread, NULL); }

static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t once_done = PTHREAD_COND_INITIALIZER;
void once_enter(void) { pthread_mutex_lock(&once_lock); }
void once_leave(void) { pthread_mutex_unlock(&once_lock); }
void once_wait(void) { pthread_cond_wait(&once_done, &once_lock); }
void once_wake(void) { pthread_cond_broadcast(&once_done); }

/* ---- libraries ---- */

library_function library_find(const char *const *names, const char *symbol)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(library, symbol) : NULL;
        library_function function;
        if (!found) continue;
        memcpy(&function, &found, sizeof function); /* POSIX promises that the two kinds of pointer are alike */
        return function;
    }
    return NULL;
}

#endif
