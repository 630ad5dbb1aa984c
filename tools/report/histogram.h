/* Durations counted in buckets whose width grows with the value: any number of samples in the same memory, each
 * percentile to half a bucket. Bucket n below PARTS holds the value n alone; above, every power of two is cut into
 * PARTS buckets of equal width, so that a bucket is at most 1 / PARTS of what is in it wide. */
#ifndef WHERRY_TOOLS_REPORT_HISTOGRAM_H
#define WHERRY_TOOLS_REPORT_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_PARTS_BITS = 7,
    HISTOGRAM_PARTS = 1 << HISTOGRAM_PARTS_BITS, /* a bucket's width is at most 0.79 % of its values */
    HISTOGRAM_BUCKETS = (64 - HISTOGRAM_PARTS_BITS + 1) * HISTOGRAM_PARTS /* for every uint64_t */
};

/* In nanoseconds. All zero: nothing was counted. */
struct histogram {
    uint64_t count, least, most; /* the last two are exact */
    double sum;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);
/* Adds what another one counted. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);

size_t histogram_bucket(uint64_t value);
/* The least and the largest value that a bucket has. */
uint64_t histogram_low(size_t bucket);
uint64_t histogram_high(size_t bucket);

/* Percentiles are given in thousands: 999 is p99.9. */

/* The sample of rank ceil(count * per_mille / 1000) in ascending order, the first being 1 (the nearest rank): the
 * middle of its bucket, and never beyond least and most. 0 of nothing. */
double histogram_percentile(const struct histogram *histogram, unsigned per_mille);
/* How many samples it takes for the percentile's 95 % interval by order statistics to have an upper end: with so many,
 * one lies above what it estimates with a probability of 97.5 %. Of fewer it says next to nothing. */
uint64_t histogram_needed(unsigned per_mille);

#endif
