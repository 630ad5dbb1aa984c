/* What computes products: that it can be chosen, that a device without it says so, and that a rung whose check of its
 * numbers fails is left out, named, and the run still right. */
#include "interface/interface.h"
#include "plan/constants.h"
#include "plan/variants.h"
#include "runtime/session.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

static const uint32_t lengths[] = {70, 1, 33, 0};
enum { TOKENS = 104, SEQUENCES = 3, HIDDEN = 128 };

static wherry_model *make_model(void)
{
    wherry_model_config config = {.struct_size = sizeof config,
                                  .layers = 2,
                                  .hidden = HIDDEN,
                                  .heads = 2,
                                  .feed_forward = 256,
                                  .vocabulary = 101,
                                  .positions = 128,
                                  .token_types = 2};
    wherry_model *model;
    assert_int_equal(wherry_model_create_random(context, &config, 3, &model), 0);
    return model;
}

static wherry_status open_session(wherry_device *device, const wherry_model *model, const char *gemm,
                                  wherry_dtype dtype, wherry_session **out)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = TOKENS,
                                      .max_sequences = SEQUENCES,
                                      .dtype = dtype,
                                      .pool = WHERRY_POOL_MEAN,
                                      .kernels = gemm};
    return wherry_session_create(context, device, model, &desc, out);
}

static void encode(wherry_session *session, float *out)
{
    wherry_batch batch = support_batch(lengths, 101, 2, 5);
    wherry_status status = wherry_encode(session, &batch, out, SEQUENCES * HIDDEN);
    if (status) fail_msg("encode: %s", wherry_last_error(context));
    support_batch_free(&batch);
}

static double difference(const float *a, const float *b)
{
    double d = 0, size = 0;
    for (int i = 0; i < SEQUENCES * HIDDEN; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return d / size;
}

/* ---- the table ---- */

static void test_table(void **state)
{
    (void)state;
    struct device_limits limits = {.f16 = true,
                                   .shared_bytes = 49152,
                                   .max_local_size = 1024,
                                   .compute_units = 132,
                                   .nvidia_sm = 90,
                                   .coopmat_m = 16,
                                   .coopmat_n = 16,
                                   .coopmat_k = 16,
                                   .coopmat_subgroup = 32,
                                   .coopmat_f16_sums = true,
                                   .coopmat2 = true};
    for (int form = GEMM_NT; form <= GEMM_TN; form++)
        for (int r = 0; r < RUNG_COUNT; r++) {
            struct call call = {.kernel = "gemm", .launch = LAUNCH_TILES}, other;
            const char *why;
            call_set(&call, CONST_FORM, (uint32_t)form);
            call_set(&call, CONST_N, 1024);
            call_set(&call, form == GEMM_TN ? CONST_M : CONST_K, 1024);
            limits.rungs = RUNG_BIT(RUNG_TILED) | RUNG_BIT(r);
            other = call;
            why = call_tiles(&call, NULL, &limits, true, r == RUNG_SMALL_BATCH ? 128 : 4096, 512);
            const struct variant *variant = variant_find(call.kernel);
            if (r == RUNG_TILED || (r == RUNG_SMALL_BATCH && form != GEMM_NT)) {
                assert_string_equal(call.kernel, "gemm");
                continue;
            }
            assert_non_null(variant);
            assert_int_equal(variant->rung, r);
            assert_string_equal(variant->kernel, "gemm");
            assert_string_equal(why, variant->why);
            assert_in_range(call_shared_bytes(&call), 1, r >= RUNG_MMA ? 232448 : 101376);
            call_tiles(&other, NULL, &limits, false, 4096, 512); /* of f32 the portable kernel */
            assert_string_equal(other.kernel, "gemm");
        }
}

/* One kernel may stand in the table for several rungs: its class is that of the first which the device has. */
static void test_classes(void **state)
{
    (void)state;
    for (int r = 0; r < RUNG_COUNT; r++) {
        assert_non_null(rung_name((enum rung)r));
        assert_non_null(rung_class((enum rung)r));
    }
    uint32_t mma = RUNG_BIT(RUNG_TILED) | RUNG_BIT(RUNG_MMA);
    assert_string_equal(kernel_class("attention_mma", mma), rung_class(RUNG_MMA));
    assert_string_equal(kernel_class("attention_mma", mma | RUNG_BIT(RUNG_SMALL_BATCH)), rung_class(RUNG_SMALL_BATCH));
    assert_string_equal(kernel_class("attention", mma), rung_class(RUNG_TILED));
}

/* Each row is found by its name and stands for a portable kernel; what is computed and a kernel does not know, it
 * refuses, and says why. */
static void test_unknown_constants(void **state)
{
    (void)state;
    const struct device_limits all = {.f16 = true,
                                      .shared_bytes = 49152,
                                      .max_local_size = 1024,
                                      .nvidia_sm = 90,
                                      .compute_units = 132,
                                      .rungs = (1u << RUNG_COUNT) - 1,
                                      .coopmat_m = 16,
                                      .coopmat_n = 16,
                                      .coopmat_k = 16,
                                      .coopmat_subgroup = 32,
                                      .coopmat_f16_sums = true,
                                      .coopmat2 = true};
    const struct variant *v;
    for (size_t i = 0; (v = variant_at(i)) != NULL; i++) {
        assert_string_equal(kernel_row(v->name)->name, v->name);
        assert_int_equal(kernel_row(v->kernel)->rung, RUNG_TILED);
        assert_true(v->why && v->size && v->count);
        for (int id = 0; id < CONST_COUNT; id++) {
            struct call call = {.kernel = v->kernel};
            const char *reason = NULL;
            if (constants[id].role != CONSTANT_WORK || memchr(v->takes, id, sizeof v->takes)) continue;
            call_set(&call, CONST_HEADS, 2);
            call_set(&call, (uint8_t)id, 1);
            struct sizes s = call_sizes(&call, NULL, &all, true, 64, 64);
            assert_false(variant_runs(v, &call, &s, &reason));
            assert_non_null(reason);
        }
    }
}

/* ---- choosing by name ---- */

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"coopmat", "mma", "wgmma", "small_batch"};
    wherry_model *model = make_model();
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device;
        wherry_session *session;
        assert_int_equal(wherry_device_open(context, devices[d], &device), 0);
        const struct device_limits *limits = device->backend->limits(device->handle);
        assert_int_equal(open_session(device, model, "fast", WHERRY_DTYPE_F32, &session),
                         WHERRY_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(wherry_last_error(context), "\"fast\""));
        if (open_session(device, model, "tiled", WHERRY_DTYPE_F32, &session))
            fail_msg("%s", wherry_last_error(context));
        assert_int_equal(session->library, LIBRARY_REFUSED);
        wherry_session_destroy(session);
        for (int r = RUNG_COOPMAT; r < RUNG_COUNT; r++) {
            assert_int_equal(open_session(device, model, names[r - RUNG_COOPMAT], WHERRY_DTYPE_F32, &session),
                             WHERRY_STATUS_UNSUPPORTED); /* they multiply f16 */
            if (!limits->f16) continue;
            wherry_status status = open_session(device, model, names[r - RUNG_COOPMAT], WHERRY_DTYPE_F16, &session);
            if (limits->rungs & RUNG_BIT(r)) {
                if (status) fail_msg("%s: %s", devices[d], wherry_last_error(context));
                assert_int_equal(session->device_limits.rungs, RUNG_BIT(RUNG_TILED) | RUNG_BIT(r));
                wherry_session_destroy(session);
            } else {
                assert_int_equal(status, WHERRY_STATUS_UNSUPPORTED);
                assert_non_null(strstr(wherry_last_error(context), names[r - RUNG_COOPMAT]));
            }
        }
        if (limits->f16)
            assert_int_equal(open_session(device, model, "clblast", WHERRY_DTYPE_F16, &session),
                             WHERRY_STATUS_UNSUPPORTED);
        wherry_device_close(device);
    }
    wherry_model_close(model);
}

/* A dense layer after the pooling, which no model of random weights has. */
static void add_module(wherry_model *model)
{
    static float matrix[HIDDEN * HIDDEN];
    for (int i = 0; i < HIDDEN * HIDDEN; i++) matrix[i] = (float)(i * 37 % 101 - 50) / 400.0f;
    model->modules.list[0] = (struct module){.width = HIDDEN, .activation = WHERRY_HEAD_TANH};
    model->modules.count = 1;
    model->weights[0][WEIGHT_MODULE][0] =
        (struct weight_part){.memory = matrix, .type = WEIGHT_TYPE_F32, .elements = HIDDEN * HIDDEN};
}

/* Every way to compute products gives the same embeddings, as near as f16 goes; the check, which runs a smaller model,
 * finds all that the session's has. */
static void same(bool module)
{
    wherry_model *model = make_model();
    if (module) add_module(model);
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device;
        float tiled[SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        assert_int_equal(wherry_device_open(context, devices[d], &device), 0);
        const struct device_limits *limits = device->backend->limits(device->handle);
        for (int r = 0; r < RUNG_COUNT && limits->f16; r++) {
            wherry_session *session;
            if (!(limits->rungs & RUNG_BIT(r))) continue;
            assert_int_equal(open_session(device, model, rung_name((enum rung)r), WHERRY_DTYPE_F16, &session), 0);
            encode(session, r ? got : tiled);
            if (r) assert_true(difference(got, tiled) < 1e-5);
            wherry_session_destroy(session);
        }
        wherry_device_close(device);
    }
    wherry_model_close(model);
}

static void test_same(void **state)
{
    (void)state;
    same(false);
}

static void test_modules(void **state)
{
    (void)state;
    same(true);
}

/* ---- a check that fails ---- */

static const struct backend *honest;

/* The device seems to have computed something else: what is longer than a batch's numbers. */
enum { LONGER = 8192 };

static bool read_wrong(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data,
                       uint64_t bytes, struct error *e)
{
    TRY(honest->buffer_read(device, buffer, offset, data, bytes, e));
    for (uint64_t i = 1; bytes >= LONGER && i < bytes; i += 64) ((unsigned char *)data)[i] ^= 0x04;
    return true;
}

static bool noted(const wherry_session *session, const char *a, const char *b)
{
    const char *note;
    for (size_t i = 0; (note = wherry_session_note(session, i)); i++)
        if (strstr(note, a) && strstr(note, b)) return true;
    return false;
}

static void test_failing_check(void **state)
{
    (void)state;
    wherry_model *model = make_model();
    size_t tested = 0;
    for (size_t d = 0; d < n_devices; d++) {
        wherry_device *device;
        wherry_session *session;
        float tiled[SEQUENCES * HIDDEN], got[SEQUENCES * HIDDEN];
        assert_int_equal(wherry_device_open(context, devices[d], &device), 0);
        const struct device_limits *limits = device->backend->limits(device->handle);
        if (limits->f16 && limits->rungs != RUNG_BIT(RUNG_TILED)) {
            tested++;
            assert_int_equal(open_session(device, model, "tiled", WHERRY_DTYPE_F16, &session), 0);
            encode(session, tiled);
            wherry_session_destroy(session);
            honest = device->backend;
            struct backend lying = *honest;
            struct host host = context->host;
            lying.buffer_read = read_wrong;
            device->backend = &lying;
            context->host.cache_dir[0] = 0; /* it has that the check was passed */
            memset(context->checks, 0, sizeof context->checks);
            assert_int_equal(open_session(device, model, NULL, WHERRY_DTYPE_F16, &session), 0);
            assert_int_equal(session->device_limits.rungs, RUNG_BIT(RUNG_TILED));
            for (int r = RUNG_TILED + 1; r < RUNG_COUNT; r++)
                if (limits->rungs & RUNG_BIT(r))
                    assert_true(noted(session, rung_name((enum rung)r), limits->cpu ? "a CPU's" : "check fails"));
            encode(session, got);
            assert_memory_equal(got, tiled, sizeof got);
            wherry_session_destroy(session);
            for (int r = RUNG_TILED + 1; r < RUNG_COUNT; r++)
                if (limits->rungs & RUNG_BIT(r))
                    assert_int_equal(open_session(device, model, rung_name((enum rung)r), WHERRY_DTYPE_F16, &session),
                                     WHERRY_STATUS_VERIFY_FAILED);
            device->backend = honest;
            context->host = host;
            memset(context->checks, 0, sizeof context->checks);
        }
        wherry_device_close(device);
    }
    wherry_model_close(model);
    if (!tested) skip();
}

/* A CPU driver may end a work-item's loops early: llvmpipe after 65535 rounds. */
static void test_long_sequences(void **state)
{
    (void)state;
    struct device_limits limits = {.cpu = true, .shared_bytes = 32768, .max_local_size = 256};
    struct sizes sizes = {.limits = &limits};
    struct call call = {.kernel = "layernorm_pool"};
    const char *reason = NULL;
    call_set(&call, CONST_POOL, POOL_MEAN);
    for (uint32_t longest = 0; longest <= 8192; longest += 512) {
        sizes.longest = longest;
        assert_int_equal(call_runs(&call, &sizes, &reason), longest * 18 <= 65535);
        if (longest * 18 > 65535) assert_non_null(strstr(reason, "long sequence"));
    }
    call_set(&call, CONST_POOL, POOL_CLS); /* reads one token */
    assert_true(call_runs(&call, &sizes, &reason));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_sequences), cmocka_unit_test(test_table),
                                       cmocka_unit_test(test_classes),        cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_same),           cmocka_unit_test(test_modules),
                                       cmocka_unit_test(test_failing_check),  cmocka_unit_test(test_unknown_constants)};
    if (!(context = support_context(NULL, devices, &n_devices))) return 1;
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests_name("rungs", tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
