/* Order statistics of measured times. */
#ifndef WHERRY_RUNTIME_STATISTICS_H
#define WHERRY_RUNTIME_STATISTICS_H

#include <stddef.h>

void samples_sort(double *samples, size_t n);
/* Value at fraction q of `n` sorted samples, between neighbours. */
double samples_quantile(const double *sorted, size_t n, double q);

#endif
