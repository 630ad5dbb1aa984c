/* The Vulkan backend alone, below the library: barriers, buffers, replays, the pipeline cache, faults, and an
 * application's own device. Runs on every usable Vulkan device; skipped where there is none. */
#define _POSIX_C_SOURCE 200809L
#include "backends/vulkan/vulkan.h"
#include "base/platform.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h> /* after error.h: it makes a macro of fail */

/* ---- a host that counts, and fails when told to ---- */

/* Atomic: test_threads works on several threads at once. */
static struct {
    atomic_long live, calls, fail_at; /* fail_at < 0: never */
    atomic_int validation, warnings;  /* messages */
} counts;

static void *counted_alloc(size_t size, void *user)
{
    (void)user;
    if (counts.calls++ == counts.fail_at) return NULL;
    counts.live++;
    return malloc(size);
}

static void counted_free(void *pointer, void *user)
{
    (void)user;
    counts.live--;
    free(pointer);
}

static void counted_log(wherry_log_level level, const char *text, void *user)
{
    (void)user;
    if (level > WHERRY_LOG_WARNING) return;
    if (strstr(text, ": WARNING-Setting")) return; /* a layer about itself */
    if (!strncmp(text, "Vulkan validation", 17)) {
        counts.validation++;
        fprintf(stderr, "%s\n", text);
    } else {
        counts.warnings++;
    }
}

static struct host host = {.alloc = counted_alloc, .free = counted_free, .log = counted_log};
static _Thread_local struct error e;
static size_t device_number; /* which device the tests run on */

static struct backend_device *open_device(void)
{
    wherry_device_info info;
    struct backend_device *d = backend_vulkan.open(&host, device_number, NULL, &info, &e);
    if (!d) fail_msg("%s", e.text);
    return d;
}

static char folder[] = "test_vulkan-XXXXXX"; /* for caches, in the working folder */

static void folder_clear(void)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[sizeof folder + sizeof entry->d_name + 1];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
}

/* ---- a schedule of four steps: a chain, one independent step, and one that overwrites what was read ---- */

enum { ROWS = 37, N = 48, VALUES = ROWS * N, STEPS = 4 };

struct work {
    struct buffer *arena, *batch;
    struct call calls[STEPS];
    struct step steps[STEPS];
    struct schedule schedule;
    struct program *program;
    float x[VALUES], bias[N], out[4][VALUES];
    struct grid grids[STEPS];
    double seconds[STEPS];
    uint32_t header[HEADER_WORDS];
    struct transfer uploads[3], downloads[4];
};

enum { REGION = 8192, AT_BIAS = 0, AT_X = REGION, AT_OUT = 2 * REGION };
#define AT(n) (AT_OUT + (uint64_t)(n)*REGION)

static void bind(struct step *s, uint8_t slot, bool written, struct buffer *buffer, uint64_t offset, uint64_t bytes)
{
    s->bindings[s->n_bindings++] = (struct binding){slot, written, buffer, offset, bytes};
}

static void set(struct call *call, uint8_t id, uint32_t value)
{
    call->constants[call->n_constants++] = (struct call_constant){id, value};
}

/* y = activation(x + bias) + residual; at_residual 0: none. */
static void step_set(struct work *w, int i, uint64_t at_x, bool bias, uint32_t activation, uint64_t at_residual,
                     uint64_t at_y)
{
    const uint64_t bytes = VALUES * sizeof(float);
    struct step *s = &w->steps[i];
    struct call *c = &w->calls[i];
    *c = (struct call){.kernel = "map", .launch = LAUNCH_ELEMENTS};
    set(c, CONST_LOCAL_SIZE, 64);
    set(c, CONST_N, N);
    set(c, CONST_ROWS, HEADER_TOKENS);
    set(c, CONST_BIAS, bias);
    set(c, CONST_ACTIVATION, activation);
    set(c, CONST_RESIDUAL, at_residual != 0);
    set(c, CONST_ALIGNED, 0);
    *s = (struct step){.name = "step", .kernel = "map", .launch = LAUNCH_ELEMENTS, .call = c, .flops = VALUES};
    bind(s, SLOT_BATCH, false, w->batch, 0, sizeof w->header);
    bind(s, SLOT_X, false, w->arena, at_x, bytes);
    if (bias) bind(s, SLOT_BIAS, false, w->arena, AT_BIAS, sizeof w->bias);
    if (at_residual) bind(s, SLOT_RESIDUAL, false, w->arena, at_residual, bytes);
    bind(s, SLOT_Y, true, w->arena, at_y, bytes);
    w->grids[i] = (struct grid){(VALUES + 63) / 64, 1, 1};
}

static struct work *work_make(void)
{
    struct work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (int i = 0; i < VALUES; i++) w->x[i] = sinf((float)i * 0.7f) * 3;
    for (int i = 0; i < N; i++) w->bias[i] = cosf((float)i);
    w->header[HEADER_TOKENS] = ROWS;
    w->header[HEADER_SEQUENCES] = 1;
    return w;
}

static bool work_buffers(struct backend_device *d, struct work *w)
{
    w->arena = backend_vulkan.buffer_create(d, 8 * REGION, &e);
    w->batch = w->arena ? backend_vulkan.buffer_create(d, 4096, &e) : NULL;
    if (!w->batch) return false;
    step_set(w, 0, AT_X, true, ACTIVATION_NONE, 0, AT(0));       /* out0 = x + bias */
    step_set(w, 1, AT_X, false, ACTIVATION_RELU, 0, AT(1));      /* out1 = relu(x): needs no barrier */
    step_set(w, 2, AT(0), false, ACTIVATION_RELU, AT(1), AT(2)); /* out2 = relu(out0) + out1 */
    step_set(w, 3, AT(2), true, ACTIVATION_NONE, AT_X, AT(1));   /* out1 = out2 + bias + x: after it was read */
    w->schedule =
        (struct schedule){.steps = w->steps, .n_steps = STEPS, .max_upload = 2 * REGION, .max_download = 4 * REGION};
    w->uploads[0] = (struct transfer){w->arena, AT_X, sizeof w->x, w->x};
    w->uploads[1] = (struct transfer){w->arena, AT_BIAS, sizeof w->bias, w->bias};
    w->uploads[2] = (struct transfer){w->batch, 0, sizeof w->header, w->header};
    for (int i = 0; i < 3; i++) w->downloads[i] = (struct transfer){w->arena, AT(i), sizeof *w->out, w->out[i]};
    return true;
}

static void work_free(struct backend_device *d, struct work *w)
{
    backend_vulkan.program_destroy(d, w->program);
    backend_vulkan.buffer_destroy(d, w->arena);
    backend_vulkan.buffer_destroy(d, w->batch);
    free(w);
}

static bool work_program(struct backend_device *d, struct work *w, struct program_info *info)
{
    w->program = backend_vulkan.program_create(d, &w->schedule, NULL, NULL, info, &e);
    return w->program;
}

static bool work_run(struct backend_device *d, struct work *w, bool timed)
{
    struct run run = {.uploads = w->uploads,
                      .downloads = w->downloads,
                      .n_uploads = 3,
                      .n_downloads = 3,
                      .grids = w->grids,
                      .step_seconds = timed ? w->seconds : NULL};
    return backend_vulkan.program_run(d, w->program, &run, &e);
}

static bool work_right(const struct work *w)
{
    for (int i = 0; i < VALUES; i++) {
        float x = w->x[i], b = w->bias[i % N];
        float out0 = x + b, relu = x > 0 ? x : 0, out2 = (out0 > 0 ? out0 : 0) + relu;
        if (w->out[0][i] != out0 || w->out[2][i] != out2) return false;
        if (!(fabsf(w->out[1][i] - (out2 + b + x)) < 1e-5f)) return false;
    }
    return true;
}

/* ---- tests without a device ---- */

/* Every pair of conflicting steps has a barrier between; a barrier stands only where some pair needs it. */
static void test_hazards(void **state)
{
    (void)state;
    enum { TEST_STEPS = 40, BINDINGS = 3 };
    struct buffer buffers[2];
    uint32_t random = 1;
    for (int round = 0; round < 300; round++) {
        struct binding bindings[TEST_STEPS][BINDINGS];
        struct access list[TEST_STEPS * BINDINGS];
        struct hazards h = {.list = list};
        int last = 0; /* first step after the last barrier */
        for (int s = 0; s < TEST_STEPS; s++) {
            for (int b = 0; b < BINDINGS; b++) {
                random = random * 1664525u + 1013904223u;
                bindings[s][b] = (struct binding){.slot = (uint8_t)b,
                                                  .written = b == BINDINGS - 1,
                                                  .buffer = &buffers[random >> 31],
                                                  .offset = (random >> 8 & 15) * 256,
                                                  .bytes = ((random >> 16 & 3) + 1) * 256};
            }
            bool needed = false;
            for (int t = last; t < s; t++) {
                for (int i = 0; i < BINDINGS * BINDINGS; i++) {
                    const struct binding *a = &bindings[t][i % BINDINGS], *b = &bindings[s][i / BINDINGS];
                    needed |= a->buffer == b->buffer && (a->written || b->written) &&
                              a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
                }
            }
            assert_int_equal(hazards_step(&h, bindings[s], BINDINGS), needed);
            if (needed) last = s;
        }
    }
}

static bool listed(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (!strcmp(*names, name)) return true;
    return false;
}

static void test_needs(void **state)
{
    (void)state;
    wherry_vulkan_needs needs = {0};
    assert_int_equal(wherry_vulkan_query_needs(&needs), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_vulkan_query_needs(NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    needs.struct_size = sizeof needs;
    assert_int_equal(wherry_vulkan_query_needs(&needs), WHERRY_STATUS_OK);
    assert_int_equal(needs.api_version, VK_API_VERSION_1_1);
    assert_null(needs.required_device_extensions[0]);
    assert_string_equal(needs.optional_features[0], "storageBuffer16BitAccess");
    /* What an application on MoltenVK can't do without. */
    assert_true(listed(needs.optional_device_extensions, "VK_KHR_portability_subset"));
    assert_true(listed(needs.optional_instance_extensions, "VK_KHR_portability_enumeration"));
}

/* ---- tests on a device ---- */

static void test_order(void **state)
{
    (void)state;
    wherry_device_info *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    assert_true(backend_vulkan.enumerate(&host, &a, &n_a, &e));
    assert_true(backend_vulkan.enumerate(&host, &b, &n_b, &e));
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++) {
        assert_memory_equal(&a[i], &b[i], sizeof *a);
        assert_true(a[i].usable ? !a[i].reason[0] : a[i].reason[0]);
    }
    wherry_device_info info;
    assert_null(backend_vulkan.open(&host, n_a, NULL, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_NO_DEVICE);
    host_free(&host, a);
    host_free(&host, b);
    assert_int_equal(counts.live, 0);
}

static void test_buffers(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    assert_int_equal(backend_vulkan.allocated(d), 0);
    assert_null(backend_vulkan.buffer_create(d, 0, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_null(backend_vulkan.buffer_create(d, UINT64_MAX / 2, &e));
    assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);

    /* More than two pieces of a blocking copy, at an odd place. */
    const size_t bytes = (40u << 20) + 4096, offset = 260, n = (bytes - 512) / 4;
    struct buffer *b = backend_vulkan.buffer_create(d, bytes, &e);
    assert_non_null(b);
    assert_int_equal(backend_vulkan.allocated(d), bytes);
    uint32_t *in = malloc(n * 4), *out = calloc(n, 4);
    assert_true(in && out);
    for (size_t i = 0; i < n; i++) in[i] = (uint32_t)i * 2654435761u;
    assert_true(backend_vulkan.buffer_write(d, b, offset, in, n * 4, &e));
    assert_true(backend_vulkan.buffer_read(d, b, offset, out, n * 4, &e));
    assert_memory_equal(in, out, n * 4);
    assert_true(backend_vulkan.buffer_read(d, b, offset + 400, out, 8, &e));
    assert_memory_equal(in + 100, out, 8);
    assert_true(backend_vulkan.buffer_write(d, b, bytes, in, 0, &e));
    assert_false(backend_vulkan.buffer_write(d, b, bytes - 4, in, 8, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_false(backend_vulkan.buffer_read(d, b, UINT64_MAX - 3, out, 8, &e));
    free(in);
    free(out);
    backend_vulkan.buffer_destroy(d, b);
    backend_vulkan.buffer_destroy(d, NULL);
    assert_int_equal(backend_vulkan.allocated(d), 0);
    backend_vulkan.close(d);
    backend_vulkan.close(NULL);
    assert_int_equal(counts.live, 0);
}

static VkDeviceSize heap_gives;
static PFN_vkGetPhysicalDeviceMemoryProperties2 real_heaps;

static void VKAPI_CALL heaps_fake(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *out)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget = out->pNext;
    if (real_heaps) real_heaps(device, out);
    assert_int_equal(budget->sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    for (uint32_t i = 0; i < VK_MAX_MEMORY_HEAPS; i++) budget->heapBudget[i] = heap_gives, budget->heapUsage[i] = 77;
}

/* What the driver says of its heaps now, where it says anything. */
static void test_heap_budget(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    uint64_t bytes = 0, used = 0;
    if (backend_vulkan.budget(d, &bytes, &used)) assert_true(bytes > 0);
    real_heaps = d->physical.budget ? d->instance.vk.GetPhysicalDeviceMemoryProperties2 : NULL;
    d->instance.vk.GetPhysicalDeviceMemoryProperties2 = heaps_fake;
    d->physical.budget = true;
    heap_gives = 1234;
    assert_true(backend_vulkan.budget(d, &bytes, &used));
    assert_true(bytes == 1234 && used == 77);
    heap_gives = 0;
    assert_false(backend_vulkan.budget(d, &bytes, &used));
    d->physical.budget = false;
    assert_false(backend_vulkan.budget(d, &bytes, &used));
    backend_vulkan.close(d);
}

static uint32_t barriers;
static PFN_vkCmdPipelineBarrier real_barrier;

static void VKAPI_CALL barrier_count(VkCommandBuffer commands, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                     VkDependencyFlags flags, uint32_t n_memory, const VkMemoryBarrier *memory,
                                     uint32_t n_buffers, const VkBufferMemoryBarrier *buffers, uint32_t n_images,
                                     const VkImageMemoryBarrier *images)
{
    barriers++;
    real_barrier(commands, from, to, flags, n_memory, memory, n_buffers, buffers, n_images, images);
}

/* Barriers stand where they are needed, or before every step; and around the transfers. What is like the run before is
 * replayed. */
static void test_ordered(void **state)
{
    (void)state;
    for (int ordered = 0; ordered < 2; ordered++) {
        struct backend_device *d = open_device();
        struct work *w = work_make();
        struct program_info info;
        const uint32_t steps = ordered ? STEPS : STEPS - 2;
        assert_true(work_buffers(d, w));
        w->schedule.ordered = ordered;
        assert_true(work_program(d, w, &info));
        real_barrier = d->vk.CmdPipelineBarrier;
        d->vk.CmdPipelineBarrier = barrier_count;
        const struct {
            uint32_t more_groups, transfers, recorded;
        } runs[] = {{0, 3, steps + 3}, {0, 3, 0}, {1, 3, steps}, {1, 2, 2}, {0, 2, steps}};
        uint32_t groups = w->grids[0].x;
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            struct run run = {.uploads = w->uploads,
                              .downloads = w->downloads,
                              .n_uploads = 3,
                              .n_downloads = (int)runs[i].transfers,
                              .grids = w->grids};
            w->grids[0].x = groups + runs[i].more_groups;
            w->x[0] = (float)i;
            barriers = 0;
            assert_true(backend_vulkan.program_run(d, w->program, &run, &e));
            assert_true(work_right(w) || runs[i].transfers < 3);
            assert_true(w->out[0][0] == w->x[0] + w->bias[0]);
            assert_int_equal(barriers, runs[i].recorded);
        }
        d->vk.CmdPipelineBarrier = real_barrier;
        work_free(d, w);
        backend_vulkan.close(d);
    }
}

static uint32_t submitted; /* VkSubmitInfos of the last submission */
static PFN_vkQueueSubmit real_submit;

static VkResult VKAPI_CALL submit_counted(VkQueue queue, uint32_t n, const VkSubmitInfo *submits, VkFence fence)
{
    submitted = n;
    return real_submit(queue, n, submits, fence);
}

static void test_replay(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    struct work *w = work_make();
    struct program_info info;
    assert_true(work_buffers(d, w));
    assert_true(work_program(d, w, &info));
    assert_int_equal(info.kernels, STEPS);
    assert_int_equal(info.compiled, STEPS);
    assert_true(info.host_bytes >= w->schedule.max_upload + w->schedule.max_download);
    real_submit = d->vk.QueueSubmit;
    d->vk.QueueSubmit = submit_counted;
    long calls = counts.calls;
    for (int i = 0; i < 20; i++) {
        memset(w->out, 0xff, sizeof w->out);
        assert_true(work_run(d, w, i % 2));
        assert_true(work_right(w));
        for (int s = 0; s < STEPS && i % 2; s++) assert_true(w->seconds[s] >= 0 && w->seconds[s] < 10);
    }
    assert_int_equal(counts.calls, calls); /* a run allocates nothing */
    assert_int_equal(submitted, 1);

    /* Fewer rows and groups: the rest stays as it was. */
    w->header[HEADER_TOKENS] = 1;
    for (int s = 0; s < STEPS; s++) w->grids[s].x = 1;
    for (int i = 0; i < N; i++) w->x[i] = 100;
    assert_true(work_run(d, w, false));
    assert_true(w->out[0][0] == 100 + w->bias[0]);
    assert_true(w->out[0][N] == w->x[N] + w->bias[0]);

    w->grids[2].y = UINT32_MAX;
    assert_false(work_run(d, w, false));
    assert_int_equal(e.status, WHERRY_STATUS_UNSUPPORTED);
    w->grids[2].y = 1;
    w->uploads[0].bytes = 3 * REGION;
    assert_false(work_run(d, w, false));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    w->uploads[0].bytes = sizeof w->x;

    /* Pipelines are shared by all programs of a device. */
    backend_vulkan.program_destroy(d, w->program);
    assert_true(work_program(d, w, &info));
    assert_int_equal(info.kernels, STEPS);
    assert_int_equal(info.compiled, 0);

    /* A watchdog's device gets short submissions. */
    backend_vulkan.program_destroy(d, w->program);
    wherry_device_type type = d->physical.info.type;
    d->physical.info.type = WHERRY_DEVICE_INTEGRATED_GPU;
    for (int s = 0; s < STEPS; s++) w->steps[s].flops = 2e10;
    assert_true(work_program(d, w, &info));
    d->physical.info.type = type;
    w->header[HEADER_TOKENS] = ROWS;
    for (int s = 0; s < STEPS; s++) w->grids[s].x = (VALUES + 63) / 64;
    assert_true(work_run(d, w, true));
    assert_true(work_right(w));
    assert_true(work_run(d, w, false));
    assert_true(work_right(w));
    assert_int_equal(submitted, STEPS);

    uint32_t bits = d->physical.timestamp_bits;
    backend_vulkan.program_destroy(d, w->program);
    d->physical.timestamp_bits = 0;
    assert_true(work_program(d, w, &info));
    assert_true(work_run(d, w, false));
    assert_false(work_run(d, w, true));
    assert_int_equal(e.status, WHERRY_STATUS_UNSUPPORTED);
    assert_non_null(strstr(e.text, d->physical.info.name));
    d->physical.timestamp_bits = bits;
    work_free(d, w);
    assert_int_equal(backend_vulkan.allocated(d), 0);
    backend_vulkan.close(d);
    assert_int_equal(counts.live, 0);
}

static bool cancel(const char *what, size_t done, size_t total, void *user)
{
    (void)what, (void)total, (void)user;
    return done == 0;
}

static void test_refusals(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    struct work *w = work_make();
    struct program_info info;
    char reason[256];
    assert_true(work_buffers(d, w));
    assert_true(backend_vulkan.supports(d, &w->calls[0], false, reason, sizeof reason));
    struct call call = w->calls[0];
    call.kernel = "no such kernel";
    assert_false(backend_vulkan.supports(d, &call, false, reason, sizeof reason));
    assert_non_null(strstr(reason, "no such kernel"));
    call = w->calls[0];
    call.constants[0].value = d->physical.limits.max_local_size + 1;
    assert_false(backend_vulkan.supports(d, &call, false, reason, sizeof reason));
    bool f16 = d->physical.limits.f16;
    d->physical.limits.f16 = false;
    assert_false(backend_vulkan.supports(d, &w->calls[0], true, reason, sizeof reason));
    d->physical.limits.f16 = f16;

    assert_null(backend_vulkan.program_create(d, &w->schedule, cancel, NULL, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_CANCELLED);
    uint64_t bytes = w->steps[1].bindings[1].bytes;
    w->steps[1].bindings[1].bytes = 9 * REGION;
    assert_false(work_program(d, w, &info));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    w->steps[1].bindings[1].bytes = bytes;
    w->steps[3].kernel = "no such kernel";
    assert_false(work_program(d, w, &info));
    assert_int_equal(e.status, WHERRY_STATUS_UNSUPPORTED);
    w->schedule.n_steps = 0;
    assert_false(work_program(d, w, &info));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    work_free(d, w);
    backend_vulkan.close(d);
    assert_int_equal(counts.live, 0);
}

/* Two floats in one 16-bit step: relu(x) + residual, in values that f16 holds exactly. */
static void test_f16(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    struct work *w = work_make();
    struct program_info info;
    assert_true(work_buffers(d, w));
    if (!d->physical.limits.f16) {
        print_message("no 16-bit storage here\n");
    } else {
        static const uint16_t x[N] = {0x3c00, 0xbc00, 0x4248, 0xc900},
                              r[N] = {0x3800, 0x3800, 0x8000, 0x4000}; /* 1 -1 3.14 -10; .5 .5 -0 2 */
        uint16_t y[N];
        step_set(w, 0, AT_X, false, ACTIVATION_RELU, AT(0), AT(1));
        w->steps[0].f16 = true;
        w->schedule.n_steps = 1;
        w->header[HEADER_TOKENS] = 1;
        w->grids[0].x = 1;
        struct transfer uploads[] = {{w->arena, AT_X, sizeof x, (void *)x},
                                     {w->arena, AT(0), sizeof r, (void *)r},
                                     {w->batch, 0, sizeof w->header, w->header}};
        struct transfer download = {w->arena, AT(1), sizeof y, y};
        struct run run = {
            .uploads = uploads, .downloads = &download, .n_uploads = 3, .n_downloads = 1, .grids = w->grids};
        assert_true(work_program(d, w, &info));
        assert_true(backend_vulkan.program_run(d, w->program, &run, &e));
        assert_int_equal(y[0], 0x3e00);
        assert_int_equal(y[1], 0x3800);
        assert_int_equal(y[2], 0x4248);
        assert_int_equal(y[3], 0x4000);
        assert_int_equal(y[4], 0);
    }
    work_free(d, w);
    backend_vulkan.close(d);
    assert_int_equal(counts.live, 0);
}

/* Every kernel of the build becomes a pipeline, and is valid with no more than its first and last argument: the layout
 * and what stands in for absent arguments fit its declarations. The grids are empty, so nothing is computed. */
static void test_kernels(void **state)
{
    (void)state;
    enum { MAX = 256 };
    struct backend_device *d = open_device();
    struct work *w = work_make();
    struct step *steps = calloc(MAX, sizeof *steps);
    struct grid grids[MAX] = {0};
    struct embedded_kernel kernel;
    struct program_info info;
    int n = 0;
    assert_true(steps && work_buffers(d, w));
    const struct device_limits *limits = &d->physical.limits;
    struct call call = {.n_constants = 5,
                        .constants = {{CONST_LOCAL_SIZE, 64},
                                      {CONST_MATRIX_M, limits->coopmat_m},
                                      {CONST_MATRIX_N, limits->coopmat_n},
                                      {CONST_MATRIX_K, limits->coopmat_k},
                                      {CONST_SUBGROUP, limits->coopmat_subgroup}}};
    for (size_t i = 0; vulkan_kernel(i, &kernel); i++) {
        if (kernel.type != STORAGE_F32 && !limits->f16) continue;
        if (kernel.matrices && !limits->coopmat_m) continue;
        if (kernel.matrices && kernel.type == STORAGE_BF16 && !limits->coopmat_bf16) continue;
        assert_true(n < MAX);
        steps[n] = w->steps[1];
        steps[n].name = steps[n].kernel = kernel.name;
        steps[n].f16 = kernel.type != STORAGE_F32;
        steps[n].bf16 = kernel.type == STORAGE_BF16;
        steps[n++].call = &call;
    }
    struct schedule schedule = {.steps = steps, .n_steps = n};
    struct run run = {.grids = grids};
    w->program = backend_vulkan.program_create(d, &schedule, NULL, NULL, &info, &e);
    if (!w->program) fail_msg("%s", e.text);
    assert_int_equal(info.kernels, n);
    assert_true(backend_vulkan.program_run(d, w->program, &run, &e));
    work_free(d, w);
    free(steps);
    backend_vulkan.close(d);
    assert_int_equal(counts.live, 0);
}

/* ---- the cache ---- */

/* Opens the device, makes the program, runs it; returns how many kernels were compiled. */
static uint32_t cached_start_beside(void)
{
    struct backend_device *d = open_device();
    struct work *w = work_make();
    struct program_info info;
    assert_true(work_buffers(d, w));
    if (!work_program(d, w, &info)) fail_msg("%s", e.text);
    assert_true(work_run(d, w, false));
    assert_true(work_right(w));
    work_free(d, w);
    backend_vulkan.close(d);
    return info.compiled;
}

static uint32_t cached_start(void)
{
    uint32_t compiled = cached_start_beside();
    assert_int_equal(counts.live, 0);
    return compiled;
}

/* What one device has compiled, another that was opened before takes from the file, and adds to it. */
static void test_cache_shared(void **state)
{
    (void)state;
    struct program_info info;
    folder_clear();
    strcpy(host.cache_dir, folder);
    struct backend_device *d = open_device();
    assert_int_equal(cached_start_beside(), STEPS);
    struct work *w = work_make();
    assert_true(work_buffers(d, w));
    if (!work_program(d, w, &info)) fail_msg("%s", e.text);
    assert_int_equal(info.compiled, 0);
    assert_true(work_run(d, w, false));
    assert_true(work_right(w));
    work_free(d, w);
    backend_vulkan.close(d);
    assert_int_equal(counts.live, 0);
    host.cache_dir[0] = 0;
    folder_clear();
}

static void cache_path(char *path, size_t size)
{
    int files = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        /* What is known of the compiler is no kernel (backends/apart.h). */
        if (entry->d_name[0] == '.' || !strncmp(entry->d_name, "compiled-", 9)) continue;
        snprintf(path, size, "%s/%s", folder, entry->d_name);
        files++;
    }
    if (dir) closedir(dir);
    assert_int_equal(files, 1);
}

static void test_cache(void **state)
{
    (void)state;
    char path[400];
    folder_clear();
    strcpy(host.cache_dir, folder);
    assert_int_equal(cached_start(), STEPS);
    assert_int_equal(cached_start(), 0);
    cache_path(path, sizeof path);
    char *read, *good;
    size_t size;
    assert_true(file_read(&host, path, 64 << 20, &read, &size, &e));
    good = malloc(size);
    assert_non_null(good);
    memcpy(good, read, size);
    host_free(&host, read);

    /* Damage of any byte of the header and of some after it, and any length, costs a compilation and a warning. */
    for (size_t i = 0; i < size; i += i < 160 ? 7 : size / 8 + 1) {
        good[i] ^= 0x40;
        assert_true(cache_write(path, good, size, &e));
        int before = counts.warnings;
        assert_int_equal(cached_start(), STEPS);
        assert_int_equal(counts.warnings, before + 1);
        good[i] ^= 0x40;
    }
    for (size_t n = 0; n < size; n += n < 160 ? 31 : size / 4 + 1) {
        assert_true(cache_write(path, good, n, &e));
        assert_int_equal(cached_start(), STEPS);
    }
    assert_int_equal(cached_start(), 0); /* and is repaired by it */

    /* A file that others may write to is not used, and replaced; in a folder like that nothing is kept. */
    assert_int_equal(chmod(path, 0666), 0);
    int before = counts.warnings;
    assert_int_equal(cached_start(), STEPS);
    assert_int_equal(counts.warnings, before + 1);
    assert_int_equal(cached_start(), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    before = counts.warnings;
    assert_int_equal(cached_start(), STEPS);
    assert_int_equal(counts.warnings, before + 2); /* not read, not written */
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(cached_start(), 0);
    free(good);

    /* A folder that can't be made is a warning. */
    snprintf(host.cache_dir, sizeof host.cache_dir, "%s/below", path);
    before = counts.warnings;
    assert_int_equal(cached_start(), STEPS);
    assert_int_equal(counts.warnings, before + 1);
    host.cache_dir[0] = 0;
    folder_clear();
}

/* ---- faults ---- */

/* Everything once: true when all worked. */
static bool everything(void)
{
    wherry_device_info info, *list = NULL;
    size_t count = 0;
    struct program_info made;
    bool ok = backend_vulkan.enumerate(&host, &list, &count, &e);
    host_free(&host, list);
    struct backend_device *d = ok ? backend_vulkan.open(&host, device_number, NULL, &info, &e) : NULL;
    if (!d) return false;
    struct work *w = work_make();
    float x[4] = {1, 2, 3, 4};
    ok = work_buffers(d, w) && backend_vulkan.buffer_write(d, w->arena, 0, x, sizeof x, &e) &&
         work_program(d, w, &made) && work_run(d, w, false) && work_right(w);
    work_free(d, w);
    backend_vulkan.close(d);
    return ok;
}

static void test_host_memory(void **state)
{
    (void)state;
    int failed = 0;
    bool ok = false;
    folder_clear();
    strcpy(host.cache_dir, folder);
    for (long n = 0; !ok; n++) {
        e = (struct error){0};
        counts.calls = 0;
        counts.fail_at = n;
        ok = everything();
        bool reached = counts.calls > n;
        counts.fail_at = -1;
        assert_int_equal(counts.live, 0);
        if (!ok) assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        /* A failure that was survived (of what is not essential) must not end the loop. */
        if (ok && reached) ok = false;
        failed += !ok;
        assert_true(n < 10000);
    }
    assert_true(failed > 10);
    host.cache_dir[0] = 0;
    folder_clear();
}

static void work_thread(size_t item, void *user)
{
    bool *ok = user;
    ok[item] = everything();
}

/* Contexts on several threads know nothing of each other. */
static void test_threads(void **state)
{
    (void)state;
    bool ok[6] = {0};
    folder_clear();
    strcpy(host.cache_dir, folder);
    parallel_for(6, 6, work_thread, ok);
    for (int i = 0; i < 6; i++) assert_true(ok[i]);
    assert_int_equal(counts.live, 0);
    host.cache_dir[0] = 0;
    folder_clear();
}

static int countdown; /* calls of the faulty function until it fails */
static VkResult fault;
static PFN_vkAllocateMemory real_allocate;
static PFN_vkCreateComputePipelines real_pipelines;
static PFN_vkWaitForFences real_wait;

static VkResult VKAPI_CALL allocate_faulty(VkDevice device, const VkMemoryAllocateInfo *info,
                                           const VkAllocationCallbacks *allocator, VkDeviceMemory *memory)
{
    return countdown-- <= 0 ? fault : real_allocate(device, info, allocator, memory);
}

static VkResult VKAPI_CALL pipelines_faulty(VkDevice device, VkPipelineCache cache, uint32_t n,
                                            const VkComputePipelineCreateInfo *infos,
                                            const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    (void)real_pipelines, (void)device, (void)cache, (void)n, (void)infos, (void)allocator, (void)pipelines;
    return fault;
}

static VkResult VKAPI_CALL submit_faulty(VkQueue queue, uint32_t n, const VkSubmitInfo *submits, VkFence fence)
{
    return countdown-- <= 0 ? fault : real_submit(queue, n, submits, fence);
}

/* The work is done all the same, so that the device can be closed for real afterwards. */
static VkResult VKAPI_CALL wait_faulty(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t ns)
{
    VkResult r = real_wait(device, n, fences, all, ns);
    return r == VK_SUCCESS ? fault : r;
}

static void test_faults(void **state)
{
    (void)state;
    struct program_info info;
    fault = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (int n = 0; n < 4; n++) {
        struct backend_device *d = open_device();
        struct work *w = work_make();
        real_allocate = d->vk.AllocateMemory;
        d->vk.AllocateMemory = allocate_faulty;
        countdown = n;
        assert_false(work_buffers(d, w) && work_program(d, w, &info));
        assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(e.native, VK_ERROR_OUT_OF_DEVICE_MEMORY);
        d->vk.AllocateMemory = real_allocate;
        work_free(d, w);
        assert_int_equal(backend_vulkan.allocated(d), 0);
        backend_vulkan.close(d);
    }

    struct backend_device *d = open_device();
    struct work *w = work_make();
    assert_true(work_buffers(d, w));
    real_pipelines = d->vk.CreateComputePipelines;
    d->vk.CreateComputePipelines = pipelines_faulty;
    fault = VK_ERROR_UNKNOWN;
    assert_false(work_program(d, w, &info));
    assert_int_equal(e.status, WHERRY_STATUS_COMPILE_FAILED);
    assert_non_null(strstr(e.text, "map"));
    d->vk.CreateComputePipelines = real_pipelines;
    assert_true(work_program(d, w, &info));

    /* A lost device stays lost, and can be closed. */
    real_submit = d->vk.QueueSubmit;
    d->vk.QueueSubmit = submit_faulty;
    fault = VK_ERROR_DEVICE_LOST;
    countdown = 1;
    assert_true(work_run(d, w, false));
    assert_false(work_run(d, w, false));
    assert_int_equal(e.status, WHERRY_STATUS_DEVICE_LOST);
    countdown = 100;
    assert_false(work_run(d, w, false));
    assert_int_equal(e.status, WHERRY_STATUS_DEVICE_LOST);
    assert_null(backend_vulkan.buffer_create(d, 4096, &e));
    assert_int_equal(e.status, WHERRY_STATUS_DEVICE_LOST);
    work_free(d, w);
    backend_vulkan.close(d);

    /* So does one that does not come back; its objects are left alone. */
    d = open_device();
    w = work_make();
    assert_true(work_buffers(d, w) && work_program(d, w, &info));
    d->physical.info.type = WHERRY_DEVICE_CPU; /* a GPU is asked before it is waited for */
    real_wait = d->vk.WaitForFences;
    d->vk.WaitForFences = wait_faulty;
    fault = VK_TIMEOUT;
    assert_false(work_run(d, w, false));
    assert_int_equal(e.status, WHERRY_STATUS_DEVICE_LOST);
    assert_true(d->hung);
    d->hung = false; /* it was none */
    work_free(d, w);
    backend_vulkan.close(d);
    assert_int_equal(counts.live, 0);
}

/* A failed call may leave anything where its object was to be. */
#define UNDEFINED(name, info_type, type)                                                                               \
    static VkResult VKAPI_CALL name(VkDevice device, const info_type *info, const VkAllocationCallbacks *allocator,    \
                                    type *out)                                                                         \
    {                                                                                                                  \
        (void)device, (void)info, (void)allocator;                                                                     \
        memset(out, 0x5a, sizeof *out);                                                                                \
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;                                                                          \
    }
UNDEFINED(queries_undefined, VkQueryPoolCreateInfo, VkQueryPool)
UNDEFINED(sets_undefined, VkDescriptorPoolCreateInfo, VkDescriptorPool)
UNDEFINED(commands_undefined, VkCommandPoolCreateInfo, VkCommandPool)

static void test_undefined(void **state)
{
    (void)state;
    struct program_info info;
    struct backend_device *d = open_device();
    struct work *w = work_make();
    assert_true(work_buffers(d, w));
    const struct device_functions real = d->vk;
    for (int n = 0; n < 3; n++) {
        if (n == 0) d->vk.CreateQueryPool = queries_undefined;
        if (n == 1) d->vk.CreateDescriptorPool = sets_undefined;
        if (n == 2) d->vk.CreateCommandPool = commands_undefined;
        if (n == 0 && !d->physical.timestamp_bits) continue;
        assert_false(work_program(d, w, &info));
        assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
        d->vk = real;
    }
    assert_true(work_program(d, w, &info));
    work_free(d, w);
    backend_vulkan.close(d);
    assert_int_equal(counts.live, 0);
}

/* ---- the application's own device ---- */

static int locked, locks;
static void lock(void *user) { (void)user, locks++, assert_int_equal(locked++, 0); }
static void unlock(void *user) { (void)user, assert_int_equal(--locked, 0); }

static void test_external(void **state)
{
    (void)state;
    struct backend_device *owner = open_device(); /* plays the application */
    wherry_vulkan_desc desc = {
        .struct_size = sizeof desc,
        .api_version = owner->instance.api,
        .instance = owner->instance.handle,
        .physical_device = owner->physical.handle,
        .device = owner->handle,
        .queue = owner->queue,
        .queue_family = owner->physical.queue_family,
        .get_instance_proc_addr = (wherry_vulkan_get_function)owner->instance.get,
        .queue_lock = lock,
        .queue_unlock = unlock,
    };
    for (int half = 0; half < 2; half++) {
        wherry_device_info info;
        struct program_info made;
        desc.storage_buffer_16bit_access = desc.cooperative_matrix = half;
        struct backend_device *d = backend_vulkan.open(&host, 0, &desc, &info, &e);
        if (!d) fail_msg("%s", e.text);
        assert_string_equal(info.name, owner->physical.info.name);
        assert_int_equal(backend_vulkan.limits(d)->f16, half && owner->physical.limits.f16);
        assert_int_equal(backend_vulkan.limits(d)->coopmat_m, half ? owner->physical.limits.coopmat_m : 0);
        struct work *w = work_make();
        assert_true(work_buffers(d, w) && work_program(d, w, &made) && work_run(d, w, false));
        assert_true(work_right(w));
        assert_true(locks > 0);
        work_free(d, w);
        backend_vulkan.close(d);
    }
    wherry_device_info info;
    desc.queue_unlock = NULL;
    assert_null(backend_vulkan.open(&host, 0, &desc, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    desc.queue_unlock = unlock;
    desc.queue_family = 1000;
    assert_null(backend_vulkan.open(&host, 0, &desc, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    desc.struct_size = 4;
    assert_null(backend_vulkan.open(&host, 0, &desc, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);

    /* The application's device still works. */
    struct buffer *b = backend_vulkan.buffer_create(owner, 4096, &e);
    assert_non_null(b);
    assert_true(backend_vulkan.buffer_write(owner, b, 0, "1234", 4, &e));
    backend_vulkan.buffer_destroy(owner, b);
    backend_vulkan.close(owner);
    assert_int_equal(counts.live, 0);
}

/* Says nothing where no layer is on: VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation switches it on. */
static void test_validation(void **state)
{
    (void)state;
    assert_int_equal(counts.validation, 0);
}

/* ---- cooperative matrices ---- */

#define SHAPE(m, n, k, operands, sums, saturates, whose)                                                               \
    {                                                                                                                  \
        .MSize = m, .NSize = n, .KSize = k, .AType = operands, .BType = operands, .CType = sums, .ResultType = sums,   \
        .saturatingAccumulation = saturates, .scope = whose                                                            \
    }
#define F16 VK_COMPONENT_TYPE_FLOAT16_KHR
#define BF16 COMPONENT_TYPE_BFLOAT16
#define F32 VK_COMPONENT_TYPE_FLOAT32_KHR
#define I8 (VkComponentTypeKHR) VK_COMPONENT_TYPE_SINT8_NV
#define I32 (VkComponentTypeKHR) VK_COMPONENT_TYPE_SINT32_NV
#define SUBGROUP VK_SCOPE_SUBGROUP_KHR
#define WORKGROUP (VkScopeKHR) VK_SCOPE_WORKGROUP_NV

// clang-format off
static const struct {
    VkCooperativeMatrixPropertiesKHR shapes[8];
    uint32_t count, m, n, k;
    bool f16_sums, bf16;
} drivers[] = {
    /* NVIDIA, H200 */
    {{SHAPE(16, 8, 8, F16, F32, 0, SUBGROUP), SHAPE(16, 16, 16, F16, F16, 0, SUBGROUP),
      SHAPE(16, 8, 16, F16, F32, 0, SUBGROUP), SHAPE(16, 16, 16, F16, F32, 0, SUBGROUP),
      SHAPE(16, 8, 16, F16, F16, 0, SUBGROUP), SHAPE(16, 16, 32, I8, I32, 0, SUBGROUP)}, 6, 16, 16, 16, true},
    /* The same with VK_KHR_shader_bfloat16; of another shape, and with other sums, they are of no use. */
    {{SHAPE(16, 8, 8, F16, F32, 0, SUBGROUP), SHAPE(16, 16, 16, F16, F16, 0, SUBGROUP),
      SHAPE(16, 8, 16, BF16, F32, 0, SUBGROUP), SHAPE(16, 16, 16, F16, F32, 0, SUBGROUP),
      SHAPE(16, 16, 16, BF16, F32, 0, SUBGROUP)}, 5, 16, 16, 16, true, true},
    {{SHAPE(16, 16, 16, F16, F16, 0, SUBGROUP), SHAPE(16, 8, 16, BF16, F32, 0, SUBGROUP),
      SHAPE(16, 16, 16, F16, F32, 0, SUBGROUP), SHAPE(16, 16, 16, BF16, BF16, 0, SUBGROUP)}, 4, 16, 16, 16, true},
    /* Intel */
    {{SHAPE(8, 16, 16, F16, F32, 0, SUBGROUP), SHAPE(8, 16, 16, F16, F16, 0, SUBGROUP),
      SHAPE(8, 16, 32, I8, I32, 0, SUBGROUP)}, 3, 8, 16, 16, true},
    /* Sums of 32 bits alone, and beside them a smaller one with both. */
    {{SHAPE(16, 16, 16, F16, F32, 0, SUBGROUP)}, 1, 16, 16, 16, false},
    {{SHAPE(16, 16, 16, F16, F32, 0, SUBGROUP), SHAPE(8, 8, 8, F16, F16, 0, SUBGROUP),
      SHAPE(8, 8, 8, F16, F32, 0, SUBGROUP)}, 3, 8, 8, 8, true},
    /* None that a kernel is made of. */
    {{SHAPE(16, 16, 16, F16, F16, 0, SUBGROUP), SHAPE(16, 16, 16, F16, F32, 1, SUBGROUP),
      SHAPE(64, 64, 16, F16, F32, 0, WORKGROUP), SHAPE(16, 16, 32, I8, I32, 0, SUBGROUP),
      SHAPE(16, 16, 16, F32, F32, 0, SUBGROUP)}, 5, 0, 0, 0, false},
    {{{0}}, 0, 0, 0, 0, false}};
// clang-format on

/* Which of the shapes that drivers list is taken, whatever their order. */
static void test_shapes(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof drivers / sizeof *drivers; d++)
        for (uint32_t turn = 0; turn < 6; turn++) {
            VkCooperativeMatrixPropertiesKHR turned[8];
            struct device_limits limits = {0};
            for (uint32_t i = 0; i < drivers[d].count; i++)
                turned[(i + turn) % drivers[d].count] = drivers[d].shapes[i];
            matrices_choose(turned, drivers[d].count, &limits);
            assert_int_equal(limits.coopmat_m, drivers[d].m);
            assert_int_equal(limits.coopmat_n, drivers[d].n);
            assert_int_equal(limits.coopmat_k, drivers[d].k);
            assert_int_equal(limits.coopmat_f16_sums, drivers[d].f16_sums);
            assert_int_equal(limits.coopmat_bf16, drivers[d].bf16);
        }
}

int main(void)
{
    counts.fail_at = -1;
    const struct CMUnitTest anywhere[] = {cmocka_unit_test(test_hazards), cmocka_unit_test(test_needs),
                                          cmocka_unit_test(test_shapes)};
    const struct CMUnitTest on_device[] = {
        cmocka_unit_test(test_order),       cmocka_unit_test(test_ordered),      cmocka_unit_test(test_heap_budget),
        cmocka_unit_test(test_buffers),     cmocka_unit_test(test_replay),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_f16),         cmocka_unit_test(test_kernels),      cmocka_unit_test(test_threads),
        cmocka_unit_test(test_cache),       cmocka_unit_test(test_cache_shared), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_host_memory), cmocka_unit_test(test_external),     cmocka_unit_test(test_validation),
        cmocka_unit_test(test_undefined),
    };
    int failed = cmocka_run_group_tests(anywhere, NULL, NULL);
    wherry_device_info *list = NULL;
    size_t count = 0;
    int devices = 0;
    if (!mkdtemp(folder) || !backend_vulkan.enumerate(&host, &list, &count, &e)) return 1;
    for (size_t i = 0; i < count; i++) {
        if (!list[i].usable) continue;
        printf("on %s: %s, %s\n", list[i].id, list[i].name, list[i].driver);
        fflush(stdout);
        device_number = i;
        counts.live = 0; /* the list itself is of no concern to the tests */
        failed += cmocka_run_group_tests(on_device, NULL, NULL);
        devices++;
    }
    free(list);
    rmdir(folder);
    if (failed) return 1;
    if (!devices) printf("skipped: no usable Vulkan device\n");
    return devices ? 0 : 77;
}
