/* The rows of classes. Where a number of waves stands in a reason, docs/tuning.md names the compiler that said it. */
#include "plan/class_sizes.h"

#include <string.h>

#define AMD_RDNA3 (CLASS_BIT(CLASS_AMD_RDNA3) | CLASS_BIT(CLASS_AMD_RDNA4))
#define AMD_64 (CLASS_BIT(CLASS_AMD_GCN) | CLASS_BIT(CLASS_AMD_CDNA))
#define INTEL (CLASS_BIT(CLASS_INTEL_XE_LP) | CLASS_BIT(CLASS_INTEL_XE_HPG) | CLASS_BIT(CLASS_INTEL_XE2))

/* Attention with half as many rows for each work-item, twice as many work-items, and stages of 16 channels, which leave
 * room for a second work-group in 64 KiB of shared memory. */
#define ATTENTION(which, reason)                                                                                       \
    {                                                                                                                  \
        .kernel = "attention", .classes = (which), .thread_m = 4, .tile_k = 16, .tile_v = 16, .local = 256,            \
        .why = reason                                                                                                  \
    }
#define ATTENTION_BACKWARD(which, reason)                                                                              \
    {                                                                                                                  \
        .kernel = "attention_backward", .classes = (which), .thread_m = 4, .tile_k = 16, .tile_v = 16, .local = 256,   \
        .why = reason                                                                                                  \
    }
/* 32 outputs of a work-item, and no larger tile than this. */
#define PRODUCT(which, m, n, k, reason)                                                                                \
    {                                                                                                                  \
        .kernel = "gemm", .classes = (which), .most_m = (m), .most_n = (n), .thread_m = 8, .thread_n = 4,              \
        .tile_k = (k), .local = (m) * (n) / 32, .why = reason                                                          \
    }

static const struct class_row rows[] = {
    ATTENTION(AMD_RDNA3, "predicted for RDNA3 and RDNA4 from occupancy 8 of 16 without spills, in place of 3"),
    ATTENTION(CLASS_BIT(CLASS_AMD_RDNA), "predicted for RDNA from occupancy 5 of 16 without spills"),
    {.kernel = "attention",
     .classes = AMD_64,
     .thread_m = 4,
     .tile_k = 8,
     .tile_v = 16,
     .local = 256,
     .why = "predicted for GCN and CDNA from registers: none spills, as some do with stages of 16 channels"},
    ATTENTION(INTEL, "predicted for Intel's GPUs from registers and shared memory: two groups fit 64 KiB"),
    ATTENTION(CLASS_BIT(CLASS_APPLE), "predicted for Apple's GPUs from 640 resident threads, in place of 384"),
    ATTENTION(CLASS_BIT(CLASS_ADRENO), "predicted for Adreno from 4 waves, in place of 2"),
    ATTENTION(CLASS_BIT(CLASS_MALI), "predicted for Mali from registers: half as many of a work-item"),
    ATTENTION_BACKWARD(AMD_RDNA3, "predicted for RDNA3 and RDNA4 from occupancy 8 of 16 without spills, in place of 3"),
    ATTENTION_BACKWARD(CLASS_BIT(CLASS_AMD_RDNA), "predicted for RDNA from occupancy 5 of 16 without spills"),
    ATTENTION_BACKWARD(AMD_64, "predicted for GCN and CDNA from registers: none spills"),
    ATTENTION_BACKWARD(INTEL, "predicted for Intel's GPUs from registers: none spills with heads of up to 64"),
    ATTENTION_BACKWARD(CLASS_BIT(CLASS_APPLE),
                       "predicted for Apple's GPUs from registers: heads of up to 64 spill none"),
    ATTENTION_BACKWARD(CLASS_BIT(CLASS_ADRENO), "predicted for Adreno from 4 waves, in place of 2"),
    ATTENTION_BACKWARD(CLASS_BIT(CLASS_MALI), "predicted for Mali from registers: half as many of a work-item"),
    PRODUCT(INTEL, 128, 64, 0, "predicted for Intel's GPUs from registers: tiles of up to 128 x 64 do not spill"),
    PRODUCT(CLASS_BIT(CLASS_AMD_GCN), 128, 64, 0,
            "predicted for GCN from occupancy 2 of 10 with tiles of up to 128 x 64, in place of 1"),
    PRODUCT(CLASS_BIT(CLASS_APPLE), 128, 64, 0,
            "predicted for Apple's GPUs from 640 resident threads with tiles of up to 128 x 64, in place of 448"),
    PRODUCT(CLASS_BIT(CLASS_ADRENO), 64, 64, 16,
            "predicted for Adreno from 8 waves with tiles of 64 x 64, in place of 4"),
    PRODUCT(CLASS_BIT(CLASS_MALI), 64, 64, 16, "predicted for Mali as for Adreno: few registers of a work-item"),
    {.kernel = "bgemm",
     .classes = INTEL,
     .thread_m = 4,
     .local = 256,
     .why = "predicted for Intel's GPUs from registers: in f16 half as many outputs of a work-item spill none"},
    {.kernel = "layernorm",
     .classes = INTEL,
     .local = 64,
     .why = "predicted for Intel's GPUs from registers: rows of 640 spill in work-groups of 32"},
    {.kernel = "layernorm_backward",
     .classes = CLASS_BIT(CLASS_INTEL_XE2),
     .part_rows = 1,
     .why = "predicted for Xe2 from registers: two rows at a time spill on Panther Lake"},
};

const struct class_row *class_row(const char *kernel, const struct device_limits *limits)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct class_row *row = &rows[i];
        if (row->classes & CLASS_BIT(limits->class) && row->local <= limits->max_local_size &&
            !strcmp(row->kernel, kernel))
            return row;
    }
    return NULL;
}

uint32_t class_least_local(const struct device_limits *limits)
{
    const uint32_t wide = AMD_64 | CLASS_BIT(CLASS_ADRENO);
    return wide & CLASS_BIT(limits->class) && limits->max_local_size >= 64 ? 64 : 32;
}
