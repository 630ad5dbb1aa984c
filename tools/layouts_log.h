/* The log of `wherry bench layouts`: a line for each configuration measured, so that a run that was stopped goes on. */
#ifndef WHERRY_TOOLS_LAYOUTS_LOG_H
#define WHERRY_TOOLS_LAYOUTS_LOG_H

#include <stdio.h>
#include <wherry/wherry_layouts.h>

/* One line. */
struct layouts_entry {
    char work[16];               /* a kernel's name, or a contraction's */
    uint64_t configuration;      /* its number */
    wherry_layout_result result; /* of the time median, interval and n */
};

struct layouts_log {
    FILE *file; /* NULL: none is kept */
    const char *path;
    struct layouts_entry *entries; /* in the order of the file */
    size_t count, room;
    size_t *slots;  /* [n_slots]: by work and number, the entry's place from 1; 0: free */
    size_t n_slots; /* a power of two */
};

/* `key`: one line that says what is measured, on which device; a log of something else is an error, and stays as it
 * is. Lines that are damaged are passed over. `path` NULL: nothing is kept. An exit code. */
int layouts_log_open(struct layouts_log *log, const char *path, const char *key);
/* Returns when the disk has them; an exit code. */
int layouts_log_add(struct layouts_log *log, const struct layouts_entry *entries, size_t count);
/* NULL: it was not measured. */
const struct layouts_entry *layouts_log_find(const struct layouts_log *log, const char *work, uint64_t configuration);
void layouts_log_close(struct layouts_log *log);

#endif
