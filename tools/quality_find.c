/* How near two sets of embeddings are: cosines, ranks of similarities, nearest neighbours. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "quality.h"

enum { COMPARED_MOST = 2048, TOP = 10 };

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

static double cosine(const float *a, const float *b, size_t n)
{
    double lengths = sqrt(dot(a, a, n) * dot(b, b, n));
    return lengths > 0 ? dot(a, b, n) / lengths : 0;
}

/* ---- ranks ---- */

struct ranked {
    double value;
    size_t index;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Values become their ranks; equal ones the mean of theirs. */
static void rank_values(double *values, size_t n)
{
    struct ranked *all = need(malloc((n + 1) * sizeof *all));
    for (size_t i = 0; i < n; i++) all[i] = (struct ranked){values[i], i};
    qsort(all, n, sizeof *all, by_value);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && all[end].value == all[i].value;) end++;
        for (size_t k = i; k < end; k++) values[all[k].index] = (double)(i + end - 1) / 2;
    }
    free(all);
}

/* Pearson's. Of values that are all alike there is none: 1 where both are so, else 0. */
static double correlation(const double *a, const double *b, size_t n)
{
    double mean_a = 0, mean_b = 0, both = 0, square_a = 0, square_b = 0;
    for (size_t i = 0; i < n; i++) mean_a += a[i] / (double)n, mean_b += b[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        both += (a[i] - mean_a) * (b[i] - mean_b);
        square_a += (a[i] - mean_a) * (a[i] - mean_a);
        square_b += (b[i] - mean_b) * (b[i] - mean_b);
    }
    if (!(square_a > 0) || !(square_b > 0)) return square_a > 0 || square_b > 0 ? 0 : 1;
    return both / sqrt(square_a * square_b);
}

/* ---- neighbours ---- */

/* Similarities of all pairs of `n` texts, [n, n]. */
static double *similarities(const float *vectors, size_t texts, size_t n, size_t size)
{
    double *of = need(malloc((n * n + 1) * sizeof *of));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k <= i; k++)
            of[i * n + k] = of[k * n + i] =
                cosine(vectors + i * texts / n * size, vectors + k * texts / n * size, size);
    return of;
}

/* near[0 ... top - 1] = the texts that are nearest to text `own`. */
static void nearest(const double *similar, size_t own, size_t n, size_t top, struct ranked *room, size_t *near)
{
    size_t others = 0;
    for (size_t k = 0; k < n; k++)
        if (k != own) room[others++] = (struct ranked){-similar[own * n + k], k};
    qsort(room, others, sizeof *room, by_value);
    for (size_t i = 0; i < top; i++) near[i] = room[i].index;
}

static double overlap_of(const double *a, const double *b, size_t n, size_t top)
{
    struct ranked *room = need(malloc((n + 1) * sizeof *room));
    size_t same = 0, near_a[TOP], near_b[TOP];
    for (size_t own = 0; own < n; own++) {
        nearest(a, own, n, top, room, near_a);
        nearest(b, own, n, top, room, near_b);
        for (size_t i = 0; i < top; i++)
            for (size_t k = 0; k < top; k++) same += near_a[i] == near_b[k];
    }
    free(room);
    return (double)same / (double)(n * top);
}

/* The pairs of different texts, side by side, at the beginning. */
static size_t pairs_keep(double *similar, size_t n)
{
    size_t pairs = 0;
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++) similar[pairs++] = similar[i * n + k];
    return pairs;
}

struct quality_found quality_find(const float *a, const float *b, size_t texts, size_t size)
{
    struct quality_found f = {.least = 2, .compared = texts < COMPARED_MOST ? texts : COMPARED_MOST};
    for (size_t i = 0; i < texts; i++) {
        double of = cosine(a + i * size, b + i * size, size);
        f.cosine += of / (double)texts;
        if (of < f.least) f.least = of, f.least_at = i;
    }
    double *in_a = similarities(a, texts, f.compared, size), *in_b = similarities(b, texts, f.compared, size);
    f.top = f.compared - 1 < TOP ? f.compared - 1 : TOP;
    f.overlap = overlap_of(in_a, in_b, f.compared, f.top);
    size_t pairs = pairs_keep(in_a, f.compared);
    pairs_keep(in_b, f.compared);
    rank_values(in_a, pairs);
    rank_values(in_b, pairs);
    f.rank_correlation = correlation(in_a, in_b, pairs);
    free(in_a);
    free(in_b);
    return f;
}
