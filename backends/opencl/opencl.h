/* What the files of the OpenCL backend share: the device, its kernels, and how an OpenCL error becomes ours. */
#ifndef WHERRY_BACKENDS_OPENCL_OPENCL_H
#define WHERRY_BACKENDS_OPENCL_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300 /* for names of queries; functions.h has what is called */
#endif
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#include <CL/cl_ext.h>
#endif
#include "functions.h"

#include "backends/backend.h"
#include "backends/kernel_program.h"
#include "base/mutex.h"
#include "interface/tensor_maps.h"

struct buffer {
    cl_mem memory; /* of a part, the whole's */
    uint64_t bytes;
    const struct buffer *whole; /* that this is a part of, NULL: of none */
    uint64_t at;                /* where in `memory` it begins, bytes */
};

/* A kernel built for one set of constants. The device keeps it until it is closed, so that programs share it. */
struct kernel_build {
    const char *kernel;            /* the embedded table's */
    struct embedded_kernel source; /* the text */
    char *options;                 /* what the compiler is given */
    char *key;                     /* all that the binary depends on; NULL: not cached */
    char cache_path[768];          /* "": not cached */
    char uncached[960];            /* why the file there is not used; "": it is, or there is none */
    cl_program program;            /* NULL until built */
    char *file;                    /* what the cache has, while it is loaded; NULL: nothing */
    size_t file_bytes;
    bool cached;                 /* is in the cache */
    bool patched;                /* made of patched PTX */
    bool tried;                  /* compiled alone, before others */
    bool apart;                  /* compiled by another process, for this one */
    uint32_t registers, spilled; /* of a work-item; bytes that did not fit them. 0: unknown or none */
    bool ready, ready_large;     /* has been launched once, and on a large grid: the driver has nothing left to do */
    const char *failed;          /* the name of the call that failed, NULL: none */
    char *crashed;               /* where `failed` is the guard: the file that says so */
    cl_int code;                 /* its result */
};

enum clblast_state { CLBLAST_UNTRIED, CLBLAST_WORKS, CLBLAST_REFUSED };

struct backend_device {
    const struct host *host;
    cl_device_id id;
    char listed[32]; /* "opencl:0"; "": the application's own */
    cl_context context;
    cl_command_queue queue;           /* in-order */
    cl_command_queue copy_queue;      /* in-order, the application's for transfers; NULL: none */
    cl_command_queue up, down;        /* in-order, of copies beside runs; NULL: not made yet */
    cl_event tickets[COPY_TICKETS];   /* of copies down; NULL: a free one */
    _Atomic int held;                 /* runs under way that wait for events of the application's */
    cl_command_queue profiling_queue; /* in-order, with timestamps; NULL: the driver gives none */
    struct device_limits limits;
    _Atomic uint64_t allocated;
    struct mutex building; /* of the kernels below: one program at a time is made */
    char identity[1024];   /* device, driver and platform: what compiled kernels depend on */
    struct device_identity described;
    struct kernel_build **builds;
    size_t n_builds;
    bool one_buffer; /* kernels whose arguments are of one buffer are compiled for that (ONE_BUFFER in cl/common.h) */
    bool keeps_kernels; /* QUIRK_KEEPS_KERNELS, and its cache is not switched off */
    enum clblast_state clblast;
    char clblast_note[256]; /* why it was refused */
};

/* ---- memory.c ---- */

/* Fails unless [offset, offset + bytes) lies in the buffer; `what` begins the sentence. */
bool opencl_range(const struct buffer *buffer, uint64_t offset, uint64_t bytes, const char *what, struct error *e);

/* The buffer that a step's kernel takes alone, for all arguments are parts of it; NULL: it takes a buffer each. */
const struct buffer *opencl_whole(const struct backend_device *device, const struct step *step);
/* As the contract (backend.h) says. */
struct buffer *opencl_buffer_create(struct backend_device *device, uint64_t bytes, struct error *e);
void opencl_buffer_destroy(struct backend_device *device, struct buffer *buffer);
struct buffer *opencl_buffer_part(struct backend_device *device, struct buffer *whole, uint64_t offset, uint64_t bytes,
                                  struct error *e);
bool opencl_buffer_write(struct backend_device *device, struct buffer *buffer, uint64_t offset, const void *data,
                         uint64_t bytes, struct error *e);
bool opencl_buffer_read(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data,
                        uint64_t bytes, struct error *e);

/* ---- copies.c: as the contract (backend.h) says ---- */

struct pinned *opencl_pin(struct backend_device *device, void *memory, uint64_t bytes, struct error *e);
void opencl_unpin(struct backend_device *device, struct pinned *pinned);
bool opencl_copies_up(struct backend_device *device, const struct transfer *list, int n, struct error *e);
bool opencl_copy_down(struct backend_device *device, const struct transfer *copy, int ticket, struct error *e);
bool opencl_copy_wait(struct backend_device *device, int ticket, struct error *e);
/* Waits for what is under way, and releases the queues. */
void opencl_copies_close(struct backend_device *device);

/* ---- errors.c ---- */

const char *opencl_error_name(cl_int code);
/* Always false: the error of a call that prepares something. `format` names the call and its purpose. */
bool opencl_fail(struct error *e, cl_int code, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same while commands run, when CL_OUT_OF_RESOURCES and the like mean that the device is lost. */
bool opencl_fail_running(struct error *e, cl_int code, const char *format, ...) PRINTF_LIKE(3, 4);

/* ---- devices.c ---- */

bool opencl_enumerate(const struct host *host, wherry_device_info **list, size_t *count, struct error *e);
/* The device at `index` of that order. */
bool opencl_device_find(const struct host *host, size_t index, cl_device_id *out, wherry_device_info *info,
                        struct error *e);
void opencl_device_describe(cl_device_id id, wherry_device_info *info);
void opencl_device_identify(cl_device_id id, struct device_identity *identity);
/* Whether the driver makes queues of low priority (cl_khr_priority_hints), by a function of OpenCL 2.0. */
bool opencl_device_has_priorities(cl_device_id id);
bool opencl_device_limits(cl_device_id id, struct device_limits *limits, struct error *e);
/* The text that names device, driver and platform. Both fail where the driver fails to answer. */
bool opencl_device_identity(cl_device_id id, char *text, size_t size, struct error *e);

/* ---- build.c ---- */

/* As the contract (backend.h) says. */
bool opencl_program_text(const struct backend_device *device, const struct step *step, bool one_buffer,
                         struct kernel_program *out, struct error *e);
/* Builds the kernels of all steps whose wanted[step] is true that the device has not built yet: from the cache where it
 * has them, in parallel. builds[step] gets the step's. `compiled` counts those made from source; `kernels` all distinct
 * ones. */
bool opencl_builds_create(struct backend_device *device, const struct schedule *schedule, const bool *wanted,
                          struct kernel_build **builds, wherry_progress progress, void *user, uint32_t *kernels,
                          uint32_t *compiled, struct error *e);
void opencl_builds_destroy(struct backend_device *device);
/* As the contract (backend.h) says. */
bool opencl_compile(struct backend_device *device, uint64_t driver, const struct apart_program *programs, size_t count,
                    struct error *e);

/* A kernel that takes no constants, built if it was not; the device keeps it. */
struct kernel_build *opencl_build_named(struct backend_device *device, const char *kernel, struct error *e);

/* ---- cache.c ---- */

/* Of all embedded sources. */
uint64_t opencl_kernels(const struct backend_device *device);
/* Sets key and path, where there is a cache folder. */
bool opencl_build_key(const struct backend_device *device, struct kernel_build *build, struct error *e);
/* Whether the cache has a file for it, whatever that is worth. */
bool opencl_build_is_kept(const struct kernel_build *build);
/* Reads that file into memory of the host, until it is forgotten: whoever writes to it meanwhile changes nothing. */
void opencl_build_read(const struct backend_device *device, struct kernel_build *build);
void opencl_build_forget(const struct backend_device *device, struct kernel_build *build);
/* Whether the program could be made of what was read; `uncached` says why not where there is a file. `cached` and no
 * program: the driver keeps the binary. Called from several threads, so it allocates nothing from the host. */
bool opencl_build_load(struct backend_device *device, struct kernel_build *build);
/* Writes a build that was made from source to the cache. A cache that can't be written is logged and costs time only.
 */
void opencl_build_store(struct backend_device *device, struct kernel_build *build);
/* The driver's binary for this device after `before` free bytes and before `after` ones; NULL and why not in e. */
unsigned char *opencl_binary_fetch(struct backend_device *device, cl_program program, size_t before, size_t after,
                                   size_t *size, struct error *e);

/* ---- maps.c ---- */

/* The maps and counters of all steps of a program, in the order of the steps. */
struct opencl_maps {
    cl_uint count, n_counters;
    cl_mem table, maps, counters; /* NULL: the program has none */
    cl_kernel make;
    bool made;    /* for a batch of these sizes */
    bool cleared; /* counters are 0 when no kernel runs */
    uint64_t tokens, sequences;
};

/* What is made is destroyed by the caller, also after a failure. */
bool opencl_maps_create(struct backend_device *device, const struct schedule *schedule, struct opencl_maps *maps,
                        struct error *e);
void opencl_maps_destroy(struct opencl_maps *maps);
/* Enqueues making them for the batch header as it is then. */
bool opencl_maps_make(struct opencl_maps *maps, cl_command_queue queue, struct error *e);
/* The same where they are not those of this batch already; counters become 0 where they may be anything else. */
bool opencl_maps_update(struct backend_device *device, struct opencl_maps *maps, const struct batch_shape *batch,
                        cl_command_queue queue, struct error *e);
/* After a run that failed: of its kernels some may not have ended, and left counters as they were. */
void opencl_maps_forget(struct opencl_maps *maps);

/* ---- staging.c ---- */

struct opencl_staging {
    cl_mem memory; /* NULL: there is none */
    unsigned char *host;
    size_t bytes, used;
};

/* For transfers of up to a megabyte in each direction, and all uploads of schedules that want them staged. What is made
 * is destroyed by the caller, also after a failure. */
bool opencl_staging_create(struct backend_device *device, const struct schedule *schedule, struct opencl_staging *s,
                           struct error *e);
void opencl_staging_destroy(struct backend_device *device, struct opencl_staging *s);
/* A piece of it until `used` is set back, NULL: not that much is left. */
void *opencl_staging_take(struct opencl_staging *s, uint64_t bytes);

/* ---- outside.c: objects of the application's ---- */

bool opencl_outside(struct backend_device *device, const void *desc, struct outside *out, struct error *e);
/* Enqueue: what comes after it begins when they are done; the copy of rows from or to a buffer. */
bool opencl_outside_wait(cl_command_queue queue, const struct outside *outside, struct error *e);
bool opencl_outside_copy(cl_command_queue queue, const struct transfer *t, bool upload, struct error *e);

/* ---- ptx.c ---- */

/* Whether the kernel has instructions that only a patched program runs. */
bool opencl_is_marked(const struct embedded_kernel *source);
/* In place; the text grows by up to 17 bytes, for which there must be room. False: it is no PTX for sm_90, or nothing
 * in it is marked, and then a kernel that relies on it must not run. */
bool opencl_patch_ptx(char *text, size_t *size);

/* ---- clblast.c ---- */

/* Y [rows, n] = X [rows, k] * W [n, k]^T; offsets in elements. */
struct opencl_gemm {
    cl_mem x, w, y;
    uint64_t x_at, w_at, y_at;
    uint32_t n, k;
    uint32_t rows; /* index in the batch header */
};

/* Whether CLBlast runs this step; *note (may become NULL) says so, or why not where one could expect it. The first
 * product on a device makes CLBlast build its kernels and checks them; then *compiled is 1, else 0. */
bool opencl_gemm_prepare(struct backend_device *device, const struct step *step, enum library library,
                         struct opencl_gemm *gemm, const char **note, uint32_t *compiled);
bool opencl_gemm_run(const struct opencl_gemm *gemm, size_t rows, cl_command_queue queue, cl_event *event,
                     struct error *e);
void opencl_gemm_close(struct backend_device *device);

/* ---- program.c ---- */

struct program *opencl_program_create(struct backend_device *device, const struct schedule *schedule,
                                      wherry_progress progress, void *user, struct program_info *info, struct error *e);
void opencl_program_destroy(struct backend_device *device, struct program *program);
bool opencl_program_submit(struct backend_device *device, struct program *program, const struct run *run, int slot,
                           struct error *e);
bool opencl_program_wait(struct backend_device *device, struct program *program, int slot, uint64_t timeout_ns,
                         bool *done, struct error *e);
bool opencl_program_run(struct backend_device *device, struct program *program, const struct run *run, struct error *e);
const char *opencl_program_note(const struct program *program, int step);
void opencl_program_usage(struct backend_device *device, const struct program *program, int step,
                          struct kernel_usage *out);

#endif
