/* What the library asks of POSIX systems. */
#include "base/platform_system.h"

#ifndef _WIN32

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- files ---- */

bool fail_system(struct error *e, const char *what, const char *path, int code)
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

bool file_open(const char *path, struct file *out, struct error *e)
{
    int file;
    uint64_t size;
    TRY(system_open_read(path, &file, &size, e));
    *out = (struct file){.handle = file, .open = true};
    return true;
}

void file_close(struct file *file)
{
    if (file->open) close((int)file->handle);
    *file = (struct file){0};
}

bool file_read_at(const struct file *file, const char *path, uint64_t offset, void *to, size_t size, size_t *got,
                  struct error *e)
{
    *got = 0;
    while (*got < size) {
        size_t want = size - *got < READ_CHUNK ? size - *got : READ_CHUNK;
        ssize_t n = pread((int)file->handle, (char *)to + *got, want, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_system(e, "reading", path, errno);
        if (!n) break;
        *got += (size_t)n;
    }
    return true;
}

bool file_stamp(const struct file *file, const char *path, struct file_stamp *out, struct error *e)
{
    struct stat st;
    if (fstat((int)file->handle, &st)) return fail_system(e, "asking the size of", path, errno);
#ifdef __APPLE__
    const struct timespec *modified = &st.st_mtimespec;
#else
    const struct timespec *modified = &st.st_mtim;
#endif
    out->bytes = (uint64_t)st.st_size;
    out->modified = (int64_t)((uint64_t)modified->tv_sec * 1000000000u + (uint64_t)modified->tv_nsec);
    return true;
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

bool system_exists(const char *path, bool *exists, bool *is_folder, struct error *e)
{
    struct stat st;
    *exists = !stat(path, &st);
    *is_folder = *exists && S_ISDIR(st.st_mode);
    if (*exists) return true;
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

/* ---- the cache ---- */

void cache_folder_of(const char *cache, const char *home, bool apple, char *path, size_t size)
{
    int n = -1;
    if (!size) return;
    if (cache && *cache == '/') {
        n = snprintf(path, size, "%s/wherry", cache);
    } else if (home && *home == '/') {
        n = snprintf(path, size, "%s/%s/wherry", home, apple ? "Library/Caches" : ".cache");
    }
    if (n < 0 || (size_t)n >= size) *path = 0;
}

void cache_folder(char *path, size_t size)
{
#ifdef __APPLE__
    bool apple = true;
#else
    bool apple = false;
#endif
    cache_folder_of(getenv("XDG_CACHE_HOME"), getenv("HOME"), apple, path, size);
}

static const char remedy_else[] = "or use another cache folder (--cache, cache_dir)";

static bool check_own(const struct stat *st, const char *path, struct error *e)
{
    uid_t user = geteuid();
    if (st->st_uid != user && st->st_uid)
        return fail(e, WHERRY_STATUS_IO, "%.500s belongs to user %lu and not to user %lu, who runs this: delete it, %s",
                    path, (unsigned long)st->st_uid, (unsigned long)user, remedy_else);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return fail(e, WHERRY_STATUS_IO, "others may write to %.500s (mode %04o): chmod go-w it, %s", path,
                    (unsigned)(st->st_mode & 07777), remedy_else);
    return true;
}

/* Opens a folder of the cache, which so stays the one that was checked. */
static bool open_folder(const char *path, bool *exists, int *folder, struct error *e)
{
    struct stat st;
    *exists = !lstat(path, &st);
    if (!*exists) return errno == ENOENT || errno == ENOTDIR || fail_system(e, "looking for", path, errno);
    if (S_ISLNK(st.st_mode) && st.st_uid != geteuid() && st.st_uid)
        return fail(e, WHERRY_STATUS_IO, "%.500s is a link of user %lu: delete it, %s", path, (unsigned long)st.st_uid,
                    remedy_else);
    *folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*folder < 0) return fail_system(e, "opening the folder", path, errno);
    bool ok = fstat(*folder, &st) ? fail_system(e, "asking the owner of", path, errno) : check_own(&st, path, e);
    if (!ok) close(*folder);
    return ok;
}

bool cache_check(const char *folder, struct error *e)
{
    char path[PATH_BYTES];
    bool exists;
    int file;
    int length = snprintf(path, sizeof path, "%s", folder);
    while (length > 1 && length < PATH_BYTES && path[length - 1] == '/')
        path[--length] = 0; /* it would follow a link */
    TRY(open_folder(path, &exists, &file, e));
    if (exists) close(file);
    return true;
}

/* The folder of a file of the cache, and the file's name there. */
static bool open_folder_of(const char *path, bool *exists, int *folder, const char **name, struct error *e)
{
    char text[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : path;
    while (length > 1 && path[length - 1] == '/') length--;
    if (length >= sizeof text) return fail(e, WHERRY_STATUS_IO, "the path %.200s... is too long", path);
    snprintf(text, sizeof text, "%.*s", (int)(length ? length : 1), length ? path : slash ? "/" : ".");
    return open_folder(text, exists, folder, e);
}

/* The same to write there. */
static bool open_made_folder_of(const char *path, int *folder, const char **name, struct error *e)
{
    bool exists;
    TRY(open_folder_of(path, &exists, folder, name, e));
    return exists || fail_system(e, "opening the folder of", path, ENOENT); /* somebody removed it */
}

/* A file that was just opened: closed again where it is not to be trusted. */
static bool check_file(int file, const char *path, struct stat *st, struct error *e)
{
    bool ok = true;
    if (fstat(file, st))
        ok = fail_system(e, "asking the owner of", path, errno);
    else if (!S_ISREG(st->st_mode))
        ok = fail(e, WHERRY_STATUS_IO, "%.500s is not a regular file: delete it, %s", path, remedy_else);
    ok = ok && check_own(st, path, e);
    if (!ok) close(file);
    return ok;
}

static bool fail_open(const char *path, struct error *e)
{
    if (errno != ELOOP) return fail_system(e, "opening", path, errno);
    return fail(e, WHERRY_STATUS_IO, "%.500s is a link, which is not followed in a cache: delete it, %s", path,
                remedy_else);
}

bool system_open_cached(const char *path, bool *exists, system_file *file, uint64_t *size, struct error *e)
{
    struct stat st;
    const char *name;
    int folder;
    TRY(open_folder_of(path, exists, &folder, &name, e));
    if (!*exists) return true;
    *file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int code = errno;
    close(folder);
    errno = code;
    *exists = *file >= 0;
    if (!*exists) return errno == ENOENT || fail_open(path, e);
    TRY(check_file(*file, path, &st, e));
    *size = (uint64_t)st.st_size;
    return true;
}

static int create_temporary(int folder, const char *name, char *temporary, size_t size)
{
    int file = -1;
    for (int attempt = 0; attempt < 100 && file < 0; attempt++) {
        snprintf(temporary, size, "%s.%ld-%" PRIx64 ".tmp", name, (long)getpid(), clock_ns());
        file = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 && errno != EEXIST && errno != EINTR) break;
    }
    return file;
}

/* Returns 0 or the errno of what failed. */
static int write_private(int folder, const char *name, const void *data, size_t size)
{
    char temporary[PATH_BYTES];
    int file = create_temporary(folder, name, temporary, sizeof temporary);
    if (file < 0) return errno;
    int code = write_all(file, data, size);
    if (close(file) && !code) code = errno;
    if (!code && renameat(folder, temporary, folder, name)) code = errno;
    if (code) unlinkat(folder, temporary, 0);
    return code;
}

bool system_write_cached(const char *path, const void *data, size_t size, struct error *e)
{
    struct stat st;
    const char *name;
    int folder;
    TRY(open_made_folder_of(path, &folder, &name, e));
    bool special = !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode);
    int code = special ? 0 : write_private(folder, name, data, size);
    if (!special && !code) fsync(folder); /* the rename is in place already; what can't be synced can't be helped */
    close(folder);
    if (special) /* a rename would put a file in the place of a device or a pipe */
        return fail(e, WHERRY_STATUS_IO, "%.500s is not a regular file and is not replaced: delete it, %s", path,
                    remedy_else);
    return !code || fail_system(e, "writing", path, code);
}

bool system_append_cached(const char *path, const void *data, size_t size, struct error *e)
{
    struct stat st;
    const char *name;
    int folder;
    TRY(open_made_folder_of(path, &folder, &name, e));
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    int code = errno;
    close(folder);
    errno = code;
    if (file < 0) return fail_open(path, e);
    TRY(check_file(file, path, &st, e));
    code = write_all(file, data, size);
    if (close(file) && !code) code = errno;
    return !code || fail_system(e, "writing", path, code);
}

/* ---- clock and threads ---- */

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sleep_ns(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
}

uint64_t processor_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t counter_next(shared_counter *counter) { return atomic_fetch_add(counter, 1); }

uint64_t counter_get(shared_counter *counter) { return atomic_load(counter); }
void counter_set(shared_counter *counter, uint64_t value) { atomic_store(counter, value); }

void thread_pause(void)
{
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
    __builtin_ia32_pause();
#elif defined(__GNUC__) && defined(__aarch64__)
    __asm__ volatile("yield");
#endif
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

void lock_make(system_lock *lock, system_condition *condition)
{
    pthread_mutex_init(lock, NULL);
    pthread_cond_init(condition, NULL);
}

void lock_free(system_lock *lock, system_condition *condition)
{
    pthread_mutex_destroy(lock);
    pthread_cond_destroy(condition);
}

void lock_enter(system_lock *lock) { pthread_mutex_lock(lock); }
void lock_leave(system_lock *lock) { pthread_mutex_unlock(lock); }
void condition_wait(system_condition *condition, system_lock *lock) { pthread_cond_wait(condition, lock); }
void condition_wake(system_condition *condition) { pthread_cond_broadcast(condition); }

static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t once_done = PTHREAD_COND_INITIALIZER;
void once_enter(void) { pthread_mutex_lock(&once_lock); }
void once_leave(void) { pthread_mutex_unlock(&once_lock); }
void once_wait(void) { pthread_cond_wait(&once_done, &once_lock); }
void once_wake(void) { pthread_cond_broadcast(&once_done); }

/* ---- libraries ---- */

void *system_library(const char *name, char *why, size_t size)
{
    void *library = dlopen(*name ? name : NULL, RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
    const char *said = dlerror();
    snprintf(why, size, "%s", said ? said : "it can't be loaded");
    return NULL;
}

library_function library_get(void *library, const char *symbol)
{
    library_function function;
    void *found = dlsym(library, symbol);
    if (!found) return NULL;
    memcpy(&function, &found, sizeof function); /* POSIX promises that the two kinds of pointer are alike */
    return function;
}

/* ---- processes ---- */

uint64_t process_number(void) { return (uint64_t)getpid(); }

bool process_runs(uint64_t number)
{
    return number && number <= INT32_MAX && (kill((pid_t)number, 0) == 0 || errno != ESRCH);
}

#endif
