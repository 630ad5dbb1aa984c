/* onednn.c: forward products of encoders, y = x * transpose(w) + bias in f32, by the device `cpu` with its own kernels
 * and with the kernels "onednn", and by oneDNN alone, in one process and in turns, all with weights that were packed
 * before; and whether a row's bits depend on how many rows there are (docs/design.md: why the library has products of
 * its own).
 *
 *   ninja -C build/release onednn    (where libdnnl-dev is installed; no part of the library)
 *   build/release/tests/onednn [THREADS [ROUNDS [MODEL]]]    (MODEL: MiniLM, BERT-base or BERT-large alone)
 *
 * oneDNN has two primitives for it, inner product and matmul; the faster one counts. Of each, the least of all rounds'
 * times of a call: of a single thread its processor time, so that other work on the machine counts for less; of several
 * wall time. With several, OpenMP's had better sleep when they wait: OMP_WAIT_POLICY=passive. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <dnnl.h>
#include <omp.h>

#include "backends/backend.h"
#include "base/platform.h"
#include "interface/interface.h"

extern const struct backend backend_cpu;

enum { MOST_ROWS = 4096, MOST_WIDTH = 4096 };
enum { INNER_PRODUCT, MATMUL, KINDS };
static const char *const kind_names[KINDS] = {"inner product", "matmul"};
enum { OWN, BY_ONEDNN, DEVICES };
static const char *const device_names[DEVICES] = {"wherry", "wherry, onednn"};

static float *x, *w, *bias, *y; /* of the largest size; y: oneDNN's */
static int threads = 1, rounds = 7;

static void die(const char *what, int code)
{
    fprintf(stderr, "onednn: %s (%d)\n", what, code);
    exit(1);
}

static void check(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) die(what, (int)status);
}

static void *allocate(size_t size, void *user) { return (void)user, malloc(size); }
static void release(void *pointer, void *user) { (void)user, free(pointer); }

static float *floats(size_t count, uint32_t seed)
{
    float *out = aligned_alloc(64, count * sizeof *out);
    uint32_t state = seed;
    if (!out) die("out of memory", 0);
    for (size_t i = 0; i < count; i++) out[i] = (float)((state = state * 1664525 + 1013904223) >> 8) * 0x1p-24f - 0.5f;
    return out;
}

/* ---- the device cpu: a program of one step ---- */

struct ours {
    struct backend_device *device;
    struct buffer *batch, *x, *w, *bias, *y;
    struct call call;
    struct step step;
    struct schedule schedule;
    struct program *program;
};

static struct buffer *buffer_of(struct backend_device *device, const void *data, uint64_t bytes)
{
    struct error e;
    struct buffer *buffer = backend_cpu.buffer_create(device, (bytes + 255) / 256 * 256, &e);
    if (!buffer || (data && !backend_cpu.buffer_write(device, buffer, 0, data, bytes, &e))) die(e.text, e.status);
    return buffer;
}

static void bind(struct step *step, uint8_t slot, struct buffer *buffer, uint64_t bytes)
{
    step->bindings[step->n_bindings++] = (struct binding){slot, slot == SLOT_Y, buffer, 0, bytes, slot == SLOT_BATCH};
}

static void ours_make(struct ours *o, struct backend_device *device, int by, uint64_t m, uint64_t n, uint64_t k)
{
    const uint32_t header[64] = {[HEADER_TOKENS] = (uint32_t)m, [HEADER_SEQUENCES] = 1};
    struct program_info info;
    struct error e;
    *o = (struct ours){.device = device,
                       .batch = buffer_of(device, header, sizeof header),
                       .x = buffer_of(device, x, m * k * 4),
                       .w = buffer_of(device, w, n * k * 4),
                       .bias = buffer_of(device, bias, n * 4),
                       .y = buffer_of(device, NULL, m * n * 4),
                       .call = {.kernel = "gemm", .launch = LAUNCH_TILES}};
    call_set(&o->call, CONST_N, (uint32_t)n);
    call_set(&o->call, CONST_K, (uint32_t)k);
    call_set(&o->call, CONST_ROWS, HEADER_TOKENS);
    call_set(&o->call, CONST_BIAS, 1);
    o->step = (struct step){.name = "product", .kernel = "gemm", .launch = LAUNCH_TILES, .call = &o->call};
    bind(&o->step, SLOT_BATCH, o->batch, sizeof header);
    bind(&o->step, SLOT_X, o->x, m * k * 4);
    bind(&o->step, SLOT_W, o->w, n * k * 4);
    bind(&o->step, SLOT_BIAS, o->bias, n * 4);
    bind(&o->step, SLOT_Y, o->y, m * n * 4);
    o->schedule = (struct schedule){
        .steps = &o->step, .n_steps = 1, .library = by == BY_ONEDNN ? LIBRARY_WANTED : LIBRARY_REFUSED};
    o->program = backend_cpu.program_create(device, &o->schedule, NULL, NULL, &info, &e);
    if (!o->program) die(e.text, e.status);
    const char *note = backend_cpu.program_note(o->program, 0);
    if (by == BY_ONEDNN && strncmp(note, "oneDNN ", 7)) die(note, 0);
}

static void ours_run(struct ours *o)
{
    const struct grid grid = {1, 1, 1};
    const struct run run = {.grids = &grid};
    struct error e;
    if (!backend_cpu.program_run(o->device, o->program, &run, &e)) die(e.text, e.status);
}

static void ours_read(struct ours *o, float *out, uint64_t count)
{
    struct error e;
    if (!backend_cpu.buffer_read(o->device, o->y, 0, out, count * 4, &e)) die(e.text, e.status);
}

static void ours_free(struct ours *o)
{
    struct buffer *buffers[] = {o->batch, o->x, o->w, o->bias, o->y};
    backend_cpu.program_destroy(o->device, o->program);
    for (int i = 0; i < 5; i++) backend_cpu.buffer_destroy(o->device, buffers[i]);
}

/* ---- oneDNN, whose C API of version 3 has other names ---- */

struct theirs {
    dnnl_primitive_t primitive;
    dnnl_memory_t x, w, packed, bias, y;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t made_desc;
typedef const_dnnl_memory_desc_t known_desc;
static known_desc known(const made_desc *d) { return *d; }
static void desc_make(made_desc *d, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    check(dnnl_memory_desc_create_with_tag(d, ndims, dims, dnnl_f32, tag), "description");
}
static void desc_free(made_desc *d) { dnnl_memory_desc_destroy(*d); }
static dnnl_primitive_desc_t product_desc(int kind, known_desc a, known_desc b, known_desc c, known_desc d)
{
    dnnl_primitive_desc_t out;
    if (kind == MATMUL)
        check(dnnl_matmul_primitive_desc_create(&out, engine, a, b, c, d, NULL), "matmul");
    else
        check(dnnl_inner_product_forward_primitive_desc_create(&out, engine, dnnl_forward_inference, a, b, c, d, NULL),
              "inner product");
    return out;
}
#else
typedef dnnl_memory_desc_t made_desc;
typedef const dnnl_memory_desc_t *known_desc;
static known_desc known(const made_desc *d) { return d; }
static void desc_make(made_desc *d, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    check(dnnl_memory_desc_init_by_tag(d, ndims, dims, dnnl_f32, tag), "description");
}
static void desc_free(made_desc *d) { (void)d; }
static dnnl_primitive_desc_t product_desc(int kind, known_desc a, known_desc b, known_desc c, known_desc d)
{
    dnnl_primitive_desc_t out;
    if (kind == MATMUL) {
        dnnl_matmul_desc_t desc;
        check(dnnl_matmul_desc_init(&desc, a, b, c, d), "matmul");
        check(dnnl_primitive_desc_create(&out, &desc, NULL, engine, NULL), "matmul");
    } else {
        dnnl_inner_product_desc_t desc;
        check(dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_inference, a, b, c, d), "inner product");
        check(dnnl_primitive_desc_create(&out, &desc, NULL, engine, NULL), "inner product");
    }
    return out;
}
#endif

static dnnl_memory_t memory_of(known_desc desc, void *data)
{
    dnnl_memory_t out;
    check(dnnl_memory_create(&out, desc, engine, data), "memory");
    return out;
}

static void execute(dnnl_primitive_t primitive, int count, const dnnl_exec_arg_t *args)
{
    check(dnnl_primitive_execute(primitive, stream, count, args), "execute");
    check(dnnl_stream_wait(stream), "wait");
}

/* The weights lie [n][k]; the primitive says how it wants them, and they are packed so once. */
static void theirs_pack(struct theirs *t, known_desc plain, known_desc wanted)
{
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t reorder;
    t->w = memory_of(plain, w);
    t->packed = memory_of(wanted, DNNL_MEMORY_ALLOCATE);
    check(dnnl_reorder_primitive_desc_create(&desc, plain, engine, wanted, engine, NULL), "reorder");
    check(dnnl_primitive_create(&reorder, desc), "reorder");
    execute(reorder, 2, (const dnnl_exec_arg_t[]){{DNNL_ARG_FROM, t->w}, {DNNL_ARG_TO, t->packed}});
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(desc);
}

static void theirs_make(struct theirs *t, int kind, int64_t m, int64_t n, int64_t k)
{
    bool matmul = kind == MATMUL;
    made_desc a, b, plain, c, d;
    desc_make(&a, 2, (const dnnl_dims_t){m, k}, dnnl_ab);
    const dnnl_dims_t weights = {matmul ? k : n, matmul ? n : k}, row = {matmul ? 1 : n, n};
    desc_make(&b, 2, weights, dnnl_format_tag_any);
    desc_make(&plain, 2, weights, matmul ? dnnl_ba : dnnl_ab);
    desc_make(&c, matmul ? 2 : 1, row, matmul ? dnnl_ab : dnnl_a);
    desc_make(&d, 2, (const dnnl_dims_t){m, n}, dnnl_ab);
    dnnl_primitive_desc_t desc = product_desc(kind, known(&a), known(&b), known(&c), known(&d));
    check(dnnl_primitive_create(&t->primitive, desc), "primitive");
    t->x = memory_of(known(&a), x);
    t->bias = memory_of(known(&c), bias);
    t->y = memory_of(known(&d), y);
    theirs_pack(t, known(&plain), dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0));
    dnnl_primitive_desc_destroy(desc);
    made_desc *made[] = {&a, &b, &plain, &c, &d};
    for (int i = 0; i < 5; i++) desc_free(made[i]);
}

static void theirs_run(const struct theirs *t)
{
    execute(t->primitive, 4,
            (const dnnl_exec_arg_t[]){
                {DNNL_ARG_SRC, t->x}, {DNNL_ARG_WEIGHTS, t->packed}, {DNNL_ARG_BIAS, t->bias}, {DNNL_ARG_DST, t->y}});
}

static void theirs_free(struct theirs *t)
{
    dnnl_memory_t memory[] = {t->x, t->w, t->packed, t->bias, t->y};
    for (int i = 0; i < 5; i++) dnnl_memory_destroy(memory[i]);
    dnnl_primitive_destroy(t->primitive);
}

/* ---- times ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_any(int which, struct ours *o, const struct theirs *t)
{
    if (which >= KINDS)
        ours_run(&o[which - KINDS]);
    else
        theirs_run(&t[which]);
}

/* Turns of some milliseconds each; the first one warms and is not counted. */
static void measure(struct ours *o, const struct theirs *t, double flop, double best[KINDS + DEVICES])
{
    const int calls = (int)(0.4e9 / flop) + 1, times = flop < 4e9 ? 4 : 1;
    for (int i = 0; i < KINDS + DEVICES; i++) best[i] = 1e9;
    for (int round = 0; round <= rounds; round++)
        for (int which = 0; which < KINDS + DEVICES; which++) {
            run_any(which, o, t);
            for (int time = 0; time < times; time++) {
                double start = now();
                for (int i = 0; i < calls; i++) run_any(which, o, t);
                double seconds = (now() - start) / calls;
                if (round && seconds < best[which]) best[which] = seconds;
            }
        }
}

/* Both are right, or their times are worth nothing. */
static void compare(struct ours *o, uint64_t count)
{
    float *mine = floats(count, 0);
    ours_read(o, mine, count);
    for (uint64_t i = 0; i < count; i++)
        if (!(mine[i] - y[i] < 1e-3f && y[i] - mine[i] < 1e-3f)) die("the products differ", (int)i);
    free(mine);
}

static void measure_shape(struct backend_device *device, const char *model, int m, int n, int k)
{
    struct ours o[DEVICES];
    struct theirs t[KINDS];
    double best[KINDS + DEVICES], flop = 2.0 * m * n * k;
    for (int by = 0; by < DEVICES; by++) {
        ours_make(&o[by], device, by, (uint64_t)m, (uint64_t)n, (uint64_t)k);
        ours_run(&o[by]);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        theirs_make(&t[kind], kind, m, n, k);
        memset(y, 0, (size_t)m * (size_t)n * 4);
        theirs_run(&t[kind]);
        for (int by = 0; by < DEVICES; by++) compare(&o[by], (uint64_t)m * (uint64_t)n);
    }
    measure(o, t, flop, best);
    int faster = best[MATMUL] < best[INNER_PRODUCT] ? MATMUL : INNER_PRODUCT;
    double own = best[KINDS + OWN], by_onednn = best[KINDS + BY_ONEDNN];
    printf("| %s | %dx%dx%d | %.3f | %.3f | %.3f | %s | %.2f | %.2f |\n", model, m, n, k, own * 1e3, by_onednn * 1e3,
           best[faster] * 1e3, kind_names[faster], by_onednn / own, best[faster] / own);
    fflush(stdout);
    for (int kind = 0; kind < KINDS; kind++) theirs_free(&t[kind]);
    for (int by = 0; by < DEVICES; by++) ours_free(&o[by]);
}

/* ---- bits ---- */

/* For how many of some numbers m of rows the last one has other bits than the same row where there are 128. */
static void check_bits(struct backend_device *device, int n, int k)
{
    static const int counts[] = {1, 2, 3, 4, 5, 7, 8, 13, 20, 33, 64, 100};
    enum { COUNTS = sizeof counts / sizeof *counts, MOST = 128 };
    float *whole = floats((size_t)MOST * (size_t)n, 0), *part = floats((size_t)MOST * (size_t)n, 0);
    for (int kind = 0; kind < KINDS + DEVICES; kind++) {
        int others = 0;
        for (int c = -1; c < COUNTS; c++) {
            int m = c < 0 ? MOST : counts[c];
            float *to = c < 0 ? whole : part;
            if (kind >= KINDS) {
                struct ours o;
                ours_make(&o, device, kind - KINDS, (uint64_t)m, (uint64_t)n, (uint64_t)k);
                ours_run(&o);
                ours_read(&o, to, (uint64_t)m * (uint64_t)n);
                ours_free(&o);
            } else {
                struct theirs t;
                theirs_make(&t, kind, m, n, k);
                theirs_run(&t);
                memcpy(to, y, (size_t)m * (size_t)n * 4);
                theirs_free(&t);
            }
            size_t row = (size_t)(m - 1) * (size_t)n;
            others += c >= 0 && memcmp(part + row, whole + row, (size_t)n * 4);
        }
        printf("| %dx%d | %s | %d of %d |\n", n, k, kind >= KINDS ? device_names[kind - KINDS] : kind_names[kind],
               others, COUNTS);
    }
    free(whole);
    free(part);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int width;
    } models[] = {{"MiniLM", 384}, {"BERT-base", 768}, {"BERT-large", 1024}};
    static const int tokens[] = {20, 128, 512, 4096};
    struct host host = {.alloc = allocate, .free = release};
    wherry_device_info info;
    struct error e;
    if (argc > 1) threads = atoi(argv[1]);
    if (argc > 2) rounds = atoi(argv[2]);
    if (threads < 1 || rounds < 1) die("THREADS and ROUNDS are whole numbers from 1", 0);
    host.threads = (uint32_t)threads;
    omp_set_num_threads(threads);
    struct backend_device *device = backend_cpu.open(&host, 0, NULL, &info, &e);
    if (!device) die(e.text, e.status);
    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
    x = floats((size_t)MOST_ROWS * MOST_WIDTH, 1);
    y = floats((size_t)MOST_ROWS * MOST_WIDTH, 2);
    w = floats((size_t)MOST_WIDTH * 1024, 3);
    bias = floats(MOST_WIDTH, 4);
    const dnnl_version_t *version = dnnl_version();
    printf("oneDNN %d.%d.%d, %d threads, %s, ms\n\n", version->major, version->minor, version->patch, threads,
           threads == 1 ? "processor time" : "wall time");
    printf("| model | m x n x k | wherry | wherry, onednn | oneDNN | its primitive | wherry, onednn / wherry | "
           "oneDNN / wherry |\n|---|---|---:|---:|---:|---|---:|---:|\n");
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 4 && (argc < 4 || !strcmp(argv[3], models[i].name)); t++) {
            int d = models[i].width;
            const int sizes[][2] = {{3 * d, d}, {d, d}, {4 * d, d}, {d, 4 * d}};
            for (int s = 0; s < 4; s++) measure_shape(device, models[i].name, tokens[t], sizes[s][0], sizes[s][1]);
        }
    printf("\nThe last of m rows has other bits than the same row where there are 128:\n\n| n x k | by | of the m |\n");
    printf("|---|---|---|\n");
    for (int i = 0; i < 3; i++) {
        check_bits(device, models[i].width, models[i].width);
        check_bits(device, models[i].width, 4 * models[i].width);
    }
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    backend_cpu.close(device);
    float *all[] = {x, y, w, bias};
    for (int i = 0; i < 4; i++) free(all[i]);
    return 0;
}
