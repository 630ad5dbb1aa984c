/* Kernels embedded at build time (cmake/kernels.cmake). */
#ifndef WHERRY_BACKENDS_KERNELS_H
#define WHERRY_BACKENDS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

struct embedded_kernel {
    const char *name;  /* file name without ending */
    enum storage type; /* Vulkan: that it was compiled for. OpenCL: f32, the type is a -D */
    bool matrices;     /* Vulkan: made of cooperative matrices, so it needs the extension and full subgroups */
    const unsigned char
        *data;     /* SPIR-V words (8-byte aligned), or OpenCL C text with includes inlined, NUL-terminated */
    size_t size;   /* bytes, without the NUL */
    uint64_t hash; /* of them, made by the build */
};

/* Number `index` of the table; false past its end. */
bool opencl_kernel(size_t index, struct embedded_kernel *out);
bool vulkan_kernel(size_t index, struct embedded_kernel *out);

#endif
