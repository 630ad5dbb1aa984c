/* Times of whole training steps: every group of session, loss and optimizer has one, they add up, the steps are those
 * of a trainer; and the memory that is planned is what a trainer then has. */
#include "runtime/session.h"
#include "train/state.h"
#include "train/trainer.h"
#include "wherry/wherry_train_measure.h"

/* A backend's run is another thing than PyTorch's. */
#define run torch_run
#include "trainer_support.h"
#undef run

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "devices_support.h"

enum { GROUPS_MOST = 256, REPEATS = 3 };

struct setup {
    struct torch_run run;
    struct run_step step;
    wherry_device *device;
    wherry_model *model;
    wherry_session_desc session;
    wherry_loss_desc loss;
    wherry_optimizer_desc optimizer;
    wherry_trainer_desc desc;
    wherry_trainer *trainer; /* NULL: not made */
};

static void setup_open(const char *device, const char *name, wherry_optimizer kind, wherry_dtype dtype, struct setup *s)
{
    memset(s, 0, sizeof *s);
    assert_true(run_open(name, &s->run));
    run_descs(name, &s->session, &s->loss, &s->optimizer);
    run_step_make(&s->run, 0, 1, &s->step);
    s->session.dtype = dtype;
    s->optimizer.kind = kind;
    if (kind != WHERRY_OPTIMIZER_SGD) s->optimizer.momentum = 0;
    s->desc =
        (wherry_trainer_desc){.struct_size = sizeof s->desc, .loss = &s->loss, .optimizer = &s->optimizer, .seed = 3};
    EXPECT_OK(wherry_device_open(context, device, &s->device));
    EXPECT_OK(wherry_model_open(context, s->run.folder, &s->model));
}

static void trainer_open(struct setup *s)
{
    EXPECT_OK(wherry_trainer_create(context, s->device, s->model, &s->session, &s->desc, &s->trainer));
}

static void setup_close(struct setup *s)
{
    wherry_trainer_destroy(s->trainer);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    run_close(&s->run);
}

/* ---- times ---- */

static void measures(const char *device, const char *name, wherry_optimizer kind)
{
    static wherry_group_measure groups[GROUPS_MOST];
    const wherry_measure_desc desc = {.struct_size = sizeof desc, .repeats = REPEATS, .warm_seconds = 1e-9};
    wherry_train_measure m = {.struct_size = sizeof m};
    struct setup s;
    size_t count = GROUPS_MOST, all = 0, n = 0;
    setup_open(device, name, kind, WHERRY_DTYPE_F32, &s);
    trainer_open(&s);
    EXPECT_OK(wherry_trainer_measure(s.trainer, s.step.batches, s.step.targets.labels ? &s.step.targets : NULL, &desc,
                                     groups, &count, &m));
    for (int part = 0; part < WHERRY_TRAIN_PARTS; part++) all += m.groups[part];
    assert_int_equal(count, all);
    assert_int_equal(m.groups[WHERRY_TRAIN_OPTIMIZER], kind == WHERRY_OPTIMIZER_LAMB ? 5 : 3);
    assert_int_equal(m.host.n, REPEATS);
    assert_true(m.host.median > 0 && isfinite(m.last.loss));
    assert_int_equal(m.last.step + 1, wherry_trainer_steps(s.trainer));
    if (m.timer.status) { /* a busy machine */
        printf("%s: the timer: %s\n", device, m.timer.reason);
        setup_close(&s);
        return;
    }
    /* Wherever all of a step's kernels run, each has a time, and a part's is about the sum of its groups'. */
    for (int part = 0; part < WHERRY_TRAIN_PARTS; part++) {
        double sum = 0, first = 0;
        for (size_t end = n + m.groups[part]; n < end; n++) {
            if (!(groups[n].warm.median > 0)) fail_msg("%s: %s has no time", device, groups[n].cost.name);
            sum += groups[n].warm.mean;
            first += groups[n].warm.first;
            if (part == WHERRY_TRAIN_LOSS) assert_memory_equal(groups[n].cost.name, "loss.", 5);
            if (part == WHERRY_TRAIN_OPTIMIZER) assert_memory_equal(groups[n].cost.name, "optimizer.", 10);
            assert_int_equal(groups[n].cost.backward, part == WHERRY_TRAIN_BACKWARD || groups[n].cost.backward);
        }
        if (fabs(sum / m.parts[part].mean - 1) > 1e-6 || fabs(first / m.parts[part].first - 1) > 1e-6)
            fail_msg("%s: part %d took %g s, its groups %g", device, part, m.parts[part].mean, sum);
    }
    /* It leaves a trainer as it was: nothing is timed any more. */
    assert_null(s.trainer->session->timed);
    assert_null(s.trainer->optimizer->timed);
    wherry_step_result result = {.struct_size = sizeof result};
    EXPECT_OK(
        wherry_trainer_step(s.trainer, s.step.batches, 1, s.step.targets.labels ? &s.step.targets : NULL, &result));
    setup_close(&s);
}

static void has_times(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        measures(devices[d], "contrastive", WHERRY_OPTIMIZER_ADAMW);
        if (!strchr(devices[d], ':')) measures(devices[d], "classes", WHERRY_OPTIMIZER_LAMB);
    }
}

/* Steps that are measured are a trainer's: the same weights as without. */
static void makes_the_same_steps(void **state)
{
    (void)state;
    const wherry_measure_desc desc = {.struct_size = sizeof desc, .repeats = 1, .warm_seconds = 1e-9};
    struct setup s, plain;
    size_t count = 0;
    const char *device = strchr(devices[0], ':') ? "reference" : devices[0];
    setup_open(device, "contrastive", WHERRY_OPTIMIZER_ADAMW, WHERRY_DTYPE_F32, &s);
    trainer_open(&s);
    wherry_train_measure m = {.struct_size = sizeof m};
    EXPECT_OK(wherry_trainer_measure(s.trainer, s.step.batches, NULL, &desc, NULL, &count, &m));
    uint64_t steps = wherry_trainer_steps(s.trainer);
    setup_open(device, "contrastive", WHERRY_OPTIMIZER_ADAMW, WHERRY_DTYPE_F32, &plain);
    trainer_open(&plain);
    wherry_step_result result = {.struct_size = sizeof result};
    while (wherry_trainer_steps(plain.trainer) < steps)
        EXPECT_OK(wherry_trainer_step(plain.trainer, plain.step.batches, 1, NULL, &result));
    /* Two are timed, where the timer is believed to the end, which on a busy machine it may not be. */
    assert_true(steps >= 3 && steps <= 5 && (steps == 5 || m.timer.status != WHERRY_TIMER_OK));
    assert_true(result.loss == m.last.loss && result.gradient_norm == m.last.gradient_norm);
    setup_close(&plain);
    setup_close(&s);
}

/* ---- memory ---- */

/* Bytes of all buffers, one by one. */
static uint64_t buffers_of(const struct wherry_trainer *t)
{
    const struct wherry_session *of[] = {t->session, loss_session(t->loss)};
    const struct arena *a = &t->optimizer->arena;
    const struct optimizer *o = t->optimizer;
    uint64_t bytes = a->tables_bytes + a->partials_bytes + o->header_bytes + o->verdict_bytes + o->table_bytes;
    for (int k = 0; k < 2; k++)
        for (int b = 0; b < of[k]->memory.n_blocks; b++) bytes += of[k]->memory.blocks[b].bytes;
    for (int i = 0; i < a->n_slabs; i++)
        for (int part = 0; part < ARENA_PARTS; part++)
            if (a->slabs[i].parts[part]) bytes += 4 * a->slabs[i].elements;
    return bytes;
}

static void check_plan(const char *device, wherry_optimizer kind, wherry_dtype dtype)
{
    wherry_train_memory planned = {.struct_size = sizeof planned}, made = {.struct_size = sizeof made};
    static wherry_cost groups[GROUPS_MOST];
    size_t count = GROUPS_MOST, parts[WHERRY_TRAIN_PARTS];
    struct setup s;
    setup_open(device, "classes", kind, dtype, &s);
    EXPECT_OK(wherry_trainer_plan(context, s.device, s.model, &s.session, &s.desc, 0, &planned, groups, &count, parts));
    trainer_open(&s);
    EXPECT_OK(wherry_trainer_memory(s.trainer, &made));
    assert_memory_equal(&planned, &made, sizeof made);
    assert_int_equal(made.total, buffers_of(s.trainer));
    assert_true(made.weights + made.masters + made.moments + made.gradients + made.accumulated + made.saved +
                    made.workspace + made.loss + made.tables <=
                made.total);
    const uint64_t n = optimizer_parameters(s.trainer->optimizer);
    const bool f16 = s.trainer->session->f16;
    const uint64_t moments = kind == WHERRY_OPTIMIZER_SGD ? s.optimizer.momentum > 0 : 2;
    assert_true(made.moments >= moments * 4 * n && made.gradients >= (f16 ? 2 : 4) * n);
    assert_true(f16 ? made.masters >= 4 * n : !made.masters);
    /* A step of one batch adds nothing up; LAMB has its changes there. */
    assert_int_equal(made.accumulated, kind == WHERRY_OPTIMIZER_LAMB ? made.moments / 2 : 0);
    const struct optimizer_bytes bytes = optimizer_bytes(s.trainer->optimizer);
    uint64_t moved = 0;
    for (size_t i = count - parts[WHERRY_TRAIN_OPTIMIZER]; i < count; i++)
        moved += groups[i].bytes_read + groups[i].bytes_written;
    assert_true(moved >= bytes.direct && moved < bytes.direct + 100000); /* and what sums of chunks are added of */
    setup_close(&s);
}

static void planned_is_made(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        /* Of CPU drivers, which compile for long, each has one. */
        bool f16 = support_has_f16(context, devices[d]), few = f16 && !support_is_gpu(context, devices[d]);
        if (!few) check_plan(devices[d], WHERRY_OPTIMIZER_ADAMW, WHERRY_DTYPE_F32);
        if (f16) check_plan(devices[d], WHERRY_OPTIMIZER_ADAMW, WHERRY_DTYPE_F16);
        if (strchr(devices[d], ':')) continue;
        check_plan(devices[d], WHERRY_OPTIMIZER_LAMB, WHERRY_DTYPE_F32);
        check_plan(devices[d], WHERRY_OPTIMIZER_SGD, WHERRY_DTYPE_F32);
    }
}

/* ---- memory within a budget ---- */

/* 0: it does not fit. */
static uint64_t bytes_with(struct setup *s, uint32_t least, uint64_t budget)
{
    const wherry_training_desc training = {.struct_size = sizeof training, .least_layers = least};
    wherry_session_desc session = s->session;
    wherry_train_memory memory = {.struct_size = sizeof memory};
    static wherry_cost groups[GROUPS_MOST];
    size_t count = GROUPS_MOST, parts[WHERRY_TRAIN_PARTS];
    session.training = &training;
    session.memory_budget = budget;
    wherry_status status =
        wherry_trainer_plan(context, s->device, s->model, &session, &s->desc, 0, &memory, groups, &count, parts);
    assert_true(status == WHERRY_STATUS_OK || status == WHERRY_STATUS_OUT_OF_DEVICE_MEMORY);
    return status ? 0 : memory.total;
}

/* Of the third step. */
static double loss_within(struct setup *s, uint64_t budget)
{
    wherry_step_result result = {.struct_size = sizeof result};
    s->session.memory_budget = budget;
    trainer_open(s);
    const wherry_targets *targets = s->step.targets.labels ? &s->step.targets : NULL;
    for (int k = 0; k < 3; k++) EXPECT_OK(wherry_trainer_step(s->trainer, s->step.batches, 1, targets, &result));
    return result.loss;
}

/* As few layers as are enough keep the least; without room for that nothing is made. Training stays what it is. */
static void within_a_budget(void **state)
{
    (void)state;
    const char *device = strchr(devices[0], ':') ? "reference" : devices[0];
    struct setup s;
    setup_open(device, "classes", WHERRY_OPTIMIZER_ADAMW, WHERRY_DTYPE_F32, &s);
    const uint32_t layers = s.model->info.config.layers;
    const uint64_t none = bytes_with(&s, 0, 0), one = bytes_with(&s, 1, 0), all = bytes_with(&s, layers, 0);
    assert_true(layers >= 2 && none > one && one > all && all > 0);
    assert_int_equal(bytes_with(&s, 0, none), none);
    assert_int_equal(bytes_with(&s, 0, none - 1), one);
    assert_int_equal(bytes_with(&s, 0, one), one);
    assert_true(bytes_with(&s, 0, one - 1) < one);
    assert_int_equal(bytes_with(&s, 0, all), all);
    assert_int_equal(bytes_with(&s, 0, all - 1), 0);
    assert_non_null(strstr(wherry_last_error(context), "make batches smaller"));
    const double loss = loss_within(&s, 0);
    assert_int_equal(s.trainer->training.least_layers, 0);
    setup_close(&s);

    setup_open(device, "classes", WHERRY_OPTIMIZER_ADAMW, WHERRY_DTYPE_F32, &s);
    const double again = loss_within(&s, one);
    assert_int_equal(s.trainer->training.least_layers, 1);
    assert_int_equal(buffers_of(s.trainer), one);
    bool noted = false;
    const char *note;
    for (size_t n = 0; (note = wherry_session_note(s.trainer->session, n)) != NULL; n++)
        noted = noted || strstr(note, "1 of ") == note;
    assert_true(noted);
    assert_true(fabs(again - loss) <= 1e-6 * fabs(loss));
    setup_close(&s);
}

static void refuses(void **state)
{
    (void)state;
    wherry_measure_desc desc = {.struct_size = sizeof desc, .phase = WHERRY_PHASE_FORWARD};
    wherry_train_measure m = {.struct_size = sizeof m};
    wherry_train_memory memory = {0};
    struct setup s;
    size_t count = 0;
    setup_open(devices[n_devices - 1], "contrastive", WHERRY_OPTIMIZER_ADAMW, WHERRY_DTYPE_F32, &s);
    trainer_open(&s);
    assert_int_equal(wherry_trainer_measure(s.trainer, s.step.batches, NULL, &desc, NULL, &count, &m),
                     WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "whole steps"));
    assert_int_equal(wherry_trainer_memory(s.trainer, &memory), WHERRY_STATUS_INVALID_ARGUMENT);
    setup_close(&s);
}

int main(void)
{
    if (!devices_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_times),       cmocka_unit_test(makes_the_same_steps),
        cmocka_unit_test(planned_is_made), cmocka_unit_test(within_a_budget),
        cmocka_unit_test(refuses),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
