/* What drivers tell about a compiled pipeline (VK_KHR_pipeline_executable_properties), each under names and in units of
 * its own. A driver is known by a statistic that only it has. */
#include "vulkan.h"

#include <string.h>

enum field { REGISTERS, SPILLED, SHARED, WAVES, CODE, FIELDS };

/* A statistic's value, times / by, is the field's; `of_subgroup`: once more by its work-items. Of several that tell of
 * one field the largest counts. */
struct statistic {
    const char *name;
    enum field field;
    uint8_t times, by;
    bool of_subgroup;
    bool low_half; /* what is above its 32 bits is something else */
};

enum { STATISTICS_MOST = 8 };

static const struct driver {
    const char *marker;
    struct statistic statistics[STATISTICS_MOST];
} drivers[] = {
    /* RADV, radv_pipeline.c: registers that spill are dwords of a work-item, and scratch is of a sub-group. Scalar
     * registers go to lanes of vector ones first, and are named all the same. */
    {"Subgroups per SIMD",
     {{"VGPRs", REGISTERS, 1, 1, false},
      {"Spilled VGPRs", SPILLED, 4, 1, false},
      {"Spilled SGPRs", SPILLED, 4, 1, false},
      {"Scratch size", SPILLED, 1, 1, true},
      {"LDS size", SHARED, 1, 1, false},
      {"Subgroups per SIMD", WAVES, 1, 1, false},
      {"Code size", CODE, 1, 1, false}}},
    /* Turnip, ir3: registers have four components, code is counted in dwords, and of spills the instructions that move
     * them are, of four bytes at least. */
    {"Max Waves Per Core",
     {{"Registers used", REGISTERS, 4, 1, false},
      {"STP Count", SPILLED, 4, 1, false},
      {"LDP Count", SPILLED, 4, 1, false},
      {"Max Waves Per Core", WAVES, 1, 1, false},
      {"Code size", CODE, 4, 1, false}}},
    /* NVK, nak */
    {"Max warps/SM",
     {{"Number of GPRs", REGISTERS, 1, 1, false},
      {"Spills to memory", SPILLED, 4, 1, false},
      {"SLM size", SPILLED, 1, 1, false},
      {"Max warps/SM", WAVES, 1, 1, false},
      {"Code size", CODE, 1, 1, false}}},
    /* Honeykrisp, agx: registers of 16 bits; sub-groups resident, told as work-items */
    {"FSCIB",
     {{"GPRs", REGISTERS, 1, 2, false},
      {"Spills", SPILLED, 2, 1, false},
      {"Scratch", SPILLED, 1, 1, false},
      {"Threads", WAVES, 1, 1, true},
      {"Code size", CODE, 1, 1, false}}},
    /* ANV, brw: a register has 32 bytes for a whole sub-group */
    {"Max dispatch width",
     {{"GRF registers", REGISTERS, 8, 1, true},
      {"Spill Count", SPILLED, 4, 1, false},
      {"Scratch Memory Size", SPILLED, 1, 1, true},
      {"Workgroup Memory Size", SHARED, 1, 1, false}}},
    /* NVIDIA's own driver, seen with 580.159 on an H200: local memory was 16 * 2^32 of kernels that have none */
    {"Register Count",
     {{"Register Count", REGISTERS, 1, 1, false},
      {"Local Memory Size", SPILLED, 1, 1, false, true},
      {"Shared Memory Size", SHARED, 1, 1, false},
      {"Binary Size", CODE, 1, 1, false}}},
};

static bool is_whole(const VkPipelineExecutableStatisticKHR *s)
{
    return s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR ||
           (s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR && s->value.i64 >= 0);
}

static const struct driver *driver_of(const VkPipelineExecutableStatisticKHR *list, uint32_t count)
{
    for (size_t d = 0; d < sizeof drivers / sizeof *drivers; d++)
        for (uint32_t i = 0; i < count; i++)
            if (!strncmp(list[i].name, drivers[d].marker, sizeof list[i].name)) return &drivers[d];
    return NULL;
}

void statistics_translate(const VkPipelineExecutableStatisticKHR *list, uint32_t count, uint32_t subgroup,
                          struct kernel_usage *out)
{
    const struct driver *driver = driver_of(list, count);
    uint64_t fields[FIELDS] = {0};
    *out = (struct kernel_usage){.subgroup = subgroup};
    if (!driver) return;
    for (uint32_t i = 0; i < count; i++)
        for (const struct statistic *s = driver->statistics; s < driver->statistics + STATISTICS_MOST && s->name; s++) {
            if (!is_whole(&list[i]) || strncmp(list[i].name, s->name, sizeof list[i].name)) continue;
            if (s->of_subgroup && !subgroup) continue;
            uint64_t by = s->by * (uint64_t)(s->of_subgroup ? subgroup : 1),
                     told = s->low_half ? (uint32_t)list[i].value.u64 : list[i].value.u64,
                     value = (told * s->times + by - 1) / by;
            if (value > fields[s->field]) fields[s->field] = value;
        }
    for (int f = 0; f < FIELDS; f++)
        if (fields[f] > UINT32_MAX) fields[f] = UINT32_MAX;
    out->registers = (uint32_t)fields[REGISTERS];
    out->spilled = (uint32_t)fields[SPILLED];
    out->shared = (uint32_t)fields[SHARED];
    out->waves = (uint32_t)fields[WAVES];
    out->code = (uint32_t)fields[CODE];
}

void statistics_read(struct backend_device *d, VkPipeline pipeline, struct kernel_usage *out)
{
    enum { MOST = 64 };
    VkPipelineExecutableStatisticKHR list[MOST];
    VkPipelineExecutablePropertiesKHR properties = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
    VkPipelineInfoKHR of = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    VkPipelineExecutableInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline};
    uint32_t one = 1, count = MOST;
    for (uint32_t i = 0; i < count; i++)
        list[i] = (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    if (d->vk.GetPipelineExecutablePropertiesKHR(d->handle, &of, &one, &properties) < 0 || !one) return;
    if (d->vk.GetPipelineExecutableStatisticsKHR(d->handle, &info, &count, list) < 0) return;
    statistics_translate(list, count, properties.subgroupSize, out);
}
