/* What every file asks of an open device: that it is not lost, submissions, errors, names of objects. */
#include "vulkan.h"

#include <string.h>

#include "base/number.h"
#include "base/platform.h"

bool device_check(const struct backend_device *d, struct error *e)
{
    if (!d->lost) return true;
    return fail_native(e, WHERRY_STATUS_DEVICE_LOST, VK_ERROR_DEVICE_LOST,
                       "Vulkan: %s was lost by an earlier call; close it and open it again", d->physical.info.name);
}

bool device_executes_commands(const struct backend_device *d, struct error *e)
{
    if (!d->inert) return true;
    return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                "Vulkan: %s does not execute what it is given: its queue takes nothing (a driver that only compiles): "
                "use another device",
                d->physical.info.name);
}

bool device_fail(struct backend_device *d, struct error *e, VkResult result, const char *what)
{
    if (result == VK_ERROR_DEVICE_LOST) d->lost = true;
    return fail_result(e, result, "%s: %s", d->physical.info.name, what);
}

bool device_created(struct backend_device *d, VkResult result, void *handle, size_t size, const char *what,
                    struct error *e)
{
    if (result == VK_SUCCESS) return true;
    memset(handle, 0, size);
    return device_fail(d, e, result, what);
}

/* That a run is asked about before it is waited for, and at least so long before and after the usual end of one. */
enum { NS_AWAKE = 1000000, NS_ABOUT = 250000 };

/* With the copies up that it waits for: in its first batch, where that waits for nothing else. A submission that does
 * nothing but wait costs the device some time between those before and behind it. */
static VkResult submit(struct backend_device *d, VkQueue queue, const VkSubmitInfo *batches, uint32_t n, VkFence fence)
{
    enum { BATCHES = 8 };
    VkPipelineStageFlags stages[COPIED_MOST];
    VkSubmitInfo own[BATCHES] = {{.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO}};
    if (queue == d->queue) d->computed_last = false;
    if (queue != d->queue || !d->n_copied) return d->vk.QueueSubmit(queue, n, batches, fence);
    const bool joins = n && n <= BATCHES && !batches->waitSemaphoreCount && !batches->pNext;
    if (joins) memcpy(own, batches, n * sizeof *own);
    for (uint32_t i = 0; i < d->n_copied; i++) stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    own->waitSemaphoreCount = d->n_copied;
    own->pWaitSemaphores = d->copied;
    own->pWaitDstStageMask = stages;
    VkResult r = d->vk.QueueSubmit(queue, joins ? n : 1, own, joins ? fence : VK_NULL_HANDLE);
    if (r == VK_SUCCESS) d->n_copied = 0;
    return r == VK_SUCCESS && !joins ? d->vk.QueueSubmit(queue, n, batches, fence) : r;
}

bool device_queue(struct backend_device *d, VkQueue queue, const VkSubmitInfo *batches, uint32_t n, VkFence fence,
                  struct error *e)
{
    VkResult r = fence ? d->vk.ResetFences(d->handle, 1, &fence) : VK_SUCCESS;
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkResetFences");
    mutex_enter(&d->queueing);
    if (d->queue_lock) d->queue_lock(d->queue_user);
    r = submit(d, queue, batches, n, fence);
    if (d->queue_unlock) d->queue_unlock(d->queue_user);
    mutex_leave(&d->queueing);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkQueueSubmit");
}

/* Sums that stop at the largest number. */
static uint64_t later(uint64_t time, uint64_t ns) { return time < UINT64_MAX - ns ? time + ns : UINT64_MAX; }

/* Asks for a fence until then, or until it is there; a driver that waits for it comes back later than that. */
static VkResult ask(struct backend_device *d, VkFence fence, uint64_t until)
{
    VkResult r = d->vk.GetFenceStatus(d->handle, fence);
    while (r == VK_NOT_READY && clock_ns() < until) r = d->vk.GetFenceStatus(d->handle, fence);
    return r;
}

static VkResult sleep_until(struct backend_device *d, VkFence fence, uint64_t until)
{
    uint64_t now = clock_ns();
    return now < until ? d->vk.WaitForFences(d->handle, 1, &fence, VK_TRUE, until - now) : VK_TIMEOUT;
}

/* A thread that sleeps comes back later than a short run is done: of training steps of 1.8 ms the host saw the end 57
 * and 152 us after the kernels', in two runs on an H200. So it is asked for about when the run before was done, too. A
 * CPU's driver needs the core itself. */
static VkResult await(struct backend_device *d, VkFence fence, const struct patience *patience, uint64_t end)
{
    if (d->physical.info.type == WHERRY_DEVICE_CPU) return sleep_until(d, fence, end);
    const uint64_t awake = later(clock_ns(), NS_AWAKE), about = NS_ABOUT + patience->usual / 16,
                   usual = later(patience->since, patience->usual), from = usual > about ? usual - about : 0;
    VkResult r = ask(d, fence, awake < end ? awake : end);
    if (r == VK_NOT_READY && patience->usual && from < end) {
        r = sleep_until(d, fence, from);
        if (r == VK_TIMEOUT) r = ask(d, fence, later(usual, about) < end ? later(usual, about) : end);
    }
    return r == VK_NOT_READY ? sleep_until(d, fence, end) : r;
}

bool device_await(struct backend_device *d, VkFence fence, const struct patience *patience, uint64_t timeout_ns,
                  bool *done, struct error *e)
{
    const double seconds = d->held ? 1e9 : patience->seconds;
    const uint64_t now = clock_ns(), since = patience->since > d->held_end ? patience->since : d->held_end,
                   hung = later(since, seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_MAX),
                   asked = later(now, timeout_ns), end = asked < hung ? asked : hung;
    VkResult r = timeout_ns ? await(d, fence, patience, end) : d->vk.GetFenceStatus(d->handle, fence);
    *done = r != VK_NOT_READY && r != VK_TIMEOUT;
    if (r == VK_SUCCESS) return true;
    if (!*done && asked < hung) return true;
    if (!*done) {
        *done = d->lost = d->hung = true;
        return fail_native(e, WHERRY_STATUS_DEVICE_LOST, r,
                           "Vulkan: %s did not finish within %s seconds and is taken for hung; restart the program, "
                           "or use smaller limits",
                           d->physical.info.name, NUMBER("%.0f", seconds));
    }
    /* Other failures leave it open whether the work still runs. */
    if (r != VK_ERROR_DEVICE_LOST) d->lost = d->hung = true;
    return device_fail(d, e, r, "waiting for a fence");
}

bool device_submit(struct backend_device *d, const VkSubmitInfo *batches, uint32_t n, double seconds, struct error *e)
{
    bool done;
    TRY(device_executes_commands(d, e) && device_queue(d, d->queue, batches, n, d->fence, e));
    const struct patience patience = {.since = clock_ns(), .seconds = seconds};
    return device_await(d, d->fence, &patience, UINT64_MAX, &done, e);
}

void device_name(struct backend_device *d, VkObjectType type, uint64_t handle, const char *name)
{
    if (!d->instance.vk.SetDebugUtilsObjectNameEXT) return;
    VkDebugUtilsObjectNameInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT,
        .objectType = type,
        .objectHandle = handle,
        .pObjectName = name,
    };
    d->instance.vk.SetDebugUtilsObjectNameEXT(d->handle, &info);
}
