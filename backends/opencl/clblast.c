/* Plain fp32 matrix products through CLBlast, where the build has its header, the machine the library, and it passes a
 * check on the device. */
#include "opencl.h"

#include <stdint.h>

#ifndef WHERRY_HAVE_CLBLAST

bool opencl_gemm_prepare(struct backend_device *device, const struct step *step, enum library library,
                         struct opencl_gemm *gemm, const char **note, uint32_t *compiled)
{
    (void)device, (void)step, (void)library, (void)gemm;
    *note = NULL;
    *compiled = 0;
    return false;
}

bool opencl_gemm_run(const struct opencl_gemm *gemm, size_t rows, cl_command_queue queue, cl_event *event,
                     struct error *e)
{
    (void)gemm, (void)rows, (void)queue, (void)event;
    return fail(e, WHERRY_STATUS_UNSUPPORTED, "this build has no CLBlast");
}

void opencl_gemm_close(struct backend_device *device) { (void)device; }

#else

#include <clblast_c.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "interface/interface.h"

/* ---- the library: opened by the first session that may use it, as OpenCL's is (functions.h) ---- */

#define CLBLAST_FUNCTIONS(X)                                                                                           \
    X(CLBlastSgemm)                                                                                                    \
    X(CLBlastSGemmTempBufferSize)                                                                                      \
    X(CLBlastOverrideParameters)                                                                                       \
    X(CLBlastClearCache)

#define FUNCTION(name) __typeof__(&name) name;
static struct {
    CLBLAST_FUNCTIONS(FUNCTION)
} functions;
#undef FUNCTION

#define CLBlastSgemm functions.CLBlastSgemm
#define CLBlastSGemmTempBufferSize functions.CLBlastSGemmTempBufferSize
#define CLBlastOverrideParameters functions.CLBlastOverrideParameters
#define CLBlastClearCache functions.CLBlastClearCache

static struct once library_once = ONCE_INIT;
static char library_missing[300];

static void library_load(void)
{
    static const char *const names[] = {
#if defined(_WIN32)
        "clblast.dll",
        "libclblast.dll",
#elif defined(__APPLE__)
        "libclblast.1.dylib",
        "libclblast.dylib",
#else
        "libclblast.so.1",
        "libclblast.so",
#endif
        NULL,
    };
    const char *variable = "WHERRY_CLBLAST_LIBRARY", *named = getenv(variable), *missing = NULL;
    if (opencl_functions_named() && !(named && *named)) {
        snprintf(library_missing, sizeof library_missing,
                 "it calls the system's OpenCL library, and WHERRY_OPENCL_LIBRARY names another one");
        return;
    }
    void *library = library_open(variable, names, "CLBlastSgemm", library_missing, sizeof library_missing);
    if (!library) return;
#define LOAD(name)                                                                                                     \
    if (!(name = (__typeof__(name))library_get(library, #name))) missing = #name;
    CLBLAST_FUNCTIONS(LOAD)
#undef LOAD
    if (missing) snprintf(library_missing, sizeof library_missing, "the library has no %s", missing);
}

static bool library_found(struct error *e)
{
    run_once(&library_once, library_load);
    return !library_missing[0] || fail(e, WHERRY_STATUS_UNSUPPORTED, "%s", library_missing);
}

/* CLBlast keeps its compiled kernels, and with them OpenCL contexts, in caches of the process that only
 * CLBlastClearCache() empties. So that contexts don't pile up, the last device that used it does so. */
static atomic_int users;

/* CLBlast has two ways to multiply. The one for small products ("direct") needs no memory of its own, and every output
 * is summed over k in ascending order by one work-item whatever the number of rows: both are promises of ours. The
 * other needs padded copies, and which is taken depends on m * n * k unless this limit is out of reach: products take
 * the direct way when m * n * k is below its cube, which must not overflow. */
static const size_t min_indirect_size = (size_t)1 << (sizeof(size_t) * CHAR_BIT / 3 - 1);

static CLBlastStatusCode multiply(const struct opencl_gemm *g, size_t rows, cl_command_queue *queue, cl_event *event)
{
    return CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, rows, g->n, g->k, 1.0f, g->x,
                        (size_t)g->x_at, g->k, g->w, (size_t)g->w_at, g->k, 0.0f, g->y, (size_t)g->y_at, g->n, queue,
                        event);
}

/* Whether a product of this size takes the direct way: then, and only then, it wants no memory. */
static bool is_direct(cl_command_queue queue, size_t m, size_t n, size_t k)
{
    size_t bytes = 1;
    return !CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, m, n, k, 0, k, 0,
                                       k, 0, n, &queue, &bytes) &&
           !bytes;
}

/* CLBlast keeps parameters per device for the whole process, and setting them throws compiled kernels away: so they are
 * set only where they are not yet as needed. */
static bool force_direct(struct backend_device *device)
{
    enum { LARGE = 1 << 15 };
    if (is_direct(device->queue, LARGE, LARGE, LARGE)) return true;
    const char *name = "XGEMM_MIN_INDIRECT_SIZE";
    return !CLBlastOverrideParameters(device->id, "GemmRoutine", CLBlastPrecisionSingle, 1, &name,
                                      &min_indirect_size) &&
           is_direct(device->queue, LARGE, LARGE, LARGE);
}

/* ---- the check at first use ---- */

/* Odd sizes, so that edge tiles run too. */
enum { CHECK_ROWS = 133, CHECK_FEW = 7, CHECK_N = 75, CHECK_K = 101 };

struct check {
    float x[CHECK_ROWS * CHECK_K], w[CHECK_N * CHECK_K];
    float y[CHECK_ROWS * CHECK_N], few[CHECK_FEW * CHECK_N];
};

static bool check_run(struct backend_device *device, struct check *c, float *y, size_t rows, struct error *e)
{
    struct opencl_gemm g = {.n = CHECK_N, .k = CHECK_K};
    cl_int code = CL_SUCCESS;
    size_t y_bytes = rows * CHECK_N * sizeof(float);
    for (size_t i = 0; i < rows * CHECK_N; i++) y[i] = NAN; /* what was there must not count */
    cl_mem_flags read = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, write = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    g.x = clCreateBuffer(device->context, read, sizeof c->x, c->x, &code);
    if (!code) g.w = clCreateBuffer(device->context, read, sizeof c->w, c->w, &code);
    if (!code) g.y = clCreateBuffer(device->context, write, y_bytes, y, &code);
    bool ok = !code || opencl_fail(e, code, "clCreateBuffer for the check");
    ok = ok && opencl_gemm_run(&g, rows, device->queue, NULL, e);
    if (ok) {
        code = clEnqueueReadBuffer(device->queue, g.y, CL_TRUE, 0, y_bytes, y, 0, NULL, NULL);
        ok = !code || opencl_fail_running(e, code, "clEnqueueReadBuffer");
    }
    if (g.x) clReleaseMemObject(g.x);
    if (g.w) clReleaseMemObject(g.w);
    if (g.y) clReleaseMemObject(g.y);
    return ok;
}

static bool check_values(const struct check *c, struct error *e)
{
    for (int i = 0; i < CHECK_ROWS; i++) {
        for (int j = 0; j < CHECK_N; j++) {
            double sum = 0.0, size = 0.0;
            for (int k = 0; k < CHECK_K; k++) {
                double product = (double)c->x[i * CHECK_K + k] * c->w[j * CHECK_K + k];
                sum += product;
                size += fabs(product);
            }
            double error = fabs(c->y[i * CHECK_N + j] - sum);
            if (!(error <= size * CHECK_K * 6e-8)) { /* the bound of a sum in any order; a NaN fails too */
                return fail(e, WHERRY_STATUS_VERIFY_FAILED, "a product is wrong");
            }
        }
    }
    if (memcmp(c->few, c->y, sizeof c->few)) {
        return fail(e, WHERRY_STATUS_VERIFY_FAILED, "rows change with the number of rows");
    }
    return true;
}

static bool check_device(struct backend_device *device, struct error *e)
{
    if (sizeof(size_t) < 8) return fail(e, WHERRY_STATUS_UNSUPPORTED, "its sizes have 32 bits here");
    if (!force_direct(device)) return fail(e, WHERRY_STATUS_UNSUPPORTED, "it does not take its parameters");
    struct check *c = host_alloc(device->host, 1, sizeof *c, e);
    if (!c) return false;
    uint32_t random = 1;
    float *values = c->x;
    for (size_t i = 0; i < sizeof c->x / sizeof *c->x + sizeof c->w / sizeof *c->w; i++) {
        if (i == sizeof c->x / sizeof *c->x) values = c->w - i;
        random = random * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)random / 2147483648.0f;
    }
    bool ok =
        check_run(device, c, c->y, CHECK_ROWS, e) && check_run(device, c, c->few, CHECK_FEW, e) && check_values(c, e);
    host_free(device->host, c);
    return ok;
}

/* ---- steps ---- */

static const struct binding *binding_find(const struct step *step, uint8_t slot)
{
    for (int i = 0; i < step->n_bindings; i++) {
        if (step->bindings[i].slot == slot) return &step->bindings[i];
    }
    return NULL;
}

/* Of whole matrices: slices of Q, K and V have strides. */
static bool is_plain_product(const struct step *step)
{
    return !strcmp(step->kernel, "gemm") && !step->f16 && !call_get(step->call, CONST_BIAS, 0) &&
           !call_get(step->call, CONST_RESIDUAL, 0) &&
           call_get(step->call, CONST_ACTIVATION, ACTIVATION_NONE) == ACTIVATION_NONE &&
           call_get(step->call, CONST_FORM, GEMM_NT) == GEMM_NT &&
           call_get(step->call, CONST_RUNTIME, RUNTIME_FORM) == RUNTIME_FORM && !call_get(step->call, CONST_SUM, 0) &&
           !call_get(step->call, CONST_DROPOUT, 0) && !call_get(step->call, CONST_DERIVATIVE, ACTIVATION_NONE) &&
           !call_get(step->call, CONST_SCALES, 0) && !call_get(step->call, CONST_GATE, GATE_NONE) &&
           !call_get(step->call, CONST_ROTARY, ROTARY_NONE) && !call_get(step->call, CONST_COLUMN_SUMS, 0) &&
           call_get(step->call, CONST_Y_STRIDE, 0) == 0 && !call_get(step->call, CONST_X_STRIDE, 0) &&
           !call_get(step->call, CONST_W_STRIDE, 0);
}

bool opencl_gemm_prepare(struct backend_device *device, const struct step *step, enum library library,
                         struct opencl_gemm *gemm, const char **note, uint32_t *compiled)
{
    *note = NULL;
    *compiled = 0;
    if (library == LIBRARY_REFUSED || !is_plain_product(step)) return false;
    /* Measured with PoCL 3.1 on two AVX-512 cores, 512 x 3072 x 768: 20 GFLOP/s directly and 17 with copies, our kernel
     * 59; and 5 s until its kernels are built. */
    if (device->limits.cpu && library != LIBRARY_WANTED) return false;
    /* Measured on an H200, 16384 x 3072 x 768: 17 TFLOP/s, our kernel 35; CLBlast has no tuning for new NVIDIA chips.
     */
    if (device->limits.nvidia_sm && library != LIBRARY_WANTED) {
        *note = "own kernel, because CLBlast is slower on NVIDIA GPUs";
        return false;
    }
    if (device->clblast == CLBLAST_UNTRIED) {
        struct error e;
        atomic_fetch_add(&users, 1);
        device->clblast = library_found(&e) && check_device(device, &e) ? CLBLAST_WORKS : CLBLAST_REFUSED;
        *compiled = 1;
        if (device->clblast == CLBLAST_REFUSED) {
            snprintf(device->clblast_note, sizeof device->clblast_note,
                     "own kernel, because CLBlast is not usable here: %.150s", e.text);
            host_log(device->host, WHERRY_LOG_WARNING, "%s", device->clblast_note);
        }
    }
    if (device->clblast == CLBLAST_REFUSED) {
        *note = device->clblast_note;
        return false;
    }
    const struct binding *x = binding_find(step, SLOT_X), *w = binding_find(step, SLOT_W);
    const struct binding *y = binding_find(step, SLOT_Y);
    if (!x || !w || !y) return false;
    const struct binding *const all[] = {x, w, y};
    for (int i = 0; i < 3; i++) { /* its kernels index with int, from the buffer's start */
        if ((all[i]->buffer->at + all[i]->offset + all[i]->bytes) / sizeof(float) > INT32_MAX) {
            *note = "own kernel, because CLBlast can't index a buffer of more than 8 GiB";
            return false;
        }
    }
    *gemm = (struct opencl_gemm){
        .x = x->buffer->memory,
        .w = w->buffer->memory,
        .y = y->buffer->memory,
        .x_at = (x->buffer->at + x->offset) / sizeof(float),
        .w_at = (w->buffer->at + w->offset) / sizeof(float),
        .y_at = (y->buffer->at + y->offset) / sizeof(float),
        .n = call_get(step->call, CONST_N, 0),
        .k = call_get(step->call, CONST_K, 0),
        .rows = call_get(step->call, CONST_ROWS, HEADER_TOKENS),
    };
    *note = "CLBlast, which builds its own kernels in every process";
    return true;
}

bool opencl_gemm_run(const struct opencl_gemm *gemm, size_t rows, cl_command_queue queue, cl_event *event,
                     struct error *e)
{
    CLBlastStatusCode code = multiply(gemm, rows, &queue, event);
    if (!code) return true;
    /* Codes above -1000 are OpenCL's own */
    if (code > -1000) return opencl_fail_running(e, code, "CLBlastSgemm");
    return fail_native(e, WHERRY_STATUS_UNSUPPORTED, code, "CLBlastSgemm of %zu x %u x %u: status %d of clblast_c.h",
                       rows, (unsigned)gemm->n, (unsigned)gemm->k, (int)code);
}

void opencl_gemm_close(struct backend_device *device)
{
    if (device->clblast == CLBLAST_UNTRIED) return;
    device->clblast = CLBLAST_UNTRIED;
    if (atomic_fetch_sub(&users, 1) == 1 && CLBlastClearCache) CLBlastClearCache();
}

#endif
