/* Everything that the library asks of the operating system, for POSIX and for Windows. */
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0601
#endif
#include <windows.h>
#else
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE /* for _SC_NPROCESSORS_ONLN */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#endif

#include "base/platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, MAX_THREADS = 256, READ_CHUNK = 1 << 30 };

static const unsigned char empty_file[1];

#ifdef _WIN32

/* ---- Windows: files ---- */

static bool fail_system(struct error *e, const char *what, const char *path, DWORD code)
{
    char text[256] = "";
    DWORD length = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code, 0, text,
                                  sizeof text, NULL);
    while (length && (text[length - 1] == '\n' || text[length - 1] == '\r' || text[length - 1] == '.')) {
        text[--length] = 0;
    }
    return fail(e, WHERRY_STATUS_IO, "%s %s failed: %s (system error %lu)", what, path, text, (unsigned long)code);
}

static bool path_wide(const char *path, wchar_t *wide, size_t count, struct error *e)
{
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, (int)count)) {
        return fail(e, WHERRY_STATUS_IO, "the path %.200s is not valid UTF-8 or longer than %zu characters", path,
                    count - 1);
    }
    return true;
}

static bool open_read(const char *path, HANDLE *file, uint64_t *size, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    *file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    if (*file == INVALID_HANDLE_VALUE) return fail_system(e, "opening", path, GetLastError());
    LARGE_INTEGER length;
    if (!GetFileSizeEx(*file, &length)) {
        DWORD code = GetLastError();
        CloseHandle(*file);
        return fail_system(e, "asking the size of", path, code);
    }
    *size = (uint64_t)length.QuadPart;
    return true;
}

bool file_map(const char *path, struct file_map *out, struct error *e)
{
    HANDLE file;
    uint64_t size;
    TRY(open_read(path, &file, &size, e));
    struct file_map map = {empty_file, 0, NULL};
    bool ok = true;
    if (size > SIZE_MAX) {
        ok = fail(e, WHERRY_STATUS_IO, "%s has %" PRIu64 " bytes, more than this process can address", path, size);
    } else if (size) {
        map.handle = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
        map.data = map.handle ? MapViewOfFile(map.handle, FILE_MAP_READ, 0, 0, 0) : NULL;
        map.size = (size_t)size;
        if (!map.data) {
            ok = fail_system(e, "mapping", path, GetLastError());
            if (map.handle) CloseHandle(map.handle);
        }
    }
    CloseHandle(file);
    if (ok) *out = map;
    return ok;
}

void file_unmap(struct file_map *map)
{
    if (map->handle) {
        UnmapViewOfFile(map->data);
        CloseHandle(map->handle);
    }
    *map = (struct file_map){0};
}

bool file_exists(const char *path)
{
    wchar_t wide[PATH_BYTES];
    struct error ignored;
    if (!path_wide(path, wide, PATH_BYTES, &ignored)) return false;
    DWORD attributes = GetFileAttributesW(wide);
    return attributes != INVALID_FILE_ATTRIBUTES && !(attributes & FILE_ATTRIBUTE_DIRECTORY);
}

static bool read_all(HANDLE file, const char *path, char *data, size_t size, size_t *got, struct error *e)
{
    *got = 0;
    while (*got < size) {
        DWORD want = size - *got < READ_CHUNK ? (DWORD)(size - *got) : READ_CHUNK, n = 0;
        if (!ReadFile(file, data + *got, want, &n, NULL)) return fail_system(e, "reading", path, GetLastError());
        if (!n) break;
        *got += n;
    }
    return true;
}

static void close_read(HANDLE file) { CloseHandle(file); }

static bool write_all(HANDLE file, const unsigned char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        DWORD want = size - done < READ_CHUNK ? (DWORD)(size - done) : READ_CHUNK, n = 0;
        if (!WriteFile(file, data + done, want, &n, NULL)) return false;
        done += n;
    }
    return FlushFileBuffers(file);
}

bool file_replace(const char *path, const void *data, size_t size, struct error *e)
{
    wchar_t to[PATH_BYTES], from[PATH_BYTES];
    TRY(path_wide(path, to, PATH_BYTES, e));
    HANDLE file = INVALID_HANDLE_VALUE;
    char temporary[PATH_BYTES];
    for (int attempt = 0; attempt < 100 && file == INVALID_HANDLE_VALUE; attempt++) {
        int n = snprintf(temporary, sizeof temporary, "%s.%lu-%" PRIx64 ".tmp", path,
                         (unsigned long)GetCurrentProcessId(), clock_ns());
        if (n < 0 || (size_t)n >= sizeof temporary) {
            return fail(e, WHERRY_STATUS_IO, "the path %.200s... is too long to be written", path);
        }
        TRY(path_wide(temporary, from, PATH_BYTES, e));
        file = CreateFileW(from, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
        if (file == INVALID_HANDLE_VALUE && GetLastError() != ERROR_FILE_EXISTS) break;
    }
    if (file == INVALID_HANDLE_VALUE) return fail_system(e, "creating a temporary file beside", path, GetLastError());
    bool ok = write_all(file, data, size);
    DWORD code = ok ? 0 : GetLastError();
    CloseHandle(file);
    if (ok && !MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        ok = false;
        code = GetLastError();
    }
    if (ok) return true;
    DeleteFileW(from);
    return fail_system(e, "writing", path, code);
}

bool file_append(const char *path, const void *data, size_t size, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    HANDLE file = CreateFileW(wide, FILE_APPEND_DATA, FILE_SHARE_READ, NULL, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE) return fail_system(e, "opening", path, GetLastError());
    bool ok = write_all(file, data, size);
    DWORD code = ok ? 0 : GetLastError();
    CloseHandle(file);
    return ok || fail_system(e, "writing", path, code);
}

static bool folder_make_one(const char *path, struct error *e)
{
    wchar_t wide[PATH_BYTES];
    TRY(path_wide(path, wide, PATH_BYTES, e));
    if (CreateDirectoryW(wide, NULL)) return true;
    DWORD code = GetLastError(), attributes = GetFileAttributesW(wide);
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY)) return true;
    return fail_system(e, "making the folder", path, code);
}

static bool is_separator(char c) { return c == '/' || c == '\\'; }

/* "C:" and "" before a leading separator are not folders to make. */
static bool is_root(const char *path) { return !*path || (path[1] == ':' && !path[2]); }

void cache_folder(char *path, size_t size)
{
    wchar_t wide[PATH_BYTES];
    char local[PATH_BYTES];
    if (size) *path = 0;
    DWORD n = GetEnvironmentVariableW(L"LOCALAPPDATA", wide, PATH_BYTES);
    if (!n || n >= PATH_BYTES || !WideCharToMultiByte(CP_UTF8, 0, wide, -1, local, sizeof local, NULL, NULL)) return;
    int length = snprintf(path, size, "%s\\wherry", local);
    if (size && (length < 0 || (size_t)length >= size)) *path = 0;
}

/* ---- Windows: clock and threads ---- */

uint64_t clock_ns(void)
{
    LARGE_INTEGER ticks, rate;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&rate);
    uint64_t t = (uint64_t)ticks.QuadPart, r = (uint64_t)rate.QuadPart;
    return t / r * 1000000000u + t % r * 1000000000u / r;
}

typedef HANDLE thread_handle;
typedef volatile LONG64 shared_counter;
#define THREAD_RESULT DWORD WINAPI

static uint64_t counter_next(shared_counter *counter) { return (uint64_t)InterlockedIncrement64(counter) - 1; }

size_t core_count(void) { return GetActiveProcessorCount(ALL_PROCESSOR_GROUPS); }

static bool thread_start(thread_handle *thread, DWORD(WINAPI *run)(void *), void *argument)
{
    *thread = CreateThread(NULL, 0, run, argument, 0, NULL);
    return *thread != NULL;
}

static void thread_join(thread_handle thread)
{
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

static SRWLOCK once_lock = SRWLOCK_INIT;
static CONDITION_VARIABLE once_done = CONDITION_VARIABLE_INIT;
static void once_enter(void) { AcquireSRWLockExclusive(&once_lock); }
static void once_leave(void) { ReleaseSRWLockExclusive(&once_lock); }
static void once_wait(void) { SleepConditionVariableSRW(&once_done, &once_lock, INFINITE, 0); }
static void once_wake(void) { WakeAllConditionVariable(&once_done); }

/* ---- Windows: libraries ---- */

library_function library_find(const char *const *names, const char *symbol)
{
    for (; *names; names++) {
        HMODULE library = LoadLibraryA(*names);
        FARPROC found = library ? GetProcAddress(library, symbol) : NULL;
        if (found) return (library_function)(void *)found;
    }
    return NULL;
}

#else

/* ---- POSIX: files ---- */

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

static bool open_read(const char *path, int *file, uint64_t *size, struct error *e)
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
    TRY(open_read(path, &file, &size, e));
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

bool file_exists(const char *path)
{
    struct stat st;
    return !stat(path, &st) && !S_ISDIR(st.st_mode);
}

static bool read_all(int file, const char *path, char *data, size_t size, size_t *got, struct error *e)
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

static void close_read(int file) { close(file); }

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

static bool folder_make_one(const char *path, struct error *e)
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

static bool is_separator(char c) { return c == '/'; }

static bool is_root(const char *path) { return !*path; }

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

/* ---- POSIX: clock and threads ---- */

uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef pthread_t thread_handle;
typedef atomic_uint_fast64_t shared_counter;
#define THREAD_RESULT void *

static uint64_t counter_next(shared_counter *counter) { return atomic_fetch_add(counter, 1); }

size_t core_count(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (size_t)n : 1;
}

static bool thread_start(thread_handle *thread, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return false;
    /* Drivers compile kernels on these threads, and some C libraries give a thread 128 KiB only. */
    pthread_attr_setstacksize(&attributes, (size_t)8 << 20);
    bool ok = !pthread_create(thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return ok;
}

static void thread_join(thread_handle thread) { pthread_join(thread, NULL); }

static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t once_done = PTHREAD_COND_INITIALIZER;
static void once_enter(void) { pthread_mutex_lock(&once_lock); }
static void once_leave(void) { pthread_mutex_unlock(&once_lock); }
static void once_wait(void) { pthread_cond_wait(&once_done, &once_lock); }
static void once_wake(void) { pthread_cond_broadcast(&once_done); }

/* ---- POSIX: libraries ---- */

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

/* ---- on both ---- */

bool file_read(const struct host *host, const char *path, size_t max_bytes, char **data, size_t *size, struct error *e)
{
#ifdef _WIN32
    HANDLE file;
#else
    int file;
#endif
    uint64_t bytes;
    TRY(open_read(path, &file, &bytes, e));
    if (bytes > max_bytes || bytes >= SIZE_MAX) {
        close_read(file);
        return fail(e, WHERRY_STATUS_BAD_FORMAT, "%.600s has %" PRIu64 " bytes; at most %zu are expected here", path,
                    bytes, max_bytes);
    }
    char *text = host_alloc(host, (size_t)bytes + 1, 1, e);
    size_t got = 0;
    bool ok = text && read_all(file, path, text, (size_t)bytes, &got, e);
    close_read(file);
    if (!ok) {
        host_free(host, text);
        return false;
    }
    text[got] = 0;
    *data = text;
    *size = got;
    return true;
}

bool folder_make(const char *path, struct error *e)
{
    char part[PATH_BYTES];
    size_t length = strlen(path);
    if (!length || length >= sizeof part) {
        return fail(e, WHERRY_STATUS_IO, "a folder's path must have 1 to %d bytes, not %zu", PATH_BYTES - 1, length);
    }
    for (size_t i = 0; i <= length; i++) {
        part[i] = path[i];
        if (i < length && !is_separator(path[i])) continue;
        part[i] = 0;
        if (!is_root(part)) TRY(folder_make_one(part, e));
        part[i] = path[i];
    }
    return true;
}

struct parallel {
    shared_counter next;
    size_t count;
    void (*work)(size_t item, void *user);
    void *user;
};

static THREAD_RESULT parallel_run(void *argument)
{
    struct parallel *p = argument;
    for (uint64_t item; (item = counter_next(&p->next)) < p->count;) p->work((size_t)item, p->user);
    return 0;
}

void parallel_for(size_t count, size_t max_threads, void (*work)(size_t item, void *user), void *user)
{
    struct parallel p = {.count = count, .work = work, .user = user};
    size_t threads = core_count(), started = 0;
    if (max_threads && threads > max_threads) threads = max_threads;
    if (threads > count) threads = count;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    thread_handle others[MAX_THREADS];
    /* The caller is one of the threads, so the work gets done even when none can be made. */
    while (started + 1 < threads && thread_start(&others[started], parallel_run, &p)) started++;
    parallel_run(&p);
    for (size_t i = 0; i < started; i++) thread_join(others[i]);
}

void run_once(struct once *flag, void (*function)(void))
{
    enum { NOT_RUN, RUNNING, DONE };
    once_enter();
    while (flag->state == RUNNING) once_wait();
    if (flag->state == NOT_RUN) {
        flag->state = RUNNING;
        once_leave(); /* so that `function` may run_once something else */
        function();
        once_enter();
        flag->state = DONE;
        once_wake();
    }
    once_leave();
}
