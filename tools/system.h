/* What the command asks of the operating system: clock, terminal, signals, safe replacing. Nothing else asks it but
 * threads.h. */
#ifndef WHERRY_TOOLS_SYSTEM_H
#define WHERRY_TOOLS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A closed pipe becomes a failed write, Ctrl-C a flag (a second one, two seconds later or of another kind, ends the
 * process at once); streams carry bytes as they are. */
void system_init(void);
/* Whether the user asked to stop. Whoever asks in time ends the command in order; where nobody asks within a second, as
 * while a driver compiles, the process ends by the signal, without the temporary files. */
bool system_stopped(void);
/* While it waits, the process does not end by itself: for work with an end of its own that takes longer than a second.
 */
void system_stop_waits(bool waits);
/* Files that go when the process ends by a signal or by exit(); `path` lives until it is taken from the list, and a few
 * fit. */
void system_temporary_add(const char *path);
void system_temporary_done(const char *path);
/* Monotonic seconds. */
double system_seconds(void);
bool system_is_terminal(FILE *file);
/* Number of this process, for names of temporary files. */
unsigned long system_process(void);
/* Random bytes for names; not for secrets. */
void system_random(unsigned char *bytes, size_t count);

/* Ends with the first signal. */
void system_sleep(double seconds);

/* Starts this program again, with these arguments (the first is its name, NULL at the end) and without standard output;
 * its number, 0: it can't be done. */
long system_start(char **arguments);
/* Whether it has ended; its exit status in `code`, -1: a signal ended it. */
bool system_ended(long process, int *code);
/* Asks it to stop. */
void system_end(long process);

/* The machine; "" and 0: unknown. */
struct system_host {
    char os[128], cpu[128];
    unsigned long cores;
    unsigned long long ram_bytes;
};
void system_describe(struct system_host *out);

/* Whether `path` is something that can't be replaced by renaming: a device, a pipe, a socket. */
bool system_is_special(const char *path);
/* What `path` names once links are followed, as memory to free; `path` itself where it does not exist yet. NULL: out of
 * memory. */
char *system_resolve(const char *path);
/* Whether it is a link whose target is missing. */
bool system_is_dangling(const char *path);
/* Whether both paths lead to the same regular file; `b` NULL: to the one that standard input comes from. */
bool system_is_same(const char *a, const char *b);
/* Calls `take` with the path of everything in the folder, whatever it is; nothing where there is none. */
void system_list(const char *folder, void (*take)(const char *path, void *user), void *user);
/* A new file that did not exist before, open for writing and reading; NULL and errno. It has the owner and the mode of
 * `old`, where that exists and as far as the system allows, from the first byte on. */
FILE *system_create(const char *path, const char *old);
/* A file without a name, open for writing and reading, in the folder for temporary files: TMPDIR, else the system's
 * (which `folder` then names, as memory to free). NULL and errno. */
FILE *system_spool(char **folder);
/* 0, or why no file can be written under this path: an errno. Creates nothing. */
int system_writable(const char *path);
/* Puts the file's bytes on the disk; 0, or -1 and errno. */
int system_sync(FILE *file);
/* Moves a closed file over another in one step; 0, or -1 and errno. */
int system_replace(const char *from, const char *to);

#endif
