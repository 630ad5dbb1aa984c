/* The layer over Vulkan: VK_LAYER_PATH=the folder of limits_vulkan.json, VK_INSTANCE_LAYERS=VK_LAYER_WHERRY_limits. For
 * processes that use one driver. */
#include <stdatomic.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "limits.h"

#define EXPORT __attribute__((visibility("default")))

static PFN_vkGetInstanceProcAddr instance_below;
static PFN_vkGetDeviceProcAddr device_below;
static VkInstance instance;
static PFN_vkGetPhysicalDeviceProperties properties_below;
static PFN_vkGetPhysicalDeviceProperties2 properties2_below;
static PFN_vkGetPhysicalDeviceFeatures2 features2_below;
static PFN_vkCmdDispatch dispatch_below;
static PFN_vkUpdateDescriptorSets update_below;
static PFN_vkAllocateMemory allocate_below;
static PFN_vkCreateComputePipelines pipelines_below;
static PFN_vkCreateShaderModule module_below;

/* ---- what is reported ---- */

static void lower_u32(const char *name, uint32_t *value) { *value = (uint32_t)lower(name, *value); }

static void lower_limits(VkPhysicalDeviceLimits *l)
{
    lower_u32("local", &l->maxComputeWorkGroupInvocations);
    for (int i = 0; i < 3; i++) {
        lower_u32("local", &l->maxComputeWorkGroupSize[i]);
        lower_u32("groups", &l->maxComputeWorkGroupCount[i]);
    }
    lower_u32("shared", &l->maxComputeSharedMemorySize);
    lower_u32("binding", &l->maxStorageBufferRange);
    lower_u32("slots", &l->maxPerStageDescriptorStorageBuffers);
    l->minStorageBufferOffsetAlignment = limit("alignment", l->minStorageBufferOffsetAlignment);
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out)
{
    properties_below(device, out);
    if (limit("gpu", 0)) out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    lower_limits(&out->limits);
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out)
{
    properties2_below(device, out);
    lower_limits(&out->properties.limits);
    for (VkBaseOutStructure *s = out->pNext; s; s = s->pNext) {
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
            VkPhysicalDeviceMaintenance3Properties *p = (void *)s;
            p->maxMemoryAllocationSize = lower("buffer", p->maxMemoryAllocationSize);
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES) {
            VkPhysicalDeviceMaintenance4Properties *p = (void *)s;
            p->maxBufferSize = lower("buffer", p->maxBufferSize);
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
            VkPhysicalDeviceSubgroupProperties *p = (void *)s;
            p->subgroupSize = (uint32_t)limit("subgroup", p->subgroupSize);
        } else if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
            VkPhysicalDeviceSubgroupSizeControlProperties *p = (void *)s;
            p->minSubgroupSize = (uint32_t)limit("subgroup", p->minSubgroupSize);
            p->maxSubgroupSize = (uint32_t)limit("subgroup", p->maxSubgroupSize);
        }
    }
}

static VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out)
{
    features2_below(device, out);
    for (VkBaseOutStructure *s = out->pNext; s && !limit("half", 1); s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES)
            ((VkPhysicalDevice16BitStorageFeatures *)(void *)s)->storageBuffer16BitAccess = VK_FALSE;
}

/* ---- queues of low priority: an extension that the driver need not have ---- */

static PFN_vkEnumerateDeviceExtensionProperties extensions_below;

static VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char *layer, uint32_t *count,
                                                 VkExtensionProperties *out)
{
    const uint32_t room = *count;
    VkResult result = extensions_below(device, layer, count, out);
    if (layer || !limit("priority", 0) || result != VK_SUCCESS || (out && room <= *count)) return result;
    if (out) out[*count] = (VkExtensionProperties){VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME, 1};
    ++*count;
    return result;
}

/* What the driver is to be asked for without it. False: it was not asked for as it has to be, or is refused. */
static bool priority_take(VkDeviceCreateInfo *info, const char **names, VkDeviceQueueCreateInfo *queues)
{
    bool asked = false, low = false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < info->enabledExtensionCount; i++) {
        const bool own = !strcmp(info->ppEnabledExtensionNames[i], VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME);
        asked = asked || own;
        if (!own) names[n++] = info->ppEnabledExtensionNames[i];
    }
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++) {
        const VkDeviceQueueGlobalPriorityCreateInfoKHR *global = queues[i].pNext;
        low = low || (global && global->globalPriority == VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR);
        queues[i].pNext = NULL;
    }
    info->enabledExtensionCount = n;
    info->ppEnabledExtensionNames = names;
    return asked == low && !(asked && limit("priority", 0) == 2);
}

/* ---- a family more: its queue is the driver's first one, by another handle ---- */

static PFN_vkGetPhysicalDeviceQueueFamilyProperties families_below;
static PFN_vkGetPhysicalDeviceQueueFamilyProperties2 families2_below;
static PFN_vkGetDeviceQueue queue_below;
static PFN_vkQueueSubmit submit_below;
static PFN_vkQueueWaitIdle idle_below;
static PFN_vkCreateCommandPool pool_below;
static PFN_vkCreateBuffer buffer_below;

static struct {
    void *dispatch; /* the loader's, which comes first in every handle of this kind */
    VkQueue real;
} copier;

static bool is_more(uint32_t family) { return limit("families", 0) && family == (uint32_t)limit("families", 0); }
static VkQueue real(VkQueue queue) { return queue == (VkQueue)(void *)&copier ? copier.real : queue; }

static VKAPI_ATTR void VKAPI_CALL families2(VkPhysicalDevice device, uint32_t *count, VkQueueFamilyProperties2 *out)
{
    const uint32_t room = *count;
    families2_below(device, count, out);
    if (!limit("families", 0) || (out && room <= *count)) return;
    if (out)
        out[*count].queueFamilyProperties = (VkQueueFamilyProperties){
            .queueFlags = VK_QUEUE_TRANSFER_BIT, .queueCount = 1, .minImageTransferGranularity = {1, 1, 1}};
    ++*count;
}

static VKAPI_ATTR void VKAPI_CALL families(VkPhysicalDevice device, uint32_t *count, VkQueueFamilyProperties *out)
{
    const uint32_t room = *count;
    families_below(device, count, out);
    if (!limit("families", 0) || (out && room <= *count)) return;
    if (out)
        out[*count] = (VkQueueFamilyProperties){
            .queueFlags = VK_QUEUE_TRANSFER_BIT, .queueCount = 1, .minImageTransferGranularity = {1, 1, 1}};
    ++*count;
}

static VKAPI_ATTR void VKAPI_CALL queue_get(VkDevice device, uint32_t family, uint32_t index, VkQueue *out)
{
    queue_below(device, is_more(family) ? 0 : family, index, out);
    if (!is_more(family)) return;
    copier.dispatch = *(void **)(void *)*out;
    copier.real = *out;
    *out = (VkQueue)(void *)&copier;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo *list, VkFence fence)
{
    return submit_below(real(queue), n, list, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL idle(VkQueue queue) { return idle_below(real(queue)); }

static VKAPI_ATTR VkResult VKAPI_CALL pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                           const VkAllocationCallbacks *allocator, VkCommandPool *out)
{
    VkCommandPoolCreateInfo changed = *info;
    if (is_more(info->queueFamilyIndex)) changed.queueFamilyIndex = 0;
    return pool_below(device, &changed, allocator, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL buffer(VkDevice device, const VkBufferCreateInfo *info,
                                             const VkAllocationCallbacks *allocator, VkBuffer *out)
{
    VkBufferCreateInfo changed = *info;
    if (limit("families", 0)) changed.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    return buffer_below(device, &changed, allocator, out);
}

/* ---- what is held to it ---- */

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    hold("groups", x, "vkCmdDispatch");
    hold("groups", y, "vkCmdDispatch");
    hold("groups", z, "vkCmdDispatch");
    dispatch_below(commands, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL update(VkDevice device, uint32_t n, const VkWriteDescriptorSet *writes,
                                         uint32_t copied, const VkCopyDescriptorSet *copies)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < writes[i].descriptorCount && writes[i].pBufferInfo; k++) {
            uint64_t alignment = limit("alignment", 1), offset = writes[i].pBufferInfo[k].offset;
            hold("binding", writes[i].pBufferInfo[k].range, "vkUpdateDescriptorSets");
            if (offset % alignment) hold("alignment", offset, "vkUpdateDescriptorSets: an offset");
        }
    update_below(device, n, writes, copied, copies);
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *allocator, VkDeviceMemory *out)
{
    if (info->allocationSize > 32 << 20) hold("buffer", info->allocationSize, "vkAllocateMemory");
    return allocate_below(device, info, allocator, out);
}

/* The last modules and the bytes of their code, which pipelines are made of right after. */
enum { MODULES = 256 };
static struct {
    VkShaderModule module;
    uint64_t bytes;
} modules[MODULES];
static atomic_uint n_modules;

static VKAPI_ATTR VkResult VKAPI_CALL module(VkDevice device, const VkShaderModuleCreateInfo *info,
                                             const VkAllocationCallbacks *allocator, VkShaderModule *out)
{
    VkResult result = module_below(device, info, allocator, out);
    unsigned at = atomic_fetch_add(&n_modules, 1) % MODULES;
    modules[at].bytes = info->codeSize;
    modules[at].module = result == VK_SUCCESS ? *out : VK_NULL_HANDLE;
    return result;
}

/* The last one of this name: a driver may give it to another after it was destroyed. */
static uint64_t module_bytes(VkShaderModule of)
{
    for (unsigned made = atomic_load(&n_modules), back = 1; back <= made && back <= MODULES; back++)
        if (modules[(made - back) % MODULES].module == of) return modules[(made - back) % MODULES].bytes;
    return 0;
}

/* Kernels have their work-group's size as constant 0. */
static VKAPI_ATTR VkResult VKAPI_CALL pipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                const VkComputePipelineCreateInfo *infos,
                                                const VkAllocationCallbacks *allocator, VkPipeline *out)
{
    for (uint32_t i = 0; i < n; i++) {
        compile(module_bytes(infos[i].stage.module));
        const VkSpecializationInfo *constants = infos[i].stage.pSpecializationInfo;
        for (uint32_t k = 0; constants && k < constants->mapEntryCount; k++) {
            uint32_t value;
            memcpy(&value, (const char *)constants->pData + constants->pMapEntries[k].offset, sizeof value);
            if (!constants->pMapEntries[k].constantID) hold("local", value, "vkCreateComputePipelines");
        }
    }
    return pipelines_below(device, cache, n, infos, allocator, out);
}

/* ---- the layer ---- */

/* The loader's link to the next layer, which each layer moves on. */
static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info,
                                                      const VkAllocationCallbacks *allocator, VkInstance *out)
{
    VkLayerInstanceCreateInfo *link = (VkLayerInstanceCreateInfo *)info->pNext;
    while (link &&
           !(link->sType == VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerInstanceCreateInfo *)link->pNext;
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkResult result = ((PFN_vkCreateInstance)next(NULL, "vkCreateInstance"))(info, allocator, out);
    if (result != VK_SUCCESS) return result;
    instance_below = next;
    instance = *out;
    properties_below = (PFN_vkGetPhysicalDeviceProperties)next(instance, "vkGetPhysicalDeviceProperties");
    properties2_below = (PFN_vkGetPhysicalDeviceProperties2)next(instance, "vkGetPhysicalDeviceProperties2");
    features2_below = (PFN_vkGetPhysicalDeviceFeatures2)next(instance, "vkGetPhysicalDeviceFeatures2");
    extensions_below = (PFN_vkEnumerateDeviceExtensionProperties)next(instance, "vkEnumerateDeviceExtensionProperties");
    families_below =
        (PFN_vkGetPhysicalDeviceQueueFamilyProperties)next(instance, "vkGetPhysicalDeviceQueueFamilyProperties");
    families2_below =
        (PFN_vkGetPhysicalDeviceQueueFamilyProperties2)next(instance, "vkGetPhysicalDeviceQueueFamilyProperties2");
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkDevice *out)
{
    VkLayerDeviceCreateInfo *link = (VkLayerDeviceCreateInfo *)info->pNext;
    while (link &&
           !(link->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && link->function == VK_LAYER_LINK_INFO))
        link = (VkLayerDeviceCreateInfo *)link->pNext;
    if (!link) return VK_ERROR_INITIALIZATION_FAILED;
    PFN_vkGetInstanceProcAddr instance_next = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
    device_below = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
    link->u.pLayerInfo = link->u.pLayerInfo->pNext;
    VkDeviceQueueCreateInfo queues[8];
    VkDeviceCreateInfo changed = *info;
    changed.queueCreateInfoCount = 0;
    changed.pQueueCreateInfos = queues;
    for (uint32_t i = 0; i < info->queueCreateInfoCount && i < 8; i++)
        if (!is_more(info->pQueueCreateInfos[i].queueFamilyIndex))
            queues[changed.queueCreateInfoCount++] = info->pQueueCreateInfos[i];
    const char *names[64];
    if (limit("priority", 0) && !priority_take(&changed, names, queues)) return VK_ERROR_NOT_PERMITTED_KHR;
    VkResult result =
        ((PFN_vkCreateDevice)instance_next(instance, "vkCreateDevice"))(physical, &changed, allocator, out);
    if (result != VK_SUCCESS) return result;
    dispatch_below = (PFN_vkCmdDispatch)device_below(*out, "vkCmdDispatch");
    update_below = (PFN_vkUpdateDescriptorSets)device_below(*out, "vkUpdateDescriptorSets");
    allocate_below = (PFN_vkAllocateMemory)device_below(*out, "vkAllocateMemory");
    module_below = (PFN_vkCreateShaderModule)device_below(*out, "vkCreateShaderModule");
    pipelines_below = (PFN_vkCreateComputePipelines)device_below(*out, "vkCreateComputePipelines");
    queue_below = (PFN_vkGetDeviceQueue)device_below(*out, "vkGetDeviceQueue");
    submit_below = (PFN_vkQueueSubmit)device_below(*out, "vkQueueSubmit");
    idle_below = (PFN_vkQueueWaitIdle)device_below(*out, "vkQueueWaitIdle");
    pool_below = (PFN_vkCreateCommandPool)device_below(*out, "vkCreateCommandPool");
    buffer_below = (PFN_vkCreateBuffer)device_below(*out, "vkCreateBuffer");
    return VK_SUCCESS;
}

static PFN_vkVoidFunction own(const char *name);

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL limits_GetDeviceProcAddr(VkDevice device, const char *name);
EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL limits_GetDeviceProcAddr(VkDevice device, const char *name)
{
    PFN_vkVoidFunction found = own(name);
    return found ? found : device_below(device, name);
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL limits_GetInstanceProcAddr(VkInstance of, const char *name);
EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL limits_GetInstanceProcAddr(VkInstance of, const char *name)
{
    PFN_vkVoidFunction found = own(name);
    if (!found && !strcmp(name, "vkGetInstanceProcAddr")) found = (PFN_vkVoidFunction)limits_GetInstanceProcAddr;
    return found || !instance_below ? found : instance_below(of, name);
}

static PFN_vkVoidFunction own(const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)limits_GetDeviceProcAddr},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkGetPhysicalDeviceProperties", (PFN_vkVoidFunction)properties},
        {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)properties2},
        {"vkGetPhysicalDeviceFeatures2", (PFN_vkVoidFunction)features2},
        {"vkEnumerateDeviceExtensionProperties", (PFN_vkVoidFunction)extensions},
        {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)families},
        {"vkGetPhysicalDeviceQueueFamilyProperties2", (PFN_vkVoidFunction)families2},
        {"vkGetDeviceQueue", (PFN_vkVoidFunction)queue_get},
        {"vkQueueSubmit", (PFN_vkVoidFunction)submit},
        {"vkQueueWaitIdle", (PFN_vkVoidFunction)idle},
        {"vkCreateCommandPool", (PFN_vkVoidFunction)pool},
        {"vkCreateBuffer", (PFN_vkVoidFunction)buffer},
        {"vkCmdDispatch", (PFN_vkVoidFunction)dispatch},
        {"vkUpdateDescriptorSets", (PFN_vkVoidFunction)update},
        {"vkAllocateMemory", (PFN_vkVoidFunction)allocate},
        {"vkCreateComputePipelines", (PFN_vkVoidFunction)pipelines},
        {"vkCreateShaderModule", (PFN_vkVoidFunction)module},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name)) return functions[i].function;
    return NULL;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *versions)
{
    if (versions->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    versions->loaderLayerInterfaceVersion = 2;
    versions->pfnGetInstanceProcAddr = limits_GetInstanceProcAddr;
    versions->pfnGetDeviceProcAddr = limits_GetDeviceProcAddr;
    versions->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
