/* Low-rank adapters: 20 steps from PEFT's adapter make PEFT's A, B, whole weights and losses, on every device, and what
 * is saved merged gives its output; so do steps of several batches and of shards, and sessions that keep weights in
 * other orders. In f16 they stay near. */
#include "model_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adapter_support.h"
#include "devices_support.h"

struct adapted {
    struct run run;
    wherry_device *device;
    wherry_model *model;
    wherry_trainer *trainer;
    wherry_session_desc session;
};

static void adapted_open(const char *device, const char *name, const char *layouts, wherry_dtype dtype, uint32_t shards,
                         struct adapted *a)
{
    char folder[600];
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    memset(a, 0, sizeof *a);
    assert_true(adapter_run_open(name, &a->run));
    adapter_folder(name, folder);
    adapter_descs(name, &a->session, &loss, &optimizer);
    a->session.layouts = layouts;
    a->session.dtype = dtype;
    if (dtype == WHERRY_DTYPE_F16) optimizer.loss_scale = 256;
    const wherry_lora_desc lora = {.struct_size = sizeof lora, .adapter = folder};
    const wherry_trainer_desc desc = {
        .struct_size = sizeof desc, .loss = &loss, .optimizer = &optimizer, .shards = shards, .lora = &lora};
    EXPECT_OK(wherry_device_open(context, device, &a->device));
    EXPECT_OK(wherry_model_open(context, a->run.folder, &a->model));
    EXPECT_OK(wherry_trainer_create(context, a->device, a->model, &a->session, &desc, &a->trainer));
}

static void adapted_close(struct adapted *a)
{
    wherry_trainer_destroy(a->trainer);
    wherry_model_close(a->model);
    wherry_device_close(a->device);
    run_close(&a->run);
}

/* One step, of `parts` batches, or with `shards` of shards with a batch each. */
static wherry_step_result step(struct adapted *a, size_t number, size_t parts, bool shards)
{
    struct run_step s;
    wherry_shard list[BATCHES_MOST];
    wherry_step_result result = {.struct_size = sizeof result};
    run_step_make(&a->run, number, parts, &s);
    for (size_t i = 0; i < parts; i++)
        list[i] = (wherry_shard){.struct_size = sizeof *list, .batches = &s.batches[i], .n_batches = 1};
    if (shards)
        EXPECT_OK(wherry_trainer_step_shards(a->trainer, list, parts, &s.targets, &result));
    else
        EXPECT_OK(wherry_trainer_step(a->trainer, s.batches, parts, &s.targets, &result));
    return result;
}

static void steps_equal(struct adapted *a, const char *device, size_t steps, size_t parts, bool shards,
                        double tolerance)
{
    double far = 0, norms = 0;
    for (size_t s = 0; s < steps; s++) {
        const wherry_step_result result = step(a, s, parts, shards);
        assert_false(result.skipped);
        far = fmax(far, fabs(result.loss / a->run.loss[s] - 1));
        norms = fmax(norms, fabs(result.gradient_norm / a->run.norm[s] - 1));
    }
    printf("%s, %zu steps of %zu: losses within %.2g, norms %.2g\n", device, steps, parts, far, norms);
    if (!(far <= tolerance)) fail_msg("%s: a loss differs from PEFT's by %g of its size", device, far);
    if (!(norms <= 20 * tolerance)) fail_msg("%s: a gradient's norm differs from PEFT's by %g", device, norms);
}

/* The output for the first step's sequences, of a folder's model with, or without, an adapter's folder. */
static void rows_equal(const struct adapted *a, const char *folder, const char *adapter)
{
    struct run_step s;
    wherry_session_desc desc = a->session;
    wherry_model *model = NULL;
    wherry_session *session = NULL;
    size_t bytes;
    float rows[ROWS_MOST * 16], *want = run_values(&a->run, "rows", &bytes);
    double difference = 0, square = 0;
    const size_t count = bytes / sizeof *want;
    desc.training = NULL;
    run_step_make(&a->run, 0, 1, &s);
    EXPECT_OK(wherry_model_open(context, folder, &model));
    if (adapter) EXPECT_OK(wherry_model_adapt(context, model, adapter));
    EXPECT_OK(wherry_session_create(context, a->device, model, &desc, &session));
    EXPECT_OK(wherry_encode(session, s.batches, rows, count));
    for (size_t i = 0; i < count; i++) {
        difference += pow((double)rows[i] - (double)want[i], 2);
        square += pow((double)want[i], 2);
    }
    free(want);
    if (!(sqrt(difference / square) < 1e-5)) fail_msg("the output differs by %g", sqrt(difference / square));
    wherry_session_destroy(session);
    wherry_model_close(model);
}

/* By Oclgrind (tests/oclgrind.sh), which calls itself a GPU: both kernels in a step or two. */
static bool interpreted(void) { return getenv("WHERRY_TEST_FEW") != NULL; }

static bool is_driver(const char *device)
{
    return strchr(device, ':') && (interpreted() || !support_is_gpu(context, device));
}

/* Sessions of another kind are other kernels: of drivers of CPUs, lavapipe compiles these in seconds. */
static bool compiles_fast(const char *device) { return !strncmp(device, "vulkan", 6); }

static void equals_peft(void **state)
{
    static const char *const names[] = {"contrastive", "classes"};
    (void)state;
    for (size_t d = 0; interpreted() && d < n_devices; d++) {
        struct adapted a;
        adapted_open(devices[d], "classes", NULL, WHERRY_DTYPE_F32, 0, &a);
        steps_equal(&a, devices[d], 2, 1, false, 1e-6);
        adapted_close(&a);
    }
    if (interpreted()) return;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t i = is_driver(devices[d]); i < 2; i++) {
            char *folder = files_folder(), *whole = files_format("%s/whole", folder),
                 *alone = files_format("%s/alone", folder), worst[160] = "";
            struct adapted a;
            adapted_open(devices[d], names[i], NULL, WHERRY_DTYPE_F32, 0, &a);
            steps_equal(&a, devices[d], RUN_STEPS, 1, false, 1e-6);
            const double weights = run_difference(&a.run, a.trainer, worst);
            printf("%s, %s: weights within %.2g\n", devices[d], names[i], weights);
            if (!(weights <= 1e-5)) fail_msg("%s differs by %g", worst, weights);
            EXPECT_OK(wherry_trainer_save(a.trainer, whole));
            EXPECT_OK(wherry_trainer_save_adapter(a.trainer, alone));
            rows_equal(&a, whole, NULL);
            rows_equal(&a, a.run.folder, alone);
            adapted_close(&a);
            free(whole);
            free(alone);
            files_remove(folder);
        }
}

static void adds_batches_and_shards(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct adapted a;
        if (is_driver(devices[d])) continue;
        adapted_open(devices[d], "contrastive", NULL, WHERRY_DTYPE_F32, 0, &a);
        steps_equal(&a, devices[d], 3, 3, false, 1e-6);
        adapted_close(&a);
        adapted_open(devices[d], "classes", NULL, WHERRY_DTYPE_F32, 3, &a);
        steps_equal(&a, devices[d], 3, 3, true, 1e-6);
        adapted_close(&a);
    }
}

/* Queries, keys and values side by side by heads, matrices the other way round. */
static void equals_in_other_orders(void **state)
{
    static const char *const orders[] = {"w_qkv=iqhp,w_out=hpi", "qkv=bjhqp,w_qkv=hqpi", "qkv=bjhqp,w_qkv=ihqp"};
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t i = 0; i < 3; i++) {
            struct adapted a;
            if (is_driver(devices[d]) && (i != 2 || !compiles_fast(devices[d]))) continue;
            adapted_open(devices[d], "contrastive", orders[i], WHERRY_DTYPE_F32, 0, &a);
            steps_equal(&a, devices[d], 4, 1, false, 1e-6);
            adapted_close(&a);
        }
}

/* ---- a mixture of experts ---- */

static wherry_status mixture_open(const char *device, const char *target, const char *saved, struct adapted *a)
{
    const wherry_model_config config = run_mixture();
    const char *const targets[] = {target, "o_proj"};
    const wherry_lora_desc lora = {.struct_size = sizeof lora,
                                   .rank = 4,
                                   .targets = targets,
                                   .n_targets = 2,
                                   .saved = &saved,
                                   .n_saved = saved != NULL};
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    memset(a, 0, sizeof *a);
    assert_true(adapter_run_open("contrastive", &a->run));
    adapter_descs("contrastive", &a->session, &loss, &optimizer);
    const wherry_trainer_desc desc = {
        .struct_size = sizeof desc, .loss = &loss, .optimizer = &optimizer, .seed = 3, .lora = &lora};
    EXPECT_OK(wherry_device_open(context, device, &a->device));
    EXPECT_OK(wherry_model_create_random(context, &config, 5, &a->model));
    return wherry_trainer_create(context, a->device, a->model, &a->session, &desc, &a->trainer);
}

/* How many weights are trained whose names have this in them. */
static size_t trained_of(const struct adapted *a, const char *part)
{
    size_t n = 0;
    for (size_t w = 0; w < wherry_trainer_weight_count(a->trainer); w++) {
        wherry_weight info = {.struct_size = sizeof info};
        EXPECT_OK(wherry_trainer_weight_describe(a->trainer, w, &info));
        n += !info.frozen && strstr(info.name, part) != NULL;
    }
    return n;
}

/* The loss of a step that begins with a model as it is. */
static double loss_of(const struct adapted *a, wherry_model *model, size_t number)
{
    struct adapted whole = *a;
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    adapter_descs("contrastive", &whole.session, &loss, &optimizer);
    const wherry_trainer_desc desc = {.struct_size = sizeof desc, .loss = &loss, .optimizer = &optimizer, .seed = 3};
    EXPECT_OK(wherry_trainer_create(context, a->device, model, &whole.session, &desc, &whole.trainer));
    const double out = step(&whole, number, 1, false).loss;
    wherry_trainer_destroy(whole.trainer);
    return out;
}

/* The vectors of a model. */
static float *mixture_rows(const struct adapted *a, wherry_model *model, size_t *count)
{
    struct run_step s;
    wherry_session_desc desc = a->session;
    wherry_session *session = NULL;
    desc.training = NULL;
    run_step_make(&a->run, 0, 1, &s);
    *count = s.batches[0].sequences * (size_t)run_mixture().hidden;
    float *rows = malloc(*count * sizeof *rows);
    EXPECT_OK(wherry_session_create(context, a->device, model, &desc, &session));
    EXPECT_OK(wherry_encode(session, s.batches, rows, *count));
    wherry_session_destroy(session);
    return rows;
}

/* The router is a linear layer as others are, and experts are none, in PEFT neither; as a whole they are trained. What
 * is saved, merged or alone, gives the same vectors, and others than the model did before. */
static void adapts_the_router_of_a_mixture(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        char *folder = files_folder(), *whole = files_format("%s/whole", folder),
             *alone = files_format("%s/alone", folder);
        wherry_model *merged = NULL;
        struct adapted a;
        size_t count, losses = 0;
        double first = 0;
        if (is_driver(devices[d]) && !compiles_fast(devices[d])) continue;
        EXPECT_OK(mixture_open(devices[d], "router.layer", "experts", &a));
        assert_int_equal(trained_of(&a, "router.layer.lora_"), 2);
        assert_int_equal(trained_of(&a, "o_proj.lora_"), 4);
        assert_int_equal(trained_of(&a, "mlp.experts."), 3);
        float *before = mixture_rows(&a, a.model, &count);
        for (; losses < 4; losses++) {
            const wherry_step_result result = step(&a, losses, 1, false);
            if (!losses) first = result.loss;
            assert_true(isfinite(result.loss) && result.gradient_norm > 0);
        }
        EXPECT_OK(wherry_trainer_save(a.trainer, whole));
        EXPECT_OK(wherry_trainer_save_adapter(a.trainer, alone));
        EXPECT_OK(wherry_model_open(context, whole, &merged));
        const double next = step(&a, losses, 1, false).loss, same = loss_of(&a, merged, losses);
        EXPECT_OK(wherry_model_adapt(context, a.model, alone));
        float *one = mixture_rows(&a, merged, &count), *other = mixture_rows(&a, a.model, &count);
        double apart = 0, moved = 0;
        for (size_t i = 0; i < count; i++) {
            apart = fmax(apart, fabs((double)one[i] - (double)other[i]));
            moved = fmax(moved, fabs((double)one[i] - (double)before[i]));
        }
        printf("%s, a mixture: loss %.4g at first, vectors moved by %.2g, apart by %.2g\n", devices[d], first, moved,
               apart);
        assert_true(apart < 1e-5 && moved > 1e-3);
        if (!(fabs(next / same - 1) < 1e-5))
            fail_msg("%s: the adapted model's loss is %.9g, the merged one's %.9g", devices[d], next, same);
        free(before);
        free(one);
        free(other);
        wherry_model_close(merged);
        adapted_close(&a);
        assert_int_equal(mixture_open(devices[d], "experts.mlp.w1", NULL, &a), WHERRY_STATUS_UNSUPPORTED);
        assert_non_null(strstr(wherry_last_error(context), "\"experts.mlp.w1\" is a mixture's experts"));
        adapted_close(&a);
        assert_int_equal(mixture_open(devices[d], "experts", NULL, &a), WHERRY_STATUS_UNSUPPORTED);
        adapted_close(&a);
        free(whole);
        free(alone);
        files_remove(folder);
    }
}

static void stays_near_in_16_bits(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct adapted a;
        char worst[160] = "";
        if (!support_has_f16(context, devices[d]) || (is_driver(devices[d]) && !compiles_fast(devices[d]))) continue;
        adapted_open(devices[d], "contrastive", NULL, WHERRY_DTYPE_F16, 0, &a);
        steps_equal(&a, devices[d], RUN_STEPS, 1, false, 1e-2);
        const double weights = run_difference(&a.run, a.trainer, worst);
        if (!(weights <= 2e-2)) fail_msg("%s: %s differs by %g", devices[d], worst, weights);
        adapted_close(&a);
    }
}

int main(void)
{
    if (!devices_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_peft),
        cmocka_unit_test(adds_batches_and_shards),
        cmocka_unit_test(equals_in_other_orders),
        cmocka_unit_test(adapts_the_router_of_a_mixture),
        cmocka_unit_test(stays_near_in_16_bits),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
