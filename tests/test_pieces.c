/* A table of words that no buffer of the device holds: it lies in several, whatever reads or writes it is right, and
 * gives the bits that it gives where one buffer holds the table. Limits are lowered in the open device; under
 * tests/limits the driver's are low, and its calls are held to them. */
#include "support.h"

#include "runtime/context.h"
#include "runtime/session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Rows of 256 bytes in f32, so that pieces of 128 rows have 32 KiB: three of 512 rows in f32, two of 1152 in f16. */
enum { WORDS = 1501, HIDDEN = 64, LIMIT = 150000, TOKENS = 60 };

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

struct made {
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
};

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status result_ = (call);                                                                                \
        if (result_) fail_msg("%s: %s: %s", id, wherry_status_name(result_), wherry_last_error(context));              \
    } while (0)

static struct made make(const char *id, uint64_t limit, wherry_dtype dtype, const char *plan, bool train, bool scores,
                        bool keep)
{
    struct made m;
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = 1,
                                  .hidden = HIDDEN,
                                  .heads = 2,
                                  .feed_forward = HIDDEN,
                                  .vocabulary = WORDS,
                                  .positions = 64,
                                  .token_types = 2,
                                  .activation = WHERRY_ACTIVATION_GELU,
                                  .epsilon = 1e-12f};
    if (scores) config.head = WHERRY_HEAD_VOCABULARY, config.head_activation = WHERRY_HEAD_GELU;
    wherry_session_desc desc = {.struct_size = sizeof desc,
                                .max_tokens = TOKENS,
                                .max_sequences = 4,
                                .dtype = dtype,
                                .plan = plan,
                                .keep_intermediates = keep};
    const wherry_training_desc training = {.struct_size = sizeof training};
    if (train) desc.training = &training;
    if (scores) desc.output = WHERRY_OUTPUT_VOCABULARY;
    EXPECT_OK(wherry_device_open(context, id, &m.device));
    struct device_limits *limits = (void *)(uintptr_t)m.device->backend->limits(m.device->handle);
    if (limit && limits->max_binding_bytes > limit) limits->max_binding_bytes = limit;
    if (limit && limits->max_buffer_bytes > limit) limits->max_buffer_bytes = limit;
    EXPECT_OK(wherry_model_create_random(context, &config, 7, &m.model));
    EXPECT_OK(wherry_session_create(context, m.device, m.model, &desc, &m.session));
    EXPECT_OK(wherry_session_prepare(m.session, NULL, NULL, NULL));
    return m;
}

static void unmake(struct made *m)
{
    wherry_session_destroy(m->session);
    wherry_model_close(m->model);
    wherry_device_close(m->device);
}

static wherry_batch batch_make(void)
{
    static const uint32_t lengths[] = {23, 1, 31, 0};
    return support_batch(lengths, WORDS, 2, 3);
}

static uint64_t largest_block(const struct made *m)
{
    uint64_t most = 0;
    for (int i = 0; i < m->session->memory.n_blocks; i++)
        if (m->session->memory.blocks[i].bytes > most) most = m->session->memory.blocks[i].bytes;
    return most;
}

static bool print_failures(const wherry_verify_result *r, void *user)
{
    support_print_failure(user, r);
    return true;
}

static void verify_one(const char *id, wherry_dtype dtype, const char *plan, bool train, bool scores)
{
    wherry_batch batch = batch_make();
    struct made m = make(id, LIMIT, dtype, plan, train, scores, true);
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    EXPECT_OK(wherry_verify(m.session, &batch, 1, print_failures, (void *)(uintptr_t)id, &summary));
    assert_true(summary.groups > 0 && largest_block(&m) <= LIMIT);
    unmake(&m);
    support_batch_free(&batch);
}

static bool has_limits(const char *id) { return strcmp(id, "cpu") != 0 && strcmp(id, "reference") != 0; }

/* Lookup, product with the table, gradient of the table, each against its reference. */
static void agrees_with_the_reference(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        if (!has_limits(devices[d])) continue;
        const bool f16 = support_has_f16(context, devices[d]);
        verify_one(devices[d], WHERRY_DTYPE_F32, "flash", true, false);
        verify_one(devices[d], WHERRY_DTYPE_F32, "unfused", false, true);
        verify_one(devices[d], f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32, "flash", false, true);
    }
}

static void run(const char *id, struct made *m, bool train, float *out, size_t floats, float *gradient)
{
    wherry_batch batch = batch_make();
    if (!train) {
        EXPECT_OK(wherry_encode(m->session, &batch, out, floats));
    } else {
        static float loss[3 * HIDDEN];
        for (size_t i = 0; i < 3 * HIDDEN; i++) loss[i] = (float)(i % 7) - 3;
        EXPECT_OK(wherry_forward(m->session, &batch, NULL, NULL, out, floats));
        EXPECT_OK(wherry_backward(m->session, loss, 3 * HIDDEN, NULL, 0));
        for (size_t i = 0; i < wherry_gradient_count(m->session); i++) {
            wherry_gradient g = {.struct_size = sizeof g};
            EXPECT_OK(wherry_gradient_describe(m->session, i, &g));
            if (g.elements == (uint64_t)WORDS * HIDDEN)
                EXPECT_OK(wherry_gradient_read(m->session, i, gradient, (size_t)WORDS * HIDDEN));
        }
    }
    support_batch_free(&batch);
}

static void same_bits(const char *id, bool train, bool scores)
{
    const size_t floats = 3 * (scores ? WORDS : HIDDEN), table = train ? (size_t)WORDS * HIDDEN : 1;
    float *out[2], *gradient[2];
    uint32_t launches[2];
    for (int i = 0; i < 2; i++) {
        out[i] = calloc(floats, sizeof(float));
        gradient[i] = calloc(table, sizeof(float));
        struct made m = make(id, i ? LIMIT : 0, WHERRY_DTYPE_F32, "flash", train, scores, false);
        wherry_session_plan plan = {.struct_size = sizeof plan};
        EXPECT_OK(wherry_session_query(m.session, &plan));
        launches[i] = plan.launches;
        run(id, &m, train, out[i], floats, gradient[i]);
        unmake(&m);
    }
    if (!getenv("WHERRY_LIMITS")) assert_int_equal(launches[1], launches[0] + (train || scores ? 4 : 2));
    assert_memory_equal(out[0], out[1], floats * sizeof(float));
    assert_memory_equal(gradient[0], gradient[1], table * sizeof(float));
    for (int i = 0; i < 2; i++) {
        free(out[i]);
        free(gradient[i]);
    }
}

static void has_the_bits_of_one_buffer(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        if (!has_limits(devices[d])) continue;
        same_bits(devices[d], true, false);
        same_bits(devices[d], false, true);
    }
}

/* A limit below 128 rows: no piece is so small. */
static void refuses_what_no_piece_holds(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        const char *id = devices[d];
        if (!has_limits(id)) continue;
        wherry_device *device;
        wherry_model *model;
        wherry_session *session;
        wherry_model_config config = {.struct_size = sizeof config,
                                      .layers = 1,
                                      .hidden = HIDDEN,
                                      .heads = 2,
                                      .feed_forward = HIDDEN,
                                      .vocabulary = WORDS,
                                      .positions = 64,
                                      .epsilon = 1e-12f};
        const wherry_session_desc desc = {.struct_size = sizeof desc, .max_tokens = 8, .dtype = WHERRY_DTYPE_F32};
        EXPECT_OK(wherry_device_open(context, id, &device));
        struct device_limits *limits = (void *)(uintptr_t)device->backend->limits(device->handle);
        limits->max_binding_bytes = 128 * HIDDEN * sizeof(float) - 1;
        EXPECT_OK(wherry_model_create_random(context, &config, 7, &model));
        assert_int_equal(wherry_session_create(context, device, model, &desc, &session),
                         WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
        assert_non_null(strstr(wherry_last_error(context), "word needs 384256 bytes, but one kernel argument"));
        wherry_model_close(model);
        wherry_device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_reference),
        cmocka_unit_test(has_the_bits_of_one_buffer),
        cmocka_unit_test(refuses_what_no_piece_holds),
    };
    if (!(context = support_context(support_log, devices, &n_devices))) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
