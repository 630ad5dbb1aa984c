/* A device's timer against the host's clock: verdicts on made-up stamps, and devices whose timer is made to lie, of
 * which no ceiling may come. */
#include "backends/ticks.h"
#include "measure/timer.h"
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static wherry_context *context;

static int make_context(void **state)
{
    (void)state;
    const wherry_context_desc desc = {.struct_size = sizeof desc, .cache_dir = getenv("WHERRY_TEST_CACHE")};
    return wherry_context_create(&desc, &context) != WHERRY_STATUS_OK;
}

static int destroy_context(void **state)
{
    (void)state;
    wherry_context_destroy(context);
    return 0;
}

/* ---- stamps ---- */

static void test_ticks(void **state)
{
    (void)state;
    uint64_t ticks;
    assert_true(ticks_elapsed(100, 150, 64, &ticks) && ticks == 50);
    assert_true(ticks_elapsed(7, 7, 64, &ticks) && ticks == 0);
    assert_true(ticks_elapsed(0, 0, 36, &ticks) && ticks == 0);
    assert_true(ticks_elapsed(UINT64_MAX - 9, 10, 64, &ticks) && ticks == 20);
    assert_true(ticks_elapsed(((uint64_t)1 << 36) - 10, 10, 36, &ticks) && ticks == 20);
    /* Bits above the valid ones say nothing. */
    assert_true(ticks_elapsed(((uint64_t)5 << 36) + 3, ((uint64_t)9 << 36) + 8, 36, &ticks) && ticks == 5);
    assert_false(ticks_elapsed(150, 100, 64, &ticks));
    assert_false(ticks_elapsed(150, 149, 36, &ticks));
}

/* ---- verdicts ---- */

enum { SAMPLES = 21 };

/* Work of 2, 4, 8 and 16 ms after a launch of 50 us; the device's seconds are `unit` times as many. */
static void fill_samples(struct timer_sample *samples, double unit)
{
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < TIMER_LENGTHS; k++) {
            double work = 2e-3 * (1 << k);
            samples[i].host[k] = work + 50e-6 + (i == 3 ? 5e-3 * k : 1e-6 * i); /* once the host was kept busy */
            samples[i].device[k] = unit * work;
        }
}

static wherry_timer_status judge(const struct timer_sample *samples, double *slope)
{
    wherry_timer_info info = {.status = WHERRY_TIMER_OK};
    timer_judge(samples, SAMPLES, &info);
    assert_true((info.status == WHERRY_TIMER_OK) == (info.reason[0] == 0));
    if (info.status != WHERRY_TIMER_OK) assert_string_equal(info.kind, "host");
    if (slope) *slope = info.slope;
    return info.status;
}

static void test_verdicts(void **state)
{
    (void)state;
    struct timer_sample samples[SAMPLES];
    double slope;
    fill_samples(samples, 1);
    assert_int_equal(judge(samples, &slope), WHERRY_TIMER_OK);
    assert_true(fabs(slope - 1) < 0.005);
    fill_samples(samples, 1.015);
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_OK);
    fill_samples(samples, 1.05);
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_UNIT);
    fill_samples(samples, 41.667);
    assert_int_equal(judge(samples, &slope), WHERRY_TIMER_UNIT);
    assert_true(fabs(slope - 41.667) < 0.5);
    fill_samples(samples, 0.024);
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_UNIT);
    fill_samples(samples, 0);
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_STUCK);
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < TIMER_LENGTHS; k++) samples[i].device[k] = 1e-3;
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_STUCK);
    fill_samples(samples, 1);
    samples[4].device[2] = -1e-3;
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_BACKWARDS);
    /* 73 thousand million seconds, which a user of another program was shown. */
    fill_samples(samples, 1);
    for (int i = 0; i < SAMPLES; i++) samples[i].device[3] = 7.3e10;
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_UNIT);
    /* Less time for more work. */
    fill_samples(samples, 1);
    for (int i = 0; i < SAMPLES; i++) samples[i].device[1] = samples[i].device[2] + 1e-3;
    assert_int_equal(judge(samples, NULL), WHERRY_TIMER_UNIT);
}

/* ---- devices that lie ---- */

enum lie { HONEST, BACKWARDS, EQUAL, ZERO, WRAPPED, UNIT, LATER, LIES };

static const wherry_timer_status verdicts[LIES] = {WHERRY_TIMER_OK,    WHERRY_TIMER_BACKWARDS, WHERRY_TIMER_STUCK,
                                                   WHERRY_TIMER_STUCK, WHERRY_TIMER_UNIT,      WHERRY_TIMER_UNIT,
                                                   WHERRY_TIMER_UNIT};

static struct {
    const struct backend *real;
    enum lie lie;
    int timed; /* runs so far */
} liar;

static bool lying_run(struct backend_device *device, struct program *program, const struct run *run, struct error *e)
{
    if (!liar.real->program_run(device, program, run, e)) return false;
    if (!run->step_seconds) return true;
    liar.timed++;
    if (liar.lie == BACKWARDS) return fail_timer(e, WHERRY_TIMER_BACKWARDS, "an end before its start");
    for (int i = 0; i < WORK_STEPS; i++) {
        double *seconds = &run->step_seconds[i];
        if (liar.lie == EQUAL) *seconds = 1e-6;
        if (liar.lie == ZERO) *seconds = 0;
        if (liar.lie == WRAPPED) *seconds = 7.3e10 - *seconds;
        if (liar.lie == UNIT) *seconds *= 41.667;
        if (liar.lie == LATER && liar.timed > 60) *seconds += 5; /* the test is passed by then */
    }
    return true;
}

/* On a GPU so many bytes that a copy of them is not lost in what the host's waiting varies by. */
static wherry_roof *measure(wherry_device *device)
{
    bool cpu = device->backend->limits(device->handle)->cpu;
    const wherry_roof_desc desc = {.struct_size = sizeof desc,
                                   .dram_bytes = cpu ? 1 << 22 : 1 << 28,
                                   .warm_seconds = 0.01,
                                   .repeats = 7,
                                   .only = "dram.copy,compute.f32"};
    wherry_roof *roof = NULL;
    if (wherry_roof_measure(device, &desc, NULL, NULL, &roof)) fail_msg("%s", wherry_last_error(context));
    return roof;
}

/* The best of a ceiling's fastest runs, which a busy machine changes least. */
static double fastest(const wherry_roof *roof, const char *id)
{
    const wherry_ceiling *c = wherry_roof_ceiling(roof, id);
    assert_non_null(c);
    assert_true(isfinite(c->value) && c->value > 0);
    return c->amount / c->time.min;
}

static void check_lie(wherry_device *device, enum lie lie, const double honest[2])
{
    struct backend backend = *device->backend;
    liar.real = device->backend;
    liar.lie = lie;
    liar.timed = 0;
    backend.program_run = lying_run;
    device->backend = &backend;
    wherry_roof *roof = measure(device);
    wherry_timer_info info;
    assert_int_equal(wherry_timer_test(device, &info), WHERRY_STATUS_OK);
    device->backend = liar.real;
    const wherry_timer_info *timer = wherry_roof_timer(roof);
    if (lie != LATER) assert_int_equal(info.status, verdicts[lie]);
    assert_int_equal(timer->status, verdicts[lie]);
    assert_string_equal(timer->kind, "host");
    assert_true(timer->reason[0] != 0);
    /* What a lie would give is a factor of 40 away, or infinite; a busy machine has been 11. */
    double copy = fastest(roof, "dram.copy") / honest[0], compute = fastest(roof, "compute.f32") / honest[1];
    if (!(copy > 1 / 20.0 && copy < 20 && compute > 1 / 20.0 && compute < 20))
        fail_msg("lie %d: %g and %g of what the honest device reaches", (int)lie, copy, compute);
    wherry_roof_destroy(roof);
}

static void test_liars(void **state)
{
    (void)state;
    char ids[SUPPORT_MAX_DEVICES][64];
    size_t count = support_devices(context, ids);
    for (size_t i = 0; i < count; i++) {
        wherry_device *device;
        if (wherry_device_open(context, ids[i], &device)) fail_msg("%s", wherry_last_error(context));
        if (strcmp(ids[i], "reference")) {
            wherry_roof *roof = measure(device);
            double honest[2] = {fastest(roof, "dram.copy"), fastest(roof, "compute.f32")};
            wherry_roof_destroy(roof);
            for (int lie = BACKWARDS; lie < LIES; lie++) check_lie(device, (enum lie)lie, honest);
        }
        wherry_device_close(device);
    }
}

static void test_absent(void **state)
{
    (void)state;
    wherry_timer_info info;
    wherry_device *device;
    assert_int_equal(wherry_device_open(context, "reference", &device), WHERRY_STATUS_OK);
    assert_int_equal(wherry_timer_test(device, &info), WHERRY_STATUS_UNSUPPORTED);
    assert_int_equal(wherry_timer_test(device, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_timer_test(NULL, &info), WHERRY_STATUS_INVALID_ARGUMENT);
    wherry_device_close(device);
    assert_string_equal(wherry_timer_status_name(WHERRY_TIMER_OK), "ok");
    assert_string_equal(wherry_timer_status_name(WHERRY_TIMER_UNIT), "unit");
    assert_string_equal(wherry_timer_status_name((wherry_timer_status)99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_liars),
    };
    return cmocka_run_group_tests(tests, make_context, destroy_context);
}
