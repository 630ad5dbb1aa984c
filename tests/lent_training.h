/* What the two programs of an application that lends its device share of training: included behind their `context`,
 * `device`, `model`, `session`, `batch` and `expected`. */
#ifndef WHERRY_TESTS_LENT_TRAINING_H
#define WHERRY_TESTS_LENT_TRAINING_H

static inline float *gradients_read(size_t *floats)
{
    wherry_gradient info = {.struct_size = sizeof info};
    float *all;
    *floats = 0;
    for (size_t n = 0; n < wherry_gradient_count(session); n++) {
        OK(wherry_gradient_describe(session, n, &info));
        *floats += info.elements;
    }
    all = calloc(*floats, sizeof *all);
    float *at = all;
    for (size_t n = 0; n < wherry_gradient_count(session); n++, at += info.elements) {
        OK(wherry_gradient_describe(session, n, &info));
        OK(wherry_gradient_read(session, n, at, info.elements));
    }
    return all;
}

/* The session of the passes below, with what they give through the host's memory: the output, and all gradients one
 * after the other. */
static inline float *training_open(wherry_dtype dtype, float *gradient, size_t *floats)
{
    const wherry_training_desc training = {.struct_size = sizeof training, .dropout = 0.1f};
    const wherry_step step = {.struct_size = sizeof step, .step = 1, .seed = 7};
    const wherry_session_desc desc = {
        .struct_size = sizeof desc, .max_tokens = MOST_TOKENS, .dtype = dtype, .training = &training};
    const size_t count = batch.sequences * HIDDEN;
    for (size_t i = 0; i < count; i++) gradient[i] = (float)((int)(i * 37 % 64) - 32) / 8; /* f16 has all of them */
    OK(wherry_session_create(context, device, model, &desc, &session));
    OK(wherry_forward(session, &batch, NULL, &step, expected, count));
    OK(wherry_backward(session, gradient, count, NULL, 0));
    return gradients_read(floats);
}

#endif
