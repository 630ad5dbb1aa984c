/* A training step is submitted as a whole and waited for once: what the device is given, and what crosses to the host,
 * counted between the library and each backend. An output that overflows changes no weight. */
#include "optimizer_support.h"

#include "train/trainer.h"

/* ---- a backend that counts ---- */

static const struct backend *real;
static struct counts {
    int submissions, waited; /* `waited`: by the last submission */
    int waits, blocking;     /* blocking: runs and copies */
    uint64_t up, down;       /* bytes */
} counts;

static bool count_submit(struct backend_device *device, struct program *program, const struct run *run, int slot,
                         struct error *e)
{
    counts.submissions++;
    counts.waited = counts.waits;
    for (int i = 0; i < run->n_uploads; i++) counts.up += run->uploads[i].bytes;
    for (int i = 0; i < run->n_downloads; i++) counts.down += run->downloads[i].bytes;
    return real->program_submit(device, program, run, slot, e);
}

static bool count_wait(struct backend_device *device, struct program *program, int slot, uint64_t timeout_ns,
                       bool *done, struct error *e)
{
    counts.waits++;
    return real->program_wait(device, program, slot, timeout_ns, done, e);
}

static bool count_run(struct backend_device *device, struct program *program, const struct run *run, struct error *e)
{
    counts.blocking++;
    return real->program_run(device, program, run, e);
}

static bool count_read(struct backend_device *device, struct buffer *buffer, uint64_t offset, void *data,
                       uint64_t bytes, struct error *e)
{
    counts.blocking++;
    return real->buffer_read(device, buffer, offset, data, bytes, e);
}

static bool count_write(struct backend_device *device, struct buffer *buffer, uint64_t offset, const void *data,
                        uint64_t bytes, struct error *e)
{
    counts.blocking++;
    return real->buffer_write(device, buffer, offset, data, bytes, e);
}

static struct backend counting_backend(const struct backend *of)
{
    struct backend counting = *of;
    real = of;
    counting.program_submit = count_submit;
    counting.program_wait = count_wait;
    counting.program_run = count_run;
    counting.buffer_read = count_read;
    counting.buffer_write = count_write;
    return counting;
}

/* ---- steps ---- */

static wherry_status step_try(wherry_trainer *trainer)
{
    static const int32_t ids[] = {3, 1500, 7, 9, 12, 3};
    static const uint32_t offsets[] = {0, 4, 6};
    static const float values[2 * 6] = {0.5f, -0.5f, 0.25f, 1, -1, 0.125f, -0.5f, 0.5f, 0, 0.75f, 0.25f, -1};
    const wherry_batch batch = {.struct_size = sizeof batch, .sequences = 2, .offsets = offsets, .ids = ids};
    const wherry_targets targets = {.struct_size = sizeof targets, .values = values, .count = 2 * 6};
    wherry_step_result result = {.struct_size = sizeof result};
    wherry_status status = wherry_trainer_step(trainer, &batch, 1, &targets, &result);
    if (!status) assert_false(result.skipped);
    return status;
}

static void check_count(const char *id, wherry_device *device, wherry_trainer *trainer)
{
    struct backend counting = counting_backend(device->backend);
    device->backend = &counting;
    EXPECT_OK(step_try(trainer));
    counts = (struct counts){0};
    EXPECT_OK(step_try(trainer));
    printf("%s: %d submissions, %d waits before the last one, %llu bytes up, %llu down\n", id, counts.submissions,
           counts.waited, (unsigned long long)counts.up, (unsigned long long)counts.down);
    /* Forward, rows to the loss, loss, gradients back, backward, norm, step. */
    assert_int_equal(counts.submissions, 7);
    assert_int_equal(counts.blocking, 0);
    /* The step before may have been left under way when its norm was there. */
    assert_true(counts.waited <= 1);
    /* Flags, the loss, the norm: no rows and no gradients. */
    assert_true(counts.down <= 512);
    device->backend = real;
}

static uint64_t weights_hash(wherry_trainer *trainer)
{
    uint64_t hash = 1469598103934665603u;
    wherry_weight info = {.struct_size = sizeof info};
    for (size_t w = 0; w < wherry_trainer_weight_count(trainer); w++) {
        EXPECT_OK(wherry_trainer_weight_describe(trainer, w, &info));
        float *values = malloc(info.elements * sizeof *values);
        EXPECT_OK(wherry_trainer_weight_read(trainer, w, values, info.elements));
        const unsigned char *bytes = (const unsigned char *)values;
        for (size_t i = 0; i < info.elements * sizeof *values; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
        free(values);
    }
    return hash;
}

/* One weight is so large that the output overflows: the step tells, changes nothing, and the next one is as if it had
 * not been. */
static void check_overflow(wherry_trainer *trainer)
{
    wherry_weight info = {.struct_size = sizeof info};
    size_t w = 0;
    do EXPECT_OK(wherry_trainer_weight_describe(trainer, w++, &info));
    while (!strstr(info.name, "output.LayerNorm.weight"));
    float *kept = malloc(info.elements * sizeof *kept), *large = malloc(info.elements * sizeof *large);
    for (size_t i = 0; i < info.elements; i++) large[i] = trainer->session->f16 ? 65000 : 3e38f;
    EXPECT_OK(wherry_trainer_weight_read(trainer, w - 1, kept, info.elements));
    EXPECT_OK(wherry_trainer_weight_write(trainer, w - 1, large, info.elements));
    const uint64_t hash = weights_hash(trainer), steps = wherry_trainer_steps(trainer);
    assert_int_equal(step_try(trainer), WHERRY_STATUS_VERIFY_FAILED);
    assert_non_null(strstr(wherry_last_error(context), "the output is not finite"));
    assert_true(weights_hash(trainer) == hash);
    assert_int_equal(wherry_trainer_steps(trainer), steps);
    EXPECT_OK(wherry_trainer_weight_write(trainer, w - 1, kept, info.elements));
    EXPECT_OK(step_try(trainer));
    assert_true(weights_hash(trainer) != hash);
    free(kept);
    free(large);
}

static void check_device(const char *id, bool f16)
{
    static const wherry_loss_desc loss = {.struct_size = sizeof loss, .loss = WHERRY_LOSS_VECTORS};
    static const wherry_optimizer_desc optimizer = {.struct_size = sizeof optimizer,
                                                    .learning_rate = 0.01f,
                                                    .max_norm = 1,
                                                    .loss_scale = 256,
                                                    .schedule = WHERRY_SCHEDULE_CONSTANT};
    const wherry_trainer_desc desc = {.struct_size = sizeof desc, .loss = &loss, .optimizer = &optimizer, .seed = 3};
    const wherry_session_desc session = {.struct_size = sizeof session,
                                         .max_tokens = 8,
                                         .max_sequences = 2,
                                         .dtype = f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32,
                                         .pool = WHERRY_POOL_MEAN,
                                         .normalize = -1};
    wherry_device *device;
    wherry_model *model;
    wherry_trainer *trainer;
    EXPECT_OK(wherry_device_open(context, id, &device));
    EXPECT_OK(wherry_model_create_random(context, &config, 5, &model));
    EXPECT_OK(wherry_trainer_create(context, device, model, &session, &desc, &trainer));
    check_count(id, device, trainer);
    check_overflow(trainer);
    wherry_trainer_destroy(trainer);
    wherry_model_close(model);
    wherry_device_close(device);
}

static void waits_once(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        check_device(devices[d], false);
        if (support_has_f16(context, devices[d])) check_device(devices[d], true);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(waits_once)};
    return cmocka_run_group_tests(tests, open_context, close_context);
}
