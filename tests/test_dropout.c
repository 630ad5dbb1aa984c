/* Dropout's random numbers: known vectors, the rate, independence of sites, layers, steps, seeds and neighbours, and
 * that every device drops exactly the elements that the definition says. */
#include "interface/interface.h"
#include "interface/random.h"
#include "plan/batch.h"
#include "plan/tiles.h"
#include "runtime/context.h"
#include "support.h"

#include "base/half.h"
#include "graph/call.h"
#include "graph/kinds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static wherry_context *context;

#define PHILOX_WORD uint32_t
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    high = (uint32_t)((uint64_t)(a) * (b) >> 32);                                                                      \
    low = (a) * (b)

static void philox(uint32_t words[4], uint32_t k0, uint32_t k1)
{
    uint32_t c0 = words[0], c1 = words[1], c2 = words[2], c3 = words[3];
    PHILOX(c0, c1, c2, c3, k0, k1)
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

/* What decides about one element. */
struct element {
    uint64_t seed;
    uint32_t step, layer, kind, row, column;
};

static bool dropped(const struct element *at, uint32_t threshold)
{
    uint32_t words[4] = {at->row, at->column / 8, 4 * at->layer + at->kind, at->step};
    philox(words, (uint32_t)at->seed, (uint32_t)(at->seed >> 32));
    return (words[at->column % 8 / 2] >> (at->column % 2 * 16) & 0xffff) < threshold;
}

/* The vectors that Random123 1.14 ships for philox4x32 with 7 rounds (kat_vectors). */
static void test_known_vectors(void **state)
{
    (void)state;
    uint32_t zeros[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u}, pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    const uint32_t want[3][4] = {{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48},
                                 {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662},
                                 {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}};
    philox(zeros, 0, 0);
    philox(ones, ~0u, ~0u);
    philox(pi, 0xa4093822, 0x299f31d0);
    assert_memory_equal(zeros, want[0], sizeof zeros);
    assert_memory_equal(ones, want[1], sizeof ones);
    assert_memory_equal(pi, want[2], sizeof pi);
}

static void test_rate(void **state)
{
    (void)state;
    const float probabilities[] = {0.0001f, 0.1f, 0.5f, 0.9f};
    assert_int_equal(dropout_threshold(0.1f), 6554);
    assert_int_equal(dropout_threshold(1e-9f), 1); /* asked for, so never nothing */
    assert_int_equal(dropout_threshold(0.999999f), 65535);
    for (int i = 0; i < 4; i++)
        for (uint32_t kind = 0; kind < 4; kind++) {
            uint32_t threshold = dropout_threshold(probabilities[i]);
            double p = threshold / 65536.0, n = 0, count = 0;
            struct element at = {.seed = 0x123456789abcdef0, .step = 5, .layer = 3, .kind = kind};
            for (at.row = 0; at.row < 400; at.row++)
                for (at.column = 0; at.column < 1000; at.column++, n++) count += dropped(&at, threshold);
            double z = (count - n * p) / sqrt(n * p * (1 - p));
            if (fabs(z) > 4.5) fail_msg("p %g, kind %u: %g of %g dropped, z %.2f", p, kind, count, n, z);
        }
}

/* Chi squared of whether two elements drop together, over elements that differ in row and column: one degree of
 * freedom.
 */
static double chi_squared(struct element a, struct element b, uint32_t threshold)
{
    double count[2][2] = {{0}}, n = 0, sum = 0;
    for (uint32_t r = 0; r < 128; r++)
        for (uint32_t c = 0; c < 256; c++, n++) {
            struct element x = a, y = b;
            x.row += 2 * r, y.row += 2 * r; /* neighbours are compared with neighbours, each pair once */
            x.column += 2 * c, y.column += 2 * c;
            count[dropped(&x, threshold)][dropped(&y, threshold)]++;
        }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            double expected = (count[i][0] + count[i][1]) * (count[0][k] + count[1][k]) / n;
            sum += (count[i][k] - expected) * (count[i][k] - expected) / expected;
        }
    return sum;
}

static void test_independence(void **state)
{
    (void)state;
    double sum = 0;
    int tests = 0;
    const struct element base = {.seed = 42, .step = 1000, .layer = 2, .kind = 1};
    for (uint32_t by = 1; by <= 8; by++) {
        struct element others[6] = {base, base, base, base, base, base};
        others[0].kind = (base.kind + by) % 4;
        others[1].layer += by;
        others[2].step += by;
        others[3].seed += by;
        others[4].row += by * 2 - 1;
        others[5].column += by * 2 - 1;
        for (int i = 0; i < 6; i++) {
            if (!i && by % 4 == 0) continue; /* the same site again */
            for (uint32_t threshold = 6554; threshold <= 32768; threshold += 26214) {
                double x = chi_squared(base, others[i], threshold);
                if (x > 22) fail_msg("case %d by %u: chi squared %.1f", i, by, x); /* one in 370,000 */
                sum += x;
                tests++;
            }
        }
    }
    /* The sum has as many degrees of freedom as there are tests. */
    double z = (sum - tests) / sqrt(2.0 * tests);
    if (fabs(z) > 4) fail_msg("chi squared of all %d: %.1f", tests, sum);
}

/* ---- devices ---- */

struct mask_case {
    const char *device;
    bool f16;
};

enum { BATCH_BYTES = 4096, MOST = 16384 };

static void expect_ok(bool ok, const struct error *e)
{
    if (!ok) fail_msg("%s", e->text);
}

/* Runs one kernel with dropout over ones and returns what it makes, as floats. */
static void run_kernel(const struct mask_case *c, struct call *call, const uint32_t *words, const struct batch_shape *b,
                       size_t count, float *out)
{
    wherry_device *d;
    struct error e = {0};
    if (wherry_device_open(context, c->device, &d)) fail_msg("%s", wherry_last_error(context));
    const struct backend *api = d->backend;
    size_t element = c->f16 ? 2 : 4, bytes = (count * element + 255) / 256 * 256;
    unsigned char *data = calloc(1, bytes);
    for (size_t i = 0; i < count; i++) {
        float one = 1;
        uint16_t half = half_from_float(1);
        memcpy(data + i * element, c->f16 ? (void *)&half : (void *)&one, element);
    }
    struct buffer *batch = api->buffer_create(d->handle, BATCH_BYTES, &e),
                  *x = api->buffer_create(d->handle, bytes, &e), *y = api->buffer_create(d->handle, bytes, &e);
    if (!batch || !x || !y) fail_msg("%s", e.text);
    expect_ok(api->buffer_write(d->handle, batch, 0, words, BATCH_BYTES, &e), &e);
    expect_ok(api->buffer_write(d->handle, x, 0, data, bytes, &e), &e);
    call->arguments[0] = (struct call_argument){.slot = SLOT_X};
    call->arguments[1] = (struct call_argument){.slot = SLOT_Y, .written = true};
    call->n_arguments = 2;
    call_tiles(call, NULL, api->limits(d->handle), c->f16, b->tokens, b->longest);
    struct step step = {.name = "mask", .kernel = call->kernel, .launch = call->launch, .f16 = c->f16, .call = call};
    step.bindings[step.n_bindings++] =
        (struct binding){.slot = SLOT_BATCH, .buffer = batch, .bytes = BATCH_BYTES, .words = true};
    step.bindings[step.n_bindings++] = (struct binding){.slot = SLOT_X, .buffer = x, .bytes = bytes};
    step.bindings[step.n_bindings++] = (struct binding){.slot = SLOT_Y, .written = true, .buffer = y, .bytes = bytes};
    struct schedule schedule = {.steps = &step, .n_steps = 1};
    struct program_info info;
    struct program *program = api->program_create(d->handle, &schedule, NULL, NULL, &info, &e);
    if (!program) fail_msg("%s", e.text);
    struct grid grid = call_grid(call, c->f16, words);
    expect_ok(api->program_run(d->handle, program, &(struct run){.grids = &grid, .batch = b}, &e), &e);
    expect_ok(api->buffer_read(d->handle, y, 0, data, bytes, &e), &e);
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, data + i * element, 2);
        if (c->f16)
            out[i] = half_to_float(half);
        else
            memcpy(&out[i], data + i * element, 4);
    }
    api->program_destroy(d->handle, program);
    api->buffer_destroy(d->handle, batch);
    api->buffer_destroy(d->handle, x);
    api->buffer_destroy(d->handle, y);
    wherry_device_close(d);
    free(data);
}

static void expect_factor(const struct element *at, uint32_t threshold, bool f16, float got)
{
    float scale = 65536.0f / (65536.0f - (float)threshold);
    float want = dropped(at, threshold) ? 0 : f16 ? half_to_float(half_from_float(scale)) : scale;
    if (fabsf(got - want) > (f16 ? 0 : 1e-6f))
        fail_msg("row %u, column %u: %.8g instead of %.8g", at->row, at->column, (double)got, (double)want);
}

/* The same elements on every device, in every type, whatever the row's length, of values and of attention's weights. */
static void test_masks(void **state)
{
    const struct mask_case *c = *state;
    static uint32_t words[BATCH_BYTES / 4];
    static float out[MOST];
    const uint32_t offsets[] = {0, 13, 14, 37}, threshold = 6554, heads = 3;
    const struct batch_shape b = {3, offsets, 37, 13 * 13 + 1 + 23 * 23, 23};
    const struct batch_tables tables = {0, 0};
    struct element at = {.seed = 0xfedcba9876543210, .step = 0x80000001, .layer = 23};
    memset(words, 0, sizeof words);
    assert_true(batch_fill(&tables, &b, words) <= BATCH_BYTES / 4);
    words[HEADER_SEED] = (uint32_t)at.seed;
    words[HEADER_SEED + 1] = (uint32_t)(at.seed >> 32);
    words[HEADER_STEP] = at.step;
    const uint32_t lengths[] = {7, 36, 72};
    for (int i = 0; i < 3; i++) {
        struct call call = {.kernel = "map", .launch = LAUNCH_ELEMENTS};
        at.kind = DROPOUT_ACTIVATION;
        call.site = 4 * at.layer + at.kind;
        call_set(&call, CONST_N, lengths[i]);
        call_set(&call, CONST_ROWS, HEADER_TOKENS);
        call_set(&call, CONST_DROPOUT, threshold);
        run_kernel(c, &call, words, &b, b.tokens * lengths[i], out);
        for (at.row = 0; at.row < b.tokens; at.row++)
            for (at.column = 0; at.column < lengths[i]; at.column++)
                expect_factor(&at, threshold, c->f16, out[at.row * lengths[i] + at.column]);
    }
    struct call call = {.kernel = "softmax", .launch = LAUNCH_SCORE_ROWS};
    at.kind = DROPOUT_ATTENTION;
    call.site = 4 * at.layer + at.kind;
    call_set(&call, CONST_HEADS, heads);
    call_set(&call, CONST_SOFTMAX, 0);
    call_set(&call, CONST_DROPOUT, threshold);
    run_kernel(c, &call, words, &b, b.pairs * heads, out);
    const float *value = out;
    for (uint32_t s = 0; s < b.sequences; s++)
        for (uint32_t h = 0; h < heads; h++)
            for (uint32_t j = offsets[s]; j < offsets[s + 1]; j++) {
                at.row = j * heads + h;
                for (at.column = 0; at.column < offsets[s + 1] - offsets[s]; at.column++)
                    expect_factor(&at, threshold, c->f16, *value++);
            }
}

int main(void)
{
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = getenv("WHERRY_TEST_CACHE")};
    static char devices[SUPPORT_MAX_DEVICES][64], names[2 * SUPPORT_MAX_DEVICES][80];
    static struct mask_case cases[2 * SUPPORT_MAX_DEVICES];
    struct CMUnitTest tests[3 + 2 * SUPPORT_MAX_DEVICES] = {
        cmocka_unit_test(test_known_vectors), cmocka_unit_test(test_rate), cmocka_unit_test(test_independence)};
    size_t n = 3;
    if (wherry_context_create(&desc, &context)) return 1;
    size_t n_devices = support_devices(context, devices);
    for (size_t d = 0; d < n_devices; d++)
        for (int f16 = 0; f16 < 2 && strcmp(devices[d], "reference"); f16++) {
            if (f16 && !support_has_f16(context, devices[d])) continue;
            struct mask_case *c = &cases[n - 3];
            *c = (struct mask_case){devices[d], f16};
            snprintf(names[n - 3], sizeof *names, "masks %s %s", devices[d], f16 ? "f16" : "f32");
            tests[n] = (struct CMUnitTest){names[n - 3], test_masks, NULL, NULL, c};
            n++;
        }
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = _cmocka_run_group_tests("dropout", tests, n, NULL, NULL);
    wherry_context_destroy(context);
    return failed != 0;
}
