/* The OpenCL backend alone, below the library: device list, buffers, replays, the program cache, CLBlast, faults, and
 * an application's own device. Runs on every usable OpenCL device; skipped where there is none. */
#define _POSIX_C_SOURCE 200809L
#ifndef WHERRY_HAVE_OPENCL

#include <stdio.h>

int main(void)
{
    puts("skipped: built without OpenCL");
    return 77;
}

#else

#include "backends/opencl/opencl.h"
#include "base/platform.h"
#include "interface/interface.h"
#include "wherry/wherry_opencl.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h> /* after error.h: it makes a macro of fail */

extern const struct backend backend_opencl;
static const struct backend *const B = &backend_opencl;

/* ---- a host that counts, and fails when told to ---- */

static struct {
    long live, calls, fail_at; /* fail_at < 0: never */
} counts = {.fail_at = -1};

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

static struct host host = {.alloc = counted_alloc, .free = counted_free};
static struct error e;
static size_t device_number; /* which device the tests run on */

static struct backend_device *open_device(void)
{
    wherry_device_info info;
    struct backend_device *d = B->open(&host, device_number, NULL, &info, &e);
    if (!d) fail_msg("%s", e.text);
    return d;
}

static char folder[] = "/tmp/wherry-test-XXXXXX";

/* Calls `change` with every file of the cache; returns their number. */
static int folder_each(void (*change)(const char *path))
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[sizeof folder + sizeof entry->d_name + 1];
        /* What is known of the compiler is no kernel (backends/apart.h). */
        if (entry->d_name[0] == '.' || !strncmp(entry->d_name, "compiled-", 9)) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (change) change(path);
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

static void remove_file(const char *path) { unlink(path); }

static void truncate_file(const char *path) { assert_int_equal(truncate(path, 20), 0); }

static void empty_file(const char *path) { assert_int_equal(truncate(path, 0), 0); }

static void flip_bit(const char *path, long at, int from)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, from), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, at, from), 0);
    fputc(byte ^ 64, file);
    fclose(file);
}

static void damage_file(const char *path) { flip_bit(path, -9, SEEK_END); }

static void damage_usage(const char *path) { flip_bit(path, 24, SEEK_SET); } /* registers, in the header */

/* Whole, but not to be trusted: others could have written it, or it lies where others may. */
static void open_file(const char *path) { assert_int_equal(chmod(path, 0666), 0); }

static void link_file(const char *path)
{
    char target[600];
    if (strstr(path, ".target")) return;
    snprintf(target, sizeof target, "%s.target", path);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
}

/* ---- a schedule of three dependent steps of the kernel "map" ---- */

enum { ROWS = 37, N = 48, VALUES = ROWS * N, STEPS = 3, REGION = 8192, AT_BIAS = 0, AT_X = REGION };
#define AT(n) (2 * REGION + (uint64_t)(n)*REGION)

struct work {
    struct buffer *arena, *batch;
    struct call calls[STEPS];
    struct step steps[STEPS];
    struct schedule schedule;
    struct program *program;
    float x[VALUES], bias[N], out[STEPS][VALUES];
    struct grid grids[STEPS];
    double seconds[STEPS];
    uint32_t header[HEADER_WORDS];
    struct batch_shape shape;
    struct transfer uploads[3], downloads[STEPS];
};

static void bind(struct step *s, uint8_t slot, bool written, struct buffer *buffer, uint64_t offset, uint64_t bytes)
{
    s->bindings[s->n_bindings++] = (struct binding){slot, written, buffer, offset, bytes};
}

/* y = activation(x + bias) + residual; at_residual 0: none. */
static void step_set(struct work *w, int i, uint64_t at_x, bool bias, uint32_t activation, uint64_t at_residual,
                     uint64_t at_y)
{
    struct step *s = &w->steps[i];
    struct call *c = &w->calls[i];
    *c = (struct call){.kernel = "map", .launch = LAUNCH_ELEMENTS};
    call_set(c, CONST_LOCAL_SIZE, 64);
    call_set(c, CONST_N, N);
    call_set(c, CONST_ROWS, HEADER_TOKENS);
    call_set(c, CONST_BIAS, bias);
    call_set(c, CONST_ACTIVATION, activation);
    call_set(c, CONST_RESIDUAL, at_residual != 0);
    call_set(c, CONST_ALIGNED, 0);
    *s = (struct step){.name = "a step", .kernel = "map", .launch = LAUNCH_ELEMENTS, .call = c, .flops = VALUES};
    bind(s, SLOT_BATCH, false, w->batch, 0, 256);
    bind(s, SLOT_X, false, w->arena, at_x, sizeof w->x);
    if (bias) bind(s, SLOT_BIAS, false, w->arena, AT_BIAS, sizeof w->bias);
    if (at_residual) bind(s, SLOT_RESIDUAL, false, w->arena, at_residual, sizeof w->x);
    bind(s, SLOT_Y, true, w->arena, at_y, sizeof w->x);
    w->grids[i] = (struct grid){(VALUES + 63) / 64, 1, 1};
}

static struct work *work_make(struct backend_device *d)
{
    struct work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (int i = 0; i < VALUES; i++) w->x[i] = sinf((float)i * 0.7f) * 3;
    for (int i = 0; i < N; i++) w->bias[i] = cosf((float)i);
    w->header[HEADER_TOKENS] = ROWS;
    w->header[HEADER_SEQUENCES] = 1;
    w->shape = (struct batch_shape){.sequences = 1, .tokens = ROWS};
    w->arena = B->buffer_create(d, 8 * REGION, &e);
    assert_non_null(w->arena);
    w->batch = B->buffer_create(d, 4096, &e);
    assert_non_null(w->batch);
    step_set(w, 0, AT_X, true, ACTIVATION_NONE, 0, AT(0));      /* out0 = x + bias */
    step_set(w, 1, AT(0), false, ACTIVATION_RELU, AT_X, AT(1)); /* out1 = relu(out0) + x */
    step_set(w, 2, AT(1), true, ACTIVATION_NONE, AT(0), AT(2)); /* out2 = out1 + bias + out0 */
    w->schedule = (struct schedule){.steps = w->steps, .n_steps = STEPS};
    w->uploads[0] = (struct transfer){w->arena, AT_X, sizeof w->x, w->x};
    w->uploads[1] = (struct transfer){w->arena, AT_BIAS, sizeof w->bias, w->bias};
    w->uploads[2] = (struct transfer){w->batch, 0, sizeof w->header, w->header};
    for (int i = 0; i < STEPS; i++) w->downloads[i] = (struct transfer){w->arena, AT(i), sizeof *w->out, w->out[i]};
    return w;
}

static void work_free(struct backend_device *d, struct work *w)
{
    B->program_destroy(d, w->program);
    B->buffer_destroy(d, w->arena);
    B->buffer_destroy(d, w->batch);
    free(w);
}

static struct program_info work_program(struct backend_device *d, struct work *w)
{
    struct program_info info;
    w->program = B->program_create(d, &w->schedule, NULL, NULL, &info, &e);
    if (!w->program) fail_msg("%s", e.text);
    return info;
}

static bool work_run(struct backend_device *d, struct work *w, bool timed)
{
    struct run run = {.uploads = w->uploads,
                      .downloads = w->downloads,
                      .n_uploads = 3,
                      .n_downloads = STEPS,
                      .grids = w->grids,
                      .batch = &w->shape,
                      .step_seconds = timed ? w->seconds : NULL};
    return B->program_run(d, w->program, &run, &e);
}

static void work_check(const struct work *w)
{
    for (int i = 0; i < VALUES; i++) {
        float x = w->x[i], b = w->bias[i % N], out0 = x + b, out1 = (out0 > 0 ? out0 : 0) + x;
        assert_true(w->out[0][i] == out0);
        assert_true(w->out[1][i] == out1);
        assert_true(fabsf(w->out[2][i] - (out1 + b + out0)) < 1e-5f);
    }
}

/* ---- tests ---- */

static int rank(wherry_device_type type)
{
    return type == WHERRY_DEVICE_DISCRETE_GPU     ? 0
           : type == WHERRY_DEVICE_INTEGRATED_GPU ? 1
           : type == WHERRY_DEVICE_CPU            ? 4
                                                  : 2;
}

static void test_order(void **state)
{
    (void)state;
    wherry_device_info *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    assert_true(B->enumerate(&host, &a, &n_a, &e));
    assert_true(B->enumerate(&host, &b, &n_b, &e));
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++) {
        char id[32];
        snprintf(id, sizeof id, "opencl:%zu", i);
        assert_string_equal(a[i].id, id);
        assert_memory_equal(&a[i], &b[i], sizeof *a);
        assert_true(a[i].usable ? !a[i].reason[0] : a[i].reason[0]);
        assert_true(!i || rank(a[i - 1].type) <= rank(a[i].type));
    }
    /* The list grows after what is there */
    assert_true(B->enumerate(&host, &a, &n_a, &e));
    assert_int_equal(n_a, 2 * n_b);
    assert_memory_equal(a + n_b, b, n_b * sizeof *b);
    wherry_device_info info;
    assert_null(B->open(&host, n_b, NULL, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_NO_DEVICE);
    host_free(&host, a);
    host_free(&host, b);
    assert_int_equal(counts.live, 0);
}

static void test_buffers(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    const struct device_limits *limits = B->limits(d);
    assert_true(limits->f16 && limits->max_local_size && limits->shared_bytes && limits->memory_bytes);
    assert_int_equal(B->allocated(d), 0);
    assert_null(B->buffer_create(d, 0, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_null(B->buffer_create(d, UINT64_MAX / 2, &e));
    assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_null(B->buffer_create(d, limits->max_buffer_bytes + 4, &e));
    assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);

    const size_t bytes = (4u << 20) + 4096, offset = 260, n = (bytes - 512) / 4;
    struct buffer *b = B->buffer_create(d, bytes, &e);
    assert_non_null(b);
    assert_int_equal(B->allocated(d), bytes);
    uint32_t *in = malloc(n * 4), *out = calloc(n, 4);
    assert_true(in && out);
    for (size_t i = 0; i < n; i++) in[i] = (uint32_t)i * 2654435761u;
    assert_true(B->buffer_write(d, b, offset, in, n * 4, &e));
    assert_true(B->buffer_read(d, b, offset, out, n * 4, &e));
    assert_memory_equal(in, out, n * 4);
    assert_true(B->buffer_read(d, b, offset + 400, out, 8, &e));
    assert_memory_equal(in + 100, out, 8);
    assert_true(B->buffer_write(d, b, bytes, in, 0, &e));
    assert_false(B->buffer_write(d, b, bytes - 4, in, 8, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    assert_false(B->buffer_read(d, b, UINT64_MAX - 3, out, 8, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    free(in);
    free(out);
    B->buffer_destroy(d, b);
    B->buffer_destroy(d, NULL);
    assert_int_equal(B->allocated(d), 0);
    B->close(d);
    B->close(NULL);
    assert_int_equal(counts.live, 0);
}

/* More memory than the device has is refused when it is asked for, even where drivers would promise it. */
static void test_memory_sum(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    uint64_t real = d->limits.memory_bytes;
    d->limits.memory_bytes = 1 << 20;
    struct buffer *b = B->buffer_create(d, 1 << 19, &e);
    assert_non_null(b);
    assert_null(B->buffer_create(d, (1 << 19) + 4, &e));
    assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
    d->limits.memory_bytes = real;
    B->buffer_destroy(d, b);
    B->close(d);
    assert_int_equal(counts.live, 0);
}

static void test_replay(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    struct work *w = work_make(d);
    struct program_info info = work_program(d, w);
    assert_int_equal(info.kernels, STEPS);
    assert_int_equal(info.compiled, STEPS);
    long calls = counts.calls;
    static float first[STEPS][VALUES];
    for (int i = 0; i < 20; i++) {
        memset(w->out, 0xff, sizeof w->out);
        assert_true(work_run(d, w, i % 2));
        work_check(w);
        if (!i) memcpy(first, w->out, sizeof first);
        assert_memory_equal(first, w->out, sizeof first);
        for (int s = 0; s < STEPS && i % 2; s++) assert_true(w->seconds[s] >= 0 && w->seconds[s] < 10);
    }
    assert_int_equal(counts.calls, calls); /* a run allocates nothing */

    /* Fewer rows: the others stay as they were. A step without work-groups does nothing. */
    w->header[HEADER_TOKENS] = 1;
    for (int i = 0; i < N; i++) w->x[i] = 100;
    w->x[N] += 1;
    w->grids[1].x = 0;
    assert_true(work_run(d, w, true));
    assert_true(w->out[0][0] == 100 + w->bias[0]);
    assert_true(w->out[0][N] == first[0][N]);
    assert_true(w->out[1][0] == first[1][0]);
    assert_true(w->seconds[1] == 0);

    w->uploads[0].bytes = 9 * REGION;
    assert_false(work_run(d, w, false));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    w->uploads[0].bytes = sizeof w->x;

    /* Kernels are shared by all programs of a device. */
    B->program_destroy(d, w->program);
    info = work_program(d, w);
    assert_int_equal(info.kernels, STEPS);
    assert_int_equal(info.compiled, 0);

    /* No queue with timestamps: runs go on, timed ones say why not. */
    clReleaseCommandQueue(d->profiling_queue);
    d->profiling_queue = NULL;
    assert_true(work_run(d, w, false));
    assert_false(work_run(d, w, true));
    assert_int_equal(e.status, WHERRY_STATUS_UNSUPPORTED);
    work_free(d, w);
    assert_int_equal(B->allocated(d), 0);
    B->close(d);
    assert_int_equal(counts.live, 0);
}

/* What lies in the batch buffer before a program is made is there afterwards. */
static void test_batch_kept(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    struct work *w = work_make(d);
    uint32_t before[64], after[64];
    for (uint32_t i = 0; i < 64; i++) before[i] = i * 77;
    before[HEADER_TOKENS] = ROWS;
    assert_true(B->buffer_write(d, w->batch, 0, before, sizeof before, &e));
    float mark[VALUES], y[VALUES];
    for (int i = 0; i < VALUES; i++) mark[i] = (float)i;
    for (int i = 0; i < STEPS; i++) assert_true(B->buffer_write(d, w->arena, AT(i), mark, sizeof mark, &e));
    work_program(d, w);
    assert_true(B->buffer_read(d, w->batch, 0, after, sizeof after, &e));
    assert_memory_equal(before, after, sizeof before);
    for (int i = 0; i < STEPS; i++) {
        assert_true(B->buffer_read(d, w->arena, AT(i), y, sizeof y, &e));
        assert_memory_equal(mark, y, sizeof y);
    }
    work_free(d, w);
    B->close(d);
}

static bool cancel(const char *what, size_t done, size_t total, void *user)
{
    (void)what, (void)done, (void)total, (void)user;
    return false;
}

static void refuse(struct backend_device *d, struct work *w, wherry_status status, const char *text)
{
    struct program_info info;
    e = (struct error){0};
    assert_null(B->program_create(d, &w->schedule, NULL, NULL, &info, &e));
    assert_int_equal(e.status, status);
    if (!strstr(e.text, text)) fail_msg("\"%s\" lacks \"%s\"", e.text, text);
}

static void test_refusals(void **state)
{
    (void)state;
    struct backend_device *d = open_device();
    struct work *w = work_make(d);
    struct program_info info;
    char reason[256];
    assert_true(B->supports(d, &w->calls[0], false, reason, sizeof reason));
    assert_true(B->supports(d, &w->calls[0], true, reason, sizeof reason));
    struct call call = w->calls[0];
    call.kernel = "no such kernel";
    assert_false(B->supports(d, &call, false, reason, sizeof reason));
    assert_non_null(strstr(reason, "no such kernel"));
    call = w->calls[0];
    call_set(&call, CONST_LOCAL_SIZE, d->limits.max_local_size + 1);
    assert_false(B->supports(d, &call, false, reason, sizeof reason));
    call = (struct call){.kernel = "attention"};
    for (uint32_t size = 0; size <= 136; size += 4) {
        call_set(&call, CONST_HEAD_DIM, size);
        assert_int_equal(B->supports(d, &call, false, reason, sizeof reason), size && size <= 128 && size % 8 == 0);
    }

    assert_null(B->program_create(d, &w->schedule, cancel, NULL, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_CANCELLED);

    struct step step = w->steps[1];
    w->steps[1].kernel = "no such kernel";
    refuse(d, w, WHERRY_STATUS_UNSUPPORTED, "no such kernel");
    w->steps[1] = step;
    w->steps[1].n_bindings--;
    refuse(d, w, WHERRY_STATUS_COMPILE_FAILED, "arguments");
    w->steps[1] = step;
    w->steps[1].bindings[1].bytes = 9 * REGION;
    refuse(d, w, WHERRY_STATUS_INVALID_ARGUMENT, "outside");
    w->steps[1] = step;
    w->steps[1].bindings[1].offset += 4;
    refuse(d, w, WHERRY_STATUS_INVALID_ARGUMENT, "256");
    w->steps[1] = step;
    call = w->calls[1];
    call_set(&w->calls[1], CONST_LOCAL_SIZE, 0); /* which no compiler takes */
    refuse(d, w, WHERRY_STATUS_COMPILE_FAILED, "map");
    assert_true(e.native != 0);
    w->calls[1] = call;
    w->calls[1].constants[0].id = CONST_COUNT;
    refuse(d, w, WHERRY_STATUS_INVALID_ARGUMENT, "constant");
    w->calls[1] = call;

    /* After all that the device works. */
    work_program(d, w);
    assert_true(work_run(d, w, false));
    work_check(w);
    work_free(d, w);
    B->close(d);
    assert_int_equal(counts.live, 0);
}

/* Every allocation of the host's fails once: an error, and nothing is lost. */
static void test_out_of_host_memory(void **state)
{
    (void)state;
    bool done = false;
    for (long at = 0; !done && at < 200; at++) {
        wherry_device_info info;
        struct program_info program_info;
        struct buffer *buffer = NULL;
        counts.calls = 0;
        counts.fail_at = at;
        struct backend_device *d = B->open(&host, device_number, NULL, &info, &e);
        if (d) buffer = B->buffer_create(d, 4096, &e);
        if (buffer) {
            struct call call = {.kernel = "map"};
            call_set(&call, CONST_LOCAL_SIZE, 64);
            struct step step = {.name = "a step", .kernel = "map", .call = &call};
            bind(&step, SLOT_BATCH, false, buffer, 0, 256);
            bind(&step, SLOT_X, false, buffer, 256, 256);
            bind(&step, SLOT_Y, true, buffer, 512, 256);
            struct schedule schedule = {.steps = &step, .n_steps = 1};
            struct program *program = B->program_create(d, &schedule, NULL, NULL, &program_info, &e);
            done = program;
            if (program) B->program_destroy(d, program);
        }
        if (!done) assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_HOST_MEMORY);
        if (d) B->buffer_destroy(d, buffer);
        B->close(d);
        counts.fail_at = -1;
        assert_int_equal(counts.live, 0);
    }
    assert_true(done);
}

/* ---- the cache ---- */

enum { CHANGES = 40 };

static uint32_t compiled_now(void)
{
    struct backend_device *d = open_device();
    struct work *w = work_make(d);
    struct program_info info = work_program(d, w);
    assert_int_equal(info.kernels, STEPS);
    assert_true(work_run(d, w, false));
    work_check(w);
    work_free(d, w);
    B->close(d);
    return info.compiled;
}

static void test_cache(void **state)
{
    (void)state;
    snprintf(host.cache_dir, sizeof host.cache_dir, "%s", folder);
    assert_int_equal(compiled_now(), STEPS);
    assert_int_equal(folder_each(NULL), STEPS);
    assert_int_equal(compiled_now(), 0);
    void (*const harms[])(const char *) = {damage_file, damage_usage, truncate_file, empty_file,
                                           open_file,   link_file,    remove_file};
    for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
        folder_each(harms[i]);
        assert_int_equal(compiled_now(), STEPS); /* noticed, and repaired */
        assert_int_equal(compiled_now(), 0);
    }
    /* In a folder that others may write to nothing is taken, and nothing kept. */
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(compiled_now(), STEPS);
    assert_int_equal(compiled_now(), STEPS);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(compiled_now(), 0);
    /* A folder that can't be made costs time only. */
    snprintf(host.cache_dir, sizeof host.cache_dir, "/dev/null/folder");
    assert_int_equal(compiled_now(), STEPS);
    host.cache_dir[0] = 0;
    folder_each(remove_file);
    assert_int_equal(counts.live, 0);
}

/* Every file of the cache cut short, and as it was again, for as long as `user`, a flag, is set. */
static void *cut_files(void *user)
{
    enum { MOST = 1 << 20 };
    const atomic_bool *go = user;
    char *bytes = malloc(MOST);
    while (bytes && atomic_load(go)) {
        DIR *dir = opendir(folder);
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            char path[sizeof folder + sizeof entry->d_name + 1];
            if (!strstr(entry->d_name, ".bin") || strstr(entry->d_name, ".tmp")) continue;
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
            int file = open(path, O_RDWR);
            ssize_t size = file >= 0 ? pread(file, bytes, MOST, 0) : 0;
            bool cut = size > 0 && !ftruncate(file, 100);
            for (volatile int wait = 0; wait < 20000; wait++) continue;
            if (cut && pwrite(file, bytes, (size_t)size, 0) != size) unlink(path);
            if (file >= 0) close(file);
        }
        if (dir) closedir(dir);
    }
    free(bytes);
    return NULL;
}

/* While others write to its files, kernels are taken from the cache or compiled; a map would be a SIGBUS. */
static void test_cache_changes(void **state)
{
    (void)state;
    snprintf(host.cache_dir, sizeof host.cache_dir, "%s", folder);
    assert_int_equal(compiled_now(), STEPS);
    atomic_bool go = true;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cut_files, &go), 0);
    uint32_t compiled = 0;
    for (int i = 0; i < CHANGES; i++) compiled += compiled_now();
    atomic_store(&go, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    print_message("%u of %u kernels compiled\n", compiled, (uint32_t)CHANGES * STEPS);
    host.cache_dir[0] = 0;
    folder_each(remove_file);
    assert_int_equal(counts.live, 0);
}

/* ---- CLBlast ---- */

enum { GEMM_N = 75, GEMM_K = 130, GEMM_ROWS = 133, GEMM_FEW = 7 };

struct product {
    struct buffer *batch, *x, *w, *y;
    struct call call;
    struct step step;
    struct schedule schedule;
    struct program *program;
};

static void product_make(struct backend_device *d, struct product *p, const float *x, const float *w)
{
    enum { BEFORE = 1024 }; /* bytes: an offset must count */
    p->batch = B->buffer_create(d, 256, &e);
    p->x = B->buffer_create(d, BEFORE + GEMM_ROWS * GEMM_K * sizeof(float), &e);
    p->w = B->buffer_create(d, BEFORE + GEMM_N * GEMM_K * sizeof(float), &e);
    p->y = B->buffer_create(d, BEFORE + GEMM_ROWS * GEMM_N * sizeof(float), &e);
    assert_true(p->batch && p->x && p->w && p->y);
    assert_true(B->buffer_write(d, p->x, BEFORE, x, GEMM_ROWS * GEMM_K * sizeof(float), &e));
    assert_true(B->buffer_write(d, p->w, BEFORE, w, GEMM_N * GEMM_K * sizeof(float), &e));
    p->call = (struct call){.kernel = "gemm", .launch = LAUNCH_TILES};
    const uint32_t constants[][2] = {{CONST_LOCAL_SIZE, 64}, {CONST_N, GEMM_N},   {CONST_K, GEMM_K},
                                     {CONST_TILE_M, 32},     {CONST_TILE_N, 32},  {CONST_TILE_K, 16},
                                     {CONST_THREAD_M, 4},    {CONST_THREAD_N, 4}, {CONST_ALIGNED, 0}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        call_set(&p->call, (uint8_t)constants[i][0], constants[i][1]);
    }
    p->step = (struct step){.name = "a product", .kernel = "gemm", .launch = LAUNCH_TILES, .call = &p->call};
    bind(&p->step, SLOT_BATCH, false, p->batch, 0, 256);
    bind(&p->step, SLOT_X, false, p->x, BEFORE, GEMM_ROWS * GEMM_K * sizeof(float));
    bind(&p->step, SLOT_W, false, p->w, BEFORE, GEMM_N * GEMM_K * sizeof(float));
    bind(&p->step, SLOT_Y, true, p->y, BEFORE, GEMM_ROWS * GEMM_N * sizeof(float));
    p->schedule = (struct schedule){.steps = &p->step, .n_steps = 1};
}

static void product_run(struct backend_device *d, struct product *p, uint32_t rows, float *y, double *seconds)
{
    uint32_t header[HEADER_WORDS] = {[HEADER_TOKENS] = rows, [HEADER_SEQUENCES] = 1};
    struct batch_shape shape = {.sequences = 1, .tokens = rows};
    struct transfer up = {p->batch, 0, sizeof header, header};
    struct transfer down = {p->y, p->step.bindings[3].offset, (uint64_t)rows * GEMM_N * sizeof(float), y};
    struct grid grid = {((rows + 31) / 32) * ((GEMM_N + 31) / 32), 1, 1};
    struct run run = {&up, &down, 1, 1, &grid, &shape, seconds};
    if (!B->program_run(d, p->program, &run, &e)) fail_msg("%s", e.text);
}

/* The product is right, and rows have the same bits in a batch of any size. */
static void product_check(struct backend_device *d, struct product *p, const float *x, const float *w)
{
    static float all[GEMM_ROWS * GEMM_N], few[GEMM_FEW * GEMM_N];
    double seconds;
    product_run(d, p, GEMM_ROWS, all, NULL);
    product_run(d, p, GEMM_FEW, few, &seconds);
    assert_memory_equal(all, few, sizeof few);
    assert_true(seconds > 0 && seconds < 10);
    for (int i = 0; i < GEMM_ROWS * GEMM_N; i++) {
        double sum = 0;
        for (int k = 0; k < GEMM_K; k++) sum += (double)x[i / GEMM_N * GEMM_K + k] * w[i % GEMM_N * GEMM_K + k];
        assert_true(fabs(all[i] - sum) < 1e-4);
    }
}

static void product_free(struct backend_device *d, struct product *p)
{
    B->program_destroy(d, p->program);
    B->buffer_destroy(d, p->batch);
    B->buffer_destroy(d, p->x);
    B->buffer_destroy(d, p->w);
    B->buffer_destroy(d, p->y);
}

static void test_products(void **state)
{
    (void)state;
    static float x[GEMM_ROWS * GEMM_K], w[GEMM_N * GEMM_K];
    for (int i = 0; i < GEMM_ROWS * GEMM_K; i++) x[i] = sinf((float)i * 0.37f);
    for (int i = 0; i < GEMM_N * GEMM_K; i++) w[i] = cosf((float)i * 0.91f);
    struct program_info info;
    struct product p = {0};
    struct backend_device *d = open_device();
    bool cpu = d->limits.cpu;

    /* A CPU's own choice */
    d->limits.cpu = true;
    product_make(d, &p, x, w);
    p.program = B->program_create(d, &p.schedule, NULL, NULL, &info, &e);
    assert_non_null(p.program);
    product_check(d, &p, x, w);
    product_free(d, &p);
    d->limits.cpu = cpu;

#ifdef WHERRY_HAVE_CLBLAST
    d->limits.cpu = false; /* as on a GPU that is not NVIDIA's */
    d->limits.nvidia_sm = 0;
    product_make(d, &p, x, w);
    p.program = B->program_create(d, &p.schedule, NULL, NULL, &info, &e);
    assert_non_null(p.program);
    assert_int_equal(strncmp(B->program_note(p.program, 0), "CLBlast, ", 9), 0);
    assert_int_equal(info.kernels, 1);
    assert_int_equal(info.compiled, 1);
    assert_int_equal(B->allocated(d), p.batch->bytes + p.x->bytes + p.w->bytes + p.y->bytes);
    product_check(d, &p, x, w);
    B->program_destroy(d, p.program);
    p.program = B->program_create(d, &p.schedule, NULL, NULL, &info, &e);
    assert_non_null(p.program);
    assert_int_equal(info.compiled, 0); /* once per device */

    /* A second device beside it, and after it: what CLBlast keeps for the process must not be pulled away. */
    struct backend_device *other = open_device();
    struct product q = {0};
    other->limits.cpu = false;
    other->limits.nvidia_sm = 0;
    product_make(other, &q, x, w);
    q.program = B->program_create(other, &q.schedule, NULL, NULL, &info, &e);
    assert_non_null(q.program);
    product_check(other, &q, x, w);
    product_free(other, &q);
    B->close(other);
    product_check(d, &p, x, w);

    /* With an epilogue it is not CLBlast's. */
    B->program_destroy(d, p.program);
    call_set(&p.call, CONST_ACTIVATION, ACTIVATION_RELU);
    p.program = B->program_create(d, &p.schedule, NULL, NULL, &info, &e);
    assert_non_null(p.program);
    assert_null(B->program_note(p.program, 0));
    call_set(&p.call, CONST_ACTIVATION, ACTIVATION_NONE);

    /* Refused: our kernel runs, and the note tells. */
    B->program_destroy(d, p.program);
    d->clblast = CLBLAST_REFUSED;
    snprintf(d->clblast_note, sizeof d->clblast_note, "own kernel, because of this test");
    p.program = B->program_create(d, &p.schedule, NULL, NULL, &info, &e);
    assert_non_null(p.program);
    assert_string_equal(B->program_note(p.program, 0), "own kernel, because of this test");
    product_check(d, &p, x, w);
    product_free(d, &p);
#endif
    B->close(d);
    assert_int_equal(counts.live, 0);
}

/* ---- an application's own device ---- */

static void test_external(void **state)
{
    (void)state;
    struct backend_device *own = open_device(); /* lends its handles to the "application" */
    cl_int code;
    cl_uint before = 0, after = 0;
    cl_context context = clCreateContext(NULL, 1, &own->id, NULL, NULL, &code);
    assert_non_null(context);
    cl_command_queue queue = clCreateCommandQueue(context, own->id, 0, &code);
    assert_non_null(queue);
    assert_int_equal(clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof before, &before, NULL), 0);

    wherry_device_info info;
    wherry_opencl_device_desc desc = {sizeof desc, context, own->id, queue};
    for (int i = 0; i < 2; i++) {
        desc.queue = i ? NULL : queue;
        struct backend_device *d = B->open(&host, 0, &desc, &info, &e);
        assert_non_null(d);
        assert_true(info.usable && info.name[0]);
        assert_true(i ? d->queue != queue : d->queue == queue);
        struct work *w = work_make(d);
        work_program(d, w);
        assert_true(work_run(d, w, false));
        work_check(w);
        assert_true(work_run(d, w, true));
        work_check(w);
        work_free(d, w);
        B->close(d);
    }
    /* PoCL's own threads may let go of finished commands a moment later */
    for (int i = 0; i < 1000 && after != before; i++) {
        nanosleep(&(struct timespec){.tv_nsec = i ? 5000000 : 0}, NULL);
        assert_int_equal(clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof after, &after, NULL), 0);
    }
    assert_int_equal(before, after);

    desc.queue = own->queue; /* of another context */
    assert_null(B->open(&host, 0, &desc, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    cl_command_queue unordered = clCreateCommandQueue(context, own->id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (unordered) {
        desc.queue = unordered;
        assert_null(B->open(&host, 0, &desc, &info, &e));
        assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "out-of-order"));
        clReleaseCommandQueue(unordered);
    }
    desc = (wherry_opencl_device_desc){sizeof desc, context, NULL, NULL};
    assert_null(B->open(&host, 0, &desc, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    desc = (wherry_opencl_device_desc){0, context, own->id, NULL};
    assert_null(B->open(&host, 0, &desc, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_INVALID_ARGUMENT);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    B->close(own);
    assert_int_equal(counts.live, 0);
}

/* ---- threads: a device each ---- */

static void *plain_alloc(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static void plain_free(void *pointer, void *user)
{
    (void)user;
    free(pointer);
}

static void *thread_main(void *user)
{
    bool *ok = user;
    struct error error;
    struct host own = {.alloc = plain_alloc, .free = plain_free};
    *ok = true;
    for (int i = 0; i < 20 && *ok; i++) {
        wherry_device_info info;
        uint32_t in = (uint32_t)i, out = ~in;
        struct backend_device *d = B->open(&own, device_number, NULL, &info, &error);
        struct buffer *b = d ? B->buffer_create(d, 4096, &error) : NULL;
        *ok = b && B->buffer_write(d, b, 64, &in, 4, &error) && B->buffer_read(d, b, 64, &out, 4, &error) && in == out;
        if (d) B->buffer_destroy(d, b);
        B->close(d);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    bool ok[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, thread_main, &ok[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(ok[i]);
    }
}

static void test_errors(void **state)
{
    (void)state;
    assert_false(opencl_fail_running(&e, CL_OUT_OF_RESOURCES, "clFinish"));
    assert_int_equal(e.status, WHERRY_STATUS_DEVICE_LOST);
    assert_int_equal(e.native, CL_OUT_OF_RESOURCES);
    assert_non_null(strstr(e.text, "clFinish: CL_OUT_OF_RESOURCES (-5)"));
    opencl_fail_running(&e, CL_INVALID_COMMAND_QUEUE, "clFinish");
    assert_int_equal(e.status, WHERRY_STATUS_DEVICE_LOST);
    opencl_fail(&e, CL_OUT_OF_RESOURCES, "clCreateBuffer");
    assert_int_equal(e.status, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
    opencl_fail(&e, CL_BUILD_PROGRAM_FAILURE, "clBuildProgram");
    assert_int_equal(e.status, WHERRY_STATUS_COMPILE_FAILED);
    assert_non_null(opencl_error_name(-12345));
}

int main(void)
{
    wherry_device_info *infos = NULL;
    size_t count = 0, tested = 0;
    int failed = 0;
    if (!B->enumerate(&host, &infos, &count, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_order),
        cmocka_unit_test(test_buffers),  cmocka_unit_test(test_memory_sum),
        cmocka_unit_test(test_replay),   cmocka_unit_test(test_batch_kept),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_out_of_host_memory),
        cmocka_unit_test(test_cache),    cmocka_unit_test(test_cache_changes),
        cmocka_unit_test(test_products), cmocka_unit_test(test_external),
        cmocka_unit_test(test_threads),
    };
    bool usable[64] = {0};
    for (size_t i = 0; i < count && i < 64; i++) {
        usable[i] = infos[i].usable;
        if (!usable[i]) printf("%s (%s) is not usable: %s\n", infos[i].id, infos[i].name, infos[i].reason);
    }
    host_free(&host, infos);
    for (device_number = 0; device_number < count && device_number < 64; device_number++) {
        char name[32];
        if (!usable[device_number]) continue;
        snprintf(name, sizeof name, "opencl:%zu", device_number);
        failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
        tested++;
    }
    rmdir(folder);
    if (tested) return failed ? 1 : 0;
    puts("skipped: no usable OpenCL device");
    return 77;
}

#endif
