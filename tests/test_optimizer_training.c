/* A tiny model that an optimizer trains from ids on: gradients that are accumulated, weights as the formula says, in
 * every type and order, a loss scale that overflows, and sessions of the same model that are not touched. */
#include "optimizer_support.h"

/* ---- from ids on ---- */

enum { OUTPUTS = 2 * 6 };
static const int32_t ids[] = {3, 1500, 7, 9, 12, 3};
static const uint32_t offsets[] = {0, 4, 6};
static const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 2, .offsets = offsets, .ids = ids};

static void forward(wherry_session *session, float y[OUTPUTS])
{
    const wherry_step step = {.struct_size = sizeof step};
    EXPECT_OK(wherry_forward(session, &batch, NULL, &step, y, OUTPUTS));
}

/* A gradient of the output for the batch, times the scale. */
static void backward(wherry_session *session, uint32_t seed, double scale)
{
    float y[OUTPUTS], dy[OUTPUTS];
    forward(session, y);
    for (uint32_t i = 0; i < OUTPUTS; i++) dy[i] = made_up(seed, i) * (float)scale;
    EXPECT_OK(wherry_backward(session, dy, OUTPUTS, NULL, 0));
}

static double **gradients_add(const struct fixture *f, double **sums, double factor)
{
    if (!sums) sums = calloc(TENSORS_MOST, sizeof *sums);
    for (size_t n = 0; n < f->n; n++) {
        float *values = malloc(f->counts[n] * sizeof *values);
        if (!sums[n]) sums[n] = calloc(f->counts[n], sizeof **sums);
        EXPECT_OK(wherry_gradient_read(f->session, n, values, f->counts[n]));
        for (size_t i = 0; i < f->counts[n]; i++) sums[n][i] += factor * (double)values[i];
        free(values);
    }
    return sums;
}

static void gradients_free(double **sums)
{
    for (size_t n = 0; n < TENSORS_MOST; n++) free(sums[n]);
    free(sums);
}

/* The first AdamW step from these gradients, by its formula, without clipping: every tensor is trained alike. */
static void check_first_step(const struct fixture *f, struct optimizer *o, float *const *before, double *const *sums,
                             double rate)
{
    for (size_t n = 0; n < f->n; n++) {
        float *after = malloc(f->counts[n] * sizeof *after);
        EXPECT_TRUE(optimizer_tensor_read(o, OPTIMIZER_MASTER, n, after, f->counts[n], &e));
        for (size_t i = 0; i < f->counts[n]; i++) {
            double g = sums[n][i], want = (double)before[n][i] * (1 - rate * 0.1) - rate * g / (fabs(g) + 1e-3);
            if (fabs(want - (double)after[i]) > 1e-6 * (fabs(want) + 0.01))
                fail_msg("%s[%zu]: %.9g became %.9g, not %.9g", f->names[n], i, (double)before[n][i], (double)after[i],
                         want);
        }
        check_stored(f, n, after);
        free(after);
    }
}

static struct optimizer *optimizer_of(const struct fixture *f, enum optimizer_kind kind, double loss_scale,
                                      uint32_t clean_steps)
{
    struct optimizer_tensor tensors[TENSORS_MOST];
    struct optimizer *o;
    for (size_t n = 0; n < f->n; n++) /* parts of vectors begin anywhere, which LAMB's ratios don't */
        tensors[n] = (struct optimizer_tensor){
            .decays = kind != OPTIMIZER_LAMB ||
                      strncmp(strrchr(f->names[n], '.') ? strrchr(f->names[n], '.') + 1 : f->names[n], "b_", 2),
            .rate_factor = 1};
    const struct optimizer_options options = {.kind = kind,
                                              .beta1 = 0.9,
                                              .beta2 = 0.999,
                                              .epsilon = 1e-3,
                                              .weight_decay = 0.1,
                                              .momentum = 0.9,
                                              .max_norm = kind == OPTIMIZER_SGD ? 0.5 : 0,
                                              .tensors = tensors,
                                              .count = f->n,
                                              .loss_scale = loss_scale,
                                              .clean_steps = clean_steps};
    EXPECT_TRUE((o = optimizer_create(f->session, &options, &e)) != NULL);
    return o;
}

static struct optimizer *simple_optimizer(const struct fixture *f, double loss_scale, uint32_t clean_steps)
{
    return optimizer_of(f, OPTIMIZER_ADAMW, loss_scale, clean_steps);
}

static float **masters_read(const struct fixture *f, struct optimizer *o)
{
    float **values = calloc(TENSORS_MOST, sizeof *values);
    for (size_t n = 0; n < f->n; n++) {
        values[n] = malloc(f->counts[n] * sizeof **values);
        EXPECT_TRUE(optimizer_tensor_read(o, OPTIMIZER_MASTER, n, values[n], f->counts[n], &e));
    }
    return values;
}

static void masters_free(float **values)
{
    for (size_t n = 0; n < TENSORS_MOST; n++) free(values[n]);
    free(values);
}

/* Two batches make a step; what the session computes then is what a session of the reference does. */
static void train_run(const struct setup *setup, float y[OUTPUTS])
{
    struct fixture f;
    struct optimizer_result result;
    fixture_open(setup, &f);
    struct optimizer *o = simple_optimizer(&f, 256, 2);
    const double scale = optimizer_scale(o);
    assert_true(scale == (setup->f16 ? 256 : 1));
    float **before = masters_read(&f, o);
    backward(f.session, 1, scale);
    EXPECT_TRUE(optimizer_accumulate(o, 0.25, &e));
    double **sums = gradients_add(&f, NULL, 0.25 / scale);
    backward(f.session, 2, scale);
    EXPECT_TRUE(optimizer_accumulate(o, 0.75, &e));
    gradients_add(&f, sums, 0.75 / scale);
    EXPECT_TRUE(optimizer_step(o, 0.01, &result, &e));
    assert_false(result.skipped);
    check_first_step(&f, o, before, sums, 0.01);
    backward(f.session, 3, scale);
    EXPECT_TRUE(optimizer_accumulate(o, 1, &e));
    EXPECT_TRUE(optimizer_step(o, 0.01, &result, &e));
    assert_int_equal(result.step, 2);
    assert_true(result.scale == (setup->f16 ? 512 : 1)); /* after two clean steps */
    forward(f.session, y);
    struct error none = {0};
    assert_false(optimizer_accumulate(o, 1, &none)); /* the forward pass took the gradients' memory */
    assert_false(optimizer_step(o, 0.01, &result, &none));
    gradients_free(sums);
    masters_free(before);
    optimizer_destroy(o);
    fixture_close(&f);
}

static void test_train(void **state)
{
    static const char *const layouts[] = {NULL, "w_qkv=iqhp,w_out=hpi,w_lin1=ui+iu,w_lin2=ui+iu"};
    float want[OUTPUTS], have[OUTPUTS];
    (void)state;
    train_run(&(struct setup){"reference", .training = true}, want);
    for (size_t d = 0; d < n_devices; d++)
        for (int i = 0; i < 3; i++) {
            const struct setup setup = {devices[d], layouts[i == 1], i == 2, true};
            if (setup.f16 && !support_has_f16(context, devices[d])) continue;
            train_run(&setup, have);
            for (int k = 0; k < OUTPUTS; k++)
                if (fabsf(have[k] - want[k]) > (setup.f16 ? 1e-2f : 1e-5f) * (fabsf(want[k]) + 1))
                    fail_msg("%s%s: output %d is %g, not %g", devices[d], setup.f16 ? " f16" : "", k, (double)have[k],
                             (double)want[k]);
        }
}

/* Two steps, of gradients that are accumulated or left where they are. */
static uint64_t one_by_one(const struct setup *setup, enum optimizer_kind kind, bool direct)
{
    struct fixture f;
    struct optimizer_result result;
    fixture_open(setup, &f);
    struct optimizer *o = optimizer_of(&f, kind, 64, 0);
    for (int step = 1; step <= 2; step++) {
        backward(f.session, step, optimizer_scale(o));
        EXPECT_TRUE((direct ? optimizer_direct : optimizer_accumulate)(o, 0.75, &e));
        EXPECT_TRUE(optimizer_step_begin(o, 0.01, &e));
        assert_false(optimizer_step_begin(o, 0.01, &(struct error){0}));
        EXPECT_TRUE(optimizer_step_end(o, &result, &e));
        assert_true(!result.skipped && result.norm > 0);
    }
    const uint64_t hash = bits_hash(&f, o);
    optimizer_destroy(o);
    fixture_close(&f);
    return hash;
}

static void test_direct(void **state)
{
    static const enum optimizer_kind kinds[] = {OPTIMIZER_ADAMW, OPTIMIZER_LAMB, OPTIMIZER_SGD};
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (int i = 0; i < 6; i++) {
            const struct setup setup = {devices[d], .f16 = i >= 3, .training = true};
            if (setup.f16 && !support_has_f16(context, devices[d])) continue;
            /* A driver that compiles on the host has LAMB's ratios, and AdamW in 16 bits. */
            if (strchr(devices[d], ':') && !support_is_gpu(context, devices[d]) && i != 1 && i != 3) continue;
            if (one_by_one(&setup, kinds[i % 3], false) != one_by_one(&setup, kinds[i % 3], true))
                fail_msg("%s%s, kind %d: other bits of gradients that are not accumulated", devices[d],
                         setup.f16 ? " f16" : "", i % 3);
        }
}

/* A gradient that 16 bits can't hold, or one that the caller says so of: the scale halves, and nothing else happens. */
static void test_overflow(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct fixture f;
        struct optimizer_result result;
        float dy[OUTPUTS], y[OUTPUTS];
        if (!support_has_f16(context, devices[d])) continue;
        fixture_open(&(struct setup){devices[d], .f16 = true, .training = true}, &f);
        struct optimizer *o = simple_optimizer(&f, 0, 0);
        assert_true(optimizer_scale(o) == 65536);
        uint64_t hash = bits_hash(&f, o);
        forward(f.session, y);
        for (int i = 0; i < OUTPUTS; i++) dy[i] = 65000; /* two of them are added for each bias */
        EXPECT_OK(wherry_backward(f.session, dy, OUTPUTS, NULL, 0));
        EXPECT_TRUE(optimizer_accumulate(o, 1, &e));
        EXPECT_TRUE(optimizer_step(o, 0.01, &result, &e));
        assert_true(result.skipped && result.scale == 32768 && result.step == 0 && !isfinite(result.norm));
        optimizer_overflow(o);
        EXPECT_TRUE(optimizer_step(o, 0.01, &result, &e));
        assert_true(result.skipped && optimizer_scale(o) == 16384);
        assert_true(hash == bits_hash(&f, o));
        backward(f.session, 1, 64);
        EXPECT_TRUE(optimizer_accumulate(o, 1, &e));
        EXPECT_TRUE(optimizer_step(o, 0.01, &result, &e));
        assert_true(!result.skipped && hash != bits_hash(&f, o));
        optimizer_destroy(o);
        fixture_close(&f);
    }
}

/* A session of inference with the same model keeps its weights, and so does one that comes later. */
static void test_others(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct fixture f;
        struct optimizer_result result;
        float before[OUTPUTS], after[OUTPUTS], later[OUTPUTS];
        fixture_open(&(struct setup){devices[d], .training = true}, &f);
        wherry_session *beside = session_make(&f, &(struct setup){devices[d]});
        EXPECT_OK(wherry_encode(beside, &batch, before, OUTPUTS));
        struct optimizer *o = simple_optimizer(&f, 0, 0);
        backward(f.session, 1, 1);
        EXPECT_TRUE(optimizer_accumulate(o, 1, &e));
        EXPECT_TRUE(optimizer_step(o, 0.1, &result, &e));
        EXPECT_OK(wherry_encode(beside, &batch, after, OUTPUTS));
        wherry_session_destroy(beside);
        beside = session_make(&f, &(struct setup){devices[d]});
        EXPECT_OK(wherry_encode(beside, &batch, later, OUTPUTS));
        assert_memory_equal(before, after, sizeof before);
        assert_memory_equal(before, later, sizeof before);
        wherry_session_destroy(beside);
        optimizer_destroy(o);
        fixture_close(&f);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_train), cmocka_unit_test(test_direct),
                                              cmocka_unit_test(test_overflow), cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, open_context, close_context);
}
