/* Latencies under load in a record: their histograms read and written, and what follows from them. */
#include "report/loads.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/fields.h"
#include "session.h"

const unsigned load_per_mille[LOAD_PERCENTILES] = {500, 900, 990, 999};

/* ---- the tree ---- */

static bool bucket_fits(const json_t *pair, json_int_t least)
{
    const json_t *bucket = json_array_get(pair, 0), *count = json_array_get(pair, 1);
    return json_array_size(pair) == 2 && json_is_integer(bucket) && json_is_integer(count) &&
           json_integer_value(bucket) >= least && json_integer_value(bucket) < HISTOGRAM_BUCKETS &&
           json_integer_value(count) > 0;
}

bool histogram_fits(const json_t *json, const char *where, char why[256])
{
    const json_t *parts = json_object_get(json, "parts"), *pair;
    json_int_t least = 0;
    size_t n;
    if (json_integer_value(parts) != HISTOGRAM_PARTS)
        return snprintf(why, 256, "%s.parts is not %d, which is what this version reads", where, HISTOGRAM_PARTS),
               false;
    json_array_foreach(json_object_get(json, "buckets"), n, pair)
    {
        if (!bucket_fits(pair, least))
            return snprintf(why, 256,
                            "%s.buckets[%zu] is no bucket: its number, larger than the one before and below %d, and "
                            "how many are in it",
                            where, n, HISTOGRAM_BUCKETS),
                   false;
        least = json_integer_value(json_array_get(pair, 0)) + 1;
    }
    return true;
}

/* 0 of what is none: a contradiction to the buckets, which --check finds. */
static uint64_t whole(const json_t *json, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(json, key));
    return value > 0 ? (uint64_t)value : 0;
}

struct histogram *histogram_read(const json_t *json)
{
    struct histogram *histogram = need(calloc(1, sizeof *histogram));
    const json_t *pair;
    size_t n;
    json_array_foreach(json_object_get(json, "buckets"), n, pair)
    {
        uint64_t count = (uint64_t)json_integer_value(json_array_get(pair, 1));
        histogram->counts[json_integer_value(json_array_get(pair, 0))] = count;
        histogram->count += count;
    }
    histogram->least = whole(json, "min_ns");
    histogram->most = whole(json, "max_ns");
    histogram->sum = json_number_value(json_object_get(json, "sum_ns"));
    return histogram;
}

json_t *histogram_json(const struct histogram *histogram)
{
    json_t *buckets = need(json_array());
    for (size_t n = 0; n < HISTOGRAM_BUCKETS; n++)
        if (histogram->counts[n])
            json_array_append_new(buckets, need(json_pack("[I, I]", (json_int_t)n, (json_int_t)histogram->counts[n])));
    return need(json_pack("{s:i, s:I, s:I, s:f, s:o}", "parts", HISTOGRAM_PARTS, "min_ns", (json_int_t)histogram->least,
                          "max_ns", (json_int_t)histogram->most, "sum_ns", histogram->sum, "buckets", buckets));
}

/* ---- what follows ---- */

void load_derive(struct record_load *load)
{
    const struct histogram *h = load->histogram;
    load->requests = h->count;
    load->rate = load->seconds > 0 ? (double)h->count / load->seconds : (double)NAN;
    load->mean = h->count ? 1e-9 * h->sum / (double)h->count : 0;
    load->min = 1e-9 * (double)h->least;
    load->max = 1e-9 * (double)h->most;
    for (int n = 0; n < LOAD_PERCENTILES; n++) {
        bool enough = h->count >= histogram_needed(load_per_mille[n]);
        load->percentiles[n] = enough ? 1e-9 * histogram_percentile(h, load_per_mille[n]) : (double)NAN;
    }
}

const char *load_contradiction(const struct record_load *load)
{
    const struct histogram *h = load->histogram;
    double low = 0, high = 0;
    size_t first = HISTOGRAM_BUCKETS, last = 0;
    for (size_t n = 0; n < HISTOGRAM_BUCKETS; n++) {
        if (!h->counts[n]) continue;
        if (first == HISTOGRAM_BUCKETS) first = n;
        last = n;
        low += (double)h->counts[n] * (double)histogram_low(n);
        high += (double)h->counts[n] * (double)histogram_high(n);
    }
    if (!h->count) return "no request was counted";
    if (histogram_bucket(h->least) != first || histogram_bucket(h->most) != last || h->least > h->most)
        return "min and max are not in the first and the last bucket";
    if (!(h->sum >= low * (1 - 1e-9) && h->sum <= high * (1 + 1e-9))) return "the sum is not that of such buckets";
    if (!(load->seconds >= load->max * (1 - 1e-6))) return "it took less time than its longest request";
    if (load->waited_seconds > 1e-9 * h->sum * (1 + 1e-6)) return "requests waited longer than they took";
    return load->clients < 1 ? "it has no clients" : NULL;
}

bool is_latency(const struct record *record) { return !record->op_count && (record->load_count || record->idle_count); }
