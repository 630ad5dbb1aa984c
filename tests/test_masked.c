/* Masked language models: the loss of tokens that have a label, as a part of a session's graph, against PyTorch's
 * (golden/make_trainer.py), in every plan. test_trainer has whole runs. */
#include "trainer_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "devices_support.h"

struct opened {
    struct run run;
    struct run_step step;
    wherry_device *device;
    wherry_model *model;
    wherry_session_desc desc;
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
};

static void open_run(const char *device, const char *name, const char *plan, wherry_dtype dtype, struct opened *o)
{
    assert_true(run_open(name, &o->run));
    run_descs(name, &o->desc, &o->loss, &o->optimizer);
    o->desc.plan = plan;
    o->desc.dtype = dtype;
    run_step_make(&o->run, 0, 1, &o->step);
    EXPECT_OK(wherry_device_open(context, device, &o->device));
    EXPECT_OK(wherry_model_open(context, o->run.folder, &o->model));
}

static void close_run(struct opened *o)
{
    wherry_model_close(o->model);
    wherry_device_close(o->device);
    run_close(&o->run);
}

static wherry_trainer *trainer_of(struct opened *o)
{
    const wherry_trainer_desc desc = {
        .struct_size = sizeof desc, .loss = &o->loss, .optimizer = &o->optimizer, .seed = 3};
    wherry_trainer *trainer;
    EXPECT_OK(wherry_trainer_create(context, o->device, o->model, &o->desc, &desc, &trainer));
    return trainer;
}

/* ---- gradients ---- */

/* The largest difference of any gradient from PyTorch's, by the largest value of that. */
static double gradient_difference(const struct run *r, wherry_trainer *trainer, char name[160])
{
    double most = 0;
    for (size_t w = 0; w < wherry_trainer_weight_count(trainer); w++) {
        wherry_weight info = {.struct_size = sizeof info};
        wherry_gradient gradient = {.struct_size = sizeof gradient};
        wherry_session *session = wherry_trainer_session(trainer);
        char key[200];
        double far = 0, largest = 0;
        EXPECT_OK(wherry_trainer_weight_describe(trainer, w, &info));
        EXPECT_OK(wherry_gradient_describe(session, info.gradient, &gradient));
        if (gradient.elements != info.elements) continue; /* queries, keys and values are one */
        snprintf(key, sizeof key, "gradient/%s", info.name);
        float *want = run_values(r, key, NULL), *have = malloc((size_t)info.elements * sizeof *have);
        if (!want) fail_msg("there is no %s", key);
        EXPECT_OK(wherry_gradient_read(session, info.gradient, have, (size_t)info.elements));
        for (uint64_t i = 0; i < info.elements; i++) {
            far = fmax(far, fabs((double)have[i] - (double)want[i]));
            largest = fmax(largest, fabs((double)want[i]));
        }
        free(want);
        free(have);
        if (!(far / largest <= most)) {
            most = far / largest;
            memcpy(name, info.name, 160);
        }
    }
    return most;
}

/* As many as the batch has: few enough for its scores to be kept. */
static uint32_t labels_of(const struct run_step *step)
{
    uint32_t n = 0;
    for (size_t t = 0; t < step->targets.count; t++) n += step->targets.labels[t] != -100;
    return n;
}

static void check_step(const char *device, const char *name, const char *plan, wherry_dtype dtype)
{
    struct opened o;
    char worst[160] = "";
    double tolerance = dtype == WHERRY_DTYPE_F16 ? 1e-2 : 1e-5, evaluated;
    float told[4];
    wherry_step_result result = {.struct_size = sizeof result};
    open_run(device, name, plan, dtype, &o);
    o.optimizer.loss_scale = 1;
    if (strcmp(name, "masked") != 0) o.desc.max_labels = labels_of(&o.step);
    assert_true(4 * o.desc.max_labels <= o.desc.max_tokens);
    wherry_trainer *trainer = trainer_of(&o);
    EXPECT_OK(wherry_trainer_evaluate(trainer, o.step.batches, 1, &o.step.targets, &evaluated, told, 4));
    EXPECT_OK(wherry_trainer_step(trainer, o.step.batches, 1, &o.step.targets, &result));
    double far = gradient_difference(&o.run, trainer, worst), loss = fabs(result.loss / o.run.loss[0] - 1);
    printf("%s, %s, %s: loss within %.2g, gradients %.2g\n", device, name, plan, loss, far);
    if (!(loss <= (dtype == WHERRY_DTYPE_F16 ? 1e-3 : 1e-6)))
        fail_msg("%s, %s, %s: the loss is %.9g, PyTorch's %.9g", device, name, plan, result.loss, o.run.loss[0]);
    if (!(far <= tolerance)) fail_msg("%s, %s, %s: the gradient of %s differs by %g", device, name, plan, worst, far);
    if (!(fabs(evaluated / result.loss - 1) <= tolerance)) fail_msg("evaluated %g, %g", evaluated, result.loss);
    assert_true(told[1] >= 0 && told[1] < (float)o.step.targets.count);
    if (o.loss.loss == WHERRY_LOSS_MASKED_NEXT) {
        assert_int_equal(wherry_trainer_row_floats(trainer), 4);
        assert_true(told[2] > 0 && told[3] >= 0 && told[3] < (float)o.step.batches[0].sequences); /* one has no label */
    }
    wherry_trainer_destroy(trainer);
    close_run(&o);
}

static void equals_pytorch(void **state)
{
    static const char *const plans[] = {"flash", "paper", "unfused"};
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t p = 0; p < 3; p++) {
            bool few =
                strchr(devices[d], ':') && !support_is_gpu(context, devices[d]); /* drivers that compile for long */
            if (few && p) continue;
            check_step(devices[d], "masked", plans[p], WHERRY_DTYPE_F32);
            if (!p && !few) check_step(devices[d], "untied", plans[p], WHERRY_DTYPE_F32);
            if (!few) check_step(devices[d], "next", plans[p], WHERRY_DTYPE_F32);
            if (!p && support_has_f16(context, devices[d]) && (!few || !strncmp(devices[d], "vulkan", 6)))
                check_step(devices[d], "masked", plans[p], WHERRY_DTYPE_F16);
        }
}

/* ---- every group against its reference ---- */

static void verifies(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct opened o;
        if (strchr(devices[d], ':') && !support_is_gpu(context, devices[d])) continue; /* test_groups has these */
        open_run(devices[d], "next", "flash", WHERRY_DTYPE_DEFAULT, &o);
        wherry_trainer *trainer = trainer_of(&o);
        EXPECT_OK(wherry_trainer_check(trainer, NULL));
        wherry_trainer_destroy(trainer);
        close_run(&o);
    }
}

/* ---- bad input ---- */

#define EXPECT_ERROR(call, part)                                                                                       \
    do {                                                                                                               \
        assert_int_not_equal(call, WHERRY_STATUS_OK);                                                                  \
        if (!strstr(wherry_last_error(context), part)) fail_msg("%s", wherry_last_error(context));                     \
    } while (0)

static const char *host_device(void)
{
    for (size_t d = 0; d < n_devices; d++)
        if (!strchr(devices[d], ':')) return devices[d];
    return NULL;
}

static void refuses(void **state)
{
    struct opened o;
    wherry_session *session;
    int32_t labels[ROWS_MOST * 12];
    float out[2], d[2] = {1, 0};
    double loss;
    wherry_step_result result = {.struct_size = sizeof result};
    const char *device = host_device();
    (void)state;
    if (!device) return;
    open_run(device, "masked", "flash", WHERRY_DTYPE_F32, &o);
    wherry_trainer *trainer = trainer_of(&o);
    size_t tokens = o.step.targets.count;
    wherry_batch *batch = &o.step.batches[0];
    wherry_targets targets = {.struct_size = sizeof targets, .labels = labels, .count = tokens};
    for (size_t t = 0; t < tokens; t++) labels[t] = -100;
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, &targets, &result), "no row has a label");
    EXPECT_ERROR(wherry_trainer_evaluate(trainer, batch, 1, &targets, &loss, NULL, 0), "no token has a label");
    labels[3] = 700;
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, &targets, &result), "the label of token 3 is 700");
    labels[3] = -1;
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, &targets, &result), "the label of token 3 is -1");
    targets.count--;
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, &targets, &result), "wherry_targets.count");
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, NULL, &result), "wherry_targets.labels");
    wherry_trainer_destroy(trainer);

    o.desc.output = WHERRY_OUTPUT_ENTROPY;
    o.desc.training = NULL;
    EXPECT_OK(wherry_session_create(context, o.device, o.model, &o.desc, &session));
    EXPECT_ERROR(wherry_encode(session, batch, out, 2), "wherry_forward");
    EXPECT_ERROR(wherry_forward(session, batch, NULL, NULL, out, 2), "no token of this batch has one of");
    EXPECT_ERROR(wherry_backward(session, d, 2, NULL, 0), "does not train");
    batch->labels = o.step.targets.labels;
    EXPECT_OK(wherry_forward(session, batch, NULL, NULL, out, 2));
    assert_true(out[0] > 0);
    wherry_session_destroy(session);
    close_run(&o);
}

/* As many labels as a session takes keep scores instead of computing them again, with the same bits; one more is
 * refused. */
static void takes_so_many_labels(void **state)
{
    struct opened o;
    wherry_step_result results[2];
    wherry_session_plan plans[2];
    double loss;
    const char *device = host_device();
    (void)state;
    if (!device) return;
    open_run(device, "masked", "flash", WHERRY_DTYPE_F32, &o);
    for (int kept = 0; kept < 2; kept++) {
        results[kept] = (wherry_step_result){.struct_size = sizeof *results};
        plans[kept] = (wherry_session_plan){.struct_size = sizeof *plans};
        o.desc.max_labels = kept ? labels_of(&o.step) : 0;
        wherry_trainer *trainer = trainer_of(&o);
        EXPECT_OK(wherry_session_query(wherry_trainer_session(trainer), &plans[kept]));
        EXPECT_OK(wherry_trainer_step(trainer, o.step.batches, 1, &o.step.targets, &results[kept]));
        wherry_trainer_destroy(trainer);
    }
    assert_true(results[0].loss == results[1].loss && results[0].gradient_norm == results[1].gradient_norm);
    assert_true(plans[1].launches < plans[0].launches);
    assert_true(plans[1].activation_bytes < plans[0].activation_bytes); /* rows of labels are fewer */
    o.desc.max_labels = labels_of(&o.step) - 1;
    wherry_trainer *trainer = trainer_of(&o);
    EXPECT_ERROR(wherry_trainer_step(trainer, o.step.batches, 1, &o.step.targets, &results[0]), "(max_labels)");
    EXPECT_ERROR(wherry_trainer_evaluate(trainer, o.step.batches, 1, &o.step.targets, &loss, NULL, 0), "(max_labels)");
    wherry_trainer_destroy(trainer);
    close_run(&o);
}

/* Labels of sequences. */
static void refuses_next(void **state)
{
    struct opened o;
    wherry_session *session;
    int32_t next[ROWS_MOST] = {0};
    float out[4];
    double loss;
    wherry_step_result result = {.struct_size = sizeof result};
    const char *device = host_device();
    (void)state;
    if (!device) return;
    open_run(device, "next", "flash", WHERRY_DTYPE_F32, &o);
    wherry_trainer *trainer = trainer_of(&o);
    wherry_batch *batch = &o.step.batches[0];
    const int32_t *own = batch->next;
    batch->next = NULL;
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, &o.step.targets, &result), "wherry_batch.next");
    batch->next = next;
    next[2] = 2;
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, &o.step.targets, &result), "next of sequence 2 is 2");
    EXPECT_ERROR(wherry_trainer_evaluate(trainer, batch, 1, &o.step.targets, &loss, NULL, 0),
                 "next of sequence 2 is 2");
    for (size_t i = 0; i < ROWS_MOST; i++) next[i] = -100;
    EXPECT_ERROR(wherry_trainer_step(trainer, batch, 1, &o.step.targets, &result), "needs one of both");
    wherry_trainer_destroy(trainer);

    o.desc.output = WHERRY_OUTPUT_ENTROPY_NEXT;
    o.desc.training = NULL;
    EXPECT_OK(wherry_session_create(context, o.device, o.model, &o.desc, &session));
    batch->labels = o.step.targets.labels;
    EXPECT_ERROR(wherry_forward(session, batch, NULL, NULL, out, 4), "no sequence of this batch has one of");
    batch->next = own;
    EXPECT_ERROR(wherry_forward(session, batch, NULL, NULL, out, 2), "room for 2 floats, there are 4");
    EXPECT_OK(wherry_forward(session, batch, NULL, NULL, out, 4));
    assert_true(out[0] > 0 && out[2] > 0);
    wherry_session_destroy(session);
    close_run(&o);

    open_run(device, "masked", "flash", WHERRY_DTYPE_F32, &o); /* has no such weights */
    o.desc.output = WHERRY_OUTPUT_ENTROPY_NEXT;
    EXPECT_ERROR(wherry_session_create(context, o.device, o.model, &o.desc, &session), "cls.seq_relationship");
    close_run(&o);
}

int main(void)
{
    if (!devices_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_pytorch), cmocka_unit_test(verifies),
                                       cmocka_unit_test(refuses), cmocka_unit_test(takes_so_many_labels),
                                       cmocka_unit_test(refuses_next)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
