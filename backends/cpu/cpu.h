/* What the files of this backend share: the device, its buffers, and which calls it runs. */
#ifndef WHERRY_BACKENDS_CPU_CPU_H
#define WHERRY_BACKENDS_CPU_CPU_H

#include "backends/backend.h"
#include "backends/cpu/step.h"
#include "base/mutex.h"
#include "base/platform.h"

struct buffer {
    uint64_t bytes;
    unsigned char *data; /* begins on ALIGNMENT bytes */
    void *memory;        /* that it is in */
    uint64_t written;    /* how often something was copied there, or a program ran that writes to it */
};

enum { CPU_ALIGNMENT = 64 }; /* a line of the cache, and the widest register */

struct backend_device {
    const struct host *host;
    struct device_limits limits;
    struct mutex computing; /* of the workers, and what a library keeps: one program at a time */
    struct workers *workers;
    const struct cpu_kernels *kernels; /* of the best instruction set that this processor has */
    const struct cpu_kernels *bf16;    /* of the best one that multiplies in bf16, NULL: it has none */
    size_t cache_bytes;                /* of the last cache, 0: unknown */
    _Atomic uint64_t allocated;
    struct cpu_onednn *onednn; /* NULL: nothing has asked for it yet */
};

/* ---- memory.c ---- */

struct buffer *cpu_buffer_create(struct backend_device *device, uint64_t bytes, struct error *e);
void cpu_buffer_destroy(struct backend_device *device, struct buffer *buffer); /* accepts NULL */
/* Copies; both fail where the bytes are not inside the buffer. */
bool cpu_buffer_write(struct backend_device *device, struct buffer *buffer, uint64_t offset, const void *data,
                      uint64_t bytes, struct error *e);
bool cpu_buffer_read(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                     struct error *e);
/* To be written by whoever asks. */
void *cpu_buffer_bytes(struct backend_device *device, struct buffer *buffer);
bool cpu_buffer_holds(const struct buffer *buffer, uint64_t offset, uint64_t bytes, struct error *e);
/* Memory that begins on CPU_ALIGNMENT bytes, not initialised, in *memory, which is what is to be freed. */
void *cpu_alloc(const struct host *host, uint64_t bytes, void **memory, struct error *e);

/* ---- isa.c ---- */

/* The kernels for this processor. */
const struct cpu_kernels *cpu_kernels_choose(void);
/* Those that multiply in bf16; NULL: it has no instructions for that, or the system does not let us use them. */
const struct cpu_kernels *cpu_bf16_choose(void);
/* NULL: there is none of that name. */
const struct cpu_kernel *cpu_kernel_find(const struct cpu_kernels *kernels, const char *name);

/* ---- calls.c ---- */

/* Whether a kernel here runs the call; `reason` says why not. */
bool cpu_supports(struct backend_device *device, const struct call *call, enum storage type, char *reason,
                  size_t reason_size);
/* Arguments and constants of a step; what the call leaves out has the kernel's default. */
bool cpu_step_resolve(const struct backend_device *device, const struct step *step, struct cpu_step *out,
                      struct error *e);

/* ---- onednn_steps.c ---- */

/* Makes oneDNN usable on this device, or says why it is not. */
bool cpu_onednn_open(struct backend_device *device, struct error *e);
void cpu_onednn_close(struct backend_device *device);
/* Gives a resolved step to oneDNN, if that takes it and passes a check; then s->how is its kernel. s->note says what
 * runs a product. `weight`: its second operand is no step's result. */
bool cpu_onednn_take(struct backend_device *device, const struct step *step, bool weight, struct cpu_step *s,
                     struct error *e);
void cpu_onednn_release(struct backend_device *device, struct cpu_step *s); /* accepts one that it does not run */
/* Whether all of its calls since the last time went well. */
bool cpu_onednn_check_run(struct backend_device *device, struct error *e);

/* ---- program.c ---- */

/* Of a product in bf16 the set of instructions, of one that a library may run what it does of it; else NULL. */
const char *cpu_program_note(const struct program *program, int step);
struct program *cpu_program_create(struct backend_device *device, const struct schedule *schedule,
                                   wherry_progress progress, void *user, struct program_info *info, struct error *e);
void cpu_program_destroy(struct backend_device *device, struct program *program);
bool cpu_program_submit(struct backend_device *device, struct program *program, const struct run *run, int slot,
                        struct error *e);
bool cpu_program_wait(struct backend_device *device, struct program *program, int slot, uint64_t timeout_ns, bool *done,
                      struct error *e);
bool cpu_program_run(struct backend_device *device, struct program *program, const struct run *run, struct error *e);
bool cpu_program_traffic(const struct backend_device *device, const struct program *program, int step,
                         struct count *count);

#endif
