/* Files, libraries, threads, clock: what the library asks of the operating system. No file but platform*.c asks it. */
#ifndef WHERRY_BASE_PLATFORM_H
#define WHERRY_BASE_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/host.h"

/* ---- files ---- */

/* A regular file that is open for reading. It stays readable where another one takes its name. */
struct file {
    intptr_t handle; /* the platform's */
    bool open;
};

/* What tells a file that was written to from one that was not. */
struct file_stamp {
    uint64_t bytes;
    int64_t modified; /* in the platform's unit, as fine as the file system has it */
};

bool file_open(const char *path, struct file *out, struct error *e);
void file_close(struct file *file); /* accepts a zeroed or already closed one */
/* `path` of these two is for messages. Several threads may read one file at once. Up to `size` bytes from `offset` on;
 * fewer, said in *got, where the file ends before. */
bool file_read_at(const struct file *file, const char *path, uint64_t offset, void *to, size_t size, size_t *got,
                  struct error *e);
bool file_stamp(const struct file *file, const char *path, struct file_stamp *out, struct error *e);

/* Whether there is a file to be read. Only what is certain counts as "there is none": a folder in its place, a link
 * whose target is missing, and whatever the system can't tell are errors. */
bool file_exists(const char *path, bool *exists, struct error *e);
/* The whole file into memory from `host`, with a NUL after it; refuses more than max_bytes. */
bool file_read(const struct host *host, const char *path, size_t max_bytes, char **data, size_t *size, struct error *e);
/* Makes the folder and its parents where they are missing; what is made is open to this user alone. */
bool folder_make(const char *path, struct error *e);

/* ---- folders of results: files and folders that anybody may read whom the user's umask lets ---- */

/* A new file, which must not be there yet, to be given back by file_close. */
bool file_create(const char *path, struct file *out, struct error *e);
bool file_write(const struct file *file, const char *path, const void *data, size_t size, struct error *e);
/* Returns when the disk has what was written. */
bool file_sync(const struct file *file, const char *path, struct error *e);
/* A new folder in one that is there. */
bool folder_create(const char *path, struct error *e);
/* Calls `each` with the name of everything in a folder but "." and "..", in no order; what a link points to counts as
 * being there. `each` returning false ends it, and is what it returns. */
typedef bool (*folder_callback)(const char *name, bool is_folder, uint64_t bytes, void *user, struct error *e);
bool folder_list(const char *path, folder_callback each, void *user, struct error *e);
/* Whether nothing is at the path but, at most, an empty folder. */
bool folder_is_free(const char *path, bool *is_free, struct error *e);
/* Returns when the disk has the folder's list of files. */
bool folder_sync(const char *path, struct error *e);
/* Gives a folder another name, which is free, beside its own, and syncs the folder that both are in. */
bool folder_rename(const char *from, const char *to, struct error *e);
/* Removes a folder with all that is in it, as far as it can; links are removed, not followed. */
void folder_remove(const char *path);

/* ---- the cache: files that this library wrote and takes on trust ----
 *
 * Whoever writes a compiled kernel decides what the device runs, so files of the cache have to be this user's. On POSIX
 * systems the folder and the file belong to this user or to root, and nobody else may write to them; no link is
 * followed at the file's name, and none at the folder's that is another user's. Anything else is an error that names
 * path, owner, mode and remedy. On Windows a file may not be a link; who else may write is for the folder's access list
 * to say: one below %LOCALAPPDATA% is the user's alone. */

/* The user's cache folder for this library ("$XDG_CACHE_HOME/wherry", "~/.cache/wherry", on macOS
 * "~/Library/Caches/wherry", on Windows "%LOCALAPPDATA%\wherry"); "" where there is none. */
void cache_folder(char *path, size_t size);
#ifndef _WIN32
/* The same by these values of XDG_CACHE_HOME and HOME, either NULL; `apple`: on macOS. */
void cache_folder_of(const char *cache, const char *home, bool apple, char *path, size_t size);
#endif
/* Whether files in this folder can be trusted; in one that is missing, they can: it is made when it is needed. */
bool cache_check(const char *folder, struct error *e);
/* As file_read. A file that is absent is no error: then *exists is false, and nothing else is set. */
bool cache_read(const struct host *host, const char *path, size_t max_bytes, bool *exists, char **data, size_t *size,
                struct error *e);
/* Both make the folder where it is missing, and a file that only this user may read or write.
 * cache_write replaces a file in one step: a temporary one beside it, synced, renamed. A link in its place is replaced,
 * not its target. On failure the old file is as it was. */
bool cache_write(const char *path, const void *data, size_t size, struct error *e);
/* Adds to the end of a file, and returns when the disk has it. */
bool cache_append(const char *path, const void *data, size_t size, struct error *e);

/* Where it is there no more, or can't be taken away, nothing is said. */
void cache_remove(const char *path);

/* ---- processes ---- */

uint64_t process_number(void);
/* Whether a process of this number runs; on doubt it does. */
bool process_runs(uint64_t number);
/* The path of the program that this process runs; "": the system does not tell. */
void process_path(char *path, size_t size);

/* A program that was started. What it writes to standard output and standard error is read here; it has no input. */
struct child {
    intptr_t process, output; /* the platform's */
};
/* `arguments` ends with NULL and begins with the program's path. */
bool process_start(const char *const *arguments, struct child *child, struct error *e);
/* Bytes of what it wrote, of which there may be more; 0: it has closed its output, as whoever ends does; -1: nothing
 * came in this time. */
int process_read(const struct child *child, char *text, size_t size, uint32_t milliseconds);
/* Waits until it has ended, `stop`: after ending it. `how`: "signal 11", "exit status 1". */
void process_finish(struct child *child, bool stop, char how[64]);

/* ---- libraries ---- */

typedef void (*library_function)(void);
/* The first of the NULL-terminated `names` that the system's library search finds and that has a function `symbol`;
 * NULL when none is there, then `why` has each name with what the system says of it, else "". "" is the process: what
 * it was linked with. Where the environment variable `variable` (NULL: none) has a text, that is the only name. The
 * library stays loaded for good: drivers do not like being unloaded. */
void *library_open(const char *variable, const char *const *names, const char *symbol, char *why, size_t size);
/* A function of such a library; NULL: it has none of this name. */
library_function library_get(void *library, const char *symbol);
/* Both at once. */
library_function library_find(const char *const *names, const char *symbol);
/* How a driver's library comes to a machine; `debian`: the package that has it there. For messages. */
#if defined(_WIN32) || defined(__APPLE__) || defined(__ANDROID__)
#define LIBRARY_FROM(debian) "it comes with a driver"
#else
#define LIBRARY_FROM(debian) "install it (Debian, Ubuntu: " debian ") and a driver"
#endif

/* ---- clock ---- */

/* Monotonic, in nanoseconds. */
uint64_t clock_ns(void);
/* What all threads of this process have used of the processors, in nanoseconds. */
uint64_t processor_ns(void);

/* ---- threads ---- */

/* The calling thread sleeps for about so long, or longer. */
void sleep_ns(uint64_t ns);

/* Cores that this process may be run on, at least 1: those of its affinity, and on Linux no more than the quotas of its
 * control groups give it time for. */
size_t core_count(void);
/* Whether this process may use the tile registers of AMX, which Linux (from 5.16 on) is asked for: then it keeps their
 * 8 KB for each thread that does, and signals' stacks have to be larger (sysconf(_SC_MINSIGSTKSZ)). */
bool tiles_allowed(void);
/* Of the last cache that a core has, alone or with others; 0: the system does not tell. */
size_t last_cache_bytes(void);
/* That this process may have, counted anew: by its affinity and the quotas of its control groups. 0: unknown. */
size_t system_cores(void);
/* Whole cores that "QUOTA PERIOD", as cpu.max of a control group has it, gives time for, at least 1; 0: it sets no
 * limit ("max ..."), or is no such text. */
size_t quota_cores(const char *text);
#ifdef __linux__
/* The least of `cores` and of the quotas of the control groups that `processes` names (as /proc/self/cgroup does), and
 * of those around them, whose files are below `mounts` (/sys/fs/cgroup). */
size_t group_cores(const char *processes, const char *mounts, size_t cores);
/* Bytes of the cache of the highest level that a folder describes as Linux's /sys/devices/system/cpu/cpu0/cache does;
 * 0: it describes none. */
size_t cache_bytes_below(const char *folder);
#endif

/* Calls work(item, user) for item 0 to count - 1, on as many threads as there are cores (at most max_threads, 0: no
 * limit), and returns when all are done. Falls back to fewer threads, down to the calling one, where a thread can't be
 * made. */
void parallel_for(size_t count, size_t max_threads, void (*work)(size_t item, void *user), void *user);

/* A team of threads that stays, for work in many short steps. One of them is whoever calls workers_run; between such
 * calls the others sleep, and inside they wait for each other awake for some microseconds only. */
struct workers;
/* As many as there are cores, at most `most` (0: no limit); fewer where the system gives no more. NULL: out of memory.
 */
struct workers *workers_create(const struct host *host, size_t most, struct error *e);
size_t workers_wanted(size_t most);            /* that workers_create asks the system for, the caller included */
void workers_destroy(struct workers *workers); /* accepts NULL */
size_t workers_count(const struct workers *workers);
/* Calls work(thread, user) on all of them at once, `thread` from 0 to their number - 1, and returns when all are done.
 * One call at a time. */
void workers_run(struct workers *workers, void (*work)(size_t thread, void *user), void *user);
/* For `work`: the next number from 0 on that none has had since the last time that all met. */
size_t workers_take(struct workers *workers);
/* For `work`: returns when all of them have called it, and sees what they wrote before. */
void workers_meet(struct workers *workers);
/* For `work`: clock_ns() when the last of them arrived there, or else when workers_run began. What a thread reads from
 * the clock after it met the others may be late: they may be done with the next step by then. */
uint64_t workers_met(const struct workers *workers);

/* Runs `function` once per process, whatever the number of threads that arrive here with the same flag. */
struct once {
    int state;
};
#define ONCE_INIT                                                                                                      \
    {                                                                                                                  \
        0                                                                                                              \
    }
void run_once(struct once *flag, void (*function)(void));

#endif
