/* What a program of this backend is: program.c makes it, run.c replays it. */
#ifndef WHERRY_BACKENDS_OPENCL_PROGRAM_H
#define WHERRY_BACKENDS_OPENCL_PROGRAM_H

#include "opencl.h"

struct prepared {
    cl_kernel kernel; /* NULL: a product of CLBlast's */
    size_t local;
    struct kernel_usage usage;
    struct opencl_gemm gemm;
    const char *note; /* NULL: none */
};

enum { DOWNLOADS_STAGED = 4 }; /* of a run; more go to where they are wanted */

/* What a run under way has to itself. */
struct slot {
    bool made;
    struct opencl_staging staging;
    const struct run *run; /* that is under way, NULL: none */
    cl_event done;         /* of its last command; NULL: it has been waited for already */
    const void *staged[DOWNLOADS_STAGED];
};

struct program {
    const struct schedule *schedule;
    struct opencl_maps maps;
    struct slot slots[RUN_SLOTS];
    struct prepared *steps; /* [n_steps] */
    cl_event *events;       /* [n_steps]: of the run in progress, when it is timed */
};

bool opencl_launch(cl_command_queue queue, const struct prepared *p, const char *kernel, const struct grid *grid,
                   cl_event *event, struct error *e);
/* Memory for what a run transfers, on the slot's first use. */
bool opencl_slot_make(struct backend_device *device, struct program *program, struct slot *slot, struct error *e);

#endif
