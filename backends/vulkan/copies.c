/* Copies beside runs: by queues that only copy, where the device has them, from and to memory of the host's that is
 * imported. What runs is ordered with them by semaphores. */
#include <inttypes.h>
#include <string.h>

#include "base/platform.h"
#include "vulkan.h"

/* More than there are copies up under way: whoever starts so many has waited for what came of the first ones. */
enum { UPS = 128, DOWNS_PENDING = 256 };
static const double copy_seconds = 600;

/* Memory of the host's. */
struct pinned {
    struct pinned *next;
    char *host;
    uint64_t bytes;
    VkBuffer buffer;
    VkDeviceMemory memory;
};

/* A copy, or some together: what it needs until its fence is there. */
struct copy {
    VkCommandBuffer commands;
    VkSemaphore semaphore;
    VkFence fence;
    bool made, under_way;
    uint64_t started;
};

struct beside {
    VkCommandPool pool;
    struct pinned *pinned;
    struct copy ups[UPS], downs[COPY_TICKETS];
    VkSemaphore computed[UPS]; /* of runs that copies down follow, made when they are needed */
    unsigned next_up, next_computed;
    struct transfer pending[DOWNS_PENDING]; /* down, that nobody waits for: they go with the next that is waited for */
    int n_pending;
};

/* No device that is opened to compile alone: below Mesa's DRM shim of AMD's GPUs memory of the host that was imported
 * made the driver overwrite what lay beside it. */
bool vulkan_pins(const struct backend_device *d)
{
    return d->physical.imports && !d->pin_failed && !d->inert && !d->host->compile_only;
}

struct buffer *vulkan_buffer_copied(struct backend_device *d, uint64_t bytes, struct error *e)
{
    return buffer_make(d, bytes, true, e);
}

/* ---- memory of the host's ---- */

static bool copies_make(struct backend_device *d, struct error *e)
{
    const bool own = d->up != d->queue;
    if (d->beside) return true;
    struct beside *c = host_alloc(d->host, 1, sizeof *c, e);
    if (!c) return false;
    const VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = own ? d->physical.copy_family : d->physical.queue_family,
    };
    d->beside = c;
    return DEVICE_CREATE(d, CommandPool, &pool, &c->pool, e);
}

static bool import(struct backend_device *d, struct pinned *p, struct error *e)
{
    const VkExternalMemoryHandleTypeFlagBits type = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    const VkMemoryPropertyFlags kinds = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkExternalMemoryBufferCreateInfo external = {.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                       .handleTypes = type};
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                     .pNext = &external,
                                     .size = p->bytes,
                                     .usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    const VkImportMemoryHostPointerInfoEXT from = {
        .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, .handleType = type, .pHostPointer = p->host};
    VkMemoryHostPointerPropertiesEXT host = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkMemoryRequirements needs;
    TRY(DEVICE_CREATE(d, Buffer, &info, &p->buffer, e));
    d->vk.GetBufferMemoryRequirements(d->handle, p->buffer, &needs);
    VkResult r = d->vk.GetMemoryHostPointerPropertiesEXT(d->handle, type, p->host, &host);
    if (r == VK_SUCCESS &&
        (needs.size > p->bytes ||
         !memory_import(d, p->bytes, needs.memoryTypeBits & host.memoryTypeBits, kinds, &from, &p->memory)))
        r = VK_ERROR_INVALID_EXTERNAL_HANDLE;
    if (r == VK_SUCCESS) r = d->vk.BindBufferMemory(d->handle, p->buffer, p->memory, 0);
    return r == VK_SUCCESS || device_fail(d, e, r, "importing memory of the host");
}

/* Where it fails nothing is lost but time. */
struct pinned *vulkan_pin(struct backend_device *d, void *memory, uint64_t bytes, struct error *e)
{
    struct pinned *p = copies_make(d, e) ? host_alloc(d->host, 1, sizeof *p, e) : NULL;
    if (!p) return NULL;
    p->host = memory;
    p->bytes = bytes;
    p->next = d->beside->pinned;
    d->beside->pinned = p;
    if (import(d, p, e)) return p;
    host_log(d->host, WHERRY_LOG_WARNING, "%s: copies are waited for: %s", d->physical.info.name, e->text);
    d->pin_failed = true;
    vulkan_unpin(d, p);
    return NULL;
}

static bool copy_await(struct backend_device *d, struct copy *copy, struct error *e)
{
    const struct patience patience = {.since = copy->started, .seconds = copy_seconds};
    bool done;
    if (!copy->under_way) return true;
    copy->under_way = false;
    return device_check(d, e) && device_await(d, copy->fence, &patience, UINT64_MAX, &done, e);
}

static void copies_await(struct backend_device *d)
{
    struct error ignored;
    for (int i = 0; i < UPS; i++) copy_await(d, &d->beside->ups[i], &ignored);
    for (int i = 0; i < COPY_TICKETS; i++) copy_await(d, &d->beside->downs[i], &ignored);
}

void vulkan_unpin(struct backend_device *d, struct pinned *pinned)
{
    if (!pinned) return;
    struct pinned **at = &d->beside->pinned;
    while (*at != pinned) at = &(*at)->next;
    *at = pinned->next;
    copies_await(d);
    if (pinned->buffer && !d->hung) d->vk.DestroyBuffer(d->handle, pinned->buffer, NULL);
    if (pinned->memory && !d->hung) d->vk.FreeMemory(d->handle, pinned->memory, NULL);
    host_free(d->host, pinned);
}

void copies_close(struct backend_device *d)
{
    struct beside *c = d->beside;
    if (!c) return;
    copies_await(d);
    for (int i = 0; i < UPS + COPY_TICKETS; i++) {
        struct copy *copy = i < UPS ? &c->ups[i] : &c->downs[i - UPS];
        if (copy->fence) d->vk.DestroyFence(d->handle, copy->fence, NULL);
        if (copy->semaphore) d->vk.DestroySemaphore(d->handle, copy->semaphore, NULL);
    }
    for (int i = 0; i < UPS; i++)
        if (c->computed[i]) d->vk.DestroySemaphore(d->handle, c->computed[i], NULL);
    if (c->pool) d->vk.DestroyCommandPool(d->handle, c->pool, NULL);
    host_free(d->host, c);
    d->beside = NULL;
}

/* ---- copies ---- */

static bool copy_make(struct backend_device *d, struct copy *copy, struct error *e)
{
    const VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = d->beside->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (copy->made) return true;
    VkResult r = copy->commands ? VK_SUCCESS : d->vk.AllocateCommandBuffers(d->handle, &info, &copy->commands);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkAllocateCommandBuffers");
    if (!copy->semaphore) TRY(DEVICE_CREATE(d, Semaphore, &semaphore, &copy->semaphore, e));
    if (!copy->fence) TRY(DEVICE_CREATE(d, Fence, &fence, &copy->fence, e));
    return copy->made = true;
}

static const struct pinned *pinned_of(const struct backend_device *d, const struct transfer *t)
{
    const struct pinned *p = d->beside->pinned;
    while (p && ((char *)t->host < p->host || (char *)t->host + t->bytes > p->host + p->bytes)) p = p->next;
    return p;
}

static bool copy_record(struct backend_device *d, VkCommandBuffer commands, const struct transfer *t, bool up,
                        struct error *e)
{
    const struct pinned *p = pinned_of(d, t);
    if (!p || t->offset > t->buffer->bytes || t->bytes > t->buffer->bytes - t->offset)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "Vulkan: a copy of %" PRIu64 " bytes at %" PRIu64 " of a buffer of %" PRIu64 ", or its memory is "
                    "not pinned",
                    t->bytes, t->offset, t->buffer->bytes);
    const VkDeviceSize host = (VkDeviceSize)((char *)t->host - p->host);
    const VkBufferCopy region = {up ? host : t->offset, up ? t->offset : host, t->bytes};
    d->vk.CmdCopyBuffer(commands, up ? p->buffer : t->buffer->handle, up ? t->buffer->handle : p->buffer, 1, &region);
    return true;
}

static bool list_record(struct backend_device *d, VkCommandBuffer commands, const struct transfer *list, int n, bool up,
                        struct error *e)
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
    VkResult r = d->vk.BeginCommandBuffer(commands, &begin);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkBeginCommandBuffer");
    for (int i = 0; i < n; i++) TRY(copy_record(d, commands, &list[i], up, e));
    if (!up)
        d->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier,
                                 0, NULL, 0, NULL);
    r = d->vk.EndCommandBuffer(commands);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkEndCommandBuffer");
}

bool copies_follow(struct backend_device *d, VkSubmitInfo *last, struct error *e)
{
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    VkSemaphore *semaphore = &d->beside->computed[d->beside->next_computed % UPS];
    if (d->n_computed == COPIED_MOST) return true;
    if (!*semaphore) TRY(DEVICE_CREATE(d, Semaphore, &info, semaphore, e));
    d->beside->next_computed++;
    last->signalSemaphoreCount = 1;
    last->pSignalSemaphores = semaphore;
    d->computed[d->n_computed++] = *semaphore;
    return true;
}

/* Signals the copy's semaphore; `copies`: behind the copy. */
static bool submit_signal(struct backend_device *d, VkQueue queue, const struct copy *copy, bool copies, VkFence fence,
                          struct error *e)
{
    const VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .commandBufferCount = copies,
        .pCommandBuffers = &copy->commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &copy->semaphore,
    };
    return device_queue(d, queue, &info, 1, fence, e);
}

/* The semaphore is used again after UPS more: then what waits for it is done. */
bool vulkan_copies_up(struct backend_device *d, const struct transfer *list, int n, struct error *e)
{
    if (!n) return true;
    TRY(device_check(d, e) && copies_make(d, e));
    struct copy *copy = &d->beside->ups[d->beside->next_up++ % UPS];
    TRY(copy_await(d, copy, e) && copy_make(d, copy, e) && list_record(d, copy->commands, list, n, true, e));
    if (d->n_copied == COPIED_MOST) TRY(device_queue(d, d->queue, NULL, 0, VK_NULL_HANDLE, e));
    TRY(submit_signal(d, d->up, copy, true, copy->fence, e));
    d->copied[d->n_copied++] = copy->semaphore;
    copy->started = clock_ns();
    return copy->under_way = true;
}

/* Waits for all that runs signal, and for one more. */
static bool submit_down(struct backend_device *d, const struct copy *copy, const VkSemaphore *more, struct error *e)
{
    VkPipelineStageFlags stages[COPIED_MOST + 1];
    VkSemaphore waits[COPIED_MOST + 1];
    uint32_t n = d->n_computed;
    memcpy(waits, d->computed, n * sizeof *waits);
    if (more) waits[n++] = *more;
    for (uint32_t i = 0; i < n; i++) stages[i] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .waitSemaphoreCount = n,
                               .pWaitSemaphores = waits,
                               .pWaitDstStageMask = stages,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &copy->commands};
    d->n_computed = 0;
    return device_queue(d, d->down, &info, 1, copy->fence, e);
}

bool vulkan_copy_down(struct backend_device *d, const struct transfer *t, int ticket, struct error *e)
{
    TRY(device_check(d, e) && copies_make(d, e));
    struct beside *c = d->beside;
    if (c->n_pending == DOWNS_PENDING)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: %d copies that nobody waits for", DOWNS_PENDING);
    c->pending[c->n_pending++] = *t;
    if (ticket < 0) return true;
    struct copy *copy = &c->downs[ticket];
    const int n = c->n_pending;
    c->n_pending = 0;
    TRY(copy_await(d, copy, e) && copy_make(d, copy, e) && list_record(d, copy->commands, c->pending, n, false, e));
    if (!d->computed_last) TRY(submit_signal(d, d->queue, copy, false, VK_NULL_HANDLE, e));
    TRY(submit_down(d, copy, d->computed_last ? NULL : &copy->semaphore, e));
    copy->started = clock_ns();
    return copy->under_way = true;
}

bool vulkan_copy_wait(struct backend_device *d, int ticket, struct error *e)
{
    return !d->beside || copy_await(d, &d->beside->downs[ticket], e);
}
