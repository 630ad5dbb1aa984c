/* Ceilings on every device at small sizes, and the arithmetic behind them: summaries of times, the launch fit, the edge
 * of a cache. */
#include "measure/roof.h"
#include "measure/statistics.h"
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

static bool near(double a, double b, double tolerance) { return fabs(a - b) <= tolerance * fabs(b); }

/* ---- times ---- */

static void test_summary(void **state)
{
    (void)state;
    double few[] = {3, 1, 2}, many[21], one[] = {5};
    wherry_time t = time_summary(few, 3, 9);
    assert_true(t.median == 2 && t.min == 1 && t.mean == 2 && t.first == 9 && t.n == 3 && t.outliers == 0);
    assert_true(t.ci_low == 1 && t.ci_high == 3 && near(t.cv, 0.5, 1e-12));
    t = time_summary(one, 1, 5);
    assert_true(t.median == 5 && t.p05 == 5 && t.p95 == 5 && t.ci_low == 5 && t.ci_high == 5 && t.cv == 0);
    t = time_summary(NULL, 0, 5);
    assert_true(t.n == 0 && t.median == 0 && t.first == 0);
    /* Of 21 values the 6th and the 16th bound the median (Conover's table); 1 to 21 in another order. */
    for (int i = 0; i < 21; i++) many[i] = 1 + i * 8 % 21;
    t = time_summary(many, 21, 1);
    assert_true(t.median == 11 && t.ci_low == 6 && t.ci_high == 16 && t.p05 == 2 && t.p95 == 20);
    assert_int_equal(t.outliers, 0);
    /* The median distance of 1 to 21 is 5: beyond 5 * 14.8 / 0.6745 = 109.7 from the median. */
    many[20] = 11 + 110;
    assert_int_equal(time_summary(many, 21, 1).outliers, 1);
    many[20] = 11 + 109;
    assert_int_equal(time_summary(many, 21, 1).outliers, 0);
    double large[2000];
    for (int i = 0; i < 2000; i++) large[i] = i;
    t = time_summary(large, 2000, 0);
    assert_true(t.ci_low > 950 && t.ci_low < 960 && t.ci_high > 1039 && t.ci_high < 1050);
}

/* ---- the fit ---- */

static void test_fit(void **state)
{
    (void)state;
    double bytes[14], seconds[14], a, b;
    for (int i = 0; i < 14; i++) {
        bytes[i] = 8192.0 * (1 << i);
        seconds[i] = 2.5e-6 + bytes[i] / 4e12;
    }
    launch_fit(bytes, seconds, 14, &a, &b);
    assert_true(near(a, 2.5e-6, 1e-6) && near(b, 4e12, 1e-6));
    for (int i = 0; i < 14; i++) seconds[i] *= i % 2 ? 1.02 : 0.98;
    seconds[5] *= 10; /* something else ran */
    launch_fit(bytes, seconds, 14, &a, &b);
    assert_true(near(a, 2.5e-6, 0.05) && near(b, 4e12, 0.05));
    for (int i = 0; i < 14; i++) seconds[i] = bytes[i] / 1e10; /* launching costs nothing */
    launch_fit(bytes, seconds, 14, &a, &b);
    assert_true(a >= 0 && a < 1e-9 && near(b, 1e10, 1e-6));
}

/* ---- the edge ---- */

/* Rates of sizes 64 KiB * 2^(n / 2), by a function of the size. */
static uint64_t edge_of(double (*rate)(double bytes))
{
    wherry_roof_point points[31];
    for (int i = 0; i < 31; i++) {
        points[i] = (wherry_roof_point){.bytes = (uint64_t)(65536 * pow(2, 0.5 * i))};
        points[i].time = (wherry_time){.median = (double)points[i].bytes / rate((double)points[i].bytes), .n = 1};
    }
    return sweep_edge(points, 31);
}

static double rate_flat(double bytes)
{
    (void)bytes;
    return 1e10;
}

/* As public measurements of an H200: 9.8 TB/s up to 44 MB, 3.9 beyond 110 MB, faster still below 4 MB. */
static double rate_h200(double bytes)
{
    if (bytes < 4e6) return 15e12;
    if (bytes < 44e6) return 9.8e12;
    return bytes > 110e6 ? 3.9e12 : 9.8e12 - 5.9e12 * (bytes - 44e6) / 66e6;
}

static double rate_step(double bytes) { return bytes <= 8e6 ? 5e10 : 1e10; }

static void test_edge(void **state)
{
    (void)state;
    wherry_roof_point none[2] = {{.bytes = 1, .time.median = 1}, {.bytes = 2, .time.median = 1}};
    assert_true(edge_of(rate_flat) == 0);
    assert_true(edge_of(rate_h200) > 44e6 && edge_of(rate_h200) < 80e6);
    assert_true(edge_of(rate_step) <= 8e6 && edge_of(rate_step) > 5e6);
    assert_true(sweep_edge(none, 2) == 0);
}

/* ---- devices ---- */

static wherry_roof *measure(wherry_device *device, const char *only, bool zeros)
{
    const wherry_roof_desc desc = {.struct_size = sizeof desc,
                                   .dram_bytes = 1 << 21,
                                   .warm_seconds = 0.01,
                                   .repeats = 3,
                                   .zeros = zeros,
                                   .only = only};
    wherry_roof *roof = NULL;
    if (wherry_roof_measure(device, &desc, NULL, NULL, &roof)) fail_msg("%s", wherry_last_error(context));
    return roof;
}

static void check_time(const wherry_time *t)
{
    assert_true(t->n > 0 && t->min > 0 && isfinite(t->mean) && isfinite(t->cv));
    assert_true(t->min <= t->p05 && t->p05 <= t->median && t->median <= t->p95);
    assert_true(t->min <= t->ci_low && t->ci_low <= t->median && t->median <= t->ci_high);
}

static void check_ceilings(const wherry_roof *roof)
{
    size_t count, ids = 0;
    const wherry_ceiling *list = wherry_roof_ceilings(roof, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const wherry_ceiling *c = &list[i];
        bool first = !i || strcmp(list[i - 1].id, c->id) != 0;
        check_time(&c->time);
        assert_true(isfinite(c->value) && c->value > 0 && c->amount > 0);
        assert_true(near(c->value, c->unit == WHERRY_UNIT_SECONDS ? c->time.median : c->amount / c->time.median, 1e-9));
        assert_true(c->best == first);
        assert_ptr_equal(wherry_roof_ceiling(roof, c->id) == c, first);
        if (!first) assert_true(c->value <= list[i - 1].value || c->unit == WHERRY_UNIT_SECONDS);
        ids += first;
        for (size_t k = 0; first && k < i; k++) assert_string_not_equal(list[k].id, c->id);
    }
    assert_true(ids >= 1);
}

static void check_points(const wherry_roof_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check_time(&points[i].time);
        assert_true(points[i].bytes > (i ? points[i - 1].bytes : 0));
    }
}

static void check_whole(wherry_device *device)
{
    static const char *const always[] = {"dram.read",        "dram.write",  "dram.copy",
                                         "dram.triad",       "compute.f32", "launch.seconds",
                                         "launch.bandwidth", "launch.gap",  "host.submit"};
    wherry_roof *roof = measure(device, NULL, false);
    size_t count;
    wherry_time first, last;
    check_ceilings(roof);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (!wherry_roof_ceiling(roof, always[i])) fail_msg("%s is missing", always[i]);
    assert_null(wherry_roof_ceiling(roof, "dram"));
    assert_null(wherry_roof_ceiling(roof, "compute.f8"));
    const wherry_roof_point *points = wherry_roof_sweep(roof, &count);
    assert_true(count >= 5);
    check_points(points, count);
    points = wherry_roof_launches(roof, &count);
    assert_true(count >= 5);
    check_points(points, count);
    wherry_roof_sentinel(roof, &first, &last);
    check_time(&first);
    check_time(&last);
    const wherry_ceiling *copy = wherry_roof_ceiling(roof, "dram.copy");
    assert_true(copy->unit == WHERRY_UNIT_BYTES && copy->footprint_bytes == 2 << 21 && copy->amount == 2 << 21);
    assert_true(wherry_roof_ceiling(roof, "compute.f32")->unit == WHERRY_UNIT_FLOPS);
    assert_true(wherry_roof_ceiling(roof, "launch.gap")->unit == WHERRY_UNIT_SECONDS);
    assert_non_null(wherry_roof_timer(roof));
    wherry_roof_destroy(roof);
}

static void check_parts(wherry_device *device)
{
    wherry_roof *roof = measure(device, "dram.copy", true);
    size_t count;
    const wherry_ceiling *list = wherry_roof_ceilings(roof, &count);
    for (size_t i = 0; i < count; i++) assert_string_equal(list[i].id, "dram.copy");
    assert_true(count >= 2);
    wherry_roof_sweep(roof, &count);
    assert_int_equal(count, 0);
    wherry_roof_launches(roof, &count);
    assert_int_equal(count, 0);
    assert_true(wherry_roof_cache_bytes(roof) == 0);
    wherry_roof_destroy(roof);
    roof = measure(device, "launch.gap,dram.write", false);
    assert_non_null(wherry_roof_ceiling(roof, "launch.gap"));
    assert_non_null(wherry_roof_ceiling(roof, "dram.write"));
    assert_null(wherry_roof_ceiling(roof, "launch.seconds"));
    assert_null(wherry_roof_ceiling(roof, "dram.copy"));
    wherry_roof_destroy(roof);
}

static bool refuse(const char *what, size_t done, size_t total, void *user)
{
    (void)what, (void)done, (void)total, (void)user;
    return false;
}

static void check_refusals(wherry_device *device)
{
    wherry_roof *roof = NULL;
    wherry_roof_desc desc = {.struct_size = 1};
    assert_int_equal(wherry_roof_measure(device, &desc, NULL, NULL, &roof), WHERRY_STATUS_INVALID_ARGUMENT);
    desc.struct_size = sizeof desc;
    desc.warm_seconds = -1;
    assert_int_equal(wherry_roof_measure(device, &desc, NULL, NULL, &roof), WHERRY_STATUS_INVALID_ARGUMENT);
    desc.warm_seconds = 0.01;
    desc.dram_bytes = 1;
    desc.only = "dram.copy";
    assert_int_equal(wherry_roof_measure(device, &desc, NULL, NULL, NULL), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_roof_measure(NULL, &desc, NULL, NULL, &roof), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_int_equal(wherry_roof_measure(device, &desc, refuse, NULL, &roof), WHERRY_STATUS_CANCELLED);
    assert_null(roof);
    wherry_roof_destroy(NULL);
    assert_null(wherry_roof_ceiling(NULL, "dram.copy"));
}

static void test_devices(void **state)
{
    (void)state;
    char ids[SUPPORT_MAX_DEVICES][64];
    size_t count = support_devices(context, ids);
    for (size_t i = 0; i < count; i++) {
        wherry_device *device;
        wherry_roof *roof = NULL;
        if (wherry_device_open(context, ids[i], &device)) fail_msg("%s", wherry_last_error(context));
        if (!strcmp(ids[i], "reference")) {
            assert_int_equal(wherry_roof_measure(device, NULL, NULL, NULL, &roof), WHERRY_STATUS_UNSUPPORTED);
            assert_null(roof);
        } else {
            check_whole(device);
            check_parts(device);
            check_refusals(device);
        }
        wherry_device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_edge),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, make_context, destroy_context);
}
