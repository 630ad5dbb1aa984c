/* How good predictions are. */
#ifndef WHERRY_TOOLS_TRAIN_METRICS_H
#define WHERRY_TOOLS_TRAIN_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* Share of rows [rows][labels] whose largest score, the first of equal ones, is that of their label. Rows whose label
 * is negative do not count; NAN: no row counts. */
double metric_accuracy(const float *scores, const int32_t *labels, size_t rows, size_t n_labels);
/* The same for several labels each: share of scores [count] that are above 0 where the label is above one half, and
 * only there. */
double metric_binary_accuracy(const float *scores, const float *labels, size_t count);
/* Rank correlation, in [-1, 1]; equal values share the mean of their ranks. NAN where one side has only equal values,
 * or is not finite. Memory of its own. */
double metric_spearman(const float *a, const float *b, size_t count);
/* Mean of (a - b)^2. */
double metric_squared_error(const float *a, const float *b, size_t count);
/* Cosine of two vectors; 0 where one has no length. */
double metric_cosine(const float *a, const float *b, size_t size);
/* Share of `queries` vectors [queries][size] for which fewer than k of `candidates` [n_candidates][size] have a larger
 * cosine than candidate number n of query number n. One that is as near as the right one counts half. */
double metric_recall(const float *queries, size_t n_queries, const float *candidates, size_t n_candidates, size_t size,
                     size_t k);

#endif
