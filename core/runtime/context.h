/* What the public handles are inside. */
#ifndef WHERRY_RUNTIME_CONTEXT_H
#define WHERRY_RUNTIME_CONTEXT_H

#include "backends/backend.h"
#include "base/parts.h"
#include "runtime/shared_weights.h"
#include "wherry/wherry_measure.h"

/* What a check of a group's kernels found, or a measurement of a rung (runtime/rung_kept.h). */
struct rung_check {
    uint64_t id; /* of the device and the key; 0: none */
    bool failed;
    char reason[256]; /* why */
};

enum { CONTEXT_RUNG_CHECKS = 128 };

/* The last failure of a thread. */
struct thread_error {
    struct thread_error *next;
    uintptr_t thread; /* its number: as many are kept as threads run at a time */
    uint64_t serial;
    struct error error;
};

struct wherry_context {
    struct host host;
    struct mutex lock;                             /* of the errors' list and the checks */
    struct thread_error errors;                    /* of the thread that made it, and of those that came later */
    struct thread_error spare;                     /* of threads for which there was no memory */
    struct parts parts;                            /* where its time goes, where that was asked for */
    struct error uncached;                         /* why nothing is cached although a folder is there; else no text */
    struct rung_check checks[CONTEXT_RUNG_CHECKS]; /* the last ones */
    uint32_t next_check;
};

struct wherry_device {
    struct wherry_context *context;
    const struct backend *backend;
    struct backend_device *handle;
    size_t index;          /* in the backend's order */
    bool external;         /* the application's own: it has no index */
    struct mutex lock;     /* of the next two */
    bool probed;           /* device_probe passed, and */
    bool copies;           /* so did its part without kernels */
    _Atomic bool lost;     /* a run ended so: nothing more is run on it */
    uint64_t kernels_hash; /* of the backend's; 0: it has none, it is the host itself */
    wherry_device_info info;
    struct weight_store weights; /* that sessions have in common */
    uint64_t memory_limit;       /* bytes, 0: none; with weights.memory */
    wherry_timer_info timer;     /* that wherry_measure found good; else its kind is "" */
};

/* A device that has no handle yet, to be closed by wherry_device_close all the same. NULL: failed. */
struct wherry_device *device_new(struct wherry_context *context, const struct backend *backend, struct error *e);
/* Opens a device that is not external a second time: what happens to one of the two is not the other's. NULL: failed.
 */
struct wherry_device *device_open_again(const struct wherry_device *device, struct error *e);
/* Has the device make words of a random number, through the copies, queues and kernels that sessions use, and reads
 * them back: fails with WHERRY_STATUS_VERIFY_FAILED, naming the device, where they are not there. `kernels` false: it
 * is asked for copies alone, for kernels would run on whatever memory holds where those do nothing. */
bool device_probe(struct wherry_device *device, bool kernels, struct error *e);
/* The same where it did not pass yet. */
bool device_probe_first(struct wherry_device *device, bool kernels, struct error *e);
/* The same of a device that was opened just now, its kernels where the host wants devices that compile only (host.h),
 * too: one that does not execute becomes one of these there, and fails else. */
bool device_try(struct wherry_device *device, struct error *e);
/* Where low priority was asked for, and the device has none: a sentence that says so, and why. */
bool device_priority_note(const struct wherry_device *device, char *note, size_t size);
/* Logs it. */
void device_priority_tell(const struct wherry_device *device);
/* After a run that failed: of what it is lost by, every later call is to be told. */
void device_failed(struct wherry_device *device, const struct error *e);
/* Fails for a device that compiles only, or is lost, before anything is run on it. */
bool device_executes(const struct wherry_device *device, struct error *e);
/* Where the calling thread's failures are recorded. Never NULL, and the same for as long as the thread runs. */
struct error *context_error(struct wherry_context *context);
/* The status of a call that ended with ok, after its error was recorded in the context. */
wherry_status context_status(struct wherry_context *context, bool ok);
/* An argument error where `call` has no cache folder to keep its results in. */
wherry_status context_needs_cache(struct wherry_context *context, const char *call);
/* Records the error of a call that needs a tokenizer, for a model without. */
wherry_status context_no_tokenizer(struct wherry_context *context);
/* Records an argument error. */
wherry_status context_invalid(struct wherry_context *context, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
