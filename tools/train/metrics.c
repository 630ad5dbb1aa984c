/* How good predictions are. */
#include "train/metrics.h"

#include <math.h>
#include <stdlib.h>

#include "complain.h"

double metric_accuracy(const float *scores, const int32_t *labels, size_t rows, size_t n_labels)
{
    size_t right = 0, counted = 0;
    for (size_t r = 0; r < rows; r++, scores += n_labels) {
        size_t best = 0;
        if (labels[r] < 0) continue;
        for (size_t n = 1; n < n_labels; n++)
            if (scores[n] > scores[best]) best = n;
        counted++;
        right += best == (size_t)labels[r];
    }
    return counted ? (double)right / (double)counted : (double)NAN;
}

double metric_binary_accuracy(const float *scores, const float *labels, size_t count)
{
    size_t right = 0;
    for (size_t n = 0; n < count; n++) right += (scores[n] > 0) == (labels[n] > 0.5f);
    return count ? (double)right / (double)count : (double)NAN;
}

/* ---- ranks ---- */

struct ranked {
    float value;
    size_t index;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Ranks from 1, as memory to free. */
static double *ranks_of(const float *values, size_t count)
{
    struct ranked *sorted = need(malloc((count ? count : 1) * sizeof *sorted));
    double *ranks = need(malloc((count ? count : 1) * sizeof *ranks));
    for (size_t n = 0; n < count; n++) sorted[n] = (struct ranked){values[n], n};
    qsort(sorted, count, sizeof *sorted, by_value);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && sorted[end].value == sorted[first].value; end++) continue;
        for (size_t n = first; n < end; n++) ranks[sorted[n].index] = 0.5 * (double)(first + 1 + end);
    }
    free(sorted);
    return ranks;
}

static double correlation(const double *a, const double *b, size_t count)
{
    double mean_a = 0, mean_b = 0, ab = 0, aa = 0, bb = 0;
    for (size_t n = 0; n < count; n++) {
        mean_a += a[n] / (double)count;
        mean_b += b[n] / (double)count;
    }
    for (size_t n = 0; n < count; n++) {
        ab += (a[n] - mean_a) * (b[n] - mean_b);
        aa += (a[n] - mean_a) * (a[n] - mean_a);
        bb += (b[n] - mean_b) * (b[n] - mean_b);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : (double)NAN;
}

double metric_spearman(const float *a, const float *b, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (!isfinite(a[n]) || !isfinite(b[n])) return (double)NAN;
    double *ranks_a = ranks_of(a, count), *ranks_b = ranks_of(b, count);
    double result = correlation(ranks_a, ranks_b, count);
    free(ranks_a);
    free(ranks_b);
    return result;
}

double metric_squared_error(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t n = 0; n < count; n++) sum += ((double)a[n] - (double)b[n]) * ((double)a[n] - (double)b[n]);
    return count ? sum / (double)count : (double)NAN;
}

/* ---- vectors ---- */

static double dot(const float *a, const float *b, size_t size)
{
    double sum = 0;
    for (size_t n = 0; n < size; n++) sum += (double)a[n] * (double)b[n];
    return sum;
}

double metric_cosine(const float *a, const float *b, size_t size)
{
    double lengths = sqrt(dot(a, a, size) * dot(b, b, size));
    return lengths > 0 ? dot(a, b, size) / lengths : 0;
}

double metric_recall(const float *queries, size_t n_queries, const float *candidates, size_t n_candidates, size_t size,
                     size_t k)
{
    double found = 0;
    for (size_t q = 0; q < n_queries; q++) {
        const float *query = queries + q * size;
        double right = metric_cosine(query, candidates + q * size, size);
        size_t nearer = 0, equal = 0;
        for (size_t c = 0; c < n_candidates && nearer < k; c++) {
            if (c == q) continue;
            double other = metric_cosine(query, candidates + c * size, size);
            nearer += other > right;
            equal += other == right;
        }
        if (nearer < k) found += nearer + equal < k ? 1 : 0.5;
    }
    return n_queries ? found / (double)n_queries : (double)NAN;
}
