/* A gate's slopes, which training's forward pass may keep, and the gradient by them, of the kernel gate on every
 * driver: half by half what differences of the gate say. Those that products make are test_emulated's. */
#include "interface/interface.h"
#include "interface/random.h"
#include "plan/batch.h"
#include "plan/tiles.h"
#include "plan/variants.h"
#include "runtime/context.h"
#include "support.h"

#include "base/half.h"
#include "graph/call.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static wherry_context *context;

enum { BATCH_BYTES = 4096, TOKENS = 37, MOST = TOKENS * 2 * 24, SITE = 22, THRESHOLD = 6554 };

struct gate_case {
    const char *device;
    bool f16;
};

/* ---- what it should be ---- */

#define PHILOX_WORD uint32_t
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = (uint32_t)((uint64_t)(a) * (b) >> 32);                                                                      \
    low = (a) * (b)

static double factor(bool dropout, uint32_t token, uint32_t channel)
{
    uint32_t c0 = token, c1 = channel / 8, c2 = SITE, c3 = 5, k0 = 77, k1 = 99;
    if (!dropout) return 1;
    PHILOX(c0, c1, c2, c3, k0, k1)
    const uint32_t words[] = {c0, c1, c2, c3};
    bool dropped = (words[channel % 8 / 2] >> (channel % 2 * 16) & 0xffff) < THRESHOLD;
    return dropped ? 0 : 65536.0 / (65536.0 - THRESHOLD);
}

static double activated(uint32_t activation, double x)
{
    if (activation == ACTIVATION_RELU) return fmax(x, 0);
    if (activation == ACTIVATION_SILU) return x / (1 + exp(-x));
    if (activation == ACTIVATION_GELU) return 0.5 * x * erfc(-x * sqrt(0.5));
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* By how much the result changes with each half: `odd` says which half. */
static double slope(uint32_t activation, uint32_t gate, const float *pair, int odd)
{
    const double step = 1e-5;
    double results[2];
    for (int up = 0; up < 2; up++) {
        double v[2] = {(double)pair[0], (double)pair[1]};
        v[odd] += up ? step : -step;
        results[up] = activated(activation, v[gate == GATE_ODD]) * v[gate != GATE_ODD];
    }
    return (results[1] - results[0]) / (2 * step);
}

/* ---- a kernel ---- */

struct kernel_run {
    wherry_device *device;
    const struct gate_case *c;
    struct buffer *batch;
    struct step step;
};

static size_t element_of(const struct kernel_run *k) { return k->c->f16 ? 2 : 4; }

static struct buffer *tensor_make(struct kernel_run *k, struct call *call, uint8_t slot, float *values, size_t count)
{
    static unsigned char data[(MOST + 64) * 4 + 256];
    struct error e = {0};
    const struct backend *api = k->device->backend;
    size_t bytes = (count * element_of(k) + 511) / 256 * 256;
    memset(data, 0x5a, sizeof data);
    for (size_t i = 0; values && i < count; i++) {
        uint16_t half = half_from_float(values[i]);
        if (k->c->f16) values[i] = half_to_float(half);
        memcpy(data + i * element_of(k), k->c->f16 ? (void *)&half : (void *)&values[i], element_of(k));
    }
    struct buffer *made = api->buffer_create(k->device->handle, bytes, &e);
    if (!made || !api->buffer_write(k->device->handle, made, 0, data, bytes, &e)) fail_msg("%s", e.text);
    k->step.bindings[k->step.n_bindings++] =
        (struct binding){.slot = slot, .written = !values, .buffer = made, .bytes = bytes};
    call->arguments[call->n_arguments++] = (struct call_argument){.slot = slot, .written = !values};
    return made;
}

/* What it makes of x and, unless there is none, what was saved: `count` values, and nothing after them. */
static void run_kernel(const struct gate_case *c, struct call *call, float *x, size_t n_x, float *saved, size_t n_saved,
                       float *out, size_t count)
{
    static uint32_t words[BATCH_BYTES / 4];
    static unsigned char data[(MOST + 64) * 4 + 256];
    const uint32_t offsets[] = {0, 13, 14, TOKENS};
    const struct batch_shape b = {3, offsets, TOKENS, 13 * 13 + 1 + 23 * 23, 23};
    const struct batch_tables tables = {0, 0};
    struct kernel_run k = {.c = c};
    struct error e = {0};
    if (wherry_device_open(context, c->device, &k.device)) fail_msg("%s", wherry_last_error(context));
    const struct backend *api = k.device->backend;
    struct backend_device *handle = k.device->handle;
    memset(words, 0, sizeof words);
    assert_true(batch_fill(&tables, &b, words) <= BATCH_BYTES / 4);
    words[HEADER_SEED] = 77, words[HEADER_SEED + 1] = 99, words[HEADER_STEP] = 5;
    k.batch = api->buffer_create(handle, BATCH_BYTES, &e);
    if (!k.batch || !api->buffer_write(handle, k.batch, 0, words, BATCH_BYTES, &e)) fail_msg("%s", e.text);
    k.step = (struct step){.name = "gate", .kernel = "gate", .launch = LAUNCH_ELEMENTS, .f16 = c->f16, .call = call};
    k.step.bindings[k.step.n_bindings++] =
        (struct binding){.slot = SLOT_BATCH, .buffer = k.batch, .bytes = BATCH_BYTES, .words = true};
    struct buffer *buffers[3] = {tensor_make(&k, call, SLOT_X, x, n_x)};
    if (saved) buffers[1] = tensor_make(&k, call, SLOT_SAVED, saved, n_saved);
    buffers[2] = tensor_make(&k, call, SLOT_Y, NULL, count);
    size_t bytes = k.step.bindings[k.step.n_bindings - 1].bytes;
    call_tiles(call, NULL, api->limits(handle), c->f16, b.tokens, b.longest);
    assert_string_equal(call->kernel, "gate");
    struct schedule schedule = {.steps = &k.step, .n_steps = 1};
    struct program_info info;
    struct program *program = api->program_create(handle, &schedule, NULL, NULL, &info, &e);
    if (!program) fail_msg("%s", e.text);
    struct grid grid = call_grid(call, c->f16, words);
    if (!api->program_run(handle, program, &(struct run){.grids = &grid, .batch = &b}, &e) ||
        !api->buffer_read(handle, buffers[2], 0, data, bytes, &e))
        fail_msg("%s", e.text);
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, data + i * element_of(&k), 2);
        if (c->f16)
            out[i] = half_to_float(half);
        else
            memcpy(&out[i], data + i * 4, 4);
    }
    for (size_t i = count * element_of(&k); i < bytes; i++)
        if (data[i] != 0x5a) fail_msg("byte %zu of %zu was written", i, count * element_of(&k));
    api->program_destroy(handle, program);
    api->buffer_destroy(handle, k.batch);
    for (int i = 0; i < 3; i++)
        if (buffers[i]) api->buffer_destroy(handle, buffers[i]);
    wherry_device_close(k.device);
}

static void fill_values(float *values, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) values[i] = ((float)(int)(support_random(&seed) % 512) - 255.5f) / 64;
}

/* ---- the tests ---- */

static void expect_near(const char *what, const struct gate_case *c, size_t at, float have, double want)
{
    double tolerance = (c->f16 ? 1e-3 : 1e-5) * fmax(1, fabs(want));
    if (!(fabs((double)have - want) <= tolerance))
        fail_msg("%s: value %zu is %g, not %g", what, at, (double)have, want);
}

static struct call gate_call(uint32_t n, uint32_t gate)
{
    struct call call = {.kernel = "gate", .launch = LAUNCH_ELEMENTS, .site = SITE};
    call_set(&call, CONST_N, n);
    call_set(&call, CONST_ROWS, HEADER_TOKENS);
    call_set(&call, CONST_GATE, gate);
    return call;
}

static void test_slopes(void **state)
{
    static const struct {
        uint32_t activation, gate;
        bool dropout;
    } kinds[] = {{ACTIVATION_GELU, GATE_EVEN, true},
                 {ACTIVATION_GELU_TANH, GATE_ODD, true},
                 {ACTIVATION_GELU, GATE_ODD, false},
                 {ACTIVATION_SILU, GATE_EVEN, false},
                 {ACTIVATION_RELU, GATE_ODD, true}};
    static float pairs[MOST], out[MOST];
    const struct gate_case *c = *state;
    for (size_t i = 0; i < (c->f16 ? 2 : sizeof kinds / sizeof *kinds); i++) { /* formulas are those of f32 */
        const uint32_t n = i % 2 ? 24 : 7;
        struct call call = gate_call(n, kinds[i].gate);
        call_set(&call, CONST_ACTIVATION, SLOPES_OF + kinds[i].activation);
        if (kinds[i].dropout) call_set(&call, CONST_DROPOUT, THRESHOLD);
        fill_values(pairs, TOKENS * 2 * n, i);
        run_kernel(c, &call, pairs, TOKENS * 2 * n, NULL, 0, out, TOKENS * 2 * n);
        for (uint32_t at = 0; at < TOKENS * 2 * n; at++) {
            double kept = factor(kinds[i].dropout, at / (2 * n), at / 2 % n);
            expect_near("slopes", c, at, out[at],
                        kept * slope(kinds[i].activation, kinds[i].gate, &pairs[at / 2 * 2], at % 2));
        }
    }
}

static void test_given(void **state)
{
    static float d[MOST], saved[MOST], out[MOST];
    const struct gate_case *c = *state;
    for (uint32_t n = 7; n <= 24; n += 17) {
        struct call call = gate_call(n, n == 7 ? GATE_EVEN : GATE_ODD);
        call_set(&call, CONST_DERIVATIVE, ACTIVATION_GIVEN);
        fill_values(d, TOKENS * n, n);
        fill_values(saved, TOKENS * 2 * n, 2 * n);
        run_kernel(c, &call, d, TOKENS * n, saved, TOKENS * 2 * n, out, TOKENS * 2 * n);
        for (uint32_t at = 0; at < TOKENS * 2 * n; at++)
            expect_near("given", c, at, out[at], (double)d[at / 2] * (double)saved[at]);
    }
}

int main(void)
{
    enum { MOST_CASES = 2 * SUPPORT_MAX_DEVICES };
    static char devices[SUPPORT_MAX_DEVICES][64], names[2 * MOST_CASES][96];
    static struct gate_case cases[MOST_CASES];
    static struct CMUnitTest tests[2 * MOST_CASES];
    size_t n = 0, n_devices;
    context = support_context(NULL, devices, &n_devices);
    if (!context) return 1;
    for (size_t d = 0; d < n_devices; d++)
        for (int f16 = 0; f16 < 2; f16++) {
            /* The host's cores keep what goes into a gate. */
            if (!strcmp(devices[d], "reference") || !strcmp(devices[d], "cpu")) continue;
            if (f16 && !support_has_f16(context, devices[d])) continue;
            struct gate_case *c = &cases[n / 2];
            *c = (struct gate_case){devices[d], f16};
            for (int given = 0; given < 2; given++, n++) {
                snprintf(names[n], sizeof *names, "%s %s %s", given ? "given" : "slopes", devices[d],
                         f16 ? "f16" : "f32");
                tests[n] = (struct CMUnitTest){names[n], given ? test_given : test_slopes, NULL, NULL, c};
            }
        }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = n ? _cmocka_run_group_tests("gate", tests, n, NULL, NULL) : 77;
    wherry_context_destroy(context);
    return failed;
}
