/* The host's cores as a device: the same bits whatever the number of threads, every instruction set, formulas against
 * libm in double, weights that change after they were packed, and what is refused. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "runtime/session.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "graph/rotary.h"
#include "interface/interface.h"

/* As backends/cpu/kernels/formulas.h includes them. */
#define uint unsigned int
#define __OPENCL_C_VERSION__ 120
#include "interface/formulas.h"

#include "interface/angles.h"
#undef __OPENCL_C_VERSION__
#undef uint

#ifndef WHERRY_HAVE_CPU

int main(void)
{
    printf("skipped: this build has no backend for the host's cores\n");
    return 77;
}

#else

extern const struct backend backend_cpu;

#define OK(context, call)                                                                                              \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

/* Those that this processor lacks fall back to a lesser one. */
static const char *const isas[] = {"avx512", "avx2", "baseline"};
enum { ISAS = sizeof isas / sizeof *isas };

/* False: it is the one before, for this processor. */
static bool choose_isa(int isa)
{
    static const struct cpu_kernels *before;
    const struct cpu_kernels *last = isa ? before : NULL;
    if (isa)
        setenv("WHERRY_CPU_ISA", isas[isa], 1);
    else
        unsetenv("WHERRY_CPU_ISA");
    before = cpu_kernels_choose();
    return before != last;
}

/* ---- whole sessions ---- */

enum { TOKENS = 96, HIDDEN = 48, SEQUENCES = 4 };
static const uint32_t lengths[] = {33, 1, 50, 12, 0};

static wherry_model_config config_of(void)
{
    return (wherry_model_config){.struct_size = sizeof(wherry_model_config),
                                 .layers = 2,
                                 .hidden = HIDDEN,
                                 .heads = 2,
                                 .feed_forward = 130,
                                 .vocabulary = 97,
                                 .positions = 128,
                                 .token_types = 2};
}

struct setup {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch;
};

/* What devices take their last cache for; 0: the processor's own. */
static size_t last_cache;

static struct setup setup_make(uint32_t threads, const char *plan, bool train)
{
    struct setup s;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = "", .threads = threads};
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    const wherry_session_desc session = {.struct_size = sizeof session,
                                         .max_tokens = TOKENS,
                                         .plan = plan,
                                         .pool = WHERRY_POOL_MEAN,
                                         .training = train ? &training : NULL,
                                         .kernels = support_kernels("cpu")};
    wherry_model_config config = config_of();
    assert_int_equal(wherry_context_create(&desc, &s.context), 0);
    OK(s.context, wherry_device_open(s.context, "cpu", &s.device));
    if (last_cache) s.device->handle->cache_bytes = last_cache;
    OK(s.context, wherry_model_create_random(s.context, &config, 3, &s.model));
    OK(s.context, wherry_session_create(s.context, s.device, s.model, &session, &s.session));
    OK(s.context, wherry_session_prepare(s.session, NULL, NULL, NULL));
    s.batch = support_batch(lengths, 97, 2, 1);
    return s;
}

static void setup_free(struct setup *s)
{
    support_batch_free(&s->batch);
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    wherry_context_destroy(s->context);
}

/* A training step's output and all its gradients, back to back. */
static size_t train(uint32_t threads, const char *plan, float *out, size_t room)
{
    struct setup s = setup_make(threads, plan, true);
    float gradient[SEQUENCES * HIDDEN];
    size_t n = SEQUENCES * HIDDEN;
    for (size_t i = 0; i < n; i++) gradient[i] = (float)((int)(i % 7) - 3) * 0.1f;
    OK(s.context, wherry_forward(s.session, &s.batch, NULL, NULL, out, room));
    OK(s.context, wherry_backward(s.session, gradient, n, NULL, 0));
    for (size_t g = 0; g < wherry_gradient_count(s.session); g++) {
        wherry_gradient info = {.struct_size = sizeof info};
        OK(s.context, wherry_gradient_describe(s.session, g, &info));
        assert_true(n + info.elements <= room);
        OK(s.context, wherry_gradient_read(s.session, g, out + n, room - n));
        n += (size_t)info.elements;
    }
    setup_free(&s);
    return n;
}

static void test_threads(void **state)
{
    (void)state;
    enum { ROOM = 200000 };
    static const uint32_t threads[] = {2, 0, 10000};
    static const char *const names[] = {"flash", "paper", "unfused"};
    static float alone[ROOM], together[ROOM];
    for (int isa = 0; isa < ISAS; isa++) {
        if (!choose_isa(isa)) continue;
        for (int p = 0; p < 3; p++) {
            size_t n = train(1, names[p], alone, ROOM);
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
                assert_int_equal(train(threads[t], names[p], together, ROOM), n);
                assert_memory_equal(together, alone, n * sizeof(float));
            }
        }
    }
    choose_isa(0);
}

/* Results that a cache can't hold are stored around it, and the rows after them are asked for ahead. */
static void test_around_the_cache(void **state)
{
    (void)state;
    enum { ROOM = 200000 };
    static const char *const names[] = {"flash", "paper", "unfused"};
    static float within[ROOM], around[ROOM];
    for (int isa = 0; isa < ISAS; isa++) {
        if (!choose_isa(isa)) continue;
        for (int p = 0; p < 3; p++) {
            last_cache = (size_t)1 << 40;
            size_t n = train(2, names[p], within, ROOM);
            last_cache = 1;
            assert_int_equal(train(2, names[p], around, ROOM), n);
            last_cache = 0;
            assert_memory_equal(around, within, n * sizeof(float));
        }
    }
    choose_isa(0);
}

/* Products read weights from panels that were packed in the first run: not once they are others. */
static void test_packed_again(void **state)
{
    (void)state;
    struct setup s = setup_make(0, "flash", false);
    float first[SEQUENCES * HIDDEN], changed[SEQUENCES * HIDDEN], weights[130 * HIDDEN], zeros[130 * HIDDEN] = {0};
    int lin1 = 0;
    while (s.session->graph.tensors[lin1].weight != WEIGHT_LIN1) lin1++;
    const struct placement *at = &s.session->memory.of[lin1];
    struct buffer *buffer = s.session->buffers[at->block];
    struct error e;
    OK(s.context, wherry_encode(s.session, &s.batch, first, sizeof first / sizeof *first));
    assert_true(backend_cpu.buffer_read(s.device->handle, buffer, at->offset, weights, sizeof weights, &e));
    assert_true(backend_cpu.buffer_write(s.device->handle, buffer, at->offset, zeros, sizeof zeros, &e));
    OK(s.context, wherry_encode(s.session, &s.batch, changed, sizeof changed / sizeof *changed));
    assert_memory_not_equal(changed, first, sizeof first);
    assert_true(backend_cpu.buffer_write(s.device->handle, buffer, at->offset, weights, sizeof weights, &e));
    OK(s.context, wherry_encode(s.session, &s.batch, changed, sizeof changed / sizeof *changed));
    assert_memory_equal(changed, first, sizeof first);
    setup_free(&s);
}

/* ---- out of memory ---- */

struct counted {
    size_t allocations, fail_at, live;
};

static void *counted_alloc(size_t size, void *user)
{
    struct counted *c = user;
    void *memory = ++c->allocations == c->fail_at ? NULL : malloc(size);
    c->live += memory != NULL;
    return memory;
}

static void counted_free(void *pointer, void *user)
{
    ((struct counted *)user)->live -= pointer != NULL;
    free(pointer);
}

/* A training step, from the context on: that of test_threads, by calls that may fail. */
static wherry_status try_training(struct counted *memory)
{
    const wherry_context_desc desc = {
        .struct_size = sizeof desc, .alloc = counted_alloc, .free = counted_free, .user = memory, .cache_dir = ""};
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    const wherry_session_desc session = {.struct_size = sizeof session,
                                         .max_tokens = TOKENS,
                                         .pool = WHERRY_POOL_MEAN,
                                         .training = &training,
                                         .kernels = support_kernels("cpu")};
    const wherry_model_config config = config_of();
    struct setup s = {.batch = support_batch(lengths, 97, 2, 1)};
    float out[SEQUENCES * HIDDEN], gradient[SEQUENCES * HIDDEN] = {1};
    wherry_status status = wherry_context_create(&desc, &s.context);
    if (!status) status = wherry_device_open(s.context, "cpu", &s.device);
    if (!status) status = wherry_model_create_random(s.context, &config, 3, &s.model);
    if (!status) status = wherry_session_create(s.context, s.device, s.model, &session, &s.session);
    if (!status) status = wherry_session_prepare(s.session, NULL, NULL, NULL);
    if (!status) status = wherry_forward(s.session, &s.batch, NULL, NULL, out, sizeof out / sizeof *out);
    if (!status) status = wherry_backward(s.session, gradient, sizeof gradient / sizeof *gradient, NULL, 0);
    setup_free(&s);
    return status;
}

/* Every allocation fails once, threads', panels' and scratch memory among them: an error, and nothing is left. */
static void test_out_of_memory(void **state)
{
    (void)state;
    wherry_status status = WHERRY_STATUS_OUT_OF_HOST_MEMORY;
    size_t at = 1;
    for (; status; at++) {
        struct counted memory = {.fail_at = at};
        status = try_training(&memory);
        if (status && status != WHERRY_STATUS_OUT_OF_HOST_MEMORY && status != WHERRY_STATUS_NO_DEVICE)
            fail_msg("allocation %zu failed, and the status is %s", at, wherry_status_name(status));
        if (memory.live) fail_msg("allocation %zu failed, and %zu blocks are left", at, memory.live);
    }
    assert_true(at > 50);
}

/* ---- formulas, by the kernel map ---- */

enum { POINTS = 8001 };
static float points[POINTS], values[POINTS];

/* y = activation(x), or, where `slope`, x times the derivative at itself, of all points. */
static void map_points(struct backend_device *device, uint32_t activation, bool slope)
{
    const uint64_t bytes = (POINTS * 4 + 255) / 256 * 256;
    struct error e;
    struct call call = {.kernel = "map", .launch = LAUNCH_ELEMENTS};
    struct program_info info;
    uint32_t words[64] = {[HEADER_TOKENS] = 1, [HEADER_SEQUENCES] = 1};
    struct buffer *batch = backend_cpu.buffer_create(device, 256, &e),
                  *x = backend_cpu.buffer_create(device, bytes, &e), *y = backend_cpu.buffer_create(device, bytes, &e);
    call_set(&call, CONST_N, POINTS);
    call_set(&call, CONST_ROWS, HEADER_TOKENS);
    call_set(&call, slope ? CONST_DERIVATIVE : CONST_ACTIVATION, activation);
    struct step step = {.name = "points", .kernel = "map", .launch = LAUNCH_ELEMENTS, .call = &call};
    step.bindings[step.n_bindings++] = (struct binding){SLOT_BATCH, false, batch, 0, 256, true};
    step.bindings[step.n_bindings++] = (struct binding){SLOT_X, false, x, 0, bytes, false};
    if (slope) step.bindings[step.n_bindings++] = (struct binding){SLOT_SAVED, false, x, 0, bytes, false};
    step.bindings[step.n_bindings++] = (struct binding){SLOT_Y, true, y, 0, bytes, false};
    const struct schedule schedule = {.steps = &step, .n_steps = 1};
    struct program *program = backend_cpu.program_create(device, &schedule, NULL, NULL, &info, &e);
    const struct transfer up[] = {{batch, 0, 256, words}, {x, 0, sizeof points, points}},
                          down = {y, 0, sizeof values, values};
    const struct grid grid = {1, 1, 1};
    const struct run run = {.uploads = up, .n_uploads = 2, .downloads = &down, .n_downloads = 1, .grids = &grid};
    assert_non_null(program);
    assert_true(backend_cpu.program_run(device, program, &run, &e));
    backend_cpu.program_destroy(device, program);
    backend_cpu.buffer_destroy(device, batch);
    backend_cpu.buffer_destroy(device, x);
    backend_cpu.buffer_destroy(device, y);
}

static double phi(double x) { return 0.5 * erfc(-x * sqrt(0.5)); }

static double of_tanh_gelu(double x) { return 1 / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }

static double exact(uint32_t activation, double x)
{
    if (activation == ACTIVATION_RELU) return x > 0 ? x : 0;
    if (activation == ACTIVATION_GELU) return x * phi(x);
    if (activation == ACTIVATION_GELU_TANH) return x * of_tanh_gelu(x);
    if (activation == ACTIVATION_LOG1P_RELU) return log1p(x > 0 ? x : 0);
    if (activation == ACTIVATION_LOG1P_LOG1P_RELU) return log1p(log1p(x > 0 ? x : 0));
    return tanh(x);
}

static double exact_slope(uint32_t activation, double x)
{
    double s = of_tanh_gelu(x);
    if (activation == ACTIVATION_RELU) return x > 0;
    if (activation == ACTIVATION_GELU) return phi(x) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
    if (activation == ACTIVATION_GELU_TANH)
        return s + x * s * (1 - s) * 2 * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
    return 1 - x * x; /* of what came out */
}

/* From -20 to 20: absolute errors relative to the larger of 1 and x, as core/interface/formulas.h bounds them. */
static void test_formulas(void **state)
{
    (void)state;
    struct error e;
    for (int i = 0; i < POINTS; i++) points[i] = (float)(i - POINTS / 2) * 0.005f;
    for (int isa = 0; isa < ISAS; isa++) {
        if (!choose_isa(isa)) continue;
        wherry_device_info info;
        struct backend_device *device = backend_cpu.open(&support_host, 0, NULL, &info, &e);
        assert_non_null(device);
        for (uint32_t activation = ACTIVATION_RELU; activation <= ACTIVATION_LOG1P_LOG1P_RELU; activation++)
            for (int slope = 0; slope < 1 + (activation <= ACTIVATION_TANH); slope++) {
                map_points(device, activation, slope);
                for (int i = 0; i < POINTS; i++) {
                    double x = points[i], size = fabs(x) > 1 ? fabs(x) : 1;
                    double want = slope ? x * exact_slope(activation, x) : exact(activation, x);
                    if (slope && activation == ACTIVATION_TANH) size *= size * size;
                    if (!(fabs(values[i] - want) <= 6e-7 * size))
                        fail_msg("%s: %s of activation %u at %g is %.9g, not %.9g", isas[isa],
                                 slope ? "derivative" : "value", activation, x, values[i], want);
                }
            }
        backend_cpu.close(device);
    }
    choose_isa(0);
}

/* Rotary positions far from a text's beginning: whole turns fall out. */
static void test_angles(void **state)
{
    (void)state;
    for (int channel = 0; channel < 64; channel += 2)
        for (uint32_t position = channel % 7; position < 1 << 17; position += position < 300 ? 1 : 97) {
            double radians = pow(1000, -channel / 64.0), angle = position * radians;
            struct frequency f = frequency_of(radians);
            unsigned units = angle_units(position, f.whole, f.part);
            float rest = angle_rest(position, f.part);
            double error = fmax(fabs(angle_cosine(units, rest) - cos(angle)),
                                fabs(angle_cosine(units - ANGLE_QUARTER, rest) - sin(angle)));
            if (!(error < 2e-7)) fail_msg("the angle of position %u, channel %d: %.3g", position, channel, error);
        }
}

/* A NaN and infinities come out: what is not finite is an error of encode, not a vector of numbers. */
static void test_not_finite(void **state)
{
    (void)state;
    struct error e;
    wherry_device_info info;
    struct backend_device *device = backend_cpu.open(&support_host, 0, NULL, &info, &e);
    for (int i = 0; i < POINTS; i++) points[i] = i % 2 ? NAN : INFINITY;
    for (uint32_t activation = ACTIVATION_NONE; activation <= ACTIVATION_GELU_TANH; activation++) {
        map_points(device, activation, false);
        for (int i = 0; i < POINTS; i++) assert_false(isfinite(values[i]));
    }
    backend_cpu.close(device);
}

/* ---- what is refused ---- */

static void refused(struct backend_device *device, const char *kernel, uint8_t constant, bool f16, const char *part)
{
    char reason[256] = "";
    struct call call = {.kernel = kernel};
    call_set(&call, CONST_N, 32);
    if (constant) call_set(&call, constant, 1);
    assert_false(backend_cpu.supports(device, &call, f16, reason, sizeof reason));
    if (!strstr(reason, part)) fail_msg("\"%s\" does not say \"%s\"", reason, part);
}

static void test_refusals(void **state)
{
    (void)state;
    struct error e;
    wherry_device_info info;
    struct backend_device *device = backend_cpu.open(&support_host, 0, NULL, &info, &e);
    char reason[256];
    const struct call known = {.kernel = "layernorm"};
    assert_true(backend_cpu.supports(device, &known, false, reason, sizeof reason));
    refused(device, "layernorm", CONST_POOL, false, "POOL");
    refused(device, "map", CONST_HEADS, false, "HEADS");
    refused(device, "layernorm", 0, true, "dtype f32");
    refused(device, "gemm_wgmma", 0, false, "gemm_wgmma");
    refused(device, "gemm", CONST_NORM, false, "NORM");
    backend_cpu.close(device);
    assert_null(backend_cpu.open(&support_host, 0, &info, &info, &e));
    assert_int_equal(e.status, WHERRY_STATUS_UNSUPPORTED);
}

/* Where there is no GPU it is what a program gets that asks for nothing. */
static void test_default(void **state)
{
    (void)state;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = ""};
    wherry_device_info infos[SUPPORT_MAX_DEVICES], chosen;
    size_t count = SUPPORT_MAX_DEVICES;
    wherry_context *context;
    wherry_device *device;
    bool other = false;
    assert_int_equal(wherry_context_create(&desc, &context), 0);
    OK(context, wherry_device_list(context, infos, &count));
    for (size_t i = 0; i < count && i < SUPPORT_MAX_DEVICES; i++)
        other = other || (infos[i].usable && infos[i].type != WHERRY_DEVICE_CPU);
    OK(context, wherry_device_open(context, NULL, &device));
    OK(context, wherry_device_describe(device, &chosen));
    assert_int_equal(!strcmp(chosen.id, "cpu"), !other);
    wherry_device_close(device);
    wherry_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_around_the_cache), cmocka_unit_test(test_packed_again),
        cmocka_unit_test(test_formulas),         cmocka_unit_test(test_angles),
        cmocka_unit_test(test_not_finite),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_default),
    };
    support_kernels_check();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
