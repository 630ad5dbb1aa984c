/* What devices' compilers are given, and what they make of it: for devices that run a session, for drivers that only
 * compile, and for compilers of devices that are not here.
 *
 *   wherry_device_open, wherry_device_open_target -> wherry_session_create -> wherry_session_programs
 *   wherry_device_open -> wherry_session_create -> wherry_session_prepare -> wherry_session_kernels */
#ifndef WHERRY_COMPILE_H
#define WHERRY_COMPILE_H

#include <wherry/wherry.h>
#include <wherry/wherry_measure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices that are not here ---- */

/* A device as planning sees it: limits that its driver would give. Nothing is opened, allocated or run. */
typedef struct wherry_target {
    const char *name;        /* "intel-bmg" */
    const char *description; /* the GPU and the driver whose limits these are */
    const char *api;         /* "opencl", "vulkan" */
    const char *compiler;    /* what compiles for it offline, and its name there: "ocloc -device bmg" */
    const char *source;      /* of the limits */
} wherry_target;

/* By index from 0; NULL past the last. */
WHERRY_API const wherry_target *wherry_target_at(size_t index);
/* A device on which sessions can be planned (wherry_session_create) and their programs written
 * (wherry_session_programs); whatever would allocate, compile or run fails with WHERRY_STATUS_UNSUPPORTED. Its id is
 * "target:<name>". WHERRY_STATUS_NO_DEVICE where there is no such target. */
WHERRY_API wherry_status wherry_device_open_target(wherry_context *context, const char *name, wherry_device **out);

/* ---- programs ---- */

typedef enum wherry_language { WHERRY_LANGUAGE_OPENCL_C = 0, WHERRY_LANGUAGE_SPIRV } wherry_language;

typedef struct wherry_constant {
    uint32_t id, value;
} wherry_constant;

/* What a compiler is given for one kernel with its sizes. */
typedef struct wherry_program {
    const char *kernel; /* its name; of OpenCL C the function's, whose in SPIR-V is "main" */
    wherry_language language;
    const void *code; /* OpenCL C: text with all includes in it; SPIR-V: words */
    size_t code_bytes;
    const char *options;              /* OpenCL C: the compiler's, as clBuildProgram gets them; else "" */
    const wherry_constant *constants; /* SPIR-V: specialization constants, all of 32 bits. OpenCL C: none */
    size_t constant_count;
    bool f16;               /* storage type */
    bool full_subgroups;    /* SPIR-V: VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT is set */
    uint32_t subgroup_size; /* SPIR-V: that the pipeline must be told to have; 0: none */
    uint32_t local_size;    /* work-items of a work-group */
    const char *group;      /* the first group of the plan that runs it */
    uint32_t launches;      /* of the plan that run it */
    uint64_t hash;          /* equal programs, equal hashes */
    const char *work;       /* what it computes: "N=768 K=3072 ...", by the names of its constants */
    const char *sizes;      /* the constants that are chosen by shape and device: "LOCAL_SIZE=256 TILE_M=128 ..." */
} wherry_program;

/* Called with each program; valid until it returns. Returning false ends the listing. */
typedef bool (*wherry_program_callback)(const wherry_program *program, void *user);

/* Every distinct program of a session that was created, prepared or not, in the order of the plan. Programs of
 * libraries (CLBlast, oneDNN) are their own and not among them; the devices cpu and reference have none:
 * WHERRY_STATUS_UNSUPPORTED. */
WHERRY_API wherry_status wherry_session_programs(wherry_session *session, wherry_program_callback callback, void *user);

/* One distinct program of a prepared session, and what it takes. */
typedef struct wherry_session_kernel {
    wherry_kernel_use use;
    char group[64];  /* the first that runs it */
    char work[512];  /* what it computes: "N=768 K=3072 ...", by the names of its constants */
    char sizes[512]; /* the constants that are chosen by shape and device: "LOCAL_SIZE=256 TILE_M=128 ..." */
    uint32_t launches, local_size;
    uint64_t hash; /* of its wherry_program */
} wherry_session_kernel;

/* Fills at most *count entries of `kernels` (which may be NULL) and sets *count to the number there is, in the order of
 * wherry_session_programs. A driver may compile everything once more to tell this. */
WHERRY_API wherry_status wherry_session_kernels(wherry_session *session, wherry_session_kernel *kernels, size_t *count);

/* ---- in a process apart ---- */

/* Called with a line of text that belongs on standard output at once, its end included; from several threads. */
typedef void (*wherry_line_callback)(const char *line, void *user);

/* For the program that wherry_context_desc.compiler names: compiles what is listed in `path`, a file that the process
 * which started it wrote to the context's cache folder, and puts it there. The process that waits for it reads the
 * lines. Programs that the driver refuses are no failure: whoever runs them hears of it. */
WHERRY_API wherry_status wherry_compile_list(wherry_context *context, const char *path, wherry_line_callback write,
                                             void *user);

#ifdef __cplusplus
}
#endif

#endif
