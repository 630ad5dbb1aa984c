/* Every loss with every optimizer: twenty steps of a whole model make PyTorch's losses and weights (golden/
 * make_trained.py), in f32, and near them in f16 with a loss scale. Drivers of CPUs, which compile for long, have each
 * loss with one of the optimizers; WHERRY_TEST_ALL has all of them there, too. */
#include "trainer_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "devices_support.h"

/* ---- as make_trained.py has them ---- */

static const uint32_t widths[] = {16, 8, 5};
static const float width_weights[] = {1, 0.5f, 0.25f}, class_weights[] = {0.5f, 1, 2};

static const struct {
    const char *name;
    wherry_loss_desc desc;
} losses[] = {
    {"contrastive", {.loss = WHERRY_LOSS_CONTRASTIVE, .columns = 3}},
    {"cosent", {.loss = WHERRY_LOSS_COSENT}},
    {"cosine", {.loss = WHERRY_LOSS_COSINE}},
    {"vectors", {.loss = WHERRY_LOSS_VECTORS}},
    {"margin", {.loss = WHERRY_LOSS_MARGIN}},
    {"classes", {.loss = WHERRY_LOSS_CLASSES, .class_weights = class_weights}},
    {"binary", {.loss = WHERRY_LOSS_BINARY, .positive_weight = 1.5f}},
    {"regression", {.loss = WHERRY_LOSS_REGRESSION}},
    {"dimensions",
     {.loss = WHERRY_LOSS_CONTRASTIVE,
      .columns = 3,
      .dimensions = widths,
      .dimension_weights = width_weights,
      .n_dimensions = 3}},
};
enum { LOSSES = sizeof losses / sizeof *losses, KINDS = 3 };

static const struct {
    const char *name;
    wherry_optimizer_desc desc;
} kinds[KINDS] = {
    {"adamw",
     {.kind = WHERRY_OPTIMIZER_ADAMW,
      .learning_rate = 1e-3f,
      .weight_decay = 0.01f,
      .max_norm = 1,
      .schedule = WHERRY_SCHEDULE_LINEAR}},
    {"lamb",
     {.kind = WHERRY_OPTIMIZER_LAMB,
      .learning_rate = 5e-3f,
      .weight_decay = 0.1f,
      .max_norm = 1,
      .schedule = WHERRY_SCHEDULE_COSINE}},
    {"sgd",
     {.kind = WHERRY_OPTIMIZER_SGD,
      .learning_rate = 1e-2f,
      .weight_decay = 0.01f,
      .momentum = 0.9f,
      .max_norm = 0.5f,
      .schedule = WHERRY_SCHEDULE_CONSTANT}},
};

static bool of_scores(size_t loss)
{
    return losses[loss].desc.loss >= WHERRY_LOSS_CLASSES && losses[loss].desc.loss <= WHERRY_LOSS_REGRESSION;
}

/* ---- a run ---- */

struct trained {
    struct run run;
    wherry_device *device;
    wherry_model *model;
    wherry_trainer *trainer;
};

static void trained_open(const char *device, size_t loss, size_t kind, wherry_dtype dtype, const char *layouts,
                         struct trained *t)
{
    const wherry_session_desc session = {.struct_size = sizeof session,
                                         .max_tokens = 200,
                                         .max_sequences = ROWS_MOST,
                                         .dtype = dtype,
                                         .layouts = layouts,
                                         .output = of_scores(loss) ? WHERRY_OUTPUT_CLASSES : WHERRY_OUTPUT_EMBEDDING,
                                         .training = &no_dropout};
    wherry_loss_desc loss_desc = losses[loss].desc;
    wherry_optimizer_desc optimizer = kinds[kind].desc;
    loss_desc.struct_size = sizeof loss_desc;
    optimizer.struct_size = sizeof optimizer;
    optimizer.warmup_steps = RUN_WARMUP;
    optimizer.total_steps = RUN_STEPS;
    if (optimizer.kind != WHERRY_OPTIMIZER_SGD) optimizer.epsilon = 1e-3f;
    if (dtype == WHERRY_DTYPE_F16) optimizer.loss_scale = 256;
    const wherry_trainer_desc desc = {.struct_size = sizeof desc, .loss = &loss_desc, .optimizer = &optimizer};
    memset(t, 0, sizeof *t);
    snprintf(t->run.begins[0], sizeof t->run.begins[0], "%s/", losses[loss].name);
    snprintf(t->run.begins[1], sizeof t->run.begins[1], "%s/%s/", losses[loss].name, kinds[kind].name);
    assert_true(
        run_open_file(of_scores(loss) ? "trained/scores" : "trained/vectors", "trained/runs.safetensors", &t->run));
    EXPECT_OK(wherry_device_open(context, device, &t->device));
    EXPECT_OK(wherry_model_open(context, t->run.folder, &t->model));
    EXPECT_OK(wherry_trainer_create(context, t->device, t->model, &session, &desc, &t->trainer));
}

static void trained_close(struct trained *t)
{
    wherry_trainer_destroy(t->trainer);
    wherry_model_close(t->model);
    wherry_device_close(t->device);
    run_close(&t->run);
}

/* Losses relative to their size; where torch itself is off by more in float32, with one of the optimizers, twice so
 * much. */
static void check(const char *device, size_t loss, size_t kind, wherry_dtype dtype, const char *layouts)
{
    bool f16 = dtype == WHERRY_DTYPE_F16;
    struct trained t;
    char worst[160] = "";
    double far = 0, norms = 0;
    trained_open(device, loss, kind, dtype, layouts, &t);
    double *off = run_values(&t.run, "float32", NULL), tolerance = f16 ? 1e-2 : fmax(1e-6, 2 * off[0]);
    free(off);
    for (size_t s = 0; s < RUN_STEPS; s++) {
        struct run_step step;
        wherry_step_result result = {.struct_size = sizeof result};
        run_step_make(&t.run, s, 1, &step);
        EXPECT_OK(wherry_trainer_step(t.trainer, step.batches, 1, &step.targets, &result));
        assert_false(result.skipped);
        assert_true(result.loss_scale == (f16 ? 256 : 1));
        assert_true(fabs(result.learning_rate - t.run.rate[s]) <= 1e-7 * t.run.rate[s]);
        far = fmax(far, fabs(result.loss / t.run.loss[s] - 1));
        norms = fmax(norms, fabs(result.gradient_norm / t.run.norm[s] - 1));
        if (!(fabs(result.loss / t.run.loss[s] - 1) <= tolerance))
            fail_msg("%s, %s, %s: step %zu has the loss %.9g, PyTorch %.9g", device, losses[loss].name,
                     kinds[kind].name, s, result.loss, t.run.loss[s]);
    }
    double weights = run_difference(&t.run, t.trainer, worst);
    printf("%s, %s, %s%s: losses within %.2g, norms %.2g, weights %.2g\n", device, losses[loss].name, kinds[kind].name,
           f16 ? ", f16" : "", far, norms, weights);
    if (!(norms <= (f16 ? 2e-2 : 2e-5))) fail_msg("norms of gradients differ by %g", norms);
    if (!(weights <= (f16 ? 1e-2 : 1e-5))) fail_msg("%s differs by %g", worst, weights);
    trained_close(&t);
}

static bool few_on(const char *device)
{
    return strchr(device, ':') && !support_is_gpu(context, device) && !getenv("WHERRY_TEST_ALL");
}

/* APIs have other optimizers with a loss. */
static bool in_turn(const char *device, size_t loss, size_t kind)
{
    return (loss + !strncmp(device, "vulkan", 6)) % KINDS == kind;
}

static void equals_pytorch(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t loss = 0; loss < LOSSES; loss++)
            for (size_t kind = 0; kind < KINDS; kind++)
                if (!few_on(devices[d]) || in_turn(devices[d], loss, kind))
                    check(devices[d], loss, kind, WHERRY_DTYPE_F32, NULL);
}

/* LAMB has a ratio each for query, key and value, which lie between each other then. */
static void equals_in_other_orders(void **state)
{
    static const char *const orders[] = {"w_qkv=iqhp", "qkv=bjhqp,w_qkv=hqpi", "qkv=bjhqp,w_qkv=ihqp"};
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t i = 0; i < 3 && !few_on(devices[d]); i++) check(devices[d], 0, 1, WHERRY_DTYPE_F32, orders[i]);
}

static void stays_near_in_16_bits(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t loss = 0; support_has_f16(context, devices[d]) && loss < LOSSES; loss++)
            for (size_t kind = 0; kind < KINDS; kind++)
                if (!few_on(devices[d]) || (loss == 4 && in_turn(devices[d], loss, kind)))
                    check(devices[d], loss, kind, WHERRY_DTYPE_F16, NULL);
}

int main(void)
{
    if (!devices_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_pytorch),
        cmocka_unit_test(equals_in_other_orders),
        cmocka_unit_test(stays_near_in_16_bits),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
