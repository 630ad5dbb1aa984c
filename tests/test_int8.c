/* Weights of 8 bits: what they are rounded to, beside a model whose weights a test has rounded; what memory they take;
 * a text's bits alone and in company; and what is refused. */
#include "model/model.h"
#include "runtime/session.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LAYERS = 2, HIDDEN = 40, FEED_FORWARD = 24 };

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

/* Rows of Q and K, and the halves of a gate, lie in another order on the device than in files. */
static const wherry_model_config config = {.struct_size = sizeof config,
                                           .layers = LAYERS,
                                           .hidden = HIDDEN,
                                           .heads = 5,
                                           .feed_forward = FEED_FORWARD,
                                           .vocabulary = 101,
                                           .positions = 64,
                                           .token_types = 2,
                                           .activation = WHERRY_ACTIVATION_SILU,
                                           .pooler = true,
                                           .gate = WHERRY_GATE_SECOND,
                                           .rotary_base = 1000,
                                           .epsilon = 1e-12f};

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

static wherry_model *model_make(void)
{
    wherry_model *model;
    OK(wherry_model_create_random(context, &config, 7, &model));
    return model;
}

/* ---- what they are rounded to ---- */

static void round_rows(wherry_model *model, enum weight weight, int layer, size_t columns)
{
    const struct weight_part *parts;
    int n = model_weight(model, weight, layer, &parts);
    assert_true(n > 0);
    for (int p = 0; p < n; p++)
        for (size_t at = 0; at < parts[p].elements; at += columns) {
            float *row = (float *)parts[p].memory + at, largest = 0;
            for (size_t c = 0; c < columns; c++) largest = fmaxf(largest, fabsf(row[c]));
            float scale = largest / 127;
            for (size_t c = 0; c < columns; c++) row[c] = (float)lrint((double)(row[c] / scale)) * scale;
        }
}

static wherry_model *model_rounded(void)
{
    wherry_model *model = model_make();
    for (int l = 0; l < LAYERS; l++) {
        round_rows(model, WEIGHT_QKV, l, HIDDEN);
        round_rows(model, WEIGHT_OUT, l, HIDDEN);
        round_rows(model, WEIGHT_LIN1, l, HIDDEN);
        round_rows(model, WEIGHT_LIN2, l, FEED_FORWARD);
    }
    round_rows(model, WEIGHT_POOLER, -1, HIDDEN);
    return model;
}

static wherry_session *session_open(wherry_device *device, const wherry_model *model, wherry_dtype dtype,
                                    wherry_weights weights)
{
    wherry_session *session;
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = 80,
                                      .max_sequences = 8,
                                      .dtype = dtype,
                                      .pool = WHERRY_POOL_POOLER,
                                      .weights = weights};
    OK(wherry_session_create(context, device, model, &desc, &session));
    return session;
}

static void embed(wherry_device *device, const wherry_model *model, const wherry_batch *batch, wherry_dtype dtype,
                  wherry_weights weights, float *out)
{
    wherry_session *session = session_open(device, model, dtype, weights);
    OK(wherry_encode(session, batch, out, batch->sequences * HIDDEN));
    wherry_session_destroy(session);
}

static double largest_difference(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - b[i]));
    return most;
}

/* Values are below 1: the pooler ends with tanh. */
static void rounds(void **state)
{
    static const uint32_t lengths[] = {9, 1, 33, 0};
    wherry_batch batch = support_batch(lengths, config.vocabulary, config.token_types, 3);
    wherry_model *model = model_make(), *rounded = model_rounded();
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        float int8[3 * HIDDEN], want[3 * HIDDEN], plain[3 * HIDDEN];
        wherry_device *device;
        OK(wherry_device_open(context, devices[d], &device));
        for (wherry_dtype t = WHERRY_DTYPE_F32; t <= WHERRY_DTYPE_BF16; t++) {
            if (t != WHERRY_DTYPE_F32 && !support_has_f16(context, devices[d])) continue;
            embed(device, model, &batch, t, WHERRY_WEIGHTS_INT8, int8);
            embed(device, rounded, &batch, WHERRY_DTYPE_F32, WHERRY_WEIGHTS_DEFAULT, want);
            embed(device, model, &batch, WHERRY_DTYPE_F32, WHERRY_WEIGHTS_DEFAULT, plain);
            double most = largest_difference(int8, want, 3 * HIDDEN), off = largest_difference(int8, plain, 3 * HIDDEN);
            double bound = t == WHERRY_DTYPE_F32 ? 2e-5 : t == WHERRY_DTYPE_F16 ? 1e-2 : 8e-2;
            if (!(most <= bound)) fail_msg("%s: off by %g in dtype %d", devices[d], most, (int)t);
            if (!(off > 1e-3)) fail_msg("%s: as near as %g to weights that were not rounded", devices[d], off);
        }
        wherry_device_close(device);
    }
    wherry_model_close(model);
    wherry_model_close(rounded);
    support_batch_free(&batch);
}

/* ---- memory ---- */

static uint64_t weight_bytes(wherry_device *device, const wherry_model *model, wherry_weights weights)
{
    wherry_session *session = session_open(device, model, WHERRY_DTYPE_F32, weights);
    wherry_session_plan plan = {.struct_size = sizeof plan};
    OK(wherry_session_query(session, &plan));
    assert_int_equal(plan.weights, weights);
    wherry_session_destroy(session);
    return plan.weight_bytes;
}

/* A quarter of f32's bytes, and 4 for each row; tensors begin on multiples of 256 bytes. */
static void takes_less_memory(void **state)
{
    enum { MATRICES = 4 * LAYERS + 1 };
    const uint64_t rows = LAYERS * (3 * HIDDEN + HIDDEN + 2 * FEED_FORWARD + HIDDEN) + HIDDEN;
    const uint64_t values = LAYERS * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * FEED_FORWARD) + (uint64_t)HIDDEN * HIDDEN;
    wherry_model *model = model_make();
    wherry_device *device;
    (void)state;
    OK(wherry_device_open(context, "reference", &device));
    uint64_t plain = weight_bytes(device, model, WHERRY_WEIGHTS_DEFAULT),
             int8 = weight_bytes(device, model, WHERRY_WEIGHTS_INT8), saved = 3 * values - 4 * rows;
    assert_in_range(plain - int8, saved - 512 * MATRICES - 4096, saved + 512 * MATRICES + 4096);
    wherry_device_close(device);
    wherry_model_close(model);
}

/* ---- bits ---- */

static void keeps_bits(void **state)
{
    static const uint32_t lengths[] = {5, 17, 3, 0};
    wherry_batch batch = support_batch(lengths, config.vocabulary, config.token_types, 5);
    wherry_model *model = model_make();
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        float all[3 * HIDDEN], alone[HIDDEN];
        wherry_device *device;
        OK(wherry_device_open(context, devices[d], &device));
        wherry_session *session = session_open(device, model, WHERRY_DTYPE_DEFAULT, WHERRY_WEIGHTS_INT8);
        OK(wherry_encode(session, &batch, all, 3 * HIDDEN));
        const uint32_t offsets[] = {0, lengths[1]};
        const wherry_batch one = {.struct_size = sizeof one,
                                  .sequences = 1,
                                  .offsets = offsets,
                                  .ids = batch.ids + lengths[0],
                                  .types = batch.types + lengths[0]};
        OK(wherry_encode(session, &one, alone, HIDDEN));
        assert_memory_equal(alone, all + HIDDEN, sizeof alone);
        wherry_session_destroy(session);
        wherry_device_close(device);
    }
    wherry_model_close(model);
    support_batch_free(&batch);
}

/* ---- what is refused ---- */

static void refused(wherry_device *device, const wherry_model *model, wherry_session_desc desc, wherry_status want,
                    const char *says)
{
    wherry_session *session;
    desc.struct_size = sizeof desc;
    wherry_status status = wherry_session_create(context, device, model, &desc, &session);
    if (status != want || !strstr(wherry_last_error(context), says))
        fail_msg("%s: \"%s\" is not \"%s\"", wherry_status_name(status), wherry_last_error(context), says);
}

static void refuses(void **state)
{
    const wherry_training_desc training = {.struct_size = sizeof training};
    wherry_model *model = model_make();
    wherry_device *device;
    (void)state;
    OK(wherry_device_open(context, "reference", &device));
    refused(device, model, (wherry_session_desc){.weights = WHERRY_WEIGHTS_INT8, .training = &training},
            WHERRY_STATUS_UNSUPPORTED, "for inference");
    refused(device, model, (wherry_session_desc){.weights = WHERRY_WEIGHTS_INT8, .layouts = "w_out=hpi"},
            WHERRY_STATUS_UNSUPPORTED, "another order");
    refused(device, model, (wherry_session_desc){.weights = (wherry_weights)7}, WHERRY_STATUS_INVALID_ARGUMENT,
            "none of wherry_weights");
    wherry_device_close(device);
    for (size_t d = 0; d < n_devices; d++) {
        /* It multiplies in bf16, and so packs its weights. */
        if (strcmp(devices[d], "cpu") || !support_has_bf16(context, devices[d])) continue;
        OK(wherry_device_open(context, devices[d], &device));
        refused(device, model, (wherry_session_desc){.weights = WHERRY_WEIGHTS_INT8, .dtype = WHERRY_DTYPE_BF16},
                WHERRY_STATUS_UNSUPPORTED, "multiplied in f32");
        wherry_device_close(device);
    }
    wherry_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds), cmocka_unit_test(takes_less_memory),
                                       cmocka_unit_test(keeps_bits), cmocka_unit_test(refuses)};
    if (!(context = support_context(support_log, devices, &n_devices))) return 1;
    cmocka_set_message_output(CM_OUTPUT_STDOUT);
    int failed = cmocka_run_group_tests_name("int8", tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed != 0;
}
