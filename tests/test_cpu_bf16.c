/* Products in bf16 on the host's cores: their values against double with a bound, a row's bits whatever batch it is in
 * and however many threads there are, and what is refused. Each of the sets that this processor has. */
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
#include "base/half.h"
#include "interface/interface.h"

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

static const char *const isas[] = {"amx", "avx512bf16"};
enum { ISAS = sizeof isas / sizeof *isas };

/* False: this processor lacks it, or this build. */
static bool choose_isa(int isa)
{
    setenv("WHERRY_CPU_ISA", isas[isa], 1);
    const struct cpu_kernels *chosen = cpu_bf16_choose();
    return chosen && !strcmp(chosen->isa, isas[isa]);
}

/* ---- single products ---- */

enum { ROWS = 150, COLUMNS = 400, DEPTH = 1100 };

struct product {
    size_t m, n, k;
    bool transposed; /* the weight lies [k][n] */
};

static float x[ROWS * DEPTH], y[ROWS * COLUMNS], again[ROWS * COLUMNS];
static uint16_t w[COLUMNS * DEPTH];

/* Numbers of both signs whose sizes differ by up to 2^8. */
static float number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    float size = ldexpf(1, -(int)(*state >> 28) / 2);
    return size * ((float)(*state >> 8 & 0xfffff) / 524288.0f - 1.0f);
}

static void multiply(struct backend_device *device, const struct product *p, size_t first_row, float *out)
{
    const uint64_t x_bytes = p->m * p->k * 4, w_bytes = p->n * p->k * 2, y_bytes = p->m * p->n * 4;
    struct error e;
    struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES};
    struct program_info info;
    uint32_t words[64] = {[HEADER_TOKENS] = (uint32_t)p->m, [HEADER_SEQUENCES] = 1};
    struct buffer *batch = backend_cpu.buffer_create(device, 256, &e),
                  *xs = backend_cpu.buffer_create(device, x_bytes, &e),
                  *ws = backend_cpu.buffer_create(device, w_bytes + 2, &e),
                  *ys = backend_cpu.buffer_create(device, y_bytes, &e);
    call_set(&call, CONST_N, (uint32_t)p->n);
    call_set(&call, CONST_K, (uint32_t)p->k);
    call_set(&call, CONST_ROWS, HEADER_TOKENS);
    call_set(&call, CONST_FORM, p->transposed ? GEMM_NN : GEMM_NT);
    struct step step = {.name = "product", .kernel = "gemm", .launch = LAUNCH_TILES, .bf16 = true, .call = &call};
    step.bindings[step.n_bindings++] = (struct binding){SLOT_BATCH, false, batch, 0, 256, true};
    step.bindings[step.n_bindings++] = (struct binding){SLOT_X, false, xs, 0, x_bytes, false};
    step.bindings[step.n_bindings++] = (struct binding){SLOT_W, false, ws, 0, w_bytes, false};
    step.bindings[step.n_bindings++] = (struct binding){SLOT_Y, true, ys, 0, y_bytes, false};
    const struct schedule schedule = {.steps = &step, .n_steps = 1};
    struct program *program = backend_cpu.program_create(device, &schedule, NULL, NULL, &info, &e);
    if (!program) fail_msg("%s", e.text);
    const struct transfer up[] = {{batch, 0, 256, words}, {xs, 0, x_bytes, x + first_row * p->k}, {ws, 0, w_bytes, w}},
                          down = {ys, 0, y_bytes, out};
    const struct grid grid = {1, 1, 1};
    const struct run run = {.uploads = up, .n_uploads = 3, .downloads = &down, .n_downloads = 1, .grids = &grid};
    assert_true(backend_cpu.program_run(device, program, &run, &e));
    backend_cpu.program_destroy(device, program);
    struct buffer *buffers[] = {batch, xs, ws, ys};
    for (size_t i = 0; i < 4; i++) backend_cpu.buffer_destroy(device, buffers[i]);
}

/* Products of bf16 are exact in f32. What is rounded is each of k additions: by at most 2^-24 of a sum that is no
 * larger than that of the products' sizes. */
static double check_values(const struct product *p, const char *isa)
{
    double worst = 0;
    for (size_t r = 0; r < p->m; r++)
        for (size_t c = 0; c < p->n; c++) {
            double want = 0, size = 0;
            for (size_t k = 0; k < p->k; k++) {
                double a = (double)bf16_to_float(bf16_from_float(x[r * p->k + k])),
                       b = (double)bf16_to_float(w[p->transposed ? k * p->n + c : c * p->k + k]);
                want += a * b;
                size += fabs(a * b);
            }
            double most = (double)p->k * 0x1p-24 * size, error = fabs((double)y[r * p->n + c] - want);
            if (!(error <= most))
                fail_msg("%s: %zu x %zu x %zu: row %zu, column %zu is %.9g, not %.9g", isa, p->m, p->n, p->k, r, c,
                         (double)y[r * p->n + c], want);
            if (most > 0 && error / most > worst) worst = error / most;
        }
    return worst;
}

static const struct product products[] = {{1, 1, 1, false},       {3, 7, 2, false},      {17, 97, 33, false},
                                          {33, 48, 64, true},     {70, 145, 513, false}, {9, 400, 1100, true},
                                          {150, 384, 384, false}, {2, 50, 640, false}};

static void test_values(void **state)
{
    (void)state;
    struct error e;
    uint32_t random = 1;
    for (size_t i = 0; i < ROWS * DEPTH; i++) x[i] = number(&random);
    for (size_t i = 0; i < COLUMNS * DEPTH; i++) w[i] = bf16_from_float(number(&random));
    for (int isa = 0; isa < ISAS; isa++) {
        if (!choose_isa(isa)) continue;
        wherry_device_info info;
        struct backend_device *device = backend_cpu.open(&support_host, 0, NULL, &info, &e);
        double worst = 0;
        assert_non_null(device);
        for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
            const struct product *p = &products[i];
            multiply(device, p, 0, y);
            double error = check_values(p, isas[isa]);
            worst = error > worst ? error : worst;
            /* The same rows, one by one and from the middle on, have the same bits. */
            struct product some = *p;
            some.m = p->m - p->m / 2;
            multiply(device, &some, p->m / 2, again);
            assert_memory_equal(again, y + p->m / 2 * p->n, some.m * p->n * sizeof *y);
            some.m = 1;
            for (size_t r = 0; r < p->m; r += 1 + p->m / 5) {
                multiply(device, &some, r, again);
                assert_memory_equal(again, y + r * p->n, p->n * sizeof *y);
            }
        }
        printf("%s: errors of sums are at most %.2g of the bound\n", isas[isa], worst);
        backend_cpu.close(device);
    }
}

/* What is not finite comes out, and does not come out elsewhere. */
static void test_not_finite(void **state)
{
    (void)state;
    struct error e;
    const struct product p = {5, 60, 70, false};
    for (int isa = 0; isa < ISAS; isa++) {
        if (!choose_isa(isa)) continue;
        wherry_device_info info;
        struct backend_device *device = backend_cpu.open(&support_host, 0, NULL, &info, &e);
        for (size_t i = 0; i < p.m * p.k; i++) x[i] = 1;
        for (size_t i = 0; i < p.n * p.k; i++) w[i] = bf16_from_float(1);
        x[p.k + 69] = NAN;
        x[3 * p.k] = INFINITY;
        x[4 * p.k] = 3.4e38f; /* beyond the largest bf16 */
        multiply(device, &p, 0, y);
        for (size_t c = 0; c < p.n; c++) {
            assert_true(y[c] == 70 && y[2 * p.n + c] == 70);
            assert_true(isnan(y[p.n + c]) && isinf(y[3 * p.n + c]) && isinf(y[4 * p.n + c]));
        }
        backend_cpu.close(device);
    }
}

/* ---- sessions ---- */

enum { TOKENS = 96, HIDDEN = 48, SEQUENCES = 4 };
static const uint32_t lengths[] = {33, 1, 50, 12, 0};

struct setup {
    wherry_context *context;
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
};

static struct setup setup_make(const char *device, uint32_t threads)
{
    struct setup s = {0};
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = "", .threads = threads};
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 130,
                                        .vocabulary = 97,
                                        .positions = 128,
                                        .token_types = 2,
                                        .pooler = true};
    assert_int_equal(wherry_context_create(&desc, &s.context), 0);
    OK(s.context, wherry_device_open(s.context, device, &s.device));
    OK(s.context, wherry_model_create_random(s.context, &config, 3, &s.model));
    return s;
}

static void setup_free(struct setup *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    wherry_context_destroy(s->context);
}

static wherry_session_desc desc_of(const char *plan)
{
    return (wherry_session_desc){.struct_size = sizeof(wherry_session_desc),
                                 .max_tokens = TOKENS,
                                 .plan = plan,
                                 .pool = WHERRY_POOL_POOLER,
                                 .dtype = WHERRY_DTYPE_BF16};
}

static void encode(uint32_t threads, const char *plan, wherry_batch *batch, float *out)
{
    struct setup s = setup_make("cpu", threads);
    wherry_session_desc desc = desc_of(plan);
    wherry_session_plan planned = {.struct_size = sizeof planned};
    OK(s.context, wherry_session_create(s.context, s.device, s.model, &desc, &s.session));
    OK(s.context, wherry_session_query(s.session, &planned));
    assert_int_equal(planned.dtype, WHERRY_DTYPE_BF16);
    OK(s.context, wherry_encode(s.session, batch, out, (size_t)batch->sequences * HIDDEN));
    setup_free(&s);
}

static void test_threads(void **state)
{
    (void)state;
    static const uint32_t threads[] = {2, 0, 10000};
    static const char *const names[] = {"flash", "paper", "unfused"};
    wherry_batch batch = support_batch(lengths, 97, 2, 1);
    float alone[SEQUENCES * HIDDEN], together[SEQUENCES * HIDDEN];
    for (int isa = 0; isa < ISAS; isa++) {
        if (!choose_isa(isa)) continue;
        for (int p = 0; p < 3; p++) {
            encode(1, names[p], &batch, alone);
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
                encode(threads[t], names[p], &batch, together);
                assert_memory_equal(together, alone, sizeof alone);
            }
        }
        /* The third sequence alone. */
        const uint32_t offsets[] = {0, 50};
        wherry_batch one = {.struct_size = sizeof one,
                            .sequences = 1,
                            .offsets = offsets,
                            .ids = batch.ids + 34,
                            .types = batch.types + 34};
        encode(0, "unfused", &one, together);
        assert_memory_equal(together, alone + 2 * HIDDEN, HIDDEN * sizeof *alone);
    }
    support_batch_free(&batch);
}

static void expect_refused(struct setup *s, wherry_session_desc desc, const char *part)
{
    assert_int_equal(wherry_session_create(s->context, s->device, s->model, &desc, &s->session),
                     WHERRY_STATUS_UNSUPPORTED);
    if (!strstr(wherry_last_error(s->context), part) || !strstr(wherry_last_error(s->context), "use f32"))
        fail_msg("\"%s\" does not say \"%s\" and \"use f32\"", wherry_last_error(s->context), part);
}

static void test_refusals(void **state)
{
    (void)state;
    wherry_device_limits limits = {.struct_size = sizeof limits};
    setenv("WHERRY_CPU_ISA", "avx512", 1); /* as on processors without these instructions */
    struct setup s = setup_make("cpu", 0);
    OK(s.context, wherry_device_query(s.device, &limits));
    assert_false(limits.bf16);
    expect_refused(&s, desc_of("flash"), "AVX512-BF16");
    setup_free(&s);
    for (int isa = 0; isa < ISAS; isa++) {
        if (!choose_isa(isa)) continue;
        wherry_session_desc desc = desc_of("flash");
        const wherry_training_desc training = {.struct_size = sizeof training};
        s = setup_make("cpu", 0);
        OK(s.context, wherry_device_query(s.device, &limits));
        assert_true(limits.bf16);
        desc.training = &training;
        expect_refused(&s, desc, "does not train in bf16");
        desc.training = NULL;
        desc.layouts = "w_lin2=ui,active=ubj";
        expect_refused(&s, desc, "active=ubj");
        setup_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_refusals),
    };
    bool none = true;
    for (int isa = 0; isa < ISAS; isa++) none = none && !choose_isa(isa);
    if (none) printf("this processor has no instructions for bf16: only its refusal is tested\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
