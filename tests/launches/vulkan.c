#include "count.h"

uint32_t vulkan_counted;

#ifdef WHERRY_HAVE_VULKAN

#include "backends/vulkan/vulkan.h"

static PFN_vkQueueSubmit real;

static VkResult VKAPI_CALL counted(VkQueue queue, uint32_t n, const VkSubmitInfo *submits, VkFence fence)
{
    vulkan_counted += n;
    return real(queue, n, submits, fence);
}

void vulkan_count(struct backend_device *device, bool on)
{
    if (on) real = device->vk.QueueSubmit;
    device->vk.QueueSubmit = on ? counted : real;
}

#else

void vulkan_count(struct backend_device *device, bool on) { (void)device, (void)on; }

#endif
