/* Durations counted in buckets whose width grows with the value. */
#include "report/histogram.h"

#include <math.h>

/* Powers of two below the value, 0 for those that have buckets of their own. */
static unsigned octave_of(uint64_t value)
{
    unsigned octave = 0;
    while (value >> octave >= 2 * HISTOGRAM_PARTS) octave++;
    return value < HISTOGRAM_PARTS ? 0 : octave + 1;
}

size_t histogram_bucket(uint64_t value)
{
    unsigned octave = octave_of(value);
    if (!octave) return (size_t)value;
    return (size_t)octave * HISTOGRAM_PARTS + (size_t)(value >> (octave - 1)) - HISTOGRAM_PARTS;
}

uint64_t histogram_low(size_t bucket)
{
    size_t octave = bucket / HISTOGRAM_PARTS, part = bucket % HISTOGRAM_PARTS;
    return octave ? (uint64_t)(HISTOGRAM_PARTS + part) << (octave - 1) : part;
}

uint64_t histogram_high(size_t bucket)
{
    size_t octave = bucket / HISTOGRAM_PARTS;
    return histogram_low(bucket) + (octave ? ((uint64_t)1 << (octave - 1)) - 1 : 0);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    if (!histogram->count || value < histogram->least) histogram->least = value;
    if (value > histogram->most) histogram->most = value;
    histogram->count++;
    histogram->sum += (double)value;
    histogram->counts[histogram_bucket(value)]++;
}

void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
    if (!other->count) return;
    if (!histogram->count || other->least < histogram->least) histogram->least = other->least;
    if (other->most > histogram->most) histogram->most = other->most;
    histogram->count += other->count;
    histogram->sum += other->sum;
    for (size_t n = 0; n < HISTOGRAM_BUCKETS; n++) histogram->counts[n] += other->counts[n];
}

/* Without overflow for any count. */
static uint64_t rank_of(uint64_t count, unsigned per_mille)
{
    uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
    return rank ? rank : 1;
}

double histogram_percentile(const struct histogram *histogram, unsigned per_mille)
{
    uint64_t rank = rank_of(histogram->count, per_mille), before = 0;
    size_t bucket = 0;
    if (!histogram->count) return 0;
    while (bucket < HISTOGRAM_BUCKETS - 1 && before + histogram->counts[bucket] < rank)
        before += histogram->counts[bucket++];
    double low = (double)histogram_low(bucket), middle = low + ((double)histogram_high(bucket) - low) / 2;
    return fmin(fmax(middle, (double)histogram->least), (double)histogram->most);
}

uint64_t histogram_needed(unsigned per_mille) { return (uint64_t)ceil(log(0.025) / log(per_mille / 1000.0)); }
