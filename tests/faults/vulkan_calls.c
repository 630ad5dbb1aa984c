/* Vulkan's functions in front of the loader's. This library has the loader's name, so that whoever opens libvulkan.so.1
 * has it. A call that fails is not made, but those that wait: what a device was given to do, it has done. What a failed
 * call should have filled in holds no object of the driver's. */
#define _GNU_SOURCE
#include "faults.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))
#define MEMORY VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY

#define CALL(name, parameters, arguments, ...)                                                                         \
    static PFN_vk##name next_##name;                                                                                   \
    static VKAPI_ATTR VkResult VKAPI_CALL our_##name parameters                                                        \
    {                                                                                                                  \
        static const int errors[] = {__VA_ARGS__};                                                                     \
        int error;                                                                                                     \
        if (fault_driver(FAULT_VULKAN, "vk" #name, errors, COUNT(errors), &error)) return (VkResult)error;             \
        return next_##name arguments;                                                                                  \
    }

#define WAIT(name, parameters, arguments, ...)                                                                         \
    static PFN_vk##name next_##name;                                                                                   \
    static VKAPI_ATTR VkResult VKAPI_CALL our_##name parameters                                                        \
    {                                                                                                                  \
        static const int errors[] = {__VA_ARGS__};                                                                     \
        int error;                                                                                                     \
        VkResult r = next_##name arguments;                                                                            \
        return fault_driver(FAULT_VULKAN, "vk" #name, errors, COUNT(errors), &error) ? (VkResult)error : r;            \
    }

/* One that makes objects, given in the last argument, which is called `out`. */
#define CREATE(name, kind, parameters, arguments, ...)                                                                 \
    static PFN_vk##name next_##name;                                                                                   \
    static VKAPI_ATTR VkResult VKAPI_CALL our_##name parameters                                                        \
    {                                                                                                                  \
        static const int errors[] = {__VA_ARGS__};                                                                     \
        int error;                                                                                                     \
        if (fault_driver(FAULT_VULKAN, "vk" #name, errors, COUNT(errors), &error)) {                                   \
            memset(out, 0x5a, sizeof *out);                                                                            \
            return (VkResult)error;                                                                                    \
        }                                                                                                              \
        VkResult r = next_##name arguments;                                                                            \
        if (r == VK_SUCCESS) fault_object_count(kind, 1);                                                              \
        return r;                                                                                                      \
    }

#define DESTROY(name, type, kind)                                                                                      \
    static PFN_vk##name next_##name;                                                                                   \
    static VKAPI_ATTR void VKAPI_CALL our_##name(VkDevice device, type object, const VkAllocationCallbacks *allocator) \
    {                                                                                                                  \
        if (object) fault_object_count(kind, -1);                                                                      \
        next_##name(device, object, allocator);                                                                        \
    }

#define DESTROY_TOP(name, type, kind)                                                                                  \
    static PFN_vk##name next_##name;                                                                                   \
    static VKAPI_ATTR void VKAPI_CALL our_##name(type object, const VkAllocationCallbacks *allocator)                  \
    {                                                                                                                  \
        if (object) fault_object_count(kind, -1);                                                                      \
        next_##name(object, allocator);                                                                                \
    }

#define ALLOCATOR const VkAllocationCallbacks *allocator

/* ---- what there is ---- */

CREATE(CreateInstance, OBJECT_VK_INSTANCE, (const VkInstanceCreateInfo *info, ALLOCATOR, VkInstance *out),
       (info, allocator, out), VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_INCOMPATIBLE_DRIVER, MEMORY)
DESTROY_TOP(DestroyInstance, VkInstance, OBJECT_VK_INSTANCE)
CALL(EnumerateInstanceVersion, (uint32_t * version), (version), VK_ERROR_OUT_OF_HOST_MEMORY)
CALL(EnumerateInstanceExtensionProperties, (const char *layer, uint32_t *count, VkExtensionProperties *list),
     (layer, count, list), MEMORY)
CALL(EnumeratePhysicalDevices, (VkInstance instance, uint32_t *count, VkPhysicalDevice *list), (instance, count, list),
     VK_ERROR_INITIALIZATION_FAILED, MEMORY)
CALL(EnumerateDeviceExtensionProperties,
     (VkPhysicalDevice device, const char *layer, uint32_t *count, VkExtensionProperties *list),
     (device, layer, count, list), MEMORY)
CREATE(CreateDebugUtilsMessengerEXT, OBJECT_VK_MESSENGER,
       (VkInstance instance, const VkDebugUtilsMessengerCreateInfoEXT *info, ALLOCATOR, VkDebugUtilsMessengerEXT *out),
       (instance, info, allocator, out), VK_ERROR_OUT_OF_HOST_MEMORY)

static PFN_vkDestroyDebugUtilsMessengerEXT next_DestroyDebugUtilsMessengerEXT;
static VKAPI_ATTR void VKAPI_CALL our_DestroyDebugUtilsMessengerEXT(VkInstance instance,
                                                                    VkDebugUtilsMessengerEXT object, ALLOCATOR)
{
    if (object) fault_object_count(OBJECT_VK_MESSENGER, -1);
    next_DestroyDebugUtilsMessengerEXT(instance, object, allocator);
}

/* ---- devices and objects ---- */

CREATE(CreateDevice, OBJECT_VK_DEVICE,
       (VkPhysicalDevice physical, const VkDeviceCreateInfo *info, ALLOCATOR, VkDevice *out),
       (physical, info, allocator, out), VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_DEVICE_LOST, MEMORY)
DESTROY_TOP(DestroyDevice, VkDevice, OBJECT_VK_DEVICE)

#define SIMPLE(what, type, kind, ...)                                                                                  \
    CREATE(Create##what, kind, (VkDevice device, const type##CreateInfo *info, ALLOCATOR, type *out),                  \
           (device, info, allocator, out), __VA_ARGS__)                                                                \
    DESTROY(Destroy##what, type, kind)
SIMPLE(Fence, VkFence, OBJECT_VK_FENCE, MEMORY)
SIMPLE(Buffer, VkBuffer, OBJECT_VK_BUFFER, MEMORY)
SIMPLE(ShaderModule, VkShaderModule, OBJECT_VK_SHADER, MEMORY, VK_ERROR_INVALID_SHADER_NV)
SIMPLE(PipelineCache, VkPipelineCache, OBJECT_VK_PIPELINE_CACHE, MEMORY)
SIMPLE(PipelineLayout, VkPipelineLayout, OBJECT_VK_PIPELINE_LAYOUT, MEMORY)
SIMPLE(DescriptorSetLayout, VkDescriptorSetLayout, OBJECT_VK_SET_LAYOUT, MEMORY)
SIMPLE(DescriptorPool, VkDescriptorPool, OBJECT_VK_DESCRIPTOR_POOL, MEMORY)
SIMPLE(QueryPool, VkQueryPool, OBJECT_VK_QUERY_POOL, MEMORY)
SIMPLE(CommandPool, VkCommandPool, OBJECT_VK_COMMAND_POOL, MEMORY)

CREATE(AllocateMemory, OBJECT_VK_MEMORY,
       (VkDevice device, const VkMemoryAllocateInfo *info, ALLOCATOR, VkDeviceMemory *out),
       (device, info, allocator, out), VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_TOO_MANY_OBJECTS,
       VK_ERROR_OUT_OF_HOST_MEMORY)
DESTROY(FreeMemory, VkDeviceMemory, OBJECT_VK_MEMORY)
CALL(BindBufferMemory, (VkDevice device, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset),
     (device, buffer, memory, offset), MEMORY)
CALL(MapMemory,
     (VkDevice device, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags,
      void **data),
     (device, memory, offset, size, flags, data), VK_ERROR_MEMORY_MAP_FAILED, MEMORY)
CALL(FlushMappedMemoryRanges, (VkDevice device, uint32_t n, const VkMappedMemoryRange *ranges), (device, n, ranges),
     MEMORY)
CALL(InvalidateMappedMemoryRanges, (VkDevice device, uint32_t n, const VkMappedMemoryRange *ranges),
     (device, n, ranges), MEMORY)
CALL(GetPipelineCacheData, (VkDevice device, VkPipelineCache cache, size_t *size, void *data),
     (device, cache, size, data), MEMORY, VK_INCOMPLETE)
CALL(AllocateDescriptorSets, (VkDevice device, const VkDescriptorSetAllocateInfo *info, VkDescriptorSet *sets),
     (device, info, sets), VK_ERROR_OUT_OF_POOL_MEMORY, MEMORY)
CALL(AllocateCommandBuffers, (VkDevice device, const VkCommandBufferAllocateInfo *info, VkCommandBuffer *list),
     (device, info, list), MEMORY)
CALL(GetPipelineExecutableStatisticsKHR,
     (VkDevice device, const VkPipelineExecutableInfoKHR *info, uint32_t *count,
      VkPipelineExecutableStatisticKHR *list),
     (device, info, count, list), MEMORY)
DESTROY(DestroyPipeline, VkPipeline, OBJECT_VK_PIPELINE)

/* A pipeline that was not made is VK_NULL_HANDLE. */
static PFN_vkCreateComputePipelines next_CreateComputePipelines;
static VKAPI_ATTR VkResult VKAPI_CALL our_CreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t n,
                                                                 const VkComputePipelineCreateInfo *infos, ALLOCATOR,
                                                                 VkPipeline *out)
{
    static const int errors[] = {MEMORY, VK_ERROR_INVALID_SHADER_NV};
    int error;
    if (fault_driver(FAULT_VULKAN, "vkCreateComputePipelines", errors, COUNT(errors), &error)) {
        memset(out, 0, n * sizeof *out);
        return (VkResult)error;
    }
    VkResult r = next_CreateComputePipelines(device, cache, n, infos, allocator, out);
    for (uint32_t i = 0; i < n; i++)
        if (out[i]) fault_object_count(OBJECT_VK_PIPELINE, 1);
    return r;
}

/* ---- commands ---- */

CALL(BeginCommandBuffer, (VkCommandBuffer commands, const VkCommandBufferBeginInfo *info), (commands, info), MEMORY)
CALL(EndCommandBuffer, (VkCommandBuffer commands), (commands), MEMORY)
CALL(QueueSubmit, (VkQueue queue, uint32_t n, const VkSubmitInfo *submits, VkFence fence), (queue, n, submits, fence),
     VK_ERROR_DEVICE_LOST, MEMORY)
CALL(ResetFences, (VkDevice device, uint32_t n, const VkFence *fences), (device, n, fences), MEMORY)
WAIT(GetFenceStatus, (VkDevice device, VkFence fence), (device, fence), VK_ERROR_DEVICE_LOST, MEMORY)
WAIT(WaitForFences, (VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t timeout),
     (device, n, fences, all, timeout), VK_ERROR_DEVICE_LOST, MEMORY)
WAIT(DeviceWaitIdle, (VkDevice device), (device), VK_ERROR_DEVICE_LOST, MEMORY)
WAIT(QueueWaitIdle, (VkQueue queue), (queue), VK_ERROR_DEVICE_LOST, MEMORY)
CALL(GetQueryPoolResults,
     (VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count, size_t size, void *data, VkDeviceSize stride,
      VkQueryResultFlags flags),
     (device, pool, first, count, size, data, stride, flags), VK_NOT_READY, VK_ERROR_DEVICE_LOST, MEMORY)

/* ---- finding them ---- */

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL our_GetDeviceProcAddr(VkDevice device, const char *name);
static PFN_vkGetDeviceProcAddr next_GetDeviceProcAddr;

#define ENTRY(name)                                                                                                    \
    {                                                                                                                  \
        "vk" #name, (PFN_vkVoidFunction *)&next_##name, (PFN_vkVoidFunction)our_##name                                 \
    }
static const struct {
    const char *name;
    PFN_vkVoidFunction *next, ours;
} entries[] = {
    ENTRY(GetDeviceProcAddr),
    ENTRY(CreateInstance),
    ENTRY(DestroyInstance),
    ENTRY(EnumerateInstanceVersion),
    ENTRY(EnumerateInstanceExtensionProperties),
    ENTRY(EnumeratePhysicalDevices),
    ENTRY(EnumerateDeviceExtensionProperties),
    ENTRY(CreateDebugUtilsMessengerEXT),
    ENTRY(DestroyDebugUtilsMessengerEXT),
    ENTRY(CreateDevice),
    ENTRY(DestroyDevice),
    ENTRY(CreateFence),
    ENTRY(DestroyFence),
    ENTRY(CreateBuffer),
    ENTRY(DestroyBuffer),
    ENTRY(CreateShaderModule),
    ENTRY(DestroyShaderModule),
    ENTRY(CreatePipelineCache),
    ENTRY(DestroyPipelineCache),
    ENTRY(CreatePipelineLayout),
    ENTRY(DestroyPipelineLayout),
    ENTRY(CreateDescriptorSetLayout),
    ENTRY(DestroyDescriptorSetLayout),
    ENTRY(CreateDescriptorPool),
    ENTRY(DestroyDescriptorPool),
    ENTRY(CreateQueryPool),
    ENTRY(DestroyQueryPool),
    ENTRY(CreateCommandPool),
    ENTRY(DestroyCommandPool),
    ENTRY(AllocateMemory),
    ENTRY(FreeMemory),
    ENTRY(BindBufferMemory),
    ENTRY(MapMemory),
    ENTRY(FlushMappedMemoryRanges),
    ENTRY(InvalidateMappedMemoryRanges),
    ENTRY(GetPipelineCacheData),
    ENTRY(AllocateDescriptorSets),
    ENTRY(AllocateCommandBuffers),
    ENTRY(GetPipelineExecutableStatisticsKHR),
    ENTRY(CreateComputePipelines),
    ENTRY(DestroyPipeline),
    ENTRY(BeginCommandBuffer),
    ENTRY(EndCommandBuffer),
    ENTRY(QueueSubmit),
    ENTRY(ResetFences),
    ENTRY(GetFenceStatus),
    ENTRY(WaitForFences),
    ENTRY(DeviceWaitIdle),
    ENTRY(QueueWaitIdle),
    ENTRY(GetQueryPoolResults),
};

static PFN_vkVoidFunction found(const char *name, PFN_vkVoidFunction function)
{
    for (size_t i = 0; function && i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(entries[i].name, name)) continue;
        *entries[i].next = function; /* one driver is under test, whose functions are always the same */
        return entries[i].ours;
    }
    return function;
}

static PFN_vkVoidFunction our_GetDeviceProcAddr(VkDevice device, const char *name)
{
    return found(name, next_GetDeviceProcAddr(device, name));
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
    static PFN_vkGetInstanceProcAddr next;
    if (fault_alone()) return NULL;
    const char *path = getenv("FAULT_VULKAN");
    if (!next && path) {
        void *loader = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (loader) next = (PFN_vkGetInstanceProcAddr)dlsym(loader, "vkGetInstanceProcAddr");
    }
    return next ? found(name, next(instance, name)) : NULL;
}
