/* Latencies under load in a record: their histograms read and written, and what follows from them. */
#ifndef WHERRY_TOOLS_REPORT_LOADS_H
#define WHERRY_TOOLS_REPORT_LOADS_H

#include "report/model.h"

/* Whether a histogram is one of this version's buckets, ascending and none of them empty. */
bool histogram_fits(const json_t *json, const char *where, char why[256]);
/* Of one that fits; memory to free. */
struct histogram *histogram_read(const json_t *json);
json_t *histogram_json(const struct histogram *histogram);

/* Percentiles, mean and rate of the histogram. */
void load_derive(struct record_load *load);
/* Where raw fields contradict each other, how; NULL: they don't. */
const char *load_contradiction(const struct record_load *load);

/* Whether a record is of latencies: it has loads or pauses, and no operations. */
bool is_latency(const struct record *record);

#endif
