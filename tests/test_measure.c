/* Times of groups, warm and cold, on every device and in every plan: all are there, they belong together, and measuring
 * leaves no trace in the session or the device's memory. */
#include "runtime/encode.h"
#include "runtime/session.h"
#include "support.h"
#include "wherry/wherry_measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { REPEATS = 3, MOST_GROUPS = 256, VOCABULARY = 97 };

static const char *const plan_names[] = {"flash", "paper", "unfused"};
static const uint32_t lengths[] = {17, 32, 3, 0};

static wherry_context *context;
static char devices[SUPPORT_MAX_DEVICES][64];
static size_t n_devices;

#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

/* What is measured does not depend on the plan: CPU drivers, which compile for long, have the first one, the reference
 * and GPUs all. */
static size_t plans_of(const char *device)
{
    bool slow = strcmp(device, "reference") && !support_is_gpu(context, device);
    return slow ? 1 : sizeof plan_names / sizeof *plan_names;
}

/* ---- a session ---- */

struct setup {
    wherry_device *device;
    wherry_model *model;
    wherry_session *session;
    wherry_batch batch;
    uint32_t hidden, tokens;
    wherry_group_measure groups[MOST_GROUPS];
    size_t count;
    wherry_step_measure step;
};

static const wherry_training_desc stack = {
    .struct_size = sizeof stack, .dropout = 0.1f, .save = WHERRY_SAVE_DEFAULT, .stack = true};

static void setup_open(struct setup *s, const char *device, const char *plan, wherry_dtype dtype,
                       const wherry_training_desc *training, bool keep)
{
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 1,
                                        .hidden = 64,
                                        .heads = 2,
                                        .feed_forward = 136,
                                        .vocabulary = VOCABULARY,
                                        .positions = 128,
                                        .token_types = 2,
                                        .pooler = true,
                                        .epsilon = 1e-12f};
    memset(s, 0, sizeof *s);
    s->batch = support_batch(lengths, VOCABULARY, 2, 5);
    s->tokens = s->batch.offsets[s->batch.sequences];
    s->hidden = config.hidden;
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = s->tokens + 9, /* tensors are longer than what is in them */
                                      .dtype = dtype,
                                      .plan = plan,
                                      .training = training,
                                      .keep_intermediates = keep};
    EXPECT_OK(wherry_device_open(context, device, &s->device));
    EXPECT_OK(wherry_model_create_random(context, &config, 3, &s->model));
    EXPECT_OK(wherry_session_create(context, s->device, s->model, &desc, &s->session));
}

static void setup_close(struct setup *s)
{
    wherry_session_destroy(s->session);
    wherry_model_close(s->model);
    wherry_device_close(s->device);
    support_batch_free(&s->batch);
}

static wherry_status measure(struct setup *s, wherry_phase phase, bool cold)
{
    const wherry_measure_desc desc = {.struct_size = sizeof desc,
                                      .phase = phase,
                                      .repeats = REPEATS,
                                      .warm_seconds = 1e-9,
                                      .cold = cold,
                                      .cache_bytes = 1 << 20};
    s->count = MOST_GROUPS;
    s->step = (wherry_step_measure){.struct_size = sizeof s->step};
    return wherry_measure(s->session, &s->batch, &desc, s->groups, &s->count, &s->step);
}

static const struct backend *honest;
static struct backend sparing;
static struct device_limits bounded;

static const struct device_limits *limits_bounded(const struct backend_device *device)
{
    (void)device;
    return &bounded;
}

/* What lies between cold runs follows from the memory that there is: with little of it software drivers move little.
   test_encode does without, in one plan. */
static void spare(struct setup *s)
{
    honest = s->device->backend;
    bounded = *honest->limits(s->device->handle);
    if (bounded.cpu) bounded.memory_bytes = 1 << 22;
    sparing = *honest;
    sparing.limits = limits_bounded;
    s->device->backend = &sparing;
}

static uint64_t allocated(const struct setup *s) { return s->device->backend->allocated(s->device->handle); }

/* ---- what every time fulfils ---- */

/* Quantiles between two equal samples round to either side. */
static bool in_order(double a, double b) { return a <= b * (1 + 1e-9); }

static void check_time(const char *name, const wherry_time *t, uint32_t least)
{
    if (t->n < least || !(t->min > 0) || !in_order(t->min, t->p05) || !in_order(t->p05, t->median) ||
        !in_order(t->median, t->p95) || !in_order(t->min, t->ci_low) || !in_order(t->ci_low, t->median) ||
        !in_order(t->median, t->ci_high) || !in_order(t->min, t->mean) || !(t->first > 0) || !isfinite(t->p95) ||
        !isfinite(t->first) || !(t->cv >= 0) || t->outliers > t->n)
        fail_msg("%s: n %u of %u, min %g, p05 %g, median %g in %g to %g, p95 %g, mean %g, first %g", name, t->n, least,
                 t->min, t->p05, t->median, t->ci_low, t->ci_high, t->p95, t->mean, t->first);
}

static void check_absent(const char *name, const wherry_time *t)
{
    static const wherry_time none;
    if (memcmp(t, &none, sizeof none)) fail_msg("%s has a time", name);
}

static void check_groups(const struct setup *s, wherry_phase phase, bool cold)
{
    double sum = 0;
    bool trusted = s->step.timer.status == WHERRY_TIMER_OK; /* a very busy host makes any timer look wrong */
    assert_int_equal(s->count, s->session->n_groups);
    for (size_t i = 0; i < s->count; i++) {
        const wherry_group_measure *m = &s->groups[i];
        assert_string_equal(m->cost.name, s->session->groups[i].name);
        assert_true(m->launches == 1 || m->launches == 2);
        assert_int_equal(m->timer, s->step.timer.status);
        assert_int_equal(m->traffic.unique_read, m->cost.bytes_read);
        assert_int_equal(m->traffic.unique_written, m->cost.bytes_written);
        /* The reference has no kernels whose bytes could be counted. */
        if (!strcmp(s->device->info.id, "reference")) {
            assert_int_equal(m->traffic.model_read + m->traffic.model_written, 0);
            assert_int_equal(m->traffic.requested_read + m->traffic.requested_written, 0);
        } else {
            assert_true(m->traffic.model_read >= m->traffic.unique_read);
            assert_true(m->traffic.requested_written >= m->traffic.unique_written);
        }
        if (phase != WHERRY_PHASE_ALL && m->cost.backward != (phase == WHERRY_PHASE_BACKWARD)) {
            check_absent(m->cost.name, &m->warm);
            check_absent(m->cost.name, &m->cold);
            check_absent(m->cost.name, &m->alone);
            continue;
        }
        if (trusted) check_time(m->cost.name, &m->warm, REPEATS);
        assert_int_equal(m->warm.n, trusted ? REPEATS : 0);
        assert_true(m->cost.seconds == m->warm.median && m->cost.seconds_p05 == m->warm.p05 &&
                    m->cost.seconds_p95 == m->warm.p95);
        sum += m->warm.mean;
        if (cold) {
            check_time(m->cost.name, &m->cold, REPEATS);
            assert_true(m->cold_sets > 0);
        } else {
            check_absent(m->cost.name, &m->cold);
            assert_int_equal(m->cold_sets, 0);
        }
    }
    check_time("the host's", &s->step.host, REPEATS);
    if (trusted) check_time("the kernels'", &s->step.kernels, REPEATS);
    assert_int_equal(s->step.host.n, REPEATS);
    assert_true(fabs(sum - s->step.kernels.mean) <= 1e-9 * sum);
}

/* ---- inference ---- */

static void test_encode(void **state)
{
    for (size_t d = 0; d < n_devices; d++)
        for (size_t p = 0; p < plans_of(devices[d]); p++) {
            struct setup s;
            float before[3 * 64], after[3 * 64];
            bool cold = strcmp(devices[d], "reference") != 0;
            (void)state;
            setup_open(&s, devices[d], plan_names[p], WHERRY_DTYPE_F32, NULL, true);
            if (p) spare(&s);
            EXPECT_OK(wherry_encode(s.session, &s.batch, before, 3 * 64));
            uint64_t bytes = allocated(&s);
            EXPECT_OK(measure(&s, WHERRY_PHASE_ALL, cold));
            check_groups(&s, WHERRY_PHASE_ALL, cold);
            assert_true(allocated(&s) == bytes);
            EXPECT_OK(wherry_encode(s.session, &s.batch, after, 3 * 64));
            assert_memory_equal(before, after, sizeof before);
            setup_close(&s);
        }
}

/* ---- training: phases, dropout, groups of two kernels, 16 bits where the device has them ---- */

static void train(struct setup *s, const float *x, float *out, float *x_gradient)
{
    size_t n = (size_t)s->tokens * s->hidden;
    const wherry_step step = {.struct_size = sizeof step, .seed = 11, .step = 2};
    EXPECT_OK(wherry_forward(s->session, &s->batch, x, &step, out, n));
    EXPECT_OK(wherry_backward(s->session, x, n, x_gradient, n));
}

static void check_training(struct setup *s, const char *device, int cold_phase)
{
    size_t n = (size_t)s->tokens * s->hidden;
    float *values = calloc(5 * n, sizeof *values), one;
    uint64_t random = 3;
    bool cold = strcmp(device, "reference") != 0;
    uint32_t doubles = 0;
    for (size_t i = 0; i < n; i++) values[i] = (float)support_random(&random) / 2147483648.0f - 0.5f;
    train(s, values, values + n, values + 2 * n);
    uint64_t bytes = allocated(s);
    for (int phase = WHERRY_PHASE_BACKWARD; phase >= WHERRY_PHASE_ALL; phase--) {
        bool alone = cold && phase == cold_phase;
        EXPECT_OK(measure(s, (wherry_phase)phase, alone));
        check_groups(s, (wherry_phase)phase, alone);
    }
    for (size_t i = 0; i < s->count; i++) doubles += s->groups[i].launches == 2;
    assert_true(doubles > 0);
    assert_true(allocated(s) == bytes);
    /* What was kept for the caller is overwritten, and the session says so. */
    assert_int_equal(wherry_backward(s->session, values, n, NULL, 0), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_gradient_read(s->session, 0, &one, 1), WHERRY_STATUS_INVALID_ARGUMENT);
    train(s, values, values + 3 * n, values + 4 * n);
    assert_memory_equal(values + n, values + 3 * n, 2 * n * sizeof *values);
    free(values);
}

static void test_training(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++)
        for (size_t p = 0; p < plans_of(devices[d]); p++) {
            struct setup s;
            wherry_dtype dtype = p ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
            wherry_device *device;
            EXPECT_OK(wherry_device_open(context, devices[d], &device));
            if (!device->backend->limits(device->handle)->f16) dtype = WHERRY_DTYPE_F32;
            wherry_device_close(device);
            setup_open(&s, devices[d], plan_names[p], dtype, &stack, true);
            spare(&s);
            check_training(&s, devices[d], (int)p); /* another phase in each plan */
            setup_close(&s);
        }
}

/* ---- a timer that fails ---- */

static int timed_runs; /* that still succeed */

static bool run_without_timer(struct backend_device *device, struct program *program, const struct run *run,
                              struct error *e)
{
    if (!run->step_seconds || --timed_runs >= 0) return honest->program_run(device, program, run, e);
    e->status = WHERRY_STATUS_UNSUPPORTED;
    e->timer = WHERRY_TIMER_STUCK;
    snprintf(e->text, sizeof e->text, "the timer stands still, as this test wants it");
    return false;
}

/* What is there without a timer: the step's time and the cold groups' by the host's clock. */
static void check_untimed(const struct setup *s, wherry_timer_status status, bool cold)
{
    check_time("the host's", &s->step.host, REPEATS);
    for (size_t i = 0; i < s->count; i++) {
        assert_int_equal(s->groups[i].timer, status);
        check_absent(s->groups[i].cost.name, &s->groups[i].warm);
        assert_true(s->groups[i].cost.seconds == 0);
        if (cold) check_time(s->groups[i].cost.name, &s->groups[i].cold, REPEATS);
    }
}

static void check_condemned(const struct setup *s, bool cold)
{
    assert_int_not_equal(s->step.timer.status, WHERRY_TIMER_OK);
    assert_string_equal(s->step.timer.kind, "host");
    assert_true(strlen(s->step.timer.reason) > 0);
    check_absent("the kernels'", &s->step.kernels);
    check_untimed(s, s->step.timer.status, cold);
}

/* A timer fails in its test, in the step after it passed, or only in the groups' cold runs. */
static void test_timer(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        bool cold = strcmp(devices[d], "reference") != 0;
        setup_open(&s, devices[d], "flash", WHERRY_DTYPE_F32, NULL, true);
        EXPECT_OK(wherry_session_prepare(s.session, NULL, NULL, NULL));
        spare(&s);
        struct backend liar = sparing;
        liar.program_run = run_without_timer;
        s.device->backend = &liar;
        timed_runs = 0;
        EXPECT_OK(measure(&s, WHERRY_PHASE_ALL, cold));
        check_condemned(&s, cold);

        const wherry_timer_info good = {.kind = "event", .slope = 1};
        s.device->timer = good;
        timed_runs = 3;
        EXPECT_OK(measure(&s, WHERRY_PHASE_ALL, cold));
        check_condemned(&s, cold);

        s.device->timer = good;
        timed_runs = 2 + REPEATS;
        EXPECT_OK(measure(&s, WHERRY_PHASE_ALL, cold));
        assert_int_equal(s.step.timer.status, WHERRY_TIMER_OK);
        check_time("the kernels'", &s.step.kernels, REPEATS);
        if (cold) check_untimed(&s, WHERRY_TIMER_STUCK, cold);
        s.device->backend = honest;
        setup_close(&s);
    }
}

/* ---- what the sets hold ---- */

static struct {
    struct setup *setup;
    const struct schedule *schedule; /* of the last program */
    uint32_t compared, sets;         /* steps; of the last group */
} watch;

static struct program *create_watched(struct backend_device *device, const struct schedule *schedule,
                                      wherry_progress progress, void *user, struct program_info *info, struct error *e)
{
    watch.schedule = schedule;
    return honest->program_create(device, schedule, progress, user, info, e);
}

/* What a step of a set wrote is what the session's own step wrote. */
static void compare_step(struct backend_device *device, const struct step *step, const struct batch_shape *shape)
{
    const struct wherry_session *s = watch.setup->session;
    struct error e = {0};
    for (int a = 0; a < step->call->n_arguments; a++) {
        int tensor = step->call->arguments[a].tensor;
        if (!step->call->arguments[a].written || tensor < 0 || s->graph.tensors[tensor].parent >= 0) continue;
        const struct binding *b = &step->bindings[a + 1];
        struct transfer own = session_transfer(s, shape, tensor, NULL);
        unsigned char *want = malloc(own.bytes), *got = malloc(own.bytes);
        assert_true(honest->buffer_read(device, own.buffer, own.offset, want, own.bytes, &e));
        assert_true(honest->buffer_read(device, b->buffer, b->offset, got, own.bytes, &e));
        if (memcmp(want, got, own.bytes)) fail_msg("%s: %s differs", step->name, s->graph.tensors[tensor].name);
        watch.compared++;
        free(want);
        free(got);
    }
}

static bool run_watched(struct backend_device *device, struct program *program, const struct run *run, struct error *e)
{
    TRY(honest->program_run(device, program, run, e));
    const struct schedule *schedule = watch.schedule;
    if (!schedule || !schedule->ordered || !run->batch) return true;
    int calls = 1;
    while (calls < schedule->n_steps && schedule->steps[calls].call != schedule->steps[0].call) calls++;
    watch.sets = (uint32_t)(schedule->n_steps / calls);
    for (int i = 0; i < calls; i++) {
        compare_step(device, &schedule->steps[i], run->batch);
        compare_step(device, &schedule->steps[schedule->n_steps - calls + i], run->batch);
    }
    return true;
}

/* With memory for many sets, with buffers too small for all of them, and with memory for one only. */
static void test_sets(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        if (!strcmp(devices[d], "reference")) continue;
        setup_open(&s, devices[d], "flash", WHERRY_DTYPE_F32, &stack, true);
        EXPECT_OK(wherry_session_prepare(s.session, NULL, NULL, NULL));
        spare(&s);
        struct backend watched = sparing;
        watched.program_create = create_watched;
        watched.program_run = run_watched;
        const struct device_limits limits = bounded;
        EXPECT_OK(measure(&s, WHERRY_PHASE_ALL, false)); /* tests the timer */
        s.device->backend = &watched;
        for (int i = 0; i < 3; i++) {
            memset(&watch, 0, sizeof watch);
            watch.setup = &s;
            bounded = limits;
            if (i == 1) bounded.max_buffer_bytes = 1 << 17;
            if (i == 2) bounded.memory_bytes = 1 << 14;
            EXPECT_OK(measure(&s, WHERRY_PHASE_ALL, true));
            assert_true(watch.compared > s.count);
            assert_int_equal(watch.sets, s.groups[s.count - 1].cold_sets);
            if (i == 2) assert_int_equal(watch.sets, 1);
            if (i != 2) assert_true(watch.sets > 1);
        }
        s.device->backend = honest;
        setup_close(&s);
    }
}

/* ---- some groups of a plan alone ---- */

static void setup_part(struct setup *s, const char *device, const char *plan, const char *only, wherry_dtype dtype)
{
    setup_open(s, device, plan, dtype, &stack, true);
    wherry_session_destroy(s->session);
    s->session = NULL;
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = s->tokens + 9,
                                      .dtype = dtype,
                                      .plan = plan,
                                      .training = &stack,
                                      .only = only};
    EXPECT_OK(wherry_session_create(context, s->device, s->model, &desc, &s->session));
}

/* All groups are there, have times of every kind, and compute what they should of the random values that they get. */
static void check_part(const char *device, const char *plan, const char *only, size_t groups, wherry_dtype dtype)
{
    struct setup s;
    float out[64];
    setup_part(&s, device, plan, only, dtype);
    spare(&s);
    const wherry_measure_desc desc = {.struct_size = sizeof desc,
                                      .repeats = REPEATS,
                                      .warm_seconds = 1e-9,
                                      .cold = true,
                                      .cache_bytes = 1 << 20,
                                      .alone = true};
    s.count = MOST_GROUPS;
    s.step = (wherry_step_measure){.struct_size = sizeof s.step};
    EXPECT_OK(wherry_measure(s.session, &s.batch, &desc, s.groups, &s.count, &s.step));
    check_groups(&s, WHERRY_PHASE_ALL, true);
    assert_int_equal(s.count, groups);
    for (size_t i = 0; i < s.count; i++) check_time(s.groups[i].cost.name, &s.groups[i].alone, REPEATS);
    wherry_verify_summary summary = {.struct_size = sizeof summary};
    EXPECT_OK(wherry_verify(s.session, &s.batch, 2, NULL, NULL, &summary));
    assert_int_equal(summary.groups, groups);
    assert_int_equal(wherry_forward(s.session, &s.batch, out, NULL, out, 64), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "part of its plan"));
    setup_close(&s);
}

static void test_part(void **state)
{
    (void)state;
    for (size_t d = 0; d < n_devices; d++) {
        struct setup s;
        if (!strcmp(devices[d], "reference")) continue;
        setup_open(&s, devices[d], "flash", WHERRY_DTYPE_F32, &stack, true);
        uint64_t whole = s.session->memory.bytes;
        const wherry_session_desc unknown = {
            .struct_size = sizeof unknown, .training = &stack, .only = "lin1,attention_dy"};
        wherry_session *none = NULL;
        assert_int_equal(wherry_session_create(context, s.device, s.model, &unknown, &none),
                         WHERRY_STATUS_INVALID_ARGUMENT);
        assert_null(none);
        assert_non_null(strstr(wherry_last_error(context), "no group \"attention_dy\""));
        wherry_dtype dtype = s.device->backend->limits(s.device->handle)->f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
        setup_close(&s);
        setup_part(&s, devices[d], "flash", "norm1", WHERRY_DTYPE_F32);
        assert_true(s.session->memory.bytes < whole / 2);
        setup_close(&s);
        check_part(devices[d], "flash", "attention_dx,attention,delta", 3, WHERRY_DTYPE_F32);
        if (plans_of(devices[d]) > 1) check_part(devices[d], "unfused", "lin1,lin1_dx,lin1_dw", 3, dtype);
    }
}

/* ---- arguments ---- */

static void test_arguments(void **state)
{
    (void)state;
    struct setup s;
    setup_open(&s, "reference", "flash", WHERRY_DTYPE_F32, NULL, false);
    wherry_measure_desc desc = {.struct_size = sizeof desc, .repeats = 1, .warm_seconds = 1e-9};
    wherry_group_measure groups[3];
    size_t count = 0, all;
    assert_int_equal(wherry_measure(NULL, &s.batch, &desc, NULL, &count, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_measure(s.session, NULL, &desc, NULL, &count, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_measure(s.session, &s.batch, NULL, NULL, &count, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_measure(s.session, &s.batch, &desc, NULL, NULL, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    desc.struct_size--;
    assert_int_equal(wherry_measure(s.session, &s.batch, &desc, NULL, &count, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    desc.struct_size++;
    wherry_step_measure step = {.struct_size = 1};
    assert_int_equal(wherry_measure(s.session, &s.batch, &desc, NULL, &count, &step), WHERRY_STATUS_INVALID_ARGUMENT);
    desc.phase = WHERRY_PHASE_FORWARD;
    assert_int_equal(wherry_measure(s.session, &s.batch, &desc, NULL, &count, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "only training"));
    desc.phase = WHERRY_PHASE_ALL;
    desc.warm_seconds = NAN;
    assert_int_equal(wherry_measure(s.session, &s.batch, &desc, NULL, &count, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    desc.warm_seconds = 1e-9;
    assert_false(s.session->prepared); /* nothing was done yet */

    /* The number of groups is told, and no more of them are filled than there is room for. */
    EXPECT_OK(wherry_measure(s.session, &s.batch, &desc, NULL, &count, NULL));
    all = count;
    assert_int_equal(all, s.session->n_groups);
    count = 2;
    memset(groups, 0x7f, sizeof groups);
    wherry_group_measure untouched = groups[2];
    EXPECT_OK(wherry_measure(s.session, &s.batch, &desc, groups, &count, NULL));
    assert_int_equal(count, all);
    assert_memory_equal(&groups[2], &untouched, sizeof untouched);
    assert_int_equal(groups[1].warm.n, 1);
    count = 0;
    EXPECT_OK(wherry_measure(s.session, &s.batch, &desc, groups, &count, NULL));
    assert_int_equal(count, all);

    desc.cold = true;
    assert_int_equal(wherry_measure(s.session, &s.batch, &desc, NULL, &count, NULL), WHERRY_STATUS_UNSUPPORTED);
    assert_non_null(strstr(wherry_last_error(context), "reference"));
    desc.cold = false;
    desc.alone = true;
    assert_int_equal(wherry_measure(s.session, &s.batch, &desc, NULL, &count, NULL), WHERRY_STATUS_UNSUPPORTED);
    setup_close(&s);
    for (size_t d = 0; d < n_devices; d++) {
        if (!strcmp(devices[d], "reference")) continue;
        setup_open(&s, devices[d], "flash", WHERRY_DTYPE_F32, NULL, false);
        assert_int_equal(measure(&s, WHERRY_PHASE_ALL, true), WHERRY_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(wherry_last_error(context), "keep_intermediates"));
        assert_false(s.session->prepared);
        setup_close(&s);
    }
}

int main(void)
{
    if (!(context = support_context(NULL, devices, &n_devices))) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_encode), cmocka_unit_test(test_training),
        cmocka_unit_test(test_timer),     cmocka_unit_test(test_sets),   cmocka_unit_test(test_part),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wherry_context_destroy(context);
    return failed;
}
