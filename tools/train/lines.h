/* Lines of several files, by number: the files stay on the disk, memory has where each line begins. */
#ifndef WHERRY_TOOLS_TRAIN_LINES_H
#define WHERRY_TOOLS_TRAIN_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct line_file {
    const char *name;
    FILE *file;
    uint64_t first; /* number of its first line, over all files */
    uint64_t bytes;
    uint64_t hash; /* of them */
};

struct lines {
    struct line_file *files;
    size_t n_files;
    uint64_t *offsets; /* [count]: where lines that are not blank begin */
    uint64_t count, room;
    char *buffer; /* the line that was read last */
    size_t buffer_room;
};

/* Reads the files once. Blank lines do not count; a CR before a line's end is no part of it, nor is a byte order mark.
 * Without any line, and where a file can't be read, complains and returns an exit code. A half-opened one may be
 * closed. */
int lines_open(struct lines *lines, const char *const *paths, size_t count);
void lines_close(struct lines *lines);
/* The line of this number, with a NUL after it, valid until the next is read. */
int lines_read(struct lines *lines, uint64_t number, char **text, size_t *bytes);
/* Complains about a line, "<file>, line <number>: " before the sentence; returns EXIT_INPUT. */
int lines_complain(const struct lines *lines, uint64_t number, const char *what);
/* Of all files, in their order: whether they are the same again. */
uint64_t lines_hash(const struct lines *lines);

#endif
