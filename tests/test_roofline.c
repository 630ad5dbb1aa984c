/* Derived numbers against ones worked out by hand: every regime, what is unknown, what is too good to be true, and the
 * figures of Ivanov et al. */
#include "support.h"
#include "wherry/wherry_measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void expect(double got, double want, const char *what)
{
    if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-12 * fabs(want)))
        fail_msg("%s is %.17g, not %.17g", what, got, want);
}

#define EXPECT(got, want) expect(got, want, #got)

/* Round numbers: 1 TB/s, 10 Tflop/s, 2 us, a cache of 50 MB at 4 TB/s. */
static wherry_peaks round_peaks(void)
{
    return (wherry_peaks){.bandwidth = 1e12,
                          .copy = 8e11,
                          .cache_bandwidth = 4e12,
                          .theoretical_bandwidth = 1.25e12,
                          .flops = 1e13,
                          .launch = 2e-6,
                          .cache_bytes = 50000000};
}

/* Q = 100 MB, D = 160 MB, requested 400 MB. */
static wherry_traffic round_traffic(void)
{
    return (wherry_traffic){.unique_read = 60000000,
                            .unique_written = 40000000,
                            .model_read = 120000000,
                            .model_written = 40000000,
                            .requested_read = 360000000,
                            .requested_written = 40000000,
                            .footprint = 100000000};
}

static wherry_derived derive(wherry_peaks peaks, wherry_traffic traffic, double flops, double seconds, bool cold)
{
    wherry_derived out;
    memset(&out, 0xff, sizeof out); /* every field is written */
    wherry_derive(&peaks, &traffic, flops, seconds, cold, true, &out);
    return out;
}

static void test_numbers(void **state)
{
    (void)state;
    wherry_derived d = derive(round_peaks(), round_traffic(), 1e9, 2e-4, true);
    EXPECT(d.bandwidth, 8e11);
    EXPECT(d.bandwidth_unique, 5e11);
    EXPECT(d.bandwidth_requested, 2e12);
    EXPECT(d.flops_per_second, 5e12);
    EXPECT(d.intensity, 10);
    EXPECT(d.intensity_model, 6.25);
    EXPECT(d.roof_memory, 0.8); /* min(10, 6.25) Tflop/s */
    EXPECT(d.roof_cache, 0.5);  /* 2.5 flop per requested byte * 4 TB/s = 10 Tflop/s: both roofs meet */
    EXPECT(d.copy_share, 1);
    EXPECT(d.mue, 0.5);
    EXPECT(d.mue_theoretical, 0.4);
    EXPECT(d.q_over_d, 0.625);
    EXPECT(d.b_over_peak, 0.8);
    EXPECT(d.limit_seconds, 1e-4);
    EXPECT(d.headroom, 2);
    assert_false(d.over_peak);
    /* Q / B and F / P are both 100 us */
    assert_int_equal(d.regime, WHERRY_REGIME_UNKNOWN);
}

/* Under the flat part of the roof, the share is that of the peak; without flop, that of the bandwidth. */
static void test_roofs(void **state)
{
    (void)state;
    wherry_derived d = derive(round_peaks(), round_traffic(), 4e9, 8e-4, true);
    EXPECT(d.roof_memory, 0.5);
    EXPECT(d.roof_cache, 0.5);
    d = derive(round_peaks(), round_traffic(), 0, 2e-4, true);
    EXPECT(d.flops_per_second, 0);
    EXPECT(d.intensity, 0);
    EXPECT(d.roof_memory, 0.8);
    EXPECT(d.roof_cache, 0.5);
    EXPECT(d.limit_seconds, 1e-4);
    assert_int_equal(d.regime, WHERRY_REGIME_MEMORY);
}

static void test_factors(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int i = 0; i < 1000; i++) {
        wherry_peaks peaks = round_peaks();
        peaks.bandwidth = 1e9 + support_random(&random) * 1e3;
        wherry_traffic traffic = {.unique_read = 1 + support_random(&random),
                                  .unique_written = support_random(&random),
                                  .model_read = 1 + support_random(&random),
                                  .model_written = support_random(&random)};
        wherry_derived d = derive(peaks, traffic, 1e6, 1e-6 * (1 + support_random(&random) % 1000), true);
        EXPECT(d.q_over_d * d.b_over_peak, d.mue);
    }
}

static void test_regimes(void **state)
{
    (void)state;
    const struct {
        const char *what;
        double flops, seconds;
        uint64_t q, footprint;
        bool cold;
        wherry_regime regime;
    } cases[] = {
        {"below two launches", 1e3, 3.9e-6, 100000, 100000, true, WHERRY_REGIME_LAUNCH},
        {"two launches are enough", 1e3, 4e-6, 100000, 100000, true, WHERRY_REGIME_MEMORY},
        {"the same, warm", 1e3, 4e-6, 100000, 100000, false, WHERRY_REGIME_CACHE},
        {"more flop than bytes", 1e10, 2e-3, 100000000, 100000000, true, WHERRY_REGIME_COMPUTE},
        {"from the cache, and still more flop", 1e10, 2e-3, 1000000, 1000000, false, WHERRY_REGIME_COMPUTE},
        {"more bytes than flop", 1e8, 2e-4, 100000000, 100000000, true, WHERRY_REGIME_MEMORY},
        {"warm, but too large", 1e8, 2e-4, 100000000, 100000000, false, WHERRY_REGIME_MEMORY},
        {"warm, and as large as the cache", 1e8, 2e-4, 50000000, 50000000, false, WHERRY_REGIME_CACHE},
        {"warm, and a byte larger", 1e8, 2e-4, 50000001, 50000001, false, WHERRY_REGIME_MEMORY},
        {"few bytes of large tensors", 1e8, 2e-4, 20000000, 60000000, false, WHERRY_REGIME_MEMORY},
        {"flop within 10 % of bytes", 9.1e8, 2e-4, 100000000, 100000000, true, WHERRY_REGIME_UNKNOWN},
        {"flop 11 % below bytes", 8.9e8, 2e-4, 100000000, 100000000, true, WHERRY_REGIME_MEMORY},
        {"bytes within 10 % of flop", 1e9, 2e-4, 91000000, 91000000, true, WHERRY_REGIME_UNKNOWN},
        {"bytes 11 % below flop", 1e9, 2e-4, 89000000, 89000000, true, WHERRY_REGIME_COMPUTE},
        {"bytes near a launch", 0, 5e-6, 1900000, 1900000, true, WHERRY_REGIME_UNKNOWN},
        {"the same in less time", 0, 3e-6, 1900000, 1900000, true, WHERRY_REGIME_UNKNOWN},
        {"a launch is the largest limit", 0, 1e-5, 100000, 100000, true, WHERRY_REGIME_MEMORY},
        {"nothing larger than a launch, near each other", 1e7, 3e-6, 1000000, 1000000, true, WHERRY_REGIME_LAUNCH},
        {"no time", 1e8, 0, 100000000, 100000000, true, WHERRY_REGIME_UNKNOWN},
        {"no bytes", 1e8, 2e-4, 0, 0, true, WHERRY_REGIME_UNKNOWN},
        {"warm, footprint unknown", 1e8, 2e-4, 100000000, 0, false, WHERRY_REGIME_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wherry_traffic traffic = {.unique_read = cases[i].q, .model_read = cases[i].q, .footprint = cases[i].footprint};
        wherry_derived d = derive(round_peaks(), traffic, cases[i].flops, cases[i].seconds, cases[i].cold);
        if (d.regime != cases[i].regime)
            fail_msg("%s: %s, not %s", cases[i].what, wherry_regime_name(d.regime),
                     wherry_regime_name(cases[i].regime));
    }
}

/* Nothing is said about the regime by a timer that lies, but the arithmetic is done. */
static void test_timer(void **state)
{
    (void)state;
    wherry_peaks peaks = round_peaks();
    wherry_traffic traffic = round_traffic();
    wherry_derived d;
    wherry_derive(&peaks, &traffic, 1e8, 2e-4, true, false, &d);
    assert_int_equal(d.regime, WHERRY_REGIME_UNKNOWN);
    EXPECT(d.mue, 0.5);
}

static void test_unknown(void **state)
{
    (void)state;
    const wherry_peaks peaks = {0};
    const wherry_traffic traffic = {0};
    wherry_derived d = derive(peaks, traffic, 1e9, 1e-3, true);
    EXPECT(d.flops_per_second, 1e12);
    const double none[] = {d.bandwidth,   d.bandwidth_unique, d.bandwidth_requested, d.intensity, d.intensity_model,
                           d.roof_memory, d.roof_cache,       d.copy_share,          d.mue,       d.mue_theoretical,
                           d.q_over_d,    d.b_over_peak,      d.limit_seconds,       d.headroom};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!isnan(none[i])) fail_msg("number %zu is %g of nothing", i, none[i]);
    assert_int_equal(d.regime, WHERRY_REGIME_UNKNOWN);
    assert_false(d.over_peak);
}

/* Each unknown takes with it what needs it, and nothing else. */
static void test_unknown_each(void **state)
{
    (void)state;
    for (int missing = 0; missing < 7; missing++) {
        wherry_peaks peaks = round_peaks();
        wherry_traffic traffic = round_traffic();
        double *const fields[] = {&peaks.bandwidth, &peaks.copy,  &peaks.cache_bandwidth, &peaks.theoretical_bandwidth,
                                  &peaks.flops,     &peaks.launch};
        if (missing < 6) *fields[missing] = 0;
        if (missing == 6) peaks.cache_bytes = 0;
        wherry_derived d = derive(peaks, traffic, 1e8, 2e-4, false);
        EXPECT(d.bandwidth, 8e11);
        EXPECT(d.roof_memory, missing == 0 || missing == 4 ? NAN : 0.8);
        EXPECT(d.roof_cache, missing == 2 || missing == 4 ? NAN : 0.5);
        EXPECT(d.copy_share, missing == 1 ? NAN : 1);
        EXPECT(d.mue, missing == 0 ? NAN : 0.5);
        EXPECT(d.mue_theoretical, missing == 3 ? NAN : 0.4);
        EXPECT(d.q_over_d, 0.625);
        EXPECT(d.b_over_peak, missing == 0 ? NAN : 0.8);
        EXPECT(d.limit_seconds, missing == 0 || missing == 4 || missing == 5 ? NAN : 1e-4);
        EXPECT(d.headroom, missing == 0 || missing == 4 || missing == 5 ? NAN : 2);
        bool needed = missing == 0 || missing == 4 || missing == 5 || missing == 6;
        assert_int_equal(d.regime, needed ? WHERRY_REGIME_UNKNOWN : WHERRY_REGIME_MEMORY);
    }
    /* Without flop their ceiling is not needed. */
    wherry_peaks peaks = round_peaks();
    peaks.flops = 0;
    wherry_derived d = derive(peaks, round_traffic(), 0, 2e-4, true);
    EXPECT(d.limit_seconds, 1e-4);
    assert_int_equal(d.regime, WHERRY_REGIME_MEMORY);
}

static void test_bad_times(void **state)
{
    (void)state;
    const double times[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        wherry_derived d = derive(round_peaks(), round_traffic(), 1e9, times[i], true);
        EXPECT(d.bandwidth, NAN);
        EXPECT(d.flops_per_second, NAN);
        EXPECT(d.mue, NAN);
        EXPECT(d.headroom, NAN);
        EXPECT(d.intensity, 10);
        EXPECT(d.limit_seconds, 1e-4);
        assert_int_equal(d.regime, WHERRY_REGIME_UNKNOWN);
        assert_false(d.over_peak);
    }
    wherry_derived d = derive(round_peaks(), round_traffic(), NAN, 2e-4, true);
    EXPECT(d.flops_per_second, NAN);
    EXPECT(d.limit_seconds, NAN);
    EXPECT(d.mue, 0.5);
}

/* Two parts in a hundred above a ceiling are within what measuring it leaves open; more is flagged, and nothing is cut
 * off. */
static void test_over_peak(void **state)
{
    (void)state;
    wherry_traffic memory = {.unique_read = 100000000, .model_read = 100000000, .footprint = 100000000};
    assert_false(derive(round_peaks(), memory, 0, 1e-4 / 1.019, true).over_peak);
    wherry_derived d = derive(round_peaks(), memory, 0, 1e-4 / 1.5, true);
    assert_true(d.over_peak);
    EXPECT(d.mue, 1.5);
    EXPECT(d.roof_memory, 1.5);
    assert_true(derive(round_peaks(), memory, 0, 1e-4 / 1.5, false).over_peak); /* too large for the cache */
    memory.footprint = 50000000;
    assert_false(derive(round_peaks(), memory, 0, 1e-4 / 1.5, false).over_peak); /* from the cache */
    assert_true(derive(round_peaks(), memory, 0, 1e-4 / 1.5, true).over_peak);
    wherry_peaks peaks = round_peaks();
    peaks.cache_bytes = 0; /* a cache that nobody knows is no excuse */
    assert_true(derive(peaks, memory, 0, 1e-4 / 1.5, false).over_peak);

    wherry_traffic cache = {
        .unique_read = 1000000, .model_read = 1000000, .requested_read = 400000000, .footprint = 1000000};
    assert_false(derive(round_peaks(), cache, 0, 1e-4 / 1.019, false).over_peak);
    assert_true(derive(round_peaks(), cache, 0, 1e-4 / 1.021, false).over_peak);

    assert_false(derive(round_peaks(), round_traffic(), 4e9, 4e-4 / 1.019, true).over_peak);
    assert_true(derive(round_peaks(), round_traffic(), 4e9, 4e-4 / 1.021, true).over_peak);
}

/* AIB, BAIB and BEI of Ivanov et al., Table III: times on a V100, all tensors of 2 bytes an element once. The printed
 * shares (78, 66, 83) are of 900 GiB/s, not of 900 GB/s. */
static void test_paper(void **state)
{
    (void)state;
    const double tensor = 8 * 512 * 1024 * 2, gib = 1024.0 * 1024 * 1024;
    const struct {
        double tensors, microseconds, percent, percent_gib;
    } rows[] = {{6, 66, 84.7, 78.9}, {3, 39, 71.7, 66.8}, {3, 31, 90.2, 84.0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wherry_peaks peaks = {.bandwidth = 900 * gib, .theoretical_bandwidth = 900e9};
        wherry_traffic traffic = {.unique_read = (uint64_t)(rows[i].tensors * tensor)};
        wherry_derived d = derive(peaks, traffic, 0, rows[i].microseconds * 1e-6, true);
        assert_true(fabs(100 * d.mue_theoretical - rows[i].percent) < 0.05);
        assert_true(fabs(100 * d.mue - rows[i].percent_gib) < 0.05);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(wherry_regime_name(WHERRY_REGIME_UNKNOWN), "unknown");
    assert_string_equal(wherry_regime_name(WHERRY_REGIME_LAUNCH), "launch");
    assert_string_equal(wherry_regime_name(WHERRY_REGIME_CACHE), "cache");
    assert_string_equal(wherry_regime_name(WHERRY_REGIME_MEMORY), "memory");
    assert_string_equal(wherry_regime_name(WHERRY_REGIME_COMPUTE), "compute");
    assert_string_equal(wherry_regime_name((wherry_regime)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),   cmocka_unit_test(test_roofs),        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_regimes),   cmocka_unit_test(test_timer),        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_bad_times), cmocka_unit_test(test_unknown_each), cmocka_unit_test(test_over_peak),
        cmocka_unit_test(test_paper),     cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
