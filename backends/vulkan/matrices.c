/* Cooperative matrices: whether a device has those that kernels are made of, and what it must be opened with for them.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/quirks.h"
#include "plan/variants.h"
#include "vulkan.h"

static bool listed(const VkExtensionProperties *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(list[i].extensionName, name)) return true;
    }
    return false;
}

/* The features as a chain, with those of VK_NV_cooperative_matrix2 and VK_KHR_shader_bfloat16 where there are such. */
static void features_chain(struct matrix_features *f, bool more, bool bf16)
{
    *f = (struct matrix_features){
        .memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
        .memory_model.pNext = &f->subgroups,
        .subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
        .subgroups.pNext = &f->maintenance,
        .maintenance.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
        .maintenance.pNext = &f->matrices,
        .matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        .more.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV,
        .bf16.sType = STRUCTURE_TYPE_BFLOAT16_FEATURES,
    };
    if (bf16) f->matrices.pNext = &f->bf16;
    if (more) f->more.pNext = f->matrices.pNext, f->matrices.pNext = &f->more;
}

/* Sub-groups that suit a vendor's matrices, where a driver has several sizes. AMD: of RDNA3 and RDNA4 compiled by Mesa
 * 26 (RADV), attention spills 15 to 86 of its registers in sub-groups of 32, and none in those of 64. */
static const struct {
    uint32_t vendor, size;
} preferred[] = {{0x1002, 64}};

/* Whether all pipelines can have sub-groups of one known size, and which. A pipeline is told where a driver has
 * several; then it is the preferred one or the one that the driver takes by itself, for no query says which of them a
 * shape needs. */
static bool subgroup_choose(const struct instance *instance, struct physical *p)
{
    VkPhysicalDeviceSubgroupProperties usual = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES, .pNext = &usual};
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR matrices = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR, .pNext = &sizes};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &matrices};
    instance->vk.GetPhysicalDeviceProperties2(p->handle, &properties);
    if (!(matrices.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT)) return false;
    p->limits.coopmat_subgroup = usual.subgroupSize;
    p->size_chosen = sizes.minSubgroupSize != sizes.maxSubgroupSize;
    for (size_t i = 0; i < sizeof preferred / sizeof *preferred; i++)
        if (p->vendor == preferred[i].vendor && preferred[i].size >= sizes.minSubgroupSize &&
            preferred[i].size <= sizes.maxSubgroupSize)
            p->limits.coopmat_subgroup = preferred[i].size;
    if (p->size_chosen && p->limits.quirks & QUIRK_LEAST_SUBGROUP) p->limits.coopmat_subgroup = sizes.minSubgroupSize;
    return !p->size_chosen || sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
}

/* Of a type times itself in a sub-group. */
static bool shape_adds(const VkCooperativeMatrixPropertiesKHR *s, VkComponentTypeKHR of, VkComponentTypeKHR sums)
{
    return s->AType == of && s->BType == of && s->CType == sums && s->ResultType == sums &&
           s->scope == VK_SCOPE_SUBGROUP_KHR && !s->saturatingAccumulation;
}

/* Whether the same shape is there of that type and those sums. */
static bool shape_has(const VkCooperativeMatrixPropertiesKHR *shapes, uint32_t count, VkComponentTypeKHR type,
                      VkComponentTypeKHR sums, const VkCooperativeMatrixPropertiesKHR *of)
{
    for (uint32_t i = 0; i < count; i++) {
        const VkCooperativeMatrixPropertiesKHR *s = &shapes[i];
        if (shape_adds(s, type, sums) && s->MSize == of->MSize && s->NSize == of->NSize && s->KSize == of->KSize)
            return true;
    }
    return false;
}

void matrices_choose(const VkCooperativeMatrixPropertiesKHR *shapes, uint32_t count, struct device_limits *limits)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const VkCooperativeMatrixPropertiesKHR *s = &shapes[i];
        if (!shape_adds(s, VK_COMPONENT_TYPE_FLOAT16_KHR, VK_COMPONENT_TYPE_FLOAT32_KHR)) continue;
        uint64_t size = (uint64_t)s->MSize * s->NSize * s->KSize;
        bool f16_sums = shape_has(shapes, count, VK_COMPONENT_TYPE_FLOAT16_KHR, VK_COMPONENT_TYPE_FLOAT16_KHR, s);
        if (most && (f16_sums != limits->coopmat_f16_sums ? !f16_sums : size <= most)) continue;
        most = size;
        limits->coopmat_f16_sums = f16_sums;
        limits->coopmat_bf16 = shape_has(shapes, count, COMPONENT_TYPE_BFLOAT16, VK_COMPONENT_TYPE_FLOAT32_KHR, s);
        limits->coopmat_m = s->MSize;
        limits->coopmat_n = s->NSize;
        limits->coopmat_k = s->KSize;
    }
}

static bool shapes_look(const struct host *host, const struct instance *instance, struct physical *p, struct error *e)
{
    uint32_t count = 0;
    VkResult r = instance->vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(p->handle, &count, NULL);
    if (r < 0 || !count) return true;
    VkCooperativeMatrixPropertiesKHR *shapes = host_alloc(host, count, sizeof *shapes, e);
    if (!shapes) return false;
    for (uint32_t i = 0; i < count; i++) shapes[i].sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    r = instance->vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(p->handle, &count, shapes);
    if (r >= 0) matrices_choose(shapes, count, &p->limits);
    host_free(host, shapes);
    return true;
}

/* WHERRY_COOPMAT2=off: a driver's matrices as one without VK_NV_cooperative_matrix2 has them. */
static bool more_wanted(void)
{
    const char *said = getenv("WHERRY_COOPMAT2");
    return !said || strcmp(said, "off") != 0;
}

/* Whether it was seen on such devices that matrices are faster than what they stand for: on GPUs of NVIDIA by its own
 * driver (docs/performance.md). */
static bool measured(const struct instance *instance, const struct physical *p)
{
    VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                              .pNext = &driver};
    instance->vk.GetPhysicalDeviceProperties2(p->handle, &properties);
    return driver.driverID == VK_DRIVER_ID_NVIDIA_PROPRIETARY;
}

bool matrices_describe(const struct host *host, const struct instance *instance, struct physical *p,
                       const VkExtensionProperties *extensions, uint32_t n_extensions, struct error *e)
{
    /* Modules with cooperative matrices are SPIR-V 1.6, which is Vulkan 1.3's. */
    if (p->api < VK_API_VERSION_1_3 || !p->limits.f16_arithmetic || p->limits.quirks & QUIRK_NO_MATRICES ||
        !instance->vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR ||
        !listed(extensions, n_extensions, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
        return true;
    bool more = listed(extensions, n_extensions, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME) && more_wanted();
    bool bf16 = listed(extensions, n_extensions, SHADER_BFLOAT16_EXTENSION);
    struct matrix_features has;
    features_chain(&has, more, bf16);
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &has.memory_model};
    instance->vk.GetPhysicalDeviceFeatures2(p->handle, &features);
    if (!has.memory_model.vulkanMemoryModel || !has.subgroups.computeFullSubgroups ||
        !has.subgroups.subgroupSizeControl || !has.maintenance.maintenance4 || !has.matrices.cooperativeMatrix ||
        !subgroup_choose(instance, p))
        return true;
    TRY(shapes_look(host, instance, p, e));
    if (p->limits.coopmat_m) p->limits.rungs |= RUNG_BIT(RUNG_COOPMAT);
    if (p->limits.coopmat_m && !measured(instance, p)) p->limits.rungs_unmeasured |= RUNG_BIT(RUNG_COOPMAT);
    p->limits.coopmat_bf16 = p->limits.coopmat_bf16 && bf16 && has.bf16.type && has.bf16.matrices;
    p->limits.coopmat2 = more && p->limits.coopmat_m && has.more.cooperativeMatrixPerElementOperations &&
                         has.more.cooperativeMatrixReductions && has.more.cooperativeMatrixConversions;
    return true;
}

void matrices_enable(const struct physical *p, struct matrix_features *features, VkDeviceCreateInfo *info,
                     const char **extensions)
{
    if (!p->limits.coopmat_m) return;
    features_chain(features, p->limits.coopmat2, p->limits.coopmat_bf16);
    features->memory_model.vulkanMemoryModel = VK_TRUE;
    features->subgroups.subgroupSizeControl = VK_TRUE;
    features->subgroups.computeFullSubgroups = VK_TRUE;
    features->maintenance.maintenance4 = VK_TRUE; /* a module's work-group size may be a constant */
    features->matrices.cooperativeMatrix = VK_TRUE;
    features->more.cooperativeMatrixPerElementOperations = VK_TRUE;
    features->more.cooperativeMatrixReductions = VK_TRUE;
    features->more.cooperativeMatrixConversions = VK_TRUE;
    features->bf16.type = features->bf16.matrices = VK_TRUE;
    extensions[info->enabledExtensionCount++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (p->limits.coopmat_bf16) extensions[info->enabledExtensionCount++] = SHADER_BFLOAT16_EXTENSION;
    if (p->limits.coopmat2) extensions[info->enabledExtensionCount++] = VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME;
    VkBaseOutStructure *last = (VkBaseOutStructure *)&features->memory_model;
    while (last->pNext) last = last->pNext;
    last->pNext = (VkBaseOutStructure *)info->pNext;
    info->pNext = &features->memory_model;
}
