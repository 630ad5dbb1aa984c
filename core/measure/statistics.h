/* Order statistics of measured times. */
#ifndef WHERRY_MEASURE_STATISTICS_H
#define WHERRY_MEASURE_STATISTICS_H

#include <stddef.h>

#include "wherry/wherry_measure.h"

void samples_sort(double *samples, size_t n);
/* Value at fraction q of `n` sorted samples, between neighbours. */
double samples_quantile(const double *sorted, size_t n, double q);
/* What `n` samples say; sorts them. `first`: the first run of the work. n 0: all zero. */
wherry_time time_summary(double *samples, size_t n, double first);

#endif
