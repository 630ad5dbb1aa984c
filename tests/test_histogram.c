/* The histogram of latencies against sorted lists: every bucket's edges, random values of all sizes, none, one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/histogram.h"

static const unsigned shown[] = {1, 50, 500, 900, 950, 990, 999, 1000};
enum { SHOWN = sizeof shown / sizeof *shown };

static struct histogram histogram, other;

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The value of rank ceil(p * count), counted without a product that is rounded. */
static uint64_t sorted_percentile(const uint64_t *sorted, size_t count, unsigned per_mille)
{
    size_t rank = 1;
    while (rank < count && rank * 1000 < count * per_mille) rank++;
    return sorted[rank - 1];
}

static void expect_like_sorted(uint64_t *values, size_t count)
{
    double sum = 0;
    memset(&histogram, 0, sizeof histogram);
    for (size_t n = 0; n < count; n++) {
        histogram_add(&histogram, values[n]);
        sum += (double)values[n];
    }
    qsort(values, count, sizeof *values, by_value);
    assert_true(histogram.count == count);
    assert_true(histogram.least == values[0] && histogram.most == values[count - 1]);
    assert_true(fabs(histogram.sum - sum) <= 1e-9 * sum);
    for (size_t n = 0; n < SHOWN; n++) {
        double want = (double)sorted_percentile(values, count, shown[n]);
        double got = histogram_percentile(&histogram, shown[n]);
        if (!(fabs(got - want) <= 0.004 * want))
            fail_msg("%zu values, %u per mille: %.17g, %.17g expected", count, shown[n], got, want);
    }
}

static void buckets_join(void **state)
{
    (void)state;
    assert_true(histogram_low(0) == 0);
    assert_true(histogram_high(HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
    for (size_t n = 0; n < HISTOGRAM_BUCKETS; n++) {
        uint64_t low = histogram_low(n), high = histogram_high(n);
        assert_true(low <= high);
        assert_true(histogram_bucket(low) == n && histogram_bucket(high) == n);
        assert_true(histogram_bucket(low + (high - low) / 2) == n);
        assert_true(n == 0 || histogram_high(n - 1) + 1 == low);
        assert_true((double)(high - low) <= (double)low / HISTOGRAM_PARTS);
    }
}

static void none_and_one(void **state)
{
    (void)state;
    memset(&histogram, 0, sizeof histogram);
    for (size_t n = 0; n < SHOWN; n++) assert_true(histogram_percentile(&histogram, shown[n]) == 0);
    uint64_t ones[] = {0, 1, 127, 128, 255, 256, 257, 1000000007, UINT64_MAX};
    for (size_t n = 0; n < sizeof ones / sizeof *ones; n++) {
        memset(&histogram, 0, sizeof histogram);
        histogram_add(&histogram, ones[n]);
        for (size_t p = 0; p < SHOWN; p++) /* least and most bound it: exact */
            assert_true(histogram_percentile(&histogram, shown[p]) == (double)ones[n]);
    }
}

static void edges_alone(void **state)
{
    (void)state;
    uint64_t *edges = malloc(2 * HISTOGRAM_BUCKETS * sizeof *edges);
    assert_non_null(edges);
    for (size_t n = 0; n < HISTOGRAM_BUCKETS; n++) {
        edges[2 * n] = histogram_low(n);
        edges[2 * n + 1] = histogram_high(n);
    }
    expect_like_sorted(edges, 2 * HISTOGRAM_BUCKETS);
    free(edges);
}

static void random_values(void **state)
{
    (void)state;
    static uint64_t values[20000];
    uint64_t seed = 42;
    for (size_t round = 0; round < 200; round++) {
        size_t count = round < 60 ? round + 1 : 1 + random_bits(&seed) % (round < 190 ? 3000 : 20000);
        for (size_t n = 0; n < count; n++) /* every size as likely, or all near each other, as latencies are */
            values[n] =
                round % 2 ? random_bits(&seed) >> random_bits(&seed) % 64 : 1000000 + random_bits(&seed) % 50000;
        expect_like_sorted(values, count);
    }
}

static void merged_is_counted_together(void **state)
{
    (void)state;
    static struct histogram parts;
    uint64_t seed = 7;
    memset(&histogram, 0, sizeof histogram);
    memset(&other, 0, sizeof other);
    memset(&parts, 0, sizeof parts);
    histogram_merge(&parts, &other); /* nothing and nothing */
    assert_true(parts.count == 0 && parts.least == 0);
    for (size_t n = 0; n < 5000; n++) {
        uint64_t value = random_bits(&seed) >> 40;
        histogram_add(&histogram, value);
        histogram_add(n % 3 ? &parts : &other, value);
    }
    histogram_merge(&parts, &other);
    assert_true(parts.count == histogram.count && parts.least == histogram.least && parts.most == histogram.most);
    assert_memory_equal(parts.counts, histogram.counts, sizeof parts.counts);
}

/* 0.975 = 1 - p^n, by hand. */
static void needed_samples(void **state)
{
    (void)state;
    assert_int_equal(histogram_needed(500), 6);
    assert_int_equal(histogram_needed(900), 36);
    assert_int_equal(histogram_needed(990), 368);
    assert_int_equal(histogram_needed(999), 3688);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_join),  cmocka_unit_test(none_and_one),   cmocka_unit_test(edges_alone),
        cmocka_unit_test(random_values), cmocka_unit_test(needed_samples), cmocka_unit_test(merged_is_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
