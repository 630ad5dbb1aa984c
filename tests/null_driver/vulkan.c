/* The layer over Vulkan: VK_LAYER_PATH=the folder of null_vulkan.json, VK_INSTANCE_LAYERS=VK_LAYER_WHERRY_null. For
 * processes that use one driver. */
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include "null.h"

#define EXPORT __attribute__((visibility("default")))

static PFN_vkGetInstanceProcAddr instance_below;
static PFN_vkGetDeviceProcAddr device_below;
static PFN_vkCmdDispatch dispatch_below;
static PFN_vkCmdCopyBuffer copy_below;
static PFN_vkWaitForFences wait_below;
static PFN_vkGetFenceStatus status_below;

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    if (!null_does("kernels")) dispatch_below(commands, x, y, z);
}

static VKAPI_ATTR void VKAPI_CALL copy(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t n,
                                       const VkBufferCopy *regions)
{
    if (!null_does("copies")) copy_below(commands, from, to, n, regions);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all,
                                           uint64_t ns)
{
    VkResult result = wait_below(device, n, fences, all, ns);
    return null_does("queue") ? VK_ERROR_DEVICE_LOST : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL status(VkDevice device, VkFence fence)
{
    VkResult result = status_below(device, fence);
    return null_does("queue") && result == VK_SUCCESS ? VK_ERROR_DEVICE_LOST : result;
}

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
    instance_below = next;
    return ((PFN_vkCreateInstance)next(NULL, "vkCreateInstance"))(info, allocator, out);
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
    VkResult result = ((PFN_vkCreateDevice)instance_next(NULL, "vkCreateDevice"))(physical, info, allocator, out);
    if (result != VK_SUCCESS) return result;
    dispatch_below = (PFN_vkCmdDispatch)device_below(*out, "vkCmdDispatch");
    copy_below = (PFN_vkCmdCopyBuffer)device_below(*out, "vkCmdCopyBuffer");
    wait_below = (PFN_vkWaitForFences)device_below(*out, "vkWaitForFences");
    status_below = (PFN_vkGetFenceStatus)device_below(*out, "vkGetFenceStatus");
    return VK_SUCCESS;
}

static PFN_vkVoidFunction own(const char *name);

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL null_GetDeviceProcAddr(VkDevice device, const char *name);
EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL null_GetDeviceProcAddr(VkDevice device, const char *name)
{
    PFN_vkVoidFunction found = own(name);
    return found ? found : device_below(device, name);
}

EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL null_GetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL null_GetInstanceProcAddr(VkInstance instance, const char *name)
{
    PFN_vkVoidFunction found = own(name);
    if (!found && !strcmp(name, "vkGetInstanceProcAddr")) found = (PFN_vkVoidFunction)null_GetInstanceProcAddr;
    return found || !instance_below ? found : instance_below(instance, name);
}

static PFN_vkVoidFunction own(const char *name)
{
    static const struct {
        const char *name;
        PFN_vkVoidFunction function;
    } functions[] = {
        {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)null_GetDeviceProcAddr},
        {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
        {"vkCreateDevice", (PFN_vkVoidFunction)create_device},
        {"vkCmdDispatch", (PFN_vkVoidFunction)dispatch},
        {"vkCmdCopyBuffer", (PFN_vkVoidFunction)copy},
        {"vkWaitForFences", (PFN_vkVoidFunction)wait},
        {"vkGetFenceStatus", (PFN_vkVoidFunction)status},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name)) return functions[i].function;
    return NULL;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface *versions)
{
    if (versions->loaderLayerInterfaceVersion < 2) return VK_ERROR_INITIALIZATION_FAILED;
    versions->loaderLayerInterfaceVersion = 2;
    versions->pfnGetInstanceProcAddr = null_GetInstanceProcAddr;
    versions->pfnGetDeviceProcAddr = null_GetDeviceProcAddr;
    versions->pfnGetPhysicalDeviceProcAddr = NULL;
    return VK_SUCCESS;
}
