/* Where a context's time goes: an account of which part of the work the clock is running for. The only clock marks of
 * a start are calls of part_enter and part_leave; they cost a comparison where nobody asked for the account. */
#ifndef WHERRY_BASE_PARTS_H
#define WHERRY_BASE_PARTS_H

#include <stdint.h>

#include "base/host.h"
#include "base/mutex.h"

/* In the order in which a start has them; runtime/parts.c has their names. Times exclude each other: a part that is
 * entered inside another one takes over the clock. But what happens inside a check of kernels (compiling for it,
 * another device, a run) is the check's: that is what is saved where its result is known. */
enum {
    PART_REST,      /* all else: the caller's own work among it */
    PART_OPEN,      /* devices: context or logical device, queues, the pipeline cache's file */
    PART_FILES,     /* the model's files but for the tokenizer's */
    PART_TOKENIZER, /* reading it */
    PART_PLAN,      /* sessions */
    PART_CHECK,     /* of the rungs' numbers */
    PART_MEMORY,    /* of the device */
    PART_WEIGHTS,   /* reading and converting; where other threads do that, waiting for them */
    PART_UPLOAD,    /* copying weights to the device */
    PART_BUILD,     /* programs or pipelines of which the cache lacks some */
    PART_LOAD,      /* those that it has all */
    PART_RECORD,    /* the rest of making a program: kernels' objects and arguments, recordings, staging memory */
    PART_LAUNCH,    /* the first launch of each kernel */
    PART_PROBE,     /* of whether the device executes anything */
    PART_RUN,       /* encodes */
    PART_LIST,      /* listing the devices of a backend: one part for each, by its number */
    PARTS_MAX = PART_LIST + 8
};

struct parts {
    uintptr_t thread; /* whose time it is */
    int now;
    uint64_t wall, processor; /* when the clock began to run for `now` */
    uint64_t wall_ns[PARTS_MAX], processor_ns[PARTS_MAX];
    uint64_t processor_before; /* what the process had used when the account began */
};

/* Begins with PART_REST; the account is the calling thread's. */
void parts_begin(struct parts *parts);
/* Brings the account up to now. */
void parts_update(struct parts *parts);
void parts_switch(struct parts *parts, int part);

/* From now on the time is this part's; returns whose it was, for part_leave. */
static inline int part_enter(const struct host *host, int part)
{
    if (!host->parts || host->parts->thread != thread_number()) return PART_REST;
    int before = host->parts->now;
    if (before != PART_CHECK) parts_switch(host->parts, part);
    return before;
}

static inline void part_leave(const struct host *host, int before)
{
    if (host->parts && host->parts->thread == thread_number()) parts_switch(host->parts, before);
}

#endif
