/* The table of targets. Limits are what the driver named would answer. Work-items of a work-group, local memory and
 * sub-groups decide what programs are made; memory only whether a session fits. */
#include "target.h"

#include "plan/variants.h"

#define GIB(n) ((uint64_t)(n) << 30)

/* As the OpenCL backend reads them from a driver. Intel's tells no width of sub-groups. */
#define OPENCL_LIMITS(vendor, device, width, local, shared, units, memory)                                             \
    {                                                                                                                  \
        .identity = &(const struct device_identity){.api = DEVICE_API_OPENCL, .vendor_id = (vendor), .name = device},  \
        .f16 = true, .f16_arithmetic = true, .subgroup_min = (width), .subgroup_max = (width),                         \
        .max_local_size = (local), .shared_bytes = (shared)*1024, .compute_units = (units),                            \
        .max_buffer_bytes = (memory) / 4, .max_binding_bytes = (memory) / 4, .memory_bytes = (memory),                 \
        .rungs = RUNG_BIT(RUNG_TILED), .timer = "event", .timer_seconds = 1e-9, .timer_bits = 64                       \
    }
#define INTEL(label, text, device, called, local, units, memory, kind)                                                 \
    {                                                                                                                  \
        .public = {label, text, "opencl", "ocloc -device " device,                                                     \
                   "Intel compute-runtime: 64 KiB of SLM, CL_DEVICE_MAX_COMPUTE_UNITS is the vector engines"},         \
        .type = (kind), .limits = OPENCL_LIMITS(VENDOR_INTEL, called, 1, local, 64, units, memory)                     \
    }
#define AMD(label, text, device, width, units, memory)                                                                 \
    {                                                                                                                  \
        .public = {label, text, "opencl", "clang --target=amdgcn-amd-amdhsa -mcpu=" device,                            \
                   "ROCm's OpenCL: work-groups of 256, 64 KiB of LDS, CL_DEVICE_WAVEFRONT_WIDTH_AMD"},                 \
        .type = WHERRY_DEVICE_DISCRETE_GPU, .limits = OPENCL_LIMITS(VENDOR_AMD, device, width, 256, 64, units, memory) \
    }
#define VULKAN_LIMITS(vendor, device, least, most, local, shared, binding, memory)                                     \
    .identity = &(const struct device_identity){.api = DEVICE_API_VULKAN, .vendor_id = (vendor), .name = device},      \
    .f16 = true, .f16_arithmetic = true, .subgroup_min = (least), .subgroup_max = (most), .max_local_size = (local),   \
    .shared_bytes = (shared)*1024, .max_binding_bytes = (binding), .max_buffer_bytes = (memory) / 2,                   \
    .memory_bytes = (memory), .timer = "timestamp", .timer_seconds = 1e-9, .timer_bits = 64

static const struct target opencl_targets[] = {
    INTEL("intel-tgllp", "Tiger Lake, Iris Xe (Xe-LP), OpenCL", "tgllp", "Intel(R) Iris(R) Xe Graphics", 512, 96,
          GIB(8), WHERRY_DEVICE_INTEGRATED_GPU),
    INTEL("intel-dg2", "Arc A770 (Xe-HPG), OpenCL", "dg2", "Intel(R) Arc(TM) A770 Graphics", 1024, 512, GIB(16),
          WHERRY_DEVICE_DISCRETE_GPU),
    INTEL("intel-mtl", "Meteor Lake (Xe-LPG), OpenCL", "mtl", "Intel(R) Arc(TM) Graphics", 1024, 128, GIB(8),
          WHERRY_DEVICE_INTEGRATED_GPU),
    INTEL("intel-lnl", "Lunar Lake (Xe2), OpenCL", "lnl", "Intel(R) Arc(TM) 140V GPU", 1024, 64, GIB(16),
          WHERRY_DEVICE_INTEGRATED_GPU),
    INTEL("intel-bmg", "Arc B580 (Xe2), OpenCL", "bmg", "Intel(R) Arc(TM) B580 Graphics", 1024, 160, GIB(12),
          WHERRY_DEVICE_DISCRETE_GPU),
    INTEL("intel-ptl", "Panther Lake (Xe3), OpenCL", "ptl", "Intel(R) Arc(TM) B390 GPU", 1024, 96, GIB(16),
          WHERRY_DEVICE_INTEGRATED_GPU),
    AMD("amd-gfx906", "Radeon VII, MI50 (GCN 5), OpenCL", "gfx906", 64, 60, GIB(16)),
    AMD("amd-gfx90a", "MI210 (CDNA 2), OpenCL", "gfx90a", 64, 104, GIB(64)),
    AMD("amd-gfx942", "MI300X (CDNA 3), OpenCL", "gfx942", 64, 304, GIB(192)),
    AMD("amd-gfx1030", "RX 6800 XT (RDNA 2), OpenCL", "gfx1030", 32, 36, GIB(16)),
    AMD("amd-gfx1100", "RX 7900 XTX (RDNA 3), OpenCL", "gfx1100", 32, 48, GIB(24)),
    AMD("amd-gfx1201", "RX 9070 XT (RDNA 4), OpenCL", "gfx1201", 32, 32, GIB(16)),
};

static const struct target vulkan_targets[] = {
    {.public = {"apple-m1", "Apple M1 through MoltenVK", "vulkan", "spirv-cross --msl, then Metal's",
                "MoltenVK: 32 KiB of threadgroup memory, 1024 threads, SIMD groups of 32"},
     .type = WHERRY_DEVICE_INTEGRATED_GPU,
     .limits = {VULKAN_LIMITS(VENDOR_APPLE, "Apple M1", 32, 32, 1024, 32, GIB(4) - 1, GIB(8)),
                .rungs = RUNG_BIT(RUNG_TILED)}},
    {.public = {"apple-matrix", "an Apple GPU with matrices of 8 x 8 x 8 through MoltenVK", "vulkan",
                "spirv-cross --msl, then Metal's", "Metal's simdgroup_matrix: 8 x 8, SIMD groups of 32"},
     .type = WHERRY_DEVICE_INTEGRATED_GPU,
     .limits = {VULKAN_LIMITS(VENDOR_APPLE, "Apple M1", 32, 32, 1024, 32, GIB(4) - 1, GIB(8)),
                .rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_COOPMAT), .coopmat_m = 8, .coopmat_n = 8, .coopmat_k = 8,
                .coopmat_subgroup = 32}},
};

const struct target *target_at(size_t index)
{
    const size_t n_opencl = sizeof opencl_targets / sizeof *opencl_targets;
#ifdef WHERRY_HAVE_OPENCL
    if (index < n_opencl) return &opencl_targets[index];
    index -= n_opencl;
#else
    (void)n_opencl;
#endif
#ifdef WHERRY_HAVE_VULKAN
    if (index < sizeof vulkan_targets / sizeof *vulkan_targets) return &vulkan_targets[index];
#else
    (void)vulkan_targets, (void)index;
#endif
    return NULL;
}
