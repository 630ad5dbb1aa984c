/* Runs a program: its steps and transfers as they are recorded into command buffers, their submission (upload, steps,
 * download at once), and what waits for it. */
#include "program.h"

#include <inttypes.h>
#include <string.h>

#include "backends/ticks.h"
#include "base/platform.h"
#include "interface/interface.h"
#include "wherry/wherry_measure.h"

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
                        const struct launch_part *range)
{
    const struct grid *grid = &range->grid;
    const struct step *step = &p->schedule->steps[index];
    bool label = d->instance.vk.CmdBeginDebugUtilsLabelEXT && d->instance.vk.CmdEndDebugUtilsLabelEXT;
    if (label) {
        VkDebugUtilsLabelEXT info = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT, .pLabelName = step->name};
        d->instance.vk.CmdBeginDebugUtilsLabelEXT(commands, &info);
    }
    VkPipeline pipeline = pipelines_handle(d, p->pipelines[index]);
    d->vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    d->vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, d->pipeline_layout, 0, 1, &p->sets[index], 0,
                                NULL);
    const struct pushed pushed = {step->call->site, range->first};
    d->vk.CmdPushConstants(commands, d->pipeline_layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof pushed, &pushed);
    d->vk.CmdDispatch(commands, grid->x, grid->y, grid->z);
    if (label) d->instance.vk.CmdEndDebugUtilsLabelEXT(commands);
}

/* A batch of a run that is shorter than its session's limits may have nothing of a divided step. */
static bool batch_works(const struct program *p, uint32_t batch, const struct grid *grids)
{
    const struct dispatch *first = &p->dispatches[p->first[batch]];
    return first->part < launch_count(&p->schedule->steps[first->step], &grids[first->step]);
}

static void dispatch_record(struct backend_device *d, const struct program *p, VkCommandBuffer commands,
                            const struct dispatch *dispatch, const struct grid *grids)
{
    const int i = dispatch->step;
    const struct launch_part range = launch_part(&p->schedule->steps[i], &grids[i], dispatch->part);
    if (p->barriers[i] && !dispatch->part) {
        barrier(d, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    step_record(d, p, commands, i, &range);
}

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
        const bool works = batch_works(p, batch, grids);
        for (uint32_t i = p->first[batch]; i < p->first[batch + 1]; i++) {
            if (works) dispatch_record(d, p, commands, &p->dispatches[i], grids);
            if (timed) {
                d->vk.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, p->queries, ++query);
            }
        }
        TRY(commands_end(d, commands, e));
    }
    recording->made = true;
    return true;
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
        if (t->outside) continue;
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

static bool copies_same(const struct copies *copies, const struct transfer *list, int n, bool crosses)
{
    bool same = copies->n == n && copies->crosses == crosses;
    for (int i = 0; i < n && same; i++) {
        const struct transfer *a = &copies->list[i], *b = &list[i];
        same = !b->outside && a->buffer == b->buffer && a->offset == b->offset && a->bytes == b->bytes;
    }
    return same;
}

static void copies_keep(struct copies *copies, const struct transfer *list, int n, bool crosses)
{
    copies->crosses = crosses;
    copies->n = n <= TRANSFERS_KEPT ? n : -1;
    if (copies->n > 0) memcpy(copies->list, list, (size_t)n * sizeof *list);
    for (int i = 0; i < n; i++)
        if (list[i].outside) copies->n = -1;
}

/* Rows in a buffer of the application's and side by side in ours, one way or the other. */
static void outside_record(struct backend_device *d, VkCommandBuffer commands, const struct transfer *t, bool upload)
{
    enum { REGIONS = 64 };
    const struct outside_rows *o = t->outside;
    const bool whole = o->step == o->row;
    const uint64_t rows = whole ? 1 : o->rows, bytes = whole ? t->bytes : o->row;
    VkBufferCopy regions[REGIONS];
    for (uint64_t r = 0; r < rows;) {
        uint32_t n = 0;
        for (; n < REGIONS && r < rows; n++, r++) {
            const uint64_t there = o->offset + r * o->step, here = t->offset + r * o->row;
            regions[n] = (VkBufferCopy){upload ? there : here, upload ? here : there, bytes};
        }
        VkBuffer other = (VkBuffer)o->buffer;
        d->vk.CmdCopyBuffer(commands, upload ? other : t->buffer->handle, upload ? t->buffer->handle : other, n,
                            regions);
    }
}

static bool upload_record(struct backend_device *d, struct slot *slot, const struct run *run, bool crosses,
                          struct error *e)
{
    const struct buffer *across = slot->crossing.upload;
    VkBuffer from = crosses && across ? across->handle : slot->upload.handle;
    VkCommandBuffer commands = slot->uploads.commands;
    uint64_t at = 0;
    bool any = false;
    if (copies_same(&slot->uploads, run->uploads, run->n_uploads, crosses)) return true;
    slot->uploads.n = -1;
    TRY(commands_begin(d, commands, e));
    for (int i = 0; i < run->n_uploads; i++) {
        const struct transfer *t = &run->uploads[i];
        if (!t->bytes) continue;
        any = true;
        if (t->outside) {
            outside_record(d, commands, t, true);
            continue;
        }
        VkBufferCopy region = {.srcOffset = at, .dstOffset = t->offset, .size = t->bytes};
        d->vk.CmdCopyBuffer(commands, from, t->buffer->handle, 1, &region);
        at += t->bytes;
    }
    if (any) {
        barrier(d, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    }
    TRY(commands_end(d, commands, e));
    copies_keep(&slot->uploads, run->uploads, run->n_uploads, crosses);
    return true;
}

/* The last barrier also makes all that the steps wrote visible to the next submission. */
static bool download_record(struct backend_device *d, struct slot *slot, const struct run *run, bool crosses,
                            struct error *e)
{
    const struct buffer *across = slot->crossing.download;
    VkBuffer to = crosses && across ? across->handle : slot->download.handle;
    VkCommandBuffer commands = slot->downloads.commands;
    uint64_t at = 0;
    bool any = false;
    if (copies_same(&slot->downloads, run->downloads, run->n_downloads, crosses)) return true;
    slot->downloads.n = -1;
    TRY(commands_begin(d, commands, e));
    for (int i = 0; i < run->n_downloads; i++) {
        const struct transfer *t = &run->downloads[i];
        if (!t->bytes) continue;
        if (!any) {
            barrier(d, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                    VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
        }
        any = true;
        if (t->outside) {
            outside_record(d, commands, t, false);
            continue;
        }
        VkBufferCopy region = {.srcOffset = t->offset, .dstOffset = at, .size = t->bytes};
        d->vk.CmdCopyBuffer(commands, t->buffer->handle, to, 1, &region);
        at += t->bytes;
    }
    barrier(d, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
            VK_ACCESS_HOST_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    TRY(commands_end(d, commands, e));
    copies_keep(&slot->downloads, run->downloads, run->n_downloads, crosses);
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
    const struct dispatch *of = p->dispatches + p->first[from];
    VkResult r = d->vk.GetQueryPoolResults(d->handle, p->queries, query, n, n * sizeof *p->ticks, p->ticks,
                                           sizeof *p->ticks, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (r != VK_SUCCESS) return device_fail(d, e, r, "vkGetQueryPoolResults");
    for (uint32_t batch = from; batch < end; batch++, at++) {
        for (uint32_t i = p->first[batch]; i < p->first[batch + 1]; i++, at++, of++) {
            uint64_t ticks;
            if (!ticks_elapsed(at[0], at[1], limits->timer_bits, &ticks)) {
                return fail_timer(e, WHERRY_TIMER_BACKWARDS, "Vulkan: %s: timestamps ran backwards at step %s",
                                  d->physical.info.name, p->schedule->steps[of->step].name);
            }
            const struct grid *grid = &run->grids[of->step];
            any = any || (grid->x && grid->y && grid->z);
            moved = moved || ticks;
            if (!of->part) run->step_seconds[of->step] = 0;
            run->step_seconds[of->step] += (double)ticks * limits->timer_seconds;
        }
    }
    if (!any || moved) return true;
    return fail_timer(e, WHERRY_TIMER_STUCK, "Vulkan: %s: timestamps stand still: its steps can't be timed",
                      d->physical.info.name);
}

/* The batch that begins with this step. */
static bool batch_find(const struct program *p, int step, uint32_t *batch, struct error *e)
{
    for (*batch = 0; *batch < p->n_batches; ++*batch) {
        const struct dispatch *first = &p->dispatches[p->first[*batch]];
        if (first->step == step && !first->part) return true;
    }
    if (step == p->schedule->n_steps) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: a run can't begin or end at step %d", step);
}

/* One submission per batch that has something to do, or timestamps; the transfers ride with the first and the last. */
static void submits_fill(const struct program *p, struct slot *slot, const struct recording *recording)
{
    uint32_t n = 0;
    slot->commands[0] = slot->uploads.commands;
    for (uint32_t batch = slot->from; batch < slot->end; batch++)
        if (recording == &p->timed || batch_works(p, batch, recording->grids))
            slot->commands[1 + n++] = recording->batches[batch];
    slot->commands[1 + n] = slot->downloads.commands;
    slot->n_submits = n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = i ? 1 + i : 0, last = i + 1 < n ? 2 + i : n + 2;
        slot->submits[i] = (VkSubmitInfo){
            .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
            .commandBufferCount = last - first,
            .pCommandBuffers = slot->commands + first,
        };
    }
}

/* Values are told where there is a timeline among them: a device that has none need not know of them. */
static void link_values(struct outside_link *link, VkSubmitInfo *submit)
{
    bool any = false;
    for (uint32_t i = 0; i < submit->waitSemaphoreCount; i++) any |= link->wait_values[i] != 0;
    for (uint32_t i = 0; i < submit->signalSemaphoreCount; i++) any |= link->signal_values[i] != 0;
    if (!any) return;
    link->values = (VkTimelineSemaphoreSubmitInfo){
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .waitSemaphoreValueCount = submit->waitSemaphoreCount,
        .pWaitSemaphoreValues = link->wait_values,
        .signalSemaphoreValueCount = submit->signalSemaphoreCount,
        .pSignalSemaphoreValues = link->signal_values,
    };
    submit->pNext = &link->values;
}

/* The application's semaphores: the first submission waits for what is before the run, the last one signals. */
static void submits_link(struct slot *slot, const struct run *run)
{
    const uint32_t n = slot->n_submits;
    VkSubmitInfo *first = &slot->submits[0], *last = &slot->submits[n - 1];
    struct outside_link *end = n > 1 ? &slot->last : &slot->first;
    for (int i = 0; run->before && i < run->before->n_before; i++) {
        slot->first.waits[i] = (VkSemaphore)run->before->before[i].handle;
        slot->first.wait_values[i] = run->before->before[i].value;
        slot->first.stages[i] = VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
        first->waitSemaphoreCount++;
    }
    for (int i = 0; run->after && i < run->after->n_after; i++) {
        end->signals[i] = (VkSemaphore)run->after->after[i].handle;
        end->signal_values[i] = run->after->after[i].value;
        last->signalSemaphoreCount++;
    }
    first->pWaitSemaphores = slot->first.waits;
    first->pWaitDstStageMask = slot->first.stages;
    last->pSignalSemaphores = end->signals;
    link_values(&slot->first, first);
    if (n > 1) link_values(&slot->last, last);
}

static bool run_check(struct backend_device *d, const struct program *p, struct slot *slot, const struct run *run,
                      struct error *e)
{
    if (run->step_seconds && !p->queries) {
        return fail_timer(e, WHERRY_TIMER_ABSENT, "Vulkan: %s has no timestamps: its steps can't be timed",
                          d->physical.info.name);
    }
    TRY(transfers_check(run->uploads, run->n_uploads, &slot->upload, "upload", e));
    TRY(transfers_check(run->downloads, run->n_downloads, &slot->download, "download", e));
    TRY(grids_check(d, p, run->grids, e));
    TRY(batch_find(p, run->first, &slot->from, e) &&
        batch_find(p, run->end ? run->end : p->schedule->n_steps, &slot->end, e));
    return slot->from < slot->end || fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "Vulkan: a run of no steps");
}

/* Those of the runs before: the other queue is given them behind the next one's upload. One that can't be submitted is
 * tried again by whoever waits for it. */
static void downloads_pending(struct backend_device *d, struct program *p, const struct slot *but)
{
    struct error ignored;
    for (int i = 0; i < RUN_SLOTS_MOST; i++)
        if (&p->slots[i] != but) crossing_download(d, &p->slots[i], &ignored);
}

bool vulkan_program_submit(struct backend_device *d, struct program *p, const struct run *run, int index,
                           struct error *e)
{
    TRY(device_check(d, e) && device_executes_commands(d, e));
    struct slot *slot = &p->slots[index];
    const bool crosses = crossing_takes(d, run);
    TRY(slot_make(d, p, slot, e));
    TRY(!crosses || crossing_make(d, p, slot, e));
    TRY(run_check(d, p, slot, run, e));
    struct recording *recording = run->step_seconds ? &p->timed : &slot->plain;
    TRY(steps_record(d, p, recording, run->grids, e));
    char *to = slot->upload.data;
    for (int i = 0; i < run->n_uploads; i++) {
        if (!run->uploads[i].bytes || run->uploads[i].outside) continue;
        memcpy(to, run->uploads[i].host, (size_t)run->uploads[i].bytes);
        to += run->uploads[i].bytes;
    }
    TRY(mapped_flush(d, &slot->upload, e));
    TRY(upload_record(d, slot, run, crosses, e));
    TRY(download_record(d, slot, run, crosses, e));
    submits_fill(p, slot, recording);
    if (run->before || run->after) submits_link(slot, run);
    const bool copied = run->copied && d->beside && !crosses && !run->after;
    TRY(!copied || copies_follow(d, &slot->submits[slot->n_submits - 1], e));
    TRY(crosses ? crossing_submit(d, slot, run, e)
                : device_queue(d, d->queue, slot->submits, slot->n_submits, slot->fence, e));
    d->computed_last = copied && slot->submits[slot->n_submits - 1].signalSemaphoreCount;
    downloads_pending(d, p, slot);
    slot->run = run;
    slot->started = clock_ns();
    if (run->before && run->before->n_before) d->held++;
    return true;
}

bool vulkan_program_wait(struct backend_device *d, struct program *p, int index, uint64_t timeout_ns, bool *done,
                         struct error *e)
{
    struct slot *slot = &p->slots[index];
    const struct run *run = slot->run;
    /* Those before it, in the other slots, take their time, too. */
    const struct patience patience = {slot->started, RUN_SLOTS_MOST * p->seconds, p->usual_ns};
    *done = true;
    if (!run) return true;
    bool ok = device_check(d, e) && crossing_download(d, slot, e) &&
              device_await(d, slot->fence, &patience, timeout_ns, done, e);
    if (ok && !*done) return true;
    p->usual_ns = clock_ns() - slot->started;
    slot->run = NULL;
    if (run->before && run->before->n_before) {
        d->held_end = clock_ns();
        d->held--;
    }
    if (!ok) return false;
    TRY(mapped_invalidate(d, &slot->download, e));
    const char *data = slot->download.data;
    for (int i = 0; i < run->n_downloads; i++) {
        if (!run->downloads[i].bytes || run->downloads[i].outside) continue;
        memcpy(run->downloads[i].host, data, (size_t)run->downloads[i].bytes);
        data += run->downloads[i].bytes;
    }
    return !run->step_seconds || timestamps_read(d, p, slot->from, slot->end, run, e);
}

bool vulkan_program_run(struct backend_device *d, struct program *p, const struct run *run, struct error *e)
{
    bool done;
    return vulkan_program_submit(d, p, run, 0, e) && vulkan_program_wait(d, p, 0, UINT64_MAX, &done, e);
}
