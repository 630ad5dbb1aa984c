/* Devices that are not here, as planning sees them: what their programs would be made from. */
#ifndef WHERRY_BACKENDS_TARGET_TARGET_H
#define WHERRY_BACKENDS_TARGET_TARGET_H

#include "backends/backend.h"
#include "wherry/wherry_compile.h"

struct target {
    wherry_target public;
    wherry_device_type type;
    struct device_limits limits;
    bool size_chosen; /* Vulkan: sub-groups of kernels made of matrices must be told their size */
};

/* By index from 0, those of this build's APIs; NULL past the last. */
const struct target *target_at(size_t index);

/* Opens the target that `external` points to; lists none. */
extern const struct backend backend_target;

#endif
