/* Order statistics of measured times. */
#include "measure/statistics.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void samples_sort(double *samples, size_t n) { qsort(samples, n, sizeof *samples, ascending); }

double samples_quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t low = (size_t)at;
    double rest = at - (double)low;
    return low + 1 < n ? sorted[low] + rest * (sorted[low + 1] - sorted[low]) : sorted[low];
}

/* Ranks (from 0) of the order statistics between which the median lies with 95 %: of n values, the number below the
 * median is binomial with p = 1/2. As narrow as the promise allows; all of the range for n below 6, where nothing
 * narrower keeps it. */
static void median_ranks(size_t n, size_t *low, size_t *high)
{
    double term = pow(0.5, (double)n), below = 0; /* of exactly k below; of fewer than k + 1 */
    size_t k = 0;
    *low = 0;
    if (n > 1000) { /* the terms vanish; the normal distribution is as good by then */
        double half = 0.98 * sqrt((double)n);
        *low = (size_t)((double)n / 2 - half);
    } else {
        for (below = term; below <= 0.025 && k < n / 2; below += term) {
            *low = k++;
            term *= (double)(n - k + 1) / (double)k;
        }
    }
    *high = n - 1 - *low;
}

/* The median of the distances from `median`: values in the order of their distance, from the middle outwards. */
static double median_distance(const double *sorted, size_t n, double median)
{
    size_t above = n / 2, below = above; /* the next ones: sorted[above], sorted[below - 1] */
    double last = 0, before = 0;
    for (size_t taken = 0; taken <= n / 2; taken++) {
        before = last;
        bool up = above < n && (!below || sorted[above] - median <= median - sorted[below - 1]);
        last = up ? sorted[above++] - median : median - sorted[--below];
    }
    return n % 2 ? last : (before + last) / 2;
}

/* By the modified z-score of Iglewicz and Hoaglin. */
static uint32_t count_outliers(const double *sorted, size_t n, double median)
{
    double distance = median_distance(sorted, n, median);
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) count += distance > 0 && 0.6745 * fabs(sorted[i] - median) / distance > 14.8;
    return count;
}

wherry_time time_summary(double *samples, size_t n, double first)
{
    wherry_time t = {.first = first, .n = (uint32_t)n};
    if (!n) return (wherry_time){0};
    double squares = 0;
    size_t low, high;
    samples_sort(samples, n);
    t.median = samples_quantile(samples, n, 0.5);
    t.p05 = samples_quantile(samples, n, 0.05);
    t.p95 = samples_quantile(samples, n, 0.95);
    t.min = samples[0];
    median_ranks(n, &low, &high);
    t.ci_low = samples[low];
    t.ci_high = samples[high];
    for (size_t i = 0; i < n; i++) t.mean += samples[i] / (double)n;
    for (size_t i = 0; i < n; i++) squares += (samples[i] - t.mean) * (samples[i] - t.mean);
    if (n > 1 && t.mean > 0) t.cv = sqrt(squares / (double)(n - 1)) / t.mean;
    t.outliers = count_outliers(samples, n, t.median);
    return t;
}
