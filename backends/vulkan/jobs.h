/* Pipelines that are to be made, and what to do about those that may end the process. */
#ifndef WHERRY_BACKENDS_VULKAN_JOBS_H
#define WHERRY_BACKENDS_VULKAN_JOBS_H

#include "backends/apart.h"
#include "vulkan.h"

enum guarding { UNGUARDED, GUARDED, GUARDED_ALONE };

struct job {
    struct backend_device *d;
    struct pipeline pipeline;
    VkResult result;
    bool told, hit; /* by the driver's feedback */
    bool asked;     /* it is made to be asked for what it takes */
    bool tried;     /* made, or refused, before those that are made at the same time */
    bool apart;     /* made by another process, for this one */
    enum guarding guarding;
    char crashed[800]; /* the file of the guard that says so; "": it does not */
};

/* ---- pipelines.c ---- */

struct pipeline pipeline_describe(size_t kernel, const struct call_constant *constants, int n_constants);
/* Makes those that the store lacks, in parallel, into the store, which has room. */
bool jobs_run(struct backend_device *d, struct job *jobs, int n, wherry_progress progress, void *user,
              struct program_info *info, struct error *e);

/* ---- jobs.c ---- */

/* A hash of device, driver and version. */
uint64_t jobs_driver(const struct backend_device *d);
/* Of the driver's input; never 0. */
uint64_t job_guard_key(const struct job *job);
/* Whether the jobs that the store lacks are made apart, and how the others are to be guarded. */
bool jobs_apart(struct backend_device *d, struct job *jobs, int n, wherry_progress progress, void *user,
                struct error *e);
/* The driver has made them. */
void jobs_learn(struct backend_device *d, const struct job *jobs, int n);
/* Those that a process which ended was at are made alone, through `make`. The first that is refused, when the others
 * need not be tried; else `end`. */
int jobs_suspects(struct job *jobs, int first, int end, void (*make)(struct job *job));

#endif
