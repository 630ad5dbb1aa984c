/* Prints a hash of the bits that a device computes: outputs and gradients of small layers in training, for each plan,
 * type, place of the layernorm and saving policy. Public API alone, so that it can be linked with two builds.
 *
 *   bits DEVICE */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <wherry/wherry.h>

enum { HIDDEN = 64, TOKENS = 45, FLOATS = TOKENS * HIDDEN };

struct setting {
    const char *plan;
    wherry_dtype dtype;
    wherry_save save;
    uint32_t qkv_products;
    bool pre_layernorm;
    wherry_activation activation;
};

static uint64_t hash_floats(uint64_t hash, const float *values, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)values;
    for (size_t i = 0; i < count * sizeof *values; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static wherry_status hash_gradients(wherry_session *session, uint64_t *hash)
{
    for (size_t n = 0; n < wherry_gradient_count(session); n++) {
        wherry_gradient weight = {.struct_size = sizeof weight};
        wherry_status status = wherry_gradient_describe(session, n, &weight);
        float *values = calloc(weight.elements, sizeof *values);
        if (!values) return WHERRY_STATUS_OUT_OF_HOST_MEMORY;
        if (!status) status = wherry_gradient_read(session, n, values, weight.elements);
        *hash = hash_floats(*hash, values, weight.elements);
        free(values);
        if (status) return status;
    }
    return WHERRY_STATUS_OK;
}

static wherry_status step(wherry_session *session, uint64_t *hash)
{
    static float x[FLOATS], y[FLOATS], dx[FLOATS];
    static const uint32_t offsets[] = {0, 17, 24, TOKENS};
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 3, .offsets = offsets};
    const wherry_step which = {.struct_size = sizeof which, .seed = 42, .step = 3};
    for (int i = 0; i < FLOATS; i++) x[i] = (float)(i * 7919 % 1009) / 504.5f - 1;
    wherry_status status = wherry_forward(session, &batch, x, &which, y, FLOATS);
    *hash = hash_floats(*hash, y, FLOATS);
    if (!status) status = wherry_backward(session, x, FLOATS, dx, FLOATS);
    *hash = hash_floats(*hash, dx, FLOATS);
    return status ? status : hash_gradients(session, hash);
}

static wherry_status run(wherry_context *context, wherry_device *device, const struct setting *s, uint64_t *hash)
{
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 4,
                                        .feed_forward = 3 * HIDDEN,
                                        .vocabulary = 1,
                                        .positions = TOKENS,
                                        .token_types = 1,
                                        .activation = s->activation,
                                        .pre_layernorm = s->pre_layernorm};
    const wherry_training_desc training = {.struct_size = sizeof training,
                                           .dropout = 0.1f,
                                           .save = s->save,
                                           .stack = true,
                                           .qkv_products = s->qkv_products};
    const wherry_session_desc desc = {
        .struct_size = sizeof desc, .max_tokens = TOKENS, .dtype = s->dtype, .plan = s->plan, .training = &training};
    wherry_model *model = NULL;
    wherry_session *session = NULL;
    wherry_status status = wherry_model_create_random(context, &config, 1, &model);
    if (!status) status = wherry_session_create(context, device, model, &desc, &session);
    if (!status) status = step(session, hash);
    wherry_session_destroy(session);
    wherry_model_close(model);
    return status;
}

int main(int argc, char **argv)
{
    static const struct setting settings[] = {
        {"flash", WHERRY_DTYPE_F32, WHERRY_SAVE_DEFAULT, 1, false, WHERRY_ACTIVATION_RELU},
        {"flash", WHERRY_DTYPE_F16, WHERRY_SAVE_LEAST, 1, true, WHERRY_ACTIVATION_GELU},
        {"flash", WHERRY_DTYPE_F32, WHERRY_SAVE_PAPER, 3, true, WHERRY_ACTIVATION_GELU_TANH},
        {"paper", WHERRY_DTYPE_F32, WHERRY_SAVE_ALL, 1, false, WHERRY_ACTIVATION_GELU},
        {"paper", WHERRY_DTYPE_F16, WHERRY_SAVE_DEFAULT, 2, true, WHERRY_ACTIVATION_RELU},
        {"unfused", WHERRY_DTYPE_F32, WHERRY_SAVE_LEAST, 1, false, WHERRY_ACTIVATION_RELU},
    };
    wherry_context *context = NULL;
    wherry_device *device = NULL;
    wherry_status status = wherry_context_create(NULL, &context);
    if (!status) status = wherry_device_open(context, argc > 1 ? argv[1] : NULL, &device);
    for (size_t i = 0; i < sizeof settings / sizeof *settings && !status; i++) {
        const struct setting *s = &settings[i];
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        status = run(context, device, s, &hash);
        if (!status)
            printf("layers in training, %s, %s, saving policy %d, %u products, %s, activation %d: %016" PRIx64 "\n",
                   s->plan, s->dtype == WHERRY_DTYPE_F16 ? "f16" : "f32", (int)s->save, s->qkv_products,
                   s->pre_layernorm ? "pre-LN" : "post-LN", (int)s->activation, hash);
    }
    if (status)
        fprintf(stderr, "bits: %s: %s\n", wherry_status_name(status), context ? wherry_last_error(context) : "");
    wherry_device_close(device);
    wherry_context_destroy(context);
    return status != WHERRY_STATUS_OK;
}
