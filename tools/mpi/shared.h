/* Memory that processes of a host share. */
#ifndef WHERRY_TOOLS_MPI_SHARED_H
#define WHERRY_TOOLS_MPI_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHARED_NAME = 192 };

/* What a process tells the others of its memory. */
struct shared_offer {
    char host[SHARED_NAME], path[64]; /* path "": it has none */
    uint64_t bytes, mark;             /* its first word, until all have looked */
};

struct shared_memory {
    void *memory; /* NULL: none */
    size_t bytes;
    int file; /* of the own; -1: none */
};

/* This process' own, whole pages, zeros but for the mark. Where the system has none for it, *offer says so. */
struct shared_memory shared_make(size_t bytes, struct shared_offer *offer);
/* Another process': none where this process can't reach it. */
struct shared_memory shared_open(const struct shared_offer *offer);
void shared_close(struct shared_memory *shared); /* accepts none */

#endif
