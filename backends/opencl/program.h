/* What a program of this backend is: program.c makes it, run.c replays it. */
#ifndef WHERRY_BACKENDS_OPENCL_PROGRAM_H
#define WHERRY_BACKENDS_OPENCL_PROGRAM_H

#include "opencl.h"

#include "plan/launches.h"

struct prepared {
    cl_kernel kernel; /* NULL: a product of CLBlast's */
    size_t local;
    struct kernel_usage usage;
    struct opencl_gemm gemm;
    const char *note; /* NULL: none */
};

enum { DOWNLOADS_STAGED = 4 }; /* of a run; more go to where they are wanted */

/* The way of transfers that another queue does: between the host's memory and buffers of the device's there, between
 * these and the session's on the queue that computes. So neither waits for what the other does for the next run. */
struct crossing {
    cl_mem upload, download; /* NULL: not made yet, or the schedule has none */
    bool used;               /* by the run under way, */
    bool pending;            /* and its downloads are still to be enqueued, */
    cl_event computed;       /* behind this */
};

/* What a run under way has to itself. */
struct slot {
    bool made;
    struct opencl_staging staging;
    const struct run *run; /* that is under way, NULL: none */
    cl_event done;         /* of its last command; NULL: it has been waited for already */
    const void *staged[DOWNLOADS_STAGED];
    struct crossing crossing;
};

struct program {
    const struct schedule *schedule;
    struct opencl_maps maps;
    struct slot slots[RUN_SLOTS_MOST];
    struct prepared *steps; /* [n_steps] */
    /* [n_steps]: of the run in progress, when it is timed: of a step's last launch, and of its first where it has
     * several. */
    cl_event *events, *begins;
};

/* ---- crossing.c: transfers by the device's other queue ---- */

/* Whether a run's go that way: not where somebody waits for it, nor where it is timed, or has objects of the
 * application's, or is behind one that waits for them: who is to set those may use the same queue. */
bool opencl_crosses(const struct backend_device *device, const struct run *run);
/* Their buffers, on the slot's first use. What a failure leaves, opencl_crossing_destroy destroys. */
bool opencl_crossing_make(struct backend_device *device, const struct schedule *schedule, struct crossing *crossing,
                          struct error *e);
void opencl_crossing_destroy(struct crossing *crossing);
/* Enqueue the uploads, the one queue behind the other. */
bool opencl_crossing_uploads(struct backend_device *device, struct slot *slot, const struct run *run, struct error *e);
/* Enqueues the downloads' first half. The second comes with the next run or with the wait for this one, whatever is
 * first: until then the queue has room for the next upload. */
bool opencl_crossing_downloads(struct backend_device *device, struct slot *slot, const struct run *run,
                               struct error *e);
/* What is pending of a slot: slot->done is its end. */
bool opencl_crossing_finish(struct backend_device *device, struct slot *slot, struct error *e);

bool opencl_launch(cl_command_queue queue, const struct prepared *p, const char *kernel,
                   const struct launch_part *range, cl_event *event, struct error *e);
/* Memory for what a run transfers, on the slot's first use. */
bool opencl_slot_make(struct backend_device *device, struct program *program, struct slot *slot, struct error *e);

#endif
