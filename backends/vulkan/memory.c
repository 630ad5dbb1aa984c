/* Owns device buffers, host-visible memory, and the blocking copies between them. */
#include "vulkan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A blocking copy goes through host memory of this size, piece by piece. NVIDIA's driver takes 4 to 5 ms to make 16 MB
 * of it, which every process waits for. */
static const uint64_t transfer_bytes = 4u << 20;
static const double copy_seconds = 60;

/* ---- memory types ---- */

static int bits_count(uint32_t bits)
{
    int n = 0;
    for (; bits; bits &= bits - 1) n++;
    return n;
}

/* The best type that is in `allowed`, has the required kinds and a heap large enough: most of the preferred kinds, then
 * the fewest others, then the driver's order. VK_MAX_MEMORY_TYPES: none. Types of other kinds than the four basic ones
 * (protected, lazily allocated, vendors' own) need features that are not enabled. */
static uint32_t type_find(const struct physical *p, uint64_t bytes, uint32_t allowed, VkMemoryPropertyFlags required,
                          VkMemoryPropertyFlags preferred)
{
    const VkMemoryPropertyFlags basic = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    uint32_t best = VK_MAX_MEMORY_TYPES;
    int best_score = 0;
    for (uint32_t i = 0; i < p->memory.memoryTypeCount; i++) {
        VkMemoryPropertyFlags kinds = p->memory.memoryTypes[i].propertyFlags;
        if (!(allowed >> i & 1) || kinds & ~basic || (kinds & required) != required) continue;
        if (p->memory.memoryHeaps[p->memory.memoryTypes[i].heapIndex].size < bytes) continue;
        int score = 8 * bits_count(kinds & preferred) - bits_count(kinds & ~(required | preferred));
        if (best == VK_MAX_MEMORY_TYPES || score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

/* What both queues use is shared by their families, where these are two: a queue's commands then follow those of the
 * other one behind a semaphore alone. */
static bool handle_make(struct backend_device *d, uint64_t bytes, VkBufferUsageFlags usage, bool shared,
                        VkBuffer *handle, VkMemoryRequirements *needs, const char *what, struct error *e)
{
    const bool copies = !d->transfer_queue && d->up && d->up != d->queue;
    const uint32_t families[] = {d->physical.queue_family, copies ? d->physical.copy_family : d->transfer_family};
    const bool two = shared && (d->transfer_queue || copies) && families[0] != families[1];
    VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes,
        .usage = usage,
        .sharingMode = two ? VK_SHARING_MODE_CONCURRENT : VK_SHARING_MODE_EXCLUSIVE,
        .queueFamilyIndexCount = two ? 2 : 0,
        .pQueueFamilyIndices = families,
    };
    VkResult r = d->vk.CreateBuffer(d->handle, &info, NULL, handle);
    if (r != VK_SUCCESS) {
        *handle = VK_NULL_HANDLE;
        if (r == VK_ERROR_DEVICE_LOST) d->lost = true;
        return fail_result(e, r, "%s: %s of %" PRIu64 " bytes", d->physical.info.name, what, bytes);
    }
    d->vk.GetBufferMemoryRequirements(d->handle, *handle, needs);
    return true;
}

static VkResult memory_make(struct backend_device *d, uint64_t bytes, uint32_t type, VkDeviceMemory *memory)
{
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = bytes,
        .memoryTypeIndex = type,
    };
    VkResult r = d->vk.AllocateMemory(d->handle, &info, NULL, memory);
    if (r != VK_SUCCESS) *memory = VK_NULL_HANDLE;
    return r;
}

bool memory_import(struct backend_device *d, uint64_t bytes, uint32_t allowed, VkMemoryPropertyFlags kinds,
                   const void *chain, VkDeviceMemory *memory)
{
    const uint32_t type = type_find(&d->physical, bytes, allowed, kinds, VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                       .pNext = chain,
                                       .allocationSize = bytes,
                                       .memoryTypeIndex = type};
    const bool ok = type != VK_MAX_MEMORY_TYPES && d->vk.AllocateMemory(d->handle, &info, NULL, memory) == VK_SUCCESS;
    if (!ok) *memory = VK_NULL_HANDLE;
    return ok;
}

/* ---- host-visible memory ---- */

bool mapped_create(struct backend_device *d, uint64_t bytes, VkBufferUsageFlags usage, VkMemoryPropertyFlags preferred,
                   const char *what, struct mapped *out, struct error *e)
{
    *out = (struct mapped){.bytes = bytes};
    VkMemoryRequirements needs;
    TRY(handle_make(d, bytes, usage, true, &out->handle, &needs, what, e));
    uint32_t allowed = needs.memoryTypeBits;
    VkResult r = VK_ERROR_OUT_OF_HOST_MEMORY;
    while (!out->memory) {
        uint32_t type = type_find(&d->physical, needs.size, allowed, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, preferred);
        if (type == VK_MAX_MEMORY_TYPES) break;
        allowed &= ~(1u << type);
        r = memory_make(d, needs.size, type, &out->memory);
        VkMemoryPropertyFlags kinds = d->physical.memory.memoryTypes[type].propertyFlags;
        out->coherent = kinds & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        if (r != VK_SUCCESS && r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_OUT_OF_HOST_MEMORY) break;
    }
    if (out->memory) r = d->vk.BindBufferMemory(d->handle, out->handle, out->memory, 0);
    if (out->memory && r == VK_SUCCESS) r = d->vk.MapMemory(d->handle, out->memory, 0, VK_WHOLE_SIZE, 0, &out->data);
    if (r == VK_SUCCESS) {
        device_name(d, VK_OBJECT_TYPE_BUFFER, (uint64_t)out->handle, what);
        return true;
    }
    if (r == VK_ERROR_DEVICE_LOST) d->lost = true;
    return fail_result(e, r, "%s: %s of %" PRIu64 " bytes", d->physical.info.name, what, bytes);
}

void mapped_destroy(struct backend_device *d, struct mapped *m)
{
    if (m->handle) d->vk.DestroyBuffer(d->handle, m->handle, NULL);
    if (m->memory) d->vk.FreeMemory(d->handle, m->memory, NULL);
    *m = (struct mapped){0};
}

static VkMappedMemoryRange mapped_range(const struct mapped *m)
{
    return (VkMappedMemoryRange){
        .sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE,
        .memory = m->memory,
        .size = VK_WHOLE_SIZE,
    };
}

bool mapped_flush(struct backend_device *d, const struct mapped *m, struct error *e)
{
    if (!m->memory || m->coherent) return true;
    VkMappedMemoryRange range = mapped_range(m);
    VkResult r = d->vk.FlushMappedMemoryRanges(d->handle, 1, &range);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkFlushMappedMemoryRanges");
}

bool mapped_invalidate(struct backend_device *d, const struct mapped *m, struct error *e)
{
    if (!m->memory || m->coherent) return true;
    VkMappedMemoryRange range = mapped_range(m);
    VkResult r = d->vk.InvalidateMappedMemoryRanges(d->handle, 1, &range);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkInvalidateMappedMemoryRanges");
}

/* ---- device buffers ---- */

/* Device-local memory, also such that the host could see. Where the device shares the host's memory any type will do;
 * elsewhere running from host memory would be a silent hundredfold loss of speed. */
static VkResult buffer_allocate(struct backend_device *d, const VkMemoryRequirements *needs, struct buffer *b)
{
    wherry_device_type kind = d->physical.info.type;
    bool shared = kind == WHERRY_DEVICE_INTEGRATED_GPU || kind == WHERRY_DEVICE_CPU;
    VkMemoryPropertyFlags required = shared ? 0 : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    uint32_t allowed = needs->memoryTypeBits;
    VkResult r = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (;;) {
        uint32_t type = type_find(&d->physical, needs->size, allowed, required, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
        if (type == VK_MAX_MEMORY_TYPES) return r;
        r = memory_make(d, needs->size, type, &b->memory);
        if (r != VK_ERROR_OUT_OF_DEVICE_MEMORY) return r;
        allowed &= ~(1u << type);
    }
}

struct buffer *buffer_make(struct backend_device *d, uint64_t bytes, bool shared, struct error *e)
{
    if (!device_check(d, e)) return NULL;
    if (!bytes || bytes > d->physical.limits.max_buffer_bytes) {
        fail(e, bytes ? WHERRY_STATUS_OUT_OF_DEVICE_MEMORY : WHERRY_STATUS_INVALID_ARGUMENT,
             "Vulkan: %s allocates 1 to %" PRIu64 " bytes at a time, not %" PRIu64, d->physical.info.name,
             d->physical.limits.max_buffer_bytes, bytes);
        return NULL;
    }
    struct buffer *b = host_alloc(d->host, 1, sizeof *b, e);
    if (!b) return NULL;
    b->bytes = bytes;
    if (d->inert) return b;
    VkMemoryRequirements needs;
    const VkBufferUsageFlags usage =
        VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    if (!handle_make(d, bytes, usage, shared, &b->handle, &needs, "a buffer", e)) {
        vulkan_buffer_destroy(d, b);
        return NULL;
    }
    VkResult r = buffer_allocate(d, &needs, b);
    if (r == VK_SUCCESS) {
        b->allocated = needs.size;
        d->allocated += b->allocated;
        r = d->vk.BindBufferMemory(d->handle, b->handle, b->memory, 0);
    }
    if (r != VK_SUCCESS) {
        if (r == VK_ERROR_DEVICE_LOST) d->lost = true;
        fail_result(e, r, "%s: a buffer of %" PRIu64 " bytes, beside %" PRIu64 " bytes in use", d->physical.info.name,
                    bytes, d->allocated - b->allocated);
        vulkan_buffer_destroy(d, b);
        return NULL;
    }
    char name[64];
    snprintf(name, sizeof name, "buffer of %" PRIu64 " bytes", bytes);
    device_name(d, VK_OBJECT_TYPE_BUFFER, (uint64_t)b->handle, name);
    return b;
}

struct buffer *vulkan_buffer_create(struct backend_device *d, uint64_t bytes, struct error *e)
{
    return buffer_make(d, bytes, false, e);
}

void vulkan_buffer_destroy(struct backend_device *d, struct buffer *b)
{
    if (!b) return;
    if (b->handle && !d->hung) d->vk.DestroyBuffer(d->handle, b->handle, NULL);
    if (b->memory && !d->hung) d->vk.FreeMemory(d->handle, b->memory, NULL);
    d->allocated -= b->allocated;
    host_free(d->host, b);
}

/* Of the heap that buffers come from: the largest one of the device's own. */
bool vulkan_budget(struct backend_device *d, uint64_t *bytes, uint64_t *used)
{
    const VkPhysicalDeviceMemoryProperties *memory = &d->physical.memory;
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                    .pNext = &budget};
    uint32_t best = VK_MAX_MEMORY_HEAPS;
    for (uint32_t i = 0; i < memory->memoryHeapCount; i++)
        if (memory->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT &&
            (best == VK_MAX_MEMORY_HEAPS || memory->memoryHeaps[i].size > memory->memoryHeaps[best].size))
            best = i;
    if (!d->physical.budget || d->inert || best == VK_MAX_MEMORY_HEAPS) return false;
    d->instance.vk.GetPhysicalDeviceMemoryProperties2(d->physical.handle, &properties);
    *bytes = budget.heapBudget[best];
    *used = budget.heapUsage[best];
    return *bytes > 0; /* 0: a driver that has nothing to say */
}

/* ---- blocking copies ---- */

static bool transfer_ready(struct backend_device *d, const struct buffer *b, uint64_t offset, uint64_t bytes,
                           struct error *e)
{
    TRY(device_check(d, e));
    if (offset > b->bytes || bytes > b->bytes - offset) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "Vulkan: %" PRIu64 " bytes at %" PRIu64 " lie outside a buffer of %" PRIu64 " bytes", bytes, offset,
                    b->bytes);
    }
    if (d->transfer.data || !bytes) return true;
    if (mapped_create(d, transfer_bytes, VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                      VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, "transfer memory",
                      &d->transfer, e)) {
        return true;
    }
    mapped_destroy(d, &d->transfer);
    return false;
}

/* The barrier makes the copy visible to the host and to whatever the queue is given later. */
static bool copy_wait(struct backend_device *d, VkBuffer from, uint64_t from_at, VkBuffer to, uint64_t to_at,
                      uint64_t bytes, struct error *e)
{
    VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT,
    };
    VkResult r = d->vk.BeginCommandBuffer(d->copy, &begin);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkBeginCommandBuffer");
    VkBufferCopy region = {.srcOffset = from_at, .dstOffset = to_at, .size = bytes};
    d->vk.CmdCopyBuffer(d->copy, from, to, 1, &region);
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    d->vk.CmdPipelineBarrier(d->copy, VK_PIPELINE_STAGE_TRANSFER_BIT,
                             VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT |
                                 VK_PIPELINE_STAGE_TRANSFER_BIT,
                             0, 1, &barrier, 0, NULL, 0, NULL);
    r = d->vk.EndCommandBuffer(d->copy);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkEndCommandBuffer");
    VkSubmitInfo submit = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &d->copy};
    return device_submit(d, &submit, 1, copy_seconds, e);
}

static bool copy_in(struct backend_device *d, struct buffer *b, uint64_t offset, const void *data, uint64_t bytes,
                    struct error *e)
{
    TRY(device_executes_commands(d, e));
    TRY(transfer_ready(d, b, offset, bytes, e));
    for (uint64_t at = 0; at < bytes;) {
        uint64_t n = bytes - at < d->transfer.bytes ? bytes - at : d->transfer.bytes;
        memcpy(d->transfer.data, (const char *)data + at, (size_t)n);
        TRY(mapped_flush(d, &d->transfer, e));
        TRY(copy_wait(d, d->transfer.handle, 0, b->handle, offset + at, n, e));
        at += n;
    }
    return true;
}

static bool copy_out(struct backend_device *d, struct buffer *b, uint64_t offset, void *data, uint64_t bytes,
                     struct error *e)
{
    TRY(device_executes_commands(d, e));
    TRY(transfer_ready(d, b, offset, bytes, e));
    for (uint64_t at = 0; at < bytes;) {
        uint64_t n = bytes - at < d->transfer.bytes ? bytes - at : d->transfer.bytes;
        TRY(copy_wait(d, b->handle, offset + at, d->transfer.handle, 0, n, e));
        TRY(mapped_invalidate(d, &d->transfer, e));
        memcpy((char *)data + at, d->transfer.data, (size_t)n);
        at += n;
    }
    return true;
}

bool vulkan_buffer_write(struct backend_device *d, struct buffer *b, uint64_t offset, const void *data, uint64_t bytes,
                         struct error *e)
{
    /* What only compiles has no memory and runs nothing that would read it: trainers fill tables when they are made. */
    if (d->inert) return true;
    mutex_enter(&d->copying);
    bool ok = copy_in(d, b, offset, data, bytes, e);
    mutex_leave(&d->copying);
    return ok;
}

bool vulkan_buffer_read(struct backend_device *d, struct buffer *b, uint64_t offset, void *data, uint64_t bytes,
                        struct error *e)
{
    mutex_enter(&d->copying);
    bool ok = copy_out(d, b, offset, data, bytes, e);
    mutex_leave(&d->copying);
    return ok;
}
