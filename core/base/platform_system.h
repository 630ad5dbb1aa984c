/* What platform.c is built on: platform_posix.c and platform_windows.c each have it. Includes the system's own headers,
 * so that only platform*.c include it, and include it first. */
#ifndef WHERRY_BASE_PLATFORM_SYSTEM_H
#define WHERRY_BASE_PLATFORM_SYSTEM_H

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0601
#endif
#include <windows.h>

typedef HANDLE system_file;
typedef HANDLE thread_handle;
typedef SRWLOCK system_lock;
typedef CONDITION_VARIABLE system_condition;
typedef volatile LONG64 shared_counter;
typedef LPTHREAD_START_ROUTINE thread_function;
#define THREAD_RESULT DWORD WINAPI
#else
#define _XOPEN_SOURCE 700
#define _FILE_OFFSET_BITS 64 /* weights have more than 2 GB, on 32-bit systems too */
#define _DARWIN_C_SOURCE     /* for _SC_NPROCESSORS_ONLN */
#include <pthread.h>
#include <stdatomic.h>

typedef int system_file;
typedef pthread_t thread_handle;
typedef pthread_mutex_t system_lock;
typedef pthread_cond_t system_condition;
typedef atomic_uint_fast64_t shared_counter;
typedef void *(*thread_function)(void *);
#define THREAD_RESULT void *
#endif

#include "base/platform.h"

#ifdef _WIN32
/* The system's own text for a code, with what to do about it. Always false. */
bool fail_system(struct error *e, const char *what, const char *path, DWORD code);
bool path_wide(const char *path, wchar_t *wide, size_t count, struct error *e);
#else
bool fail_system(struct error *e, const char *what, const char *path, int code);
#endif

enum { PATH_BYTES = 4096, READ_CHUNK = 1 << 30 };

bool system_open_read(const char *path, system_file *file, uint64_t *size, struct error *e);
/* file_exists, but that a folder is no error here. */
bool system_exists(const char *path, bool *exists, bool *is_folder, struct error *e);
/* The same of the cache (platform.h). One that is absent is no error. */
bool system_open_cached(const char *path, bool *exists, system_file *file, uint64_t *size, struct error *e);
/* cache_write and cache_append in a folder that is there. */
bool system_write_cached(const char *path, const void *data, size_t size, struct error *e);
bool system_append_cached(const char *path, const void *data, size_t size, struct error *e);
/* Up to `size` bytes; fewer, said in *got, where the file ends before. */
bool system_read(system_file file, const char *path, char *data, size_t size, size_t *got, struct error *e);
void system_close(system_file file);
/* Succeeds where the folder is there already. */
bool system_make_folder(const char *path, struct error *e);
bool path_separates(char c);
/* Whether `path`, the part of one before a separator, is not a folder to make. */
bool path_is_root(const char *path);

/* The counter's value before it was raised by one. */
uint64_t counter_next(shared_counter *counter);
/* In one order with all other calls of these three, as every thread sees it. */
uint64_t counter_get(shared_counter *counter);
void counter_set(shared_counter *counter, uint64_t value);
/* Some nanoseconds of nothing, for a loop that waits for another core. */
void thread_pause(void);
bool thread_start(thread_handle *thread, thread_function run, void *argument);
void thread_join(thread_handle thread);

void lock_make(system_lock *lock, system_condition *condition);
void lock_free(system_lock *lock, system_condition *condition);
void lock_enter(system_lock *lock);
void lock_leave(system_lock *lock);
void condition_wait(system_condition *condition, system_lock *lock);
void condition_wake(system_condition *condition); /* all who wait */

/* library_open of one name. NULL: there is none, and `why` is what the system says. */
void *system_library(const char *name, char *why, size_t size);

/* One lock and one condition for all of run_once. */
void once_enter(void);
void once_leave(void);
void once_wait(void);
void once_wake(void);

#endif
