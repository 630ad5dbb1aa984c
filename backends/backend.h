/* The contract between the core and an API. The unit that crosses it is a fusion group made into a step
 * (plan/schedule.h): new kernels do not widen it. A backend never prints, sees no model, and changes nothing of the
 * core's. Several threads may call it for one open device at once, each for a program and buffers of its own; buffers
 * that no program writes to may be of several. */
#ifndef WHERRY_BACKENDS_BACKEND_H
#define WHERRY_BACKENDS_BACKEND_H

#include "base/half.h"
#include "base/host.h"
#include "plan/device.h"
#include "plan/schedule.h"

struct backend_device; /* each backend's own */
struct program;        /* likewise: a recorded schedule */
struct count;
struct kernel_program;
struct apart_program;
struct pinned; /* each backend's own */

/* Rows in a buffer of the application's, in the API that the backend speaks. */
struct outside_rows {
    uint64_t buffer;            /* VkBuffer, cl_mem; 0: none */
    uint64_t offset, row, step; /* bytes, multiples of 4: before the first, of each, and from one to the next */
    uint64_t rows;
};

struct transfer {
    struct buffer *buffer;
    uint64_t offset, bytes;             /* multiples of 4 */
    void *host;                         /* read by uploads, written by downloads */
    const struct outside_rows *outside; /* instead of `host`, where they lie side by side in `buffer`; NULL: `host` */
};

/* VkSemaphore and the value of a timeline (0: it is a binary one), cl_event. */
struct outside_sync {
    uint64_t handle, value;
};

enum { OUTSIDE_SYNCS = 8 };

/* The application's own objects, of one run. */
struct outside {
    struct outside_sync before[OUTSIDE_SYNCS], after[OUTSIDE_SYNCS]; /* that it waits for and signals */
    int n_before, n_after;
    void **event;                                     /* gets an event of its end; NULL: none is wanted */
    struct outside_rows ids, result, gradient;        /* a `step` of 0, and no rows: that follows from the batch */
    uint64_t ids_bytes, result_bytes, gradient_bytes; /* behind `offset` */
    wherry_dtype result_type;                         /* the gradient's, too */
};

struct run {
    const struct transfer *uploads, *downloads; /* before the first and after the last step */
    int n_uploads, n_downloads;
    const struct grid *grids; /* [n_steps] */
    const struct batch_shape *batch;
    double *step_seconds; /* [n_steps], NULL: no timestamps. Device time of each step; a timer that runs backwards or
                             stands still fails the run (fail_timer) */
    int first, end; /* the steps of this run: each is 0, the schedule's boundary or n_steps, or in one that is divided
                       any. `end` 0: to the last */
    const struct outside *before, *after; /* whose `before` is waited for, and whose `after` and `event` tell the end;
                                             NULL: none */
    bool waits;  /* the caller does nothing else until it is done: submitting it may be waiting for it */
    bool copied; /* a copy_down comes next */
    bool near;   /* its transfers are small, and go by the queue that computes whatever other one there is */
};

/* Runs of one program that may be under way at a time: of sessions; and of any. */
enum { RUN_SLOTS = 2, RUN_SLOTS_MOST = 32 };
enum { COPY_TICKETS = 64, COPY_NOT_WAITED = -1 };

struct program_info {
    uint32_t kernels;    /* distinct ones */
    uint32_t compiled;   /* not found in the cache */
    uint64_t host_bytes; /* staging memory */
};

/* What a step's kernel takes of a multiprocessor, as the driver says; 0: unknown, or none. */
struct kernel_usage {
    uint32_t registers;  /* of a work-item, of 32 bits */
    uint32_t spilled;    /* bytes of a work-item that do not fit them: spills, arrays in memory */
    uint32_t shared;     /* bytes of a work-group */
    uint32_t waves;      /* sub-groups that are resident at a time on a multiprocessor, or on one of its SIMD units:
                            whatever the driver counts by */
    uint32_t waves_most; /* that there can be of any kernel */
    uint32_t subgroup;   /* work-items of a sub-group */
    uint32_t code;       /* bytes of instructions */
};

struct backend {
    const char *name; /* "vulkan": the first part of device ids */

    /* Appends one entry per device, unusable ones too, to a list that grows by host_grow. `order` below is this list's
     * index. Fails only when the host is out of memory: a missing or broken driver is an unusable device or none. */
    bool (*enumerate)(const struct host *host, wherry_device_info **list, size_t *count, struct error *e);
    /* Opens device number `index` of enumerate's order, which need not have been called, or, when `external` is not
     * NULL, the application's own (wherry_vulkan.h, wherry_opencl.h). Fills in *info. Fails with
     * WHERRY_STATUS_NO_DEVICE or WHERRY_STATUS_UNSUPPORTED where enumerate has no such device, or an unusable one. The
     * host outlives the device. */
    struct backend_device *(*open)(const struct host *host, size_t index, const void *external,
                                   wherry_device_info *info, struct error *e);
    void (*close)(struct backend_device *device); /* accepts NULL and half-opened ones */
    const struct device_limits *(*limits)(const struct backend_device *device);
    /* A hash of all kernels that this build has for it, made once a device; 0: it has none that a driver compiles and
     * that take sizes, for it is the host itself. */
    uint64_t (*kernels)(const struct backend_device *device);

    /* Device memory, not initialised. */
    struct buffer *(*buffer_create)(struct backend_device *device, uint64_t bytes, struct error *e);
    void (*buffer_destroy)(struct backend_device *device, struct buffer *buffer); /* accepts NULL */
    /* A part of a buffer as one of its own, destroyed before the whole is; NULL where limits has no one_buffer_rungs.
     * Offset and size are multiples of 4096. */
    struct buffer *(*buffer_part)(struct backend_device *device, struct buffer *whole, uint64_t offset, uint64_t bytes,
                                  struct error *e);
    /* Blocking copies outside any program: weights, tests. Offsets and sizes are multiples of 4. */
    bool (*buffer_write)(struct backend_device *device, struct buffer *buffer, uint64_t offset, const void *data,
                         uint64_t bytes, struct error *e);
    bool (*buffer_read)(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data,
                        uint64_t bytes, struct error *e);
    /* The bytes of a buffer that are the host's own memory, which any thread may write to until the device next runs
     * something; NULL, itself or its result: buffer_write it is. */
    void *(*buffer_bytes)(struct backend_device *device, struct buffer *buffer);
    /* Copies beside the runs of programs, of one thread. NULL, all seven, or `pins` says no: buffer_write and
     * buffer_read it is. */
    bool (*pins)(const struct backend_device *device); /* no after pin failed */
    /* A buffer that is copied from and to so; NULL: any is. */
    struct buffer *(*buffer_copied)(struct backend_device *device, uint64_t bytes, struct error *e);
    /* Makes some of the host's memory, whole pages of it, such that the device copies from and to it by itself; until
     * it is unpinned, which waits for what is under way. NULL: it can't. Whoever shares the memory may pin it, too. */
    struct pinned *(*pin)(struct backend_device *device, void *memory, uint64_t bytes, struct error *e);
    void (*unpin)(struct backend_device *device, struct pinned *pinned); /* accepts NULL */
    /* Starts copies from pinned memory. They do not wait for what was submitted before; what is submitted afterwards
     * waits for them. */
    bool (*copies_up)(struct backend_device *device, const struct transfer *list, int n, struct error *e);
    /* Starts a copy to pinned memory, behind what was submitted before. What is submitted afterwards does not wait for
     * it. They end in their order. `ticket`, below COPY_TICKETS, has been waited for; or nobody waits. */
    bool (*copy_down)(struct backend_device *device, const struct transfer *copy, int ticket, struct error *e);
    bool (*copy_wait)(struct backend_device *device, int ticket, struct error *e); /* a free one is done */
    /* Bytes of all live buffers as allocated. */
    uint64_t (*allocated)(const struct backend_device *device);

    /* What memory the driver gives this process now, all of it and what is in use; false, NULL: it does not tell. */
    bool (*budget)(struct backend_device *device, uint64_t *bytes, uint64_t *used);

    /* Whether this device runs the call at these sizes; when not, `reason` says why. */
    bool (*supports)(struct backend_device *device, const struct call *call, enum storage type, char *reason,
                     size_t reason_size);

    /* Compiles what the cache lacks (in parallel), records, allocates staging memory. The schedule and all it points to
     * outlive the program. `progress` may be NULL. */
    struct program *(*program_create)(struct backend_device *device, const struct schedule *schedule,
                                      wherry_progress progress, void *user, struct program_info *info, struct error *e);
    void (*program_destroy)(struct backend_device *device,
                            struct program *program); /* accepts NULL and half-built ones */
    /* Starts a run: uploads, all steps in order, downloads. Runs of a program are done in the order of their
     * submissions. `slot`, below RUN_SLOTS_MOST, is the host's memory that it goes through, and free: what was
     * submitted there before has been waited for. Slot 0 is made with the program, another one by the first run that
     * uses it; else this allocates and compiles nothing. Until it has been waited for, *run, its list of downloads and
     * what that points to stay as they are; what uploads point to, too, but for the schedule's `staged` bytes. A run
     * that could not be submitted is not under way, and its slot is free. */
    bool (*program_submit)(struct backend_device *device, struct program *program, const struct run *run, int slot,
                           struct error *e);
    /* Waits for what was submitted there, at most so long (UINT64_MAX: for ever). *done: its downloads are there, and
     * the slot is free; so it is after a failure. */
    bool (*program_wait)(struct backend_device *device, struct program *program, int slot, uint64_t timeout_ns,
                         bool *done, struct error *e);
    /* Takes over and checks what an application hands in with a batch: a wherry_vulkan_submit or wherry_opencl_submit.
     * NULL: the device has no objects of an application's. */
    bool (*outside)(struct backend_device *device, const void *desc, struct outside *out, struct error *e);
    /* program_submit returns when the run is done. */
    bool submit_runs;
    /* Both, in slot 0. The only way to times of steps. */
    bool (*program_run)(struct backend_device *device, struct program *program, const struct run *run, struct error *e);
    /* A short text about how a step is run where that is worth telling ("CLBlast"), else NULL. */
    const char *(*program_note)(const struct program *program, int step);
    /* The first question may compile all of a program's kernels once more, where a driver does not tell it of those
     * that it has compiled for use. */
    void (*program_usage)(struct backend_device *device, const struct program *program, int step,
                          struct kernel_usage *out);
    /* What the device's compiler is given for a step, of which nothing but kernel, call and type is looked at
     * (backends/kernel_program.h); `one_buffer`: all its arguments are parts of one buffer. NULL: kernels are the
     * host's own code. */
    bool (*program_text)(const struct backend_device *device, const struct step *step, bool one_buffer,
                         struct kernel_program *out, struct error *e);
    /* In a process apart (backends/apart.h): compiles these into the cache and tells of each. What the driver refuses,
     * and what the guard does, is left out. Fails where `driver`, a hash, is not this device's. NULL: nothing is
     * compiled. */
    bool (*compile)(struct backend_device *device, uint64_t driver, const struct apart_program *programs, size_t count,
                    struct error *e);
    /* Adds to *count (plan/traffic_model.h) what a step's kernel moves, where kernels are not those of the plan's
     * table; false: nobody has counted this one. NULL: the table's rules are these kernels'. */
    bool (*program_traffic)(const struct backend_device *device, const struct program *program, int step,
                            struct count *count);
};

extern const struct backend *const backends[]; /* in the order of device lists, the reference last */
extern const size_t backends_count;

#endif
