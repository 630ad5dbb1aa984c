/* What the two test programs of optimizers share: a tiny model, its sessions, and numbers made up. */
#ifndef WHERRY_TESTS_OPTIMIZER_SUPPORT_H
#define WHERRY_TESTS_OPTIMIZER_SUPPORT_H

#include "support.h"

#include "base/half.h"
#include "model/safetensors.h"
#include "runtime/session.h"
#include "runtime/train.h"
#include "train/optimizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "devices_support.h"

enum { TENSORS_MOST = 32 };

#define EXPECT_TRUE(call)                                                                                              \
    do {                                                                                                               \
        struct error e = {0};                                                                                          \
        if (!(call)) fail_msg("%s", e.text);                                                                           \
    } while (0)

/* ---- a model, and numbers made up ---- */

/* The word table has two chunks, the last one's end no multiple of 4; biases have 6 values. */
static const wherry_model_config config = {.struct_size = sizeof config,
                                           .layers = 1,
                                           .hidden = 6,
                                           .heads = 2,
                                           .feed_forward = 10,
                                           .vocabulary = 1501,
                                           .positions = 8,
                                           .token_types = 2,
                                           .activation = WHERRY_ACTIVATION_GELU,
                                           .epsilon = 1e-12f};

struct setup {
    const char *device, *layouts;
    bool f16, training;
};

struct fixture {
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    size_t n;
    size_t counts[TENSORS_MOST];
    char names[TENSORS_MOST][48], dims[TENSORS_MOST][16];
};

static inline wherry_session *session_make(const struct fixture *f, const struct setup *setup)
{
    const wherry_training_desc training = {.struct_size = sizeof training};
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = 8,
                                      .max_sequences = 2,
                                      .dtype = setup->f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32,
                                      .layouts = setup->layouts,
                                      .training = setup->training ? &training : NULL,
                                      .pool = WHERRY_POOL_MEAN};
    wherry_session *session;
    EXPECT_OK(wherry_session_create(context, f->device, f->model, &desc, &session));
    return session;
}

static inline void fixture_open(const struct setup *setup, struct fixture *f)
{
    memset(f, 0, sizeof *f);
    EXPECT_OK(wherry_device_open(context, setup->device, &f->device));
    EXPECT_OK(wherry_model_create_random(context, &config, 5, &f->model));
    f->session = session_make(f, setup);
    f->n = wherry_gradient_count(f->session);
    assert_true(f->n <= TENSORS_MOST);
    for (size_t n = 0; n < f->n; n++) {
        wherry_gradient gradient = {.struct_size = sizeof gradient};
        EXPECT_OK(wherry_gradient_describe(f->session, n, &gradient));
        f->counts[n] = gradient.elements;
        snprintf(f->names[n], sizeof f->names[n], "%s", gradient.name);
        snprintf(f->dims[n], sizeof f->dims[n], "%s", gradient.dims);
    }
}

static inline void fixture_close(struct fixture *f)
{
    wherry_session_destroy(f->session);
    wherry_model_close(f->model);
    wherry_device_close(f->device);
}

/* From -1 to 1, exactly the same in make_optimizer.py. */
static inline float made_up(uint32_t seed, uint32_t i)
{
    uint32_t x = i * 0x9E3779B1u + seed * 0x85EBCA77u;
    x = (x ^ x >> 15) * 0x2C1B3C6Du;
    x = (x ^ x >> 12) * 0x297A2D39u;
    x ^= x >> 15;
    return (float)(x >> 8) / 8388608.0f - 1.0f;
}

static inline float *made_values(const struct fixture *f, size_t n, uint32_t seed, float scale, float offset)
{
    float *values = malloc(f->counts[n] * sizeof *values);
    for (size_t i = 0; i < f->counts[n]; i++) values[i] = made_up(seed, (uint32_t)i) * scale + offset;
    return values;
}

static inline float *start_values(const struct fixture *f, size_t n)
{
    return made_values(f, n, 900000 + (uint32_t)n, 0.125f, strstr(f->names[n], "gamma") ? 1.0f : 0.0f);
}

/* Of very different sizes, so that epsilon matters. */
static inline float *gradient_values(const struct fixture *f, size_t n, int step)
{
    return made_values(f, n, 1000 * (uint32_t)step + (uint32_t)n, ldexpf(1, -3 * (int)(n % 9)), 0);
}

/* What the session multiplies with is the master, rounded to its type. */
static inline void check_stored(const struct fixture *f, size_t n, const float *masters)
{
    const struct graph *g = &f->session->graph;
    float *stored = malloc(f->counts[n] * sizeof *stored);
    const int weight = g->tensors[session_gradient(f->session, n)].gradient_of;
    EXPECT_TRUE(session_tensor_read(f->session, weight, stored, f->counts[n], &e));
    for (size_t i = 0; i < f->counts[n]; i++) {
        float want = f->session->f16 ? half_to_float(half_from_float(masters[i])) : masters[i];
        if (stored[i] != want)
            fail_msg("%s[%zu]: %g is stored of %g", f->names[n], i, (double)stored[i], (double)masters[i]);
    }
    free(stored);
}

static inline uint64_t bits_hash(const struct fixture *f, struct optimizer *o)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t n = 0; n < f->n; n++)
        for (int part = OPTIMIZER_MASTER; part <= OPTIMIZER_SECOND; part++) {
            float *values = malloc(f->counts[n] * sizeof *values);
            const unsigned char *bytes = (const unsigned char *)values;
            if (optimizer_has(o, part, n)) {
                EXPECT_TRUE(optimizer_tensor_read(o, part, n, values, f->counts[n], &e));
                for (size_t i = 0; i < f->counts[n] * sizeof *values; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
            }
            free(values);
        }
    return hash;
}

static inline int open_context(void **state)
{
    (void)state;
    context = support_context(NULL, devices, &n_devices);
    return !context;
}

static inline int close_context(void **state)
{
    (void)state;
    wherry_context_destroy(context);
    return 0;
}

#endif
