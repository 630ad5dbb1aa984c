/* What a roof is made of while it is measured. */
#ifndef WHERRY_RUNTIME_ROOF_H
#define WHERRY_RUNTIME_ROOF_H

#include "runtime/context.h"
#include "wherry/wherry_measure.h"

struct wherry_roof {
    struct wherry_context *context;
    wherry_ceiling *ceilings;
    wherry_roof_point *sweep, *launches;
    size_t n_ceilings, n_sweep, n_launches;
    uint64_t cache_bytes;
    wherry_timer_info timer;
    wherry_time sentinel_first, sentinel_last;
};

#endif
