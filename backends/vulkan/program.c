/* A schedule recorded into command buffers, and its replay: upload, steps, download in one submission. */
#include "vulkan.h"

#include <inttypes.h>
#include <string.h>

#include "backends/ticks.h"
#include "wherry/wherry_measure.h"

/* Transfers of one direction, as last recorded: the same ones are replayed. */
enum { TRANSFERS_KEPT = 16 };

struct copies {
    VkCommandBuffer commands;
    struct transfer list[TRANSFERS_KEPT];
    int n; /* of the list; -1: recorded anew for each run */
};

/* All steps, with these numbers of work-groups, so that the device need not fetch them before each step
 * (vkCmdDispatchIndirect). A session's batches are often alike. */
struct recording {
    VkCommandBuffer *batches; /* [n_batches] */
    struct grid *grids;       /* [n_steps] */
    bool made;
};

/* The steps are recorded twice, without and with timestamps, and again when a run has other numbers of work-groups, so
 * that a run like the one before records nothing. A recording consists of batches that are submitted separately, each
 * short enough for a driver's watchdog. */
struct program {
    const struct schedule *schedule;
    int *pipelines; /* [n_steps] */
    VkDescriptorPool descriptors;
    VkDescriptorSet *sets; /* [n_steps] */
    int *first;            /* [n_batches + 1]: the first step of each batch */
    uint32_t n_batches;
    bool *barriers; /* [n_steps]: a barrier before the step */
    struct mapped upload, download;
    VkQueryPool queries; /* one timestamp before each batch, one after each step; none where the queue has none */
    uint64_t *ticks;     /* [n_steps + n_batches] */
    VkCommandPool pool;
    struct copies uploads, downloads;
    struct recording plain, timed;
    VkCommandBuffer *commands; /* [n_batches + 2]: those of one run, with upload and download */
    VkSubmitInfo *submits;     /* [n_batches] */
    double seconds;            /* that a run may take */
};

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

static bool batches_divide(struct backend_device *d, struct program *p, struct error *e)
{
    const struct schedule *schedule = p->schedule;
    double limit = batch_flops(d->physical.info.type), flops = 0, total = 0;
    p->first = host_alloc(d->host, (size_t)schedule->n_steps + 1, sizeof *p->first, e);
    if (!p->first) return false;
    for (int i = 0; i < schedule->n_steps; i++) {
        if (!i || i == schedule->boundary || flops + schedule->steps[i].flops > limit) {
            p->first[p->n_batches++] = i;
            flops = 0;
        }
        flops += schedule->steps[i].flops;
        total += schedule->steps[i].flops;
    }
    p->first[p->n_batches] = schedule->n_steps;
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

static bool memory_make(struct backend_device *d, struct program *p, struct program_info *info, struct error *e)
{
    const VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    const struct schedule *schedule = p->schedule;
    if (schedule->max_upload) {
        TRY(mapped_create(d, schedule->max_upload, VK_BUFFER_USAGE_TRANSFER_SRC_BIT, cached, "upload memory",
                          &p->upload, e));
    }
    if (schedule->max_download) {
        TRY(mapped_create(d, schedule->max_download, VK_BUFFER_USAGE_TRANSFER_DST_BIT, cached, "download memory",
                          &p->download, e));
    }
    info->host_bytes = p->upload.bytes + p->download.bytes;
    if (!d->physical.timestamp_bits) return true;
    VkQueryPoolCreateInfo queries = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = (uint32_t)schedule->n_steps + p->n_batches,
    };
    p->ticks = host_alloc(d->host, queries.queryCount, sizeof *p->ticks, e);
    if (!p->ticks) return false;
    return DEVICE_CREATE(d, QueryPool, &queries, &p->queries, e);
}

/* ---- recording ---- */

static bool commands_begin(struct backend_device *d, VkCommandBuffer commands, struct error *e)
{
    VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkResult r = d->vk.BeginCommandBuffer(commands, &info);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkBeginCommandBuffer");
}

static bool commands_end(struct backend_device *d, VkCommandBuffer commands, struct error *e)
{
    VkResult r = d->vk.EndCommandBuffer(commands);
    return r == VK_SUCCESS || device_fail(d, e, r, "vkEndCommandBuffer");
}

static void barrier(struct backend_device *d, VkCommandBuffer commands, VkPipelineStageFlags from,
                    VkAccessFlags written, VkPipelineStageFlags to, VkAccessFlags used)
{
    VkMemoryBarrier memory = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = written, .dstAccessMask = used};
    d->vk.CmdPipelineBarrier(commands, from, to, 0, 1, &memory, 0, NULL, 0, NULL);
}

static void step_record(struct backend_device *d, const struct program *p, VkCommandBuffer commands, int index,
                        const struct grid *grid)
{
    const struct step *step = &p->schedule->steps[index];
    bool label = d->instance.vk.CmdBeginDebugUtilsLabelEXT && d->instance.vk.CmdEndDebugUtilsLabelEXT;
    if (label) {
        VkDebugUtilsLabelEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pLabelName = step->name};
        d->instance.vk.CmdBeginDebugUtilsLabelEXT(commands, &info);
    }
    VkPipeline pipeline = d->pipelines.list[p->pipelines[index]].handle;
    d->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    d->vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, d->pipeline_layout, 0, 1, &p->sets[index], 0,
                                NULL);
    d->vk.CmdPushConstants(commands, d->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof step->call->site,
                           &step->call->site);
    d->vk.CmdDispatch(commands, grid->x, grid->y, grid->z);
    if (label) d->instance.vk.CmdEndDebugUtilsLabelEXT(commands);
}

/* The timestamp before a batch's first step. Those after its steps follow; so a step's time includes the barrier
 * before it. */
static uint32_t batch_query(const struct program *p, uint32_t batch) { return (uint32_t)p->first[batch] + batch; }

static bool steps_record(struct backend_device *d, struct program *p, struct recording *recording,
                         const struct grid *grids, struct error *e)
{
    size_t bytes = (size_t)p->schedule->n_steps * sizeof *grids;
    bool timed = recording == &p->timed;
    if (recording->made && !memcmp(recording->grids, grids, bytes)) return true;
    recording->made = false;
    memcpy(recording->grids, grids, bytes);
    for (uint32_t batch = 0; batch < p->n_batches; batch++) {
        VkCommandBuffer commands = recording->batches[batch];
        uint32_t query = batch_query(p, batch);
        TRY(commands_begin(d, commands, e));
        if (timed) {
            d->vk.CmdResetQueryPool(commands, p->queries, query, batch_query(p, batch + 1) - query);
            d->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, p->queries, query);
        }
        for (int i = p->first[batch]; i < p->first[batch + 1]; i++) {
            if (p->barriers[i]) {
                barrier(d, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
            }
            step_record(d, p, commands, i, &grids[i]);
            if (timed) {
                d->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, p->queries, ++query);
            }
        }
        TRY(commands_end(d, commands, e));
    }
    recording->made = true;
    return true;
}

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

static bool recording_make(struct backend_device *d, struct program *p, struct recording *recording, struct error *e)
{
    return (recording->batches = host_alloc(d->host, p->n_batches, sizeof *recording->batches, e)) &&
           (recording->grids = host_alloc(d->host, (size_t)p->schedule->n_steps, sizeof *recording->grids, e)) &&
           commands_allocate(d, p, recording->batches, p->n_batches, e);
}

static bool commands_make(struct backend_device *d, struct program *p, struct error *e)
{
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = d->physical.queue_family,
    };
    TRY(DEVICE_CREATE(d, CommandPool, &pool, &p->pool, e));
    TRY(commands_allocate(d, p, &p->uploads.commands, 1, e));
    TRY(commands_allocate(d, p, &p->downloads.commands, 1, e));
    p->uploads.n = p->downloads.n = -1;
    if (!(p->commands = host_alloc(d->host, (size_t)p->n_batches + 2, sizeof *p->commands, e)) ||
        !(p->submits = host_alloc(d->host, p->n_batches, sizeof *p->submits, e)))
        return false;
    return recording_make(d, p, &p->plain, e) && (!p->queries || recording_make(d, p, &p->timed, e));
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
    if (!p->pipelines || !pipelines_make(d, schedule, p->pipelines, progress, user, info, e) ||
        !batches_divide(d, p, e) || !sets_make(d, p, e) || !memory_make(d, p, info, e) || !barriers_make(d, p, e) ||
        !commands_make(d, p, e)) {
        vulkan_program_destroy(d, p);
        return NULL;
    }
    return p;
}

void vulkan_program_destroy(struct backend_device *d, struct program *p)
{
    if (!p) return;
    if (!d->hung) {
        if (p->pool) d->vk.DestroyCommandPool(d->handle, p->pool, NULL);
        if (p->queries) d->vk.DestroyQueryPool(d->handle, p->queries, NULL);
        if (p->descriptors) d->vk.DestroyDescriptorPool(d->handle, p->descriptors, NULL);
        mapped_destroy(d, &p->upload);
        mapped_destroy(d, &p->download);
    }
    host_free(d->host, p->plain.batches);
    host_free(d->host, p->plain.grids);
    host_free(d->host, p->timed.batches);
    host_free(d->host, p->timed.grids);
    host_free(d->host, p->barriers);
    host_free(d->host, p->commands);
    host_free(d->host, p->submits);
    host_free(d->host, p->ticks);
    host_free(d->host, p->first);
    host_free(d->host, p->sets);
    host_free(d->host, p->pipelines);
    host_free(d->host, p);
}

void vulkan_program_usage(const struct backend_device *d, const struct program *p, int step, struct kernel_usage *out)
{
    *out = d->pipelines.list[p->pipelines[step]].usage;
}

/* ---- running ---- */

static bool transfers_check(const struct transfer *list, int n, const struct mapped *memory, const char *what,
                            struct error *e)
{
    uint64_t total = 0;
    for (int i = 0; i < n; i++) {
        const struct transfer *t = &list[i];
        if (t->offset > t->buffer->bytes || t->bytes > t->buffer->bytes - t->offset) {
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "Vulkan: %s %d: %" PRIu64 " bytes at %" PRIu64 " lie outside a buffer of %" PRIu64 " bytes",
                        what, i, t->bytes, t->offset, t->buffer->bytes);
        }
        if (t->bytes > memory->bytes - total) {
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "Vulkan: the %ss of a run are more than the %" PRIu64 " bytes of its schedule", what,
                        memory->bytes);
        }
        total += t->bytes;
    }
    return true;
}

static bool grids_check(const struct backend_device *d, const struct program *p, const struct grid *grids,
                        struct error *e)
{
    const uint32_t *max = d->physical.max_groups;
    for (int i = 0; i < p->schedule->n_steps; i++) {
        const struct grid *g = &grids[i];
        if (g->x <= max[0] && g->y <= max[1] && g->z <= max[2]) continue;
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "Vulkan: step %s wants %u x %u x %u work-groups, %s runs at most %u x %u x %u; use smaller batches",
                    p->schedule->steps[i].name, (unsigned)g->x, (unsigned)g->y, (unsigned)g->z, d->physical.info.name,
                    (unsigned)max[0], (unsigned)max[1], (unsigned)max[2]);
    }
    return true;
}

static bool copies_same(const struct copies *copies, const struct transfer *list, int n)
{
    bool same = copies->n == n;
    for (int i = 0; i < n && same; i++) {
        const struct transfer *a = &copies->list[i], *b = &list[i];
        same = a->buffer == b->buffer && a->offset == b->offset && a->bytes == b->bytes;
    }
    return same;
}

static void copies_keep(struct copies *copies, const struct transfer *list, int n)
{
    copies->n = n <= TRANSFERS_KEPT ? n : -1;
    if (copies->n > 0) memcpy(copies->list, list, (size_t)n * sizeof *list);
}

static bool upload_record(struct backend_device *d, struct program *p, const struct run *run, struct error *e)
{
    VkCommandBuffer commands = p->uploads.commands;
    uint64_t at = 0;
    if (copies_same(&p->uploads, run->uploads, run->n_uploads)) return true;
    p->uploads.n = -1;
    TRY(commands_begin(d, commands, e));
    for (int i = 0; i < run->n_uploads; i++) {
        const struct transfer *t = &run->uploads[i];
        if (!t->bytes) continue;
        VkBufferCopy region = {.srcOffset = at, .dstOffset = t->offset, .size = t->bytes};
        d->vk.CmdCopyBuffer(commands, p->upload.handle, t->buffer->handle, 1, &region);
        at += t->bytes;
    }
    if (at) {
        barrier(d, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    TRY(commands_end(d, commands, e));
    copies_keep(&p->uploads, run->uploads, run->n_uploads);
    return true;
}

/* The last barrier also makes all that the steps wrote visible to the next submission. */
static bool download_record(struct backend_device *d, struct program *p, const struct run *run, struct error *e)
{
    VkCommandBuffer commands = p->downloads.commands;
    uint64_t at = 0;
    if (copies_same(&p->downloads, run->downloads, run->n_downloads)) return true;
    p->downloads.n = -1;
    TRY(commands_begin(d, commands, e));
    for (int i = 0; i < run->n_downloads; i++) {
        const struct transfer *t = &run->downloads[i];
        if (!t->bytes) continue;
        if (!at) {
            barrier(d, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                    VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
        }
        VkBufferCopy region = {.srcOffset = t->offset, .dstOffset = at, .size = t->bytes};
        d->vk.CmdCopyBuffer(commands, t->buffer->handle, p->download.handle, 1, &region);
        at += t->bytes;
    }
    barrier(d, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    TRY(commands_end(d, commands, e));
    copies_keep(&p->downloads, run->downloads, run->n_downloads);
    return true;
}

/* Batches `from` to `end` - 1. */
static bool timestamps_read(struct backend_device *d, struct program *p, uint32_t from, uint32_t end,
                            const struct run *run, struct error *e)
{
    uint32_t query = batch_query(p, from), n = batch_query(p, end) - query;
    const struct device_limits *limits = &d->physical.limits;
    bool any = false, moved = false;
    uint64_t *at = p->ticks;
    VkResult r = d->vk.GetQueryPoolResults(d->handle, p->queries, query, n, n * sizeof *p->ticks, p->ticks,
                                           sizeof *p->ticks, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkGetQueryPoolResults");
    for (uint32_t batch = from; batch < end; batch++, at++) {
        for (int i = p->first[batch]; i < p->first[batch + 1]; i++, at++) {
            uint64_t ticks;
            if (!ticks_elapsed(at[0], at[1], limits->timer_bits, &ticks)) {
                return fail_timer(e, WHERRY_TIMER_BACKWARDS, "Vulkan: %s: timestamps ran backwards at step %s",
                                  d->physical.info.name, p->schedule->steps[i].name);
            }
            const struct grid *grid = &run->grids[i];
            any = any || (grid->x && grid->y && grid->z);
            moved = moved || ticks;
            run->step_seconds[i] = (double)ticks * limits->timer_seconds;
        }
    }
    if (!any || moved) return true;
    return fail_timer(e, WHERRY_TIMER_STUCK, "Vulkan: %s: timestamps stand still: its steps can't be timed",
                      d->physical.info.name);
}

/* The batch that begins with this step. */
static bool batch_find(const struct program *p, int step, uint32_t *batch, struct error *e)
{
    for (*batch = 0; *batch <= p->n_batches; ++*batch)
        if (p->first[*batch] == step) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: a run can't begin or end at step %d", step);
}

/* One submission per batch; the transfers ride with the first and the last. */
static void submits_fill(struct program *p, const VkCommandBuffer *recording, uint32_t from, uint32_t end)
{
    uint32_t n = end - from;
    p->commands[0] = p->uploads.commands;
    memcpy(p->commands + 1, recording + from, n * sizeof *recording);
    p->commands[1 + n] = p->downloads.commands;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = i ? 1 + i : 0, last = i + 1 < n ? 2 + i : n + 2;
        p->submits[i] = (VkSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
            .commandBufferCount = last - first,
            .pCommandBuffers = p->commands + first,
        };
    }
}

bool vulkan_program_run(struct backend_device *d, struct program *p, const struct run *run, struct error *e)
{
    TRY(device_check(d, e));
    bool timed = run->step_seconds;
    if (timed && !p->queries) {
        return fail_timer(e, WHERRY_TIMER_ABSENT, "Vulkan: %s has no timestamps: its steps can't be timed",
                          d->physical.info.name);
    }
    TRY(transfers_check(run->uploads, run->n_uploads, &p->upload, "upload", e));
    TRY(transfers_check(run->downloads, run->n_downloads, &p->download, "download", e));
    TRY(grids_check(d, p, run->grids, e));
    uint32_t from, end;
    TRY(batch_find(p, run->first, &from, e) && batch_find(p, run->end ? run->end : p->schedule->n_steps, &end, e));
    if (from >= end) return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: a run of no steps");

    struct recording *recording = timed ? &p->timed : &p->plain;
    TRY(steps_record(d, p, recording, run->grids, e));
    char *to = p->upload.data;
    for (int i = 0; i < run->n_uploads; i++) {
        if (!run->uploads[i].bytes) continue;
        memcpy(to, run->uploads[i].host, (size_t)run->uploads[i].bytes);
        to += run->uploads[i].bytes;
    }
    TRY(mapped_flush(d, &p->upload, e));
    TRY(upload_record(d, p, run, e));
    TRY(download_record(d, p, run, e));
    submits_fill(p, recording->batches, from, end);
    TRY(device_submit(d, p->submits, end - from, p->seconds, e));

    TRY(mapped_invalidate(d, &p->download, e));
    const char *data = p->download.data;
    for (int i = 0; i < run->n_downloads; i++) {
        if (!run->downloads[i].bytes) continue;
        memcpy(run->downloads[i].host, data, (size_t)run->downloads[i].bytes);
        data += run->downloads[i].bytes;
    }
    return !timed || timestamps_read(d, p, from, end, run, e);
}
