/* The replay of a program on an in-order queue: submitted, waited for, with times. */
#include <inttypes.h>
#include <string.h>

#include "backends/quirks.h"
#include "backends/ticks.h"
#include "base/platform.h"
#include "base/round.h"
#include "interface/interface.h"
#include "program.h"
#include "wherry/wherry_measure.h"

/* Of the first of a step's launches, where it has several, and of its last. */
struct launch_events {
    cl_event *first, *last;
};

static bool submission_end(cl_command_queue queue, struct error *e)
{
    cl_int code = clFlush(queue);
    return !code || opencl_fail_running(e, code, "clFlush");
}

/* CLBlast's: as many rows at a time as the launches of our own kernel for it would have, but no fewer than its tiles
 * are filled by. */
static bool product_run(const struct program *program, int i, const struct launch_events *events, uint64_t rows,
                        uint32_t launches, cl_command_queue queue, struct error *e)
{
    enum { ROWS_LEAST = 1024 };
    const uint64_t even = divide_up(rows, launches), most = even < ROWS_LEAST ? ROWS_LEAST : even;
    for (uint64_t first = 0; first < rows; first += most) {
        struct opencl_gemm gemm = program->steps[i].gemm;
        const bool last = rows - first <= most;
        gemm.x_at += first * gemm.k;
        gemm.y_at += first * gemm.n;
        TRY(opencl_gemm_run(&gemm, (size_t)(last ? rows - first : most), queue,
                            last    ? events->last
                            : first ? NULL
                                    : events->first,
                            e));
        if (last) break;
        TRY(submission_end(queue, e));
    }
    return true;
}

static bool step_run(const struct program *program, int i, const struct run *run, cl_command_queue queue,
                     struct error *e)
{
    const struct step *step = &program->schedule->steps[i];
    const struct prepared *p = &program->steps[i];
    const struct grid *grid = &run->grids[i];
    const bool timed = run->step_seconds;
    const struct launch_events events = {timed ? &program->begins[i] : NULL, timed ? &program->events[i] : NULL};
    if (!grid->x || !grid->y || !grid->z) return true;
    const uint32_t launches = launch_count(step, grid);
    if (!p->kernel) {
        uint64_t rows = p->gemm.rows == HEADER_SEQUENCES ? run->batch->sequences : run->batch->tokens;
        return product_run(program, i, &events, rows, launches, queue, e) || fail_in(e, step->name);
    }
    for (uint32_t launch = 0; launch < launches; launch++) {
        const struct launch_part range = launch_part(step, grid, launch);
        cl_event *event = launch + 1 == launches ? events.last : launch ? NULL : events.first;
        if (!opencl_launch(queue, p, step->kernel, &range, event, e)) return fail_in(e, step->name);
        if (launch + 1 < launches) TRY(submission_end(queue, e));
    }
    return true;
}

static bool uploads_enqueue(struct slot *slot, const struct run *run, cl_command_queue queue, struct error *e)
{
    slot->staging.used = 0;
    for (int i = 0; i < run->n_uploads; i++) {
        const struct transfer *t = &run->uploads[i];
        TRY(opencl_range(t->buffer, t->offset, t->bytes, "an upload", e));
        if (!t->bytes) continue;
        if (t->outside) {
            TRY(opencl_outside_copy(queue, t, true, e));
            continue;
        }
        void *staged = opencl_staging_take(&slot->staging, t->bytes);
        if (staged) memcpy(staged, t->host, (size_t)t->bytes);
        cl_int code = clEnqueueWriteBuffer(queue, t->buffer->memory, CL_FALSE, (size_t)(t->buffer->at + t->offset),
                                           (size_t)t->bytes, staged ? staged : t->host, 0, NULL, NULL);
        if (code) return opencl_fail_running(e, code, "clEnqueueWriteBuffer of %" PRIu64 " bytes", t->bytes);
    }
    return true;
}

/* The last download of a run whose caller waits is waited for, and with it all before: on an H200 that is 20 us sooner
 * than clFinish after it. */
static bool downloads_enqueue(struct slot *slot, const struct run *run, cl_command_queue queue, bool *waited,
                              struct error *e)
{
    memset(slot->staged, 0, sizeof slot->staged);
    for (int i = 0; i < run->n_downloads; i++) {
        const struct transfer *t = &run->downloads[i];
        TRY(opencl_range(t->buffer, t->offset, t->bytes, "a download", e));
        if (!t->bytes) continue;
        if (t->outside) {
            TRY(opencl_outside_copy(queue, t, false, e));
            continue;
        }
        bool last = i == run->n_downloads - 1, block = last && run->waits;
        void *staged = i < DOWNLOADS_STAGED ? opencl_staging_take(&slot->staging, t->bytes) : NULL;
        if (staged) slot->staged[i] = staged;
        cl_int code = clEnqueueReadBuffer(queue, t->buffer->memory, block ? CL_TRUE : CL_FALSE,
                                          (size_t)(t->buffer->at + t->offset), (size_t)t->bytes,
                                          staged ? staged : t->host, 0, NULL, last && !block ? &slot->done : NULL);
        if (code) return opencl_fail_running(e, code, "clEnqueueReadBuffer of %" PRIu64 " bytes", t->bytes);
        *waited = block;
    }
    return true;
}

/* Flushes let the device start while the rest is being enqueued; NVIDIA's driver starts at once, and takes 1.3 us for
 * each flush. */
static bool enqueue_all(struct backend_device *device, struct program *program, struct slot *slot,
                        cl_command_queue queue, bool *waited, struct error *e)
{
    const struct run *run = slot->run;
    const bool nvidia = device->limits.nvidia_sm;
    enum { FLUSH_EVERY = 8, FLUSH_OFTEN = 2 };
    const int every = device->limits.quirks & QUIRK_FLUSH_OFTEN ? FLUSH_OFTEN : FLUSH_EVERY;
    if (run->before) TRY(opencl_outside_wait(queue, run->before, e));
    TRY(slot->crossing.used ? opencl_crossing_uploads(device, slot, run, e) : uploads_enqueue(slot, run, queue, e));
    TRY(opencl_maps_update(device, &program->maps, run->batch, queue, e));
    int end = run->end ? run->end : program->schedule->n_steps;
    for (int i = run->first; i < end; i++) {
        TRY(step_run(program, i, run, queue, e));
        if (!nvidia && i % every == 0) TRY(submission_end(queue, e));
    }
    if (slot->crossing.used) return opencl_crossing_downloads(device, slot, run, e);
    TRY(downloads_enqueue(slot, run, queue, waited, e));
    if (run->waits) return true;
    cl_int code = slot->done ? CL_SUCCESS : clEnqueueMarkerWithWaitList(queue, 0, NULL, &slot->done);
    if (!code) code = clFlush(queue);
    if (!code && run->after && run->after->event) {
        code = clRetainEvent(slot->done);
        if (!code) *run->after->event = slot->done;
    }
    return !code || opencl_fail_running(e, code, "the end of a run");
}

/* A timer that runs backwards or stands still gives an error, never a number. */
static bool read_times(const struct backend_device *device, const struct program *program, const struct run *run,
                       struct error *e)
{
    int last = run->end ? run->end : program->schedule->n_steps;
    double *seconds = run->step_seconds;
    bool any = false, moved = false;
    for (int i = run->first; i < last; i++) {
        cl_ulong start = 0, end = 0;
        seconds[i] = 0.0;
        if (!program->events[i]) continue;
        cl_event first = program->begins[i] ? program->begins[i] : program->events[i];
        cl_int code = clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
        if (!code) {
            code = clGetEventProfilingInfo(program->events[i], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
        }
        if (code) return opencl_fail(e, code, "clGetEventProfilingInfo");
        uint64_t ticks;
        if (!ticks_elapsed(start, end, device->limits.timer_bits, &ticks)) {
            return fail_timer(e, WHERRY_TIMER_BACKWARDS,
                              "%s: the driver's timer runs backwards (start %" PRIu64 ", end %" PRIu64
                              " ns): times of single kernels can't be had on this device",
                              program->schedule->steps[i].name, (uint64_t)start, (uint64_t)end);
        }
        any = true;
        moved = moved || ticks;
        seconds[i] = (double)ticks * 1e-9;
    }
    if (any && !moved) {
        return fail_timer(e, WHERRY_TIMER_STUCK,
                          "the driver's timer stands still: times of single kernels can't be had on this device");
    }
    return true;
}

/* The queue with timestamps, where they are wanted. */
static bool queue_choose(struct backend_device *device, const struct run *run, cl_command_queue *queue, struct error *e)
{
    *queue = device->queue;
    if (!run->step_seconds) return true;
    /* The application may have enqueued work on its own queue, which is not the one with timestamps. */
    cl_int code = clFinish(*queue);
    if (code) return opencl_fail_running(e, code, "clFinish");
    *queue = device->profiling_queue;
    if (*queue) return true;
    return fail_timer(e, WHERRY_TIMER_ABSENT,
                      "the driver gives no queue with timestamps, so that single "
                      "kernels can't be timed on this device");
}

/* The end of what the slot had under way. */
static void slot_leave(struct backend_device *device, struct slot *slot)
{
    if (slot->done) clReleaseEvent(slot->done);
    if (slot->crossing.computed) clReleaseEvent(slot->crossing.computed);
    if (slot->run->before && slot->run->before->n_before) device->held--;
    slot->done = slot->crossing.computed = NULL;
    slot->crossing.used = slot->crossing.pending = false;
    slot->run = NULL;
}

/* Of the runs before: the other queue is given their downloads behind the next one's upload. What can't be enqueued is
 * tried again by whoever waits for it. */
static void downloads_pending(struct backend_device *device, struct program *program, const struct slot *but)
{
    struct error ignored;
    for (int i = 0; i < RUN_SLOTS_MOST; i++)
        if (&program->slots[i] != but) opencl_crossing_finish(device, &program->slots[i], &ignored);
}

/* Runs with times wait. */
bool opencl_program_submit(struct backend_device *device, struct program *program, const struct run *run, int index,
                           struct error *e)
{
    struct slot *slot = &program->slots[index];
    cl_command_queue queue;
    TRY(opencl_slot_make(device, program, slot, e) && queue_choose(device, run, &queue, e));
    const bool crosses = opencl_crosses(device, run);
    if (crosses) TRY(opencl_crossing_make(device, program->schedule, &slot->crossing, e));
    slot->run = run;
    slot->crossing.used = crosses;
    if (run->before && run->before->n_before) device->held++;
    bool waited = false, ok = enqueue_all(device, program, slot, queue, &waited, e);
    /* Also after a failure: what is under way uses the caller's memory. */
    cl_int code = ok && (waited || !run->waits) ? CL_SUCCESS : clFinish(queue);
    if (ok && code) ok = opencl_fail_running(e, code, "clFinish");
    if (!ok && crosses) clFinish(device->copy_queue);
    downloads_pending(device, program, slot);
    if (ok) return true;
    opencl_maps_forget(&program->maps);
    slot_leave(device, slot);
    return false;
}

static bool event_done(cl_event event, bool *done, struct error *e)
{
    cl_int state = CL_QUEUED;
    cl_int code = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (!code && state < 0) code = state;
    *done = code || state == CL_COMPLETE;
    return !code || opencl_fail_running(e, code, "a run");
}

/* OpenCL waits for ever or not at all. */
static bool event_await(cl_event event, uint64_t timeout_ns, bool *done, struct error *e)
{
    enum { PAUSE_NS = 20000 };
    const uint64_t start = clock_ns();
    if (timeout_ns == UINT64_MAX) clWaitForEvents(1, &event); /* what it fails with, the event's state says */
    TRY(event_done(event, done, e));
    while (!*done && clock_ns() - start < timeout_ns) {
        sleep_ns(PAUSE_NS);
        TRY(event_done(event, done, e));
    }
    return true;
}

/* All that a run with times leaves. */
static bool times_take(struct backend_device *device, struct program *program, const struct run *run, bool ok,
                       struct error *e)
{
    ok = ok && read_times(device, program, run, e);
    for (int i = 0; i < 2 * program->schedule->n_steps; i++) { /* `begins` are behind the others */
        if (program->events[i]) clReleaseEvent(program->events[i]);
        program->events[i] = NULL;
    }
    return ok;
}

bool opencl_program_wait(struct backend_device *device, struct program *program, int index, uint64_t timeout_ns,
                         bool *done, struct error *e)
{
    struct slot *slot = &program->slots[index];
    const struct run *run = slot->run;
    *done = true;
    if (!run) return true;
    bool ok = opencl_crossing_finish(device, slot, e) && (!slot->done || event_await(slot->done, timeout_ns, done, e));
    if (!*done) return true;
    if (!ok && slot->crossing.used) clFinish(device->copy_queue);
    slot_leave(device, slot);
    if (!ok) opencl_maps_forget(&program->maps);
    for (int i = 0; ok && i < run->n_downloads && i < DOWNLOADS_STAGED; i++)
        if (slot->staged[i]) memcpy(run->downloads[i].host, slot->staged[i], (size_t)run->downloads[i].bytes);
    return run->step_seconds ? times_take(device, program, run, ok, e) : ok;
}

bool opencl_program_run(struct backend_device *device, struct program *program, const struct run *run, struct error *e)
{
    struct run waits = *run;
    bool done;
    waits.waits = true;
    if (opencl_program_submit(device, program, &waits, 0, e))
        return opencl_program_wait(device, program, 0, UINT64_MAX, &done, e);
    return run->step_seconds && times_take(device, program, run, false, e);
}
