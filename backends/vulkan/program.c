/* Makes programs of schedules: pipelines, descriptors, staging memory, barriers, command buffers. run.c records and
 * runs them. */
#include "program.h"

#include <inttypes.h>
#include <string.h>

/* ---- how long things take, very roughly ---- */

/* Floating-point operations of one submission: about 100 ms on a slow device of its kind. A CPU has no watchdog. */
static double batch_flops(wherry_device_type type)
{
    switch (type) {
    case WHERRY_DEVICE_CPU:
        return 1e300;
    case WHERRY_DEVICE_DISCRETE_GPU:
        return 4e11;
    default:
        return 3e10;
    }
}

/* Operations a second that even a bad kernel on the slowest device of its kind reaches: after that a device is hung. */
static double least_speed(wherry_device_type type)
{
    switch (type) {
    case WHERRY_DEVICE_CPU:
        return 1e7;
    case WHERRY_DEVICE_DISCRETE_GPU:
        return 1e10;
    default:
        return 5e8;
    }
}

static bool dispatches_list(struct backend_device *d, struct program *p, struct error *e)
{
    const struct schedule *schedule = p->schedule;
    size_t n = 0;
    for (int i = 0; i < schedule->n_steps; i++) n += launch_count_most(&schedule->steps[i]);
    p->dispatches = host_alloc(d->host, n, sizeof *p->dispatches, e);
    p->first = p->dispatches ? host_alloc(d->host, n + 1, sizeof *p->first, e) : NULL;
    for (int i = 0; p->first && i < schedule->n_steps; i++)
        for (uint32_t part = 0; part < launch_count_most(&schedule->steps[i]); part++)
            p->dispatches[p->n_dispatches++] = (struct dispatch){i, part};
    return p->first != NULL;
}

/* Whether a run may begin with this step, or a submission has to: each part of a divided one is a submission. */
static bool step_begins(const struct schedule *s, int i)
{
    return !i || s->divided || i == s->boundary || (s->ends && s->ends[i - 1]) || launch_count_most(&s->steps[i]) > 1 ||
           launch_count_most(&s->steps[i - 1]) > 1;
}

static bool batches_divide(struct backend_device *d, struct program *p, struct error *e)
{
    const struct schedule *schedule = p->schedule;
    double limit = batch_flops(d->physical.info.type), flops = 0, total = 0;
    if (!dispatches_list(d, p, e)) return false;
    for (uint32_t at = 0; at < p->n_dispatches; at++) {
        const struct step *step = &schedule->steps[p->dispatches[at].step];
        const double its = step->flops / launch_count_most(step);
        if (p->dispatches[at].part || step_begins(schedule, p->dispatches[at].step) || flops + its > limit) {
            p->first[p->n_batches++] = at;
            flops = 0;
        }
        flops += its;
        total += its;
    }
    p->first[p->n_batches] = p->n_dispatches;
    /* Software drivers generate code when a kernel is first run, seconds for a large one. */
    p->seconds = (d->physical.info.type == WHERRY_DEVICE_CPU ? 60 + 10 * schedule->n_steps : 60) +
                 total / least_speed(d->physical.info.type);
    return true;
}

/* ---- descriptors ---- */

static const struct binding *binding_find(const struct step *step, uint8_t slot)
{
    for (int i = 0; i < step->n_bindings; i++) {
        if (step->bindings[i].slot == slot) return &step->bindings[i];
    }
    return NULL;
}

/* Every slot gets a valid buffer, for a shader declares more than this call uses: those get the step's own output,
 * whose hazards are minded whatever is done with it. */
static bool set_fill(struct backend_device *d, const struct step *step, VkDescriptorSet set, struct error *e)
{
    const struct binding *y = NULL;
    for (int i = 0; i < step->n_bindings; i++) {
        if (step->bindings[i].written) y = &step->bindings[i];
    }
    if (!binding_find(step, SLOT_BATCH) || !y) {
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: step %s lacks its batch header or its output",
                    step->name);
    }
    VkDescriptorBufferInfo buffers[SLOT_COUNT];
    VkWriteDescriptorSet writes[SLOT_COUNT];
    for (uint8_t slot = 0; slot < SLOT_COUNT; slot++) {
        const struct binding *b = binding_find(step, slot);
        if (!b) b = y;
        if (!b->bytes || b->offset > b->buffer->bytes || b->bytes > b->buffer->bytes - b->offset ||
            b->bytes > d->physical.limits.max_binding_bytes) {
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "Vulkan: step %s: argument %d covers %" PRIu64 " bytes at %" PRIu64 " of a buffer of %" PRIu64
                        "; an argument covers 1 to %" PRIu64 " bytes here",
                        step->name, (int)slot, b->bytes, b->offset, b->buffer->bytes,
                        d->physical.limits.max_binding_bytes);
        }
        buffers[slot] = (VkDescriptorBufferInfo){b->buffer->handle, b->offset, b->bytes};
        writes[slot] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = set,
            .dstBinding = slot,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &buffers[slot],
        };
    }
    d->vk.UpdateDescriptorSets(d->handle, SLOT_COUNT, writes, 0, NULL);
    device_name(d, VK_OBJECT_TYPE_DESCRIPTOR_SET, (uint64_t)set, step->name);
    return true;
}

static bool sets_make(struct backend_device *d, struct program *p, struct error *e)
{
    const struct schedule *schedule = p->schedule;
    uint32_t n = (uint32_t)schedule->n_steps;
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n * SLOT_COUNT};
    VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = n,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    p->sets = host_alloc(d->host, n, sizeof *p->sets, e);
    if (!p->sets) return false;
    TRY(DEVICE_CREATE(d, DescriptorPool, &pool, &p->descriptors, e));
    for (uint32_t i = 0; i < n; i++) {
        VkDescriptorSetAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
            .descriptorPool = p->descriptors,
            .descriptorSetCount = 1,
            .pSetLayouts = &d->set_layout,
        };
        VkResult r = d->vk.AllocateDescriptorSets(d->handle, &info, &p->sets[i]);
        if (r != VK_SUCCESS) return device_fail(d, e, r, "vkAllocateDescriptorSets");
        TRY(set_fill(d, &schedule->steps[i], p->sets[i], e));
    }
    return true;
}

/* ---- memory ---- */

static bool staging_make(struct backend_device *d, const struct schedule *schedule, struct slot *slot, struct error *e)
{
    const VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    if (schedule->max_upload) {
        TRY(mapped_create(d, schedule->max_upload, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, cached, "upload memory",
                          &slot->upload, e));
    }
    if (schedule->max_download) {
        TRY(mapped_create(d, schedule->max_download, VK_BUFFER_USAGE_TRANSFER_DST_BIT, cached, "download memory",
                          &slot->download, e));
    }
    return true;
}

static bool queries_make(struct backend_device *d, struct program *p, struct error *e)
{
    if (!d->physical.timestamp_bits) return true;
    VkQueryPoolCreateInfo queries = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = p->n_dispatches + p->n_batches,
    };
    p->ticks = host_alloc(d->host, queries.queryCount, sizeof *p->ticks, e);
    if (!p->ticks) return false;
    return DEVICE_CREATE(d, QueryPool, &queries, &p->queries, e);
}

/* ---- barriers and command buffers ---- */

/* Where a barrier must stand: all of them, if the schedule is to run in order. */
static bool barriers_make(struct backend_device *d, struct program *p, struct error *e)
{
    const struct schedule *schedule = p->schedule;
    struct hazards hazards = {0};
    size_t accesses = 0;
    for (int i = 0; i < schedule->n_steps; i++) accesses += (size_t)schedule->steps[i].n_bindings;
    hazards.list = host_alloc(d->host, accesses, sizeof *hazards.list, e);
    p->barriers = host_alloc(d->host, (size_t)schedule->n_steps, sizeof *p->barriers, e);
    for (int i = 0; hazards.list && p->barriers && i < schedule->n_steps; i++) {
        const struct step *step = &schedule->steps[i];
        if (schedule->ordered) hazards.count = 0;
        p->barriers[i] = hazards_step(&hazards, step->bindings, step->n_bindings) || schedule->ordered;
    }
    host_free(d->host, hazards.list);
    return hazards.list && p->barriers;
}

static bool commands_allocate(struct backend_device *d, struct program *p, VkCommandBuffer *out, uint32_t n,
                              struct error *e)
{
    VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = p->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = n,
    };
    VkResult r = d->vk.AllocateCommandBuffers(d->handle, &info, out);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkAllocateCommandBuffers");
}

/* A failure leaves nothing of it. */
static bool recording_make(struct backend_device *d, struct program *p, struct recording *recording, struct error *e)
{
    recording->batches = host_alloc(d->host, p->n_batches, sizeof *recording->batches, e);
    recording->grids =
        recording->batches ? host_alloc(d->host, (size_t)p->schedule->n_steps, sizeof *recording->grids, e) : NULL;
    if (recording->grids && commands_allocate(d, p, recording->batches, p->n_batches, e)) return true;
    host_free(d->host, recording->batches);
    host_free(d->host, recording->grids);
    *recording = (struct recording){0};
    return false;
}

static bool pool_make(struct backend_device *d, struct program *p, struct error *e)
{
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = d->physical.queue_family,
    };
    return DEVICE_CREATE(d, CommandPool, &pool, &p->pool, e);
}

/* A slot that was made in part, is made anew with the next try: nothing is made twice. */
bool slot_make(struct backend_device *d, struct program *p, struct slot *slot, struct error *e)
{
    if (slot->made) return true;
    const VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (!slot->upload.memory && !slot->download.memory && !staging_make(d, p->schedule, slot, e)) {
        mapped_destroy(d, &slot->upload);
        mapped_destroy(d, &slot->download);
        return false;
    }
    if (!slot->fence) TRY(DEVICE_CREATE(d, Fence, &fence, &slot->fence, e));
    if (!slot->uploads.commands) TRY(commands_allocate(d, p, &slot->uploads.commands, 1, e));
    if (!slot->downloads.commands) TRY(commands_allocate(d, p, &slot->downloads.commands, 1, e));
    slot->uploads.n = slot->downloads.n = -1;
    if (!slot->commands) slot->commands = host_alloc(d->host, (size_t)p->n_batches + 2, sizeof *slot->commands, e);
    if (slot->commands && !slot->submits) slot->submits = host_alloc(d->host, p->n_batches, sizeof *slot->submits, e);
    slot->made = slot->submits && recording_make(d, p, &slot->plain, e);
    return slot->made;
}

static void slot_destroy(struct backend_device *d, struct slot *slot)
{
    if (!d->hung) {
        if (slot->fence) d->vk.DestroyFence(d->handle, slot->fence, NULL);
        mapped_destroy(d, &slot->upload);
        mapped_destroy(d, &slot->download);
    }
    crossing_destroy(d, slot);
    host_free(d->host, slot->plain.batches);
    host_free(d->host, slot->plain.grids);
    host_free(d->host, slot->commands);
    host_free(d->host, slot->submits);
}

/* ---- life ---- */

struct program *vulkan_program_create(struct backend_device *d, const struct schedule *schedule,
                                      wherry_progress progress, void *user, struct program_info *info, struct error *e)
{
    *info = (struct program_info){0};
    if (!device_check(d, e)) return NULL;
    if (schedule->n_steps < 1) {
        fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: a schedule without steps");
        return NULL;
    }
    struct program *p = host_alloc(d->host, 1, sizeof *p, e);
    if (!p) return NULL;
    p->schedule = schedule;
    p->pipelines = host_alloc(d->host, (size_t)schedule->n_steps, sizeof *p->pipelines, e);
    const bool compiled = p->pipelines && pipelines_make(d, schedule, p->pipelines, progress, user, info, e);
    if (compiled && d->inert) return p;
    if (!compiled || !batches_divide(d, p, e) || !sets_make(d, p, e) || !queries_make(d, p, e) ||
        !barriers_make(d, p, e) || !pool_make(d, p, e) || !slot_make(d, p, &p->slots[0], e) ||
        (p->queries && !recording_make(d, p, &p->timed, e))) {
        vulkan_program_destroy(d, p);
        return NULL;
    }
    info->host_bytes = p->slots[0].upload.bytes + p->slots[0].download.bytes;
    return p;
}

void vulkan_program_destroy(struct backend_device *d, struct program *p)
{
    if (!p) return;
    if (!d->hung) {
        if (p->pool) d->vk.DestroyCommandPool(d->handle, p->pool, NULL);
        if (p->transfer_pool) d->vk.DestroyCommandPool(d->handle, p->transfer_pool, NULL);
        if (p->queries) d->vk.DestroyQueryPool(d->handle, p->queries, NULL);
        if (p->descriptors) d->vk.DestroyDescriptorPool(d->handle, p->descriptors, NULL);
    }
    for (int i = 0; i < RUN_SLOTS_MOST; i++) slot_destroy(d, &p->slots[i]);
    host_free(d->host, p->timed.batches);
    host_free(d->host, p->timed.grids);
    host_free(d->host, p->barriers);
    host_free(d->host, p->ticks);
    host_free(d->host, p->first);
    host_free(d->host, p->dispatches);
    host_free(d->host, p->sets);
    host_free(d->host, p->pipelines);
    host_free(d->host, p);
}

void vulkan_program_usage(struct backend_device *d, const struct program *p, int step, struct kernel_usage *out)
{
    *out = pipelines_usage(d, p->pipelines[step]);
}
