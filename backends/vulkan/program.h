/* What a program of this backend is: program.c makes it, run.c records and runs it. */
#ifndef WHERRY_BACKENDS_VULKAN_PROGRAM_H
#define WHERRY_BACKENDS_VULKAN_PROGRAM_H

#include "plan/launches.h"
#include "vulkan.h"

/* Transfers of one direction, as last recorded: the same ones are replayed. */
enum { TRANSFERS_KEPT = 16 };

struct copies {
    VkCommandBuffer commands;
    struct transfer list[TRANSFERS_KEPT];
    int n;        /* of the list; -1: recorded anew for each run */
    bool crosses; /* by a buffer of the crossing, not the host's memory */
};

/* All steps, with these numbers of work-groups, so that the device need not fetch them before each step
 * (vkCmdDispatchIndirect). A session's batches are often alike. */
struct recording {
    VkCommandBuffer *batches; /* [n_batches] */
    struct grid *grids;       /* [n_steps] */
    bool made;
};

/* The semaphores of a submission, of the application's. */
struct outside_link {
    VkSemaphore waits[OUTSIDE_SYNCS], signals[OUTSIDE_SYNCS];
    uint64_t wait_values[OUTSIDE_SYNCS], signal_values[OUTSIDE_SYNCS];
    VkPipelineStageFlags stages[OUTSIDE_SYNCS];
    VkTimelineSemaphoreSubmitInfo values;
};

/* The way of transfers that another queue does: between the host's memory and buffers of the device's there, between
 * these and the session's on the queue that computes. So neither waits for what the other does for the next run. */
struct crossing {
    bool made;
    struct buffer *upload, *download; /* NULL where the schedule has none */
    VkCommandBuffer up, down;
    VkSemaphore uploaded, computed; /* binary ones: each is signaled once and waited for once in a run */
    uint64_t pending;               /* bytes of the download that is still to be submitted */
};

/* What a run under way has to itself: the host's memory that its transfers go through, and its command buffers, which
 * a run like the one before in this slot does not record again. */
struct slot {
    bool made;
    const struct run *run; /* that is under way, NULL: none */
    uint32_t from, end;    /* its batches */
    uint32_t n_submits;    /* of them, those that have something to do */
    uint64_t started;      /* by clock_ns() */
    VkFence fence;
    struct mapped upload, download;
    struct copies uploads, downloads;
    struct recording plain;
    VkCommandBuffer *commands; /* [n_batches + 2]: those of one run, with upload and download */
    VkSubmitInfo *submits;     /* [n_batches] */
    struct outside_link first, last;
    struct crossing crossing;
};

/* What is dispatched at once: a step, or number `part` of the launches that a long one is divided into. */
struct dispatch {
    int step;
    uint32_t part;
};

/* The steps are recorded for each slot, and once with timestamps, and again when a run has other numbers of
 * work-groups. A recording consists of batches that are submitted separately, each short enough for a driver's
 * watchdog. */
struct program {
    const struct schedule *schedule;
    int *pipelines; /* [n_steps] */
    VkDescriptorPool descriptors;
    VkDescriptorSet *sets;       /* [n_steps] */
    struct dispatch *dispatches; /* [n_dispatches] */
    uint32_t n_dispatches;       /* at the session's limits; those that a run has none of are left out */
    uint32_t *first;             /* [n_batches + 1]: the first dispatch of each batch */
    uint32_t n_batches;
    bool *barriers;      /* [n_steps]: a barrier before the step */
    VkQueryPool queries; /* one timestamp before each batch, one after each dispatch; none where the queue has none */
    uint64_t *ticks;     /* [n_dispatches + n_batches] */
    VkCommandPool pool;
    VkCommandPool transfer_pool; /* of the other queue's family; made with the first crossing */
    struct slot slots[RUN_SLOTS_MOST];
    struct recording timed; /* of slot 0 */
    double seconds;         /* that a run may take */
    uint64_t usual_ns;      /* that one took last, until its end was seen */
};

/* Makes the slot's memory and command buffers where they are not made yet. What a failure leaves, the program's end
 * destroys. */
bool slot_make(struct backend_device *d, struct program *p, struct slot *slot, struct error *e);

/* ---- crossing.c: transfers by the device's other queue ---- */

/* Whether a run's go that way: not where somebody waits for it, nor where it is timed, or has objects of the
 * application's, or is behind one that waits for them: who signals those may use the same queue. */
bool crossing_takes(const struct backend_device *d, const struct run *run);
/* On the slot's first use. What a failure leaves, crossing_destroy destroys. */
bool crossing_make(struct backend_device *d, struct program *p, struct slot *slot, struct error *e);
void crossing_destroy(struct backend_device *d, struct slot *slot);
/* Submits what is before and what is after slot->submits, with semaphores between. The download comes with the next run
 * or with the wait for this one, whatever is first: until then the queue has room for the next upload. */
bool crossing_submit(struct backend_device *d, struct slot *slot, const struct run *run, struct error *e);
/* What is pending of a slot. */
bool crossing_download(struct backend_device *d, struct slot *slot, struct error *e);

/* The timestamp before a batch's first dispatch. Those after each follow; so a step's time includes the barrier before
 * it. */
static inline uint32_t batch_query(const struct program *p, uint32_t batch) { return p->first[batch] + batch; }

#endif
