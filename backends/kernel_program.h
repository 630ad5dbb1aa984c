/* What a driver's compiler is given for a step: the one place from which backends compile, and from which the same
 * program is written to files for compilers that are not here. */
#ifndef WHERRY_BACKENDS_KERNEL_PROGRAM_H
#define WHERRY_BACKENDS_KERNEL_PROGRAM_H

#include "backends/kernels.h"
#include "base/error.h"
#include "plan/device.h"
#include "plan/schedule.h"

/* NVIDIA's compiler then says in its log what a kernel takes of a multiprocessor. */
#define OPENCL_VERBOSE "-cl-nv-verbose"

enum { OPENCL_OPTIONS = 128 + CALL_MAX_CONSTANTS * 32 };

struct kernel_program {
    struct embedded_kernel kernel; /* its code: OpenCL C, or SPIR-V, whose function is "main" */
    bool spirv;
    char options[OPENCL_OPTIONS]; /* of OpenCL's compiler; "": it is SPIR-V */
    /* Specialization constants of SPIR-V, all of 32 bits. */
    uint32_t ids[CALL_MAX_CONSTANTS + 1], values[CALL_MAX_CONSTANTS + 1];
    int n_constants;
    bool full_subgroups;    /* it needs them */
    uint32_t subgroup_size; /* that it must be told to have; 0: none */
};

/* Number `index` of one table or the other; false past its end, and in a build that has not got it. */
bool embedded_kernel_at(bool vulkan, size_t index, struct embedded_kernel *out);
/* By name; false: this build has none. */
bool opencl_kernel_find(const char *name, struct embedded_kernel *out);
bool vulkan_kernel_find(const char *name, enum storage type, size_t *index);

/* How an OpenCL compiler is to be called. */
struct opencl_form {
    bool unoptimized; /* told not to optimize */
    bool one_buffer;  /* all arguments are parts of one buffer (ONE_BUFFER in cl/common.h) */
};

/* Fails where this build has no such kernel, or the step has a constant that it does not know. */
bool opencl_program(const struct device_limits *limits, const struct opencl_form *form, const struct step *step,
                    struct kernel_program *out, struct error *e);
/* `size_chosen`: sub-groups of kernels made of matrices must be told their size. */
void vulkan_program(const struct device_limits *limits, bool size_chosen, const struct embedded_kernel *kernel,
                    const struct call_constant *list, int count, struct kernel_program *out);
/* A hash of all of that: equal programs, equal hashes. */
uint64_t kernel_program_hash(const struct kernel_program *program);

#endif
