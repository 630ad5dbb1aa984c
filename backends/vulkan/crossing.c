/* Transfers by the queue that an application lends for them: their buffers, semaphores and submissions. */
#include "program.h"

#include "base/platform.h"

bool crossing_takes(const struct backend_device *d, const struct run *run)
{
    return d->transfer_queue && !run->waits && !run->near && !run->step_seconds && !run->before && !run->after &&
           !d->held;
}

/* ---- making ---- */

static bool pool_make(struct backend_device *d, struct program *p, struct error *e)
{
    if (p->transfer_pool) return true;
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = d->transfer_family,
    };
    return DEVICE_CREATE(d, CommandPool, &pool, &p->transfer_pool, e);
}

static bool commands_make(struct backend_device *d, const struct program *p, struct crossing *c, struct error *e)
{
    VkCommandBuffer made[2];
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = p->transfer_pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 2,
    };
    if (c->up) return true;
    VkResult r = d->vk.AllocateCommandBuffers(d->handle, &info, made);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkAllocateCommandBuffers");
    c->up = made[0];
    c->down = made[1];
    return true;
}

static bool buffer_of(struct backend_device *d, uint64_t bytes, struct buffer **out, struct error *e)
{
    return *out || !bytes || (*out = buffer_make(d, bytes, true, e));
}

bool crossing_make(struct backend_device *d, struct program *p, struct slot *slot, struct error *e)
{
    const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    struct crossing *c = &slot->crossing;
    if (c->made) return true;
    TRY(pool_make(d, p, e) && commands_make(d, p, c, e));
    TRY(buffer_of(d, p->schedule->max_upload, &c->upload, e) &&
        buffer_of(d, p->schedule->max_download, &c->download, e));
    if (!c->uploaded) TRY(DEVICE_CREATE(d, Semaphore, &semaphore, &c->uploaded, e));
    if (!c->computed) TRY(DEVICE_CREATE(d, Semaphore, &semaphore, &c->computed, e));
    return c->made = true;
}

void crossing_destroy(struct backend_device *d, struct slot *slot)
{
    struct crossing *c = &slot->crossing;
    if (c->uploaded && !d->hung) d->vk.DestroySemaphore(d->handle, c->uploaded, NULL);
    if (c->computed && !d->hung) d->vk.DestroySemaphore(d->handle, c->computed, NULL);
    vulkan_buffer_destroy(d, c->upload);
    vulkan_buffer_destroy(d, c->download);
    *c = (struct crossing){0};
}

/* ---- submitting ---- */

static uint64_t bytes_of(const struct transfer *list, int n)
{
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += list[i].bytes;
    return bytes;
}

/* The barrier is for the host; the other queue has the semaphore. */
static bool copy_record(struct backend_device *d, VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint64_t bytes,
                        bool to_host, struct error *e)
{
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    const VkBufferCopy region = {.size = bytes};
    VkResult r = d->vk.BeginCommandBuffer(commands, &begin);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkBeginCommandBuffer");
    d->vk.CmdCopyBuffer(commands, from, to, 1, &region);
    if (to_host) {
        d->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
                                 0, NULL, 0, NULL);
    }
    r = d->vk.EndCommandBuffer(commands);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkEndCommandBuffer");
}

static const VkPipelineStageFlags at_copies = VK_PIPELINE_STAGE_TRANSFER_BIT;

static bool upload_submit(struct backend_device *d, struct slot *slot, uint64_t bytes, struct error *e)
{
    struct crossing *c = &slot->crossing;
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = 1,
        .pCommandBuffers = &c->up,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &c->uploaded,
    };
    TRY(copy_record(d, c->up, slot->upload.handle, c->upload->handle, bytes, false, e));
    return device_queue(d, d->transfer_queue, &submit, 1, VK_NULL_HANDLE, e);
}

/* After an upload whose run could not be submitted: it is waited for, for the slot is free then, and takes its signal
 * with it. */
static void upload_take_back(struct backend_device *d, struct slot *slot)
{
    enum { SECONDS = 60 };
    struct error ignored;
    bool done;
    const struct patience patience = {.since = clock_ns(), .seconds = SECONDS};
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .waitSemaphoreCount = 1,
        .pWaitSemaphores = &slot->crossing.uploaded,
        .pWaitDstStageMask = &at_copies,
    };
    if (!device_queue(d, d->transfer_queue, &submit, 1, slot->fence, &ignored) ||
        !device_await(d, slot->fence, &patience, UINT64_MAX, &done, &ignored))
        d->lost = d->hung = true;
}

bool crossing_submit(struct backend_device *d, struct slot *slot, const struct run *run, struct error *e)
{
    struct crossing *c = &slot->crossing;
    const uint32_t n = slot->n_submits;
    const uint64_t up = bytes_of(run->uploads, run->n_uploads), down = bytes_of(run->downloads, run->n_downloads);
    VkSubmitInfo *first = &slot->submits[0], *last = &slot->submits[n - 1];
    if (up) {
        first->waitSemaphoreCount = 1;
        first->pWaitSemaphores = &c->uploaded;
        first->pWaitDstStageMask = &at_copies;
        TRY(upload_submit(d, slot, up, e));
    }
    if (down) {
        last->signalSemaphoreCount = 1;
        last->pSignalSemaphores = &c->computed;
    }
    if (!device_queue(d, d->queue, slot->submits, n, down ? VK_NULL_HANDLE : slot->fence, e)) {
        if (up) upload_take_back(d, slot);
        return false;
    }
    c->pending = down;
    return true;
}

bool crossing_download(struct backend_device *d, struct slot *slot, struct error *e)
{
    struct crossing *c = &slot->crossing;
    const VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .waitSemaphoreCount = 1,
        .pWaitSemaphores = &c->computed,
        .pWaitDstStageMask = &at_copies,
        .commandBufferCount = 1,
        .pCommandBuffers = &c->down,
    };
    if (!c->pending) return true;
    TRY(copy_record(d, c->down, c->download->handle, slot->download.handle, c->pending, true, e));
    TRY(device_queue(d, d->transfer_queue, &submit, 1, slot->fence, e));
    c->pending = 0;
    return true;
}
