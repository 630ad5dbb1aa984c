/* A plan made runnable: kernel calls with buffers, for a backend to record. */
#ifndef WHERRY_PLAN_SCHEDULE_H
#define WHERRY_PLAN_SCHEDULE_H

#include "base/half.h"
#include "graph/group.h"

struct buffer; /* a backend's */

struct binding {
    uint8_t slot; /* SLOT_* */
    bool written;
    struct buffer *buffer;
    uint64_t offset; /* bytes, a multiple of 256 */
    uint64_t bytes;  /* that the argument may cover, at the session's limits */
    bool words;      /* elements of 32 bits whatever the storage type */
    bool bytes_each; /* of 8 bits */
};

struct step {
    const char *name;   /* the group's, for timings and labels */
    const char *kernel; /* file name without ending */
    enum launch launch;
    bool f16;                                       /* elements have 16 bits: f16, or bf16 */
    bool bf16;                                      /* those; or it multiplies in bf16 and its weights are stored so */
    struct binding bindings[GROUP_MAX_TENSORS + 1]; /* ascending slots; the first is SLOT_BATCH */
    int n_bindings;
    const struct call *call; /* constants; owned by the schedule's maker, outlives the program */
    int group;               /* index in `groups` */
    double flops;            /* at the session's limits: lets a backend keep submissions short */
    uint64_t items_most;     /* work-items likewise; 0: any number */
    uint32_t groups_most;    /* work-groups of one launch, behind which a submission ends (plan/launches.h); 0: all */
};

static inline enum storage step_type(const struct step *step)
{
    return !step->f16 ? STORAGE_F32 : step->bf16 ? STORAGE_BF16 : STORAGE_F16;
}

/* Elements of this type. */
static inline void step_store(struct step *step, enum storage type)
{
    step->f16 = type != STORAGE_F32;
    step->bf16 = type == STORAGE_BF16;
}

/* Whether products go to a library: CLBlast through OpenCL, oneDNN on the host's cores. */
enum library {
    LIBRARY_AUTO = 0, /* where it is the faster one */
    LIBRARY_WANTED,   /* wherever it can; it fails to be prepared where the library is not usable at all */
    LIBRARY_REFUSED
};

struct schedule {
    const struct step *steps;
    int n_steps;
    int boundary; /* a run may also begin or end before this step (training: the backward pass); 0: nowhere */
    enum library library;
    bool ordered;              /* each step waits for the one before, needed or not: what is timed does not overlap */
    const struct graph *graph; /* with groups: what the reference backend runs */
    const struct group *groups;
    size_t max_upload, max_download; /* bytes that one run moves at most in each direction */
    bool divided;                    /* a run may begin and end at any step */
    const bool *ends;                /* [n_steps]: a run may end behind those, and another begin there; NULL: none */
    size_t staged; /* bytes of the first uploads of a run, which are copied when it is submitted, so that the next one
                      may be filled in */
};

#endif
