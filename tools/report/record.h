/* The tree of a record (docs/report.schema.json) while it is measured: one device, which the rest of it calls 0. SI
 * units; null is what was not measured. */
#ifndef WHERRY_TOOLS_REPORT_RECORD_H
#define WHERRY_TOOLS_REPORT_RECORD_H

#include <jansson.h>
#include <wherry/wherry_measure.h>

#include "options.h"

/* null where the timer was not tested. */
json_t *record_timer(const wherry_timer_info *timer);

/* What describes the device beside its name; zero: unknown. */
struct measured_device {
    const wherry_device_info *info;
    const wherry_device_limits *limits; /* NULL: unknown */
    const wherry_timer_info *timer;     /* NULL: not tested */
    uint64_t cache_bytes;               /* by the sweep */
    double peak_bandwidth, peak_flops;  /* theoretical */
    const char *peak_source;            /* "user" or "driver", NULL without a peak */
};
json_t *record_device(const struct measured_device *device);

/* Who measured where. `data_kind`: "uniform" or "zeros". */
json_t *record_run(const struct options *options, const char *data_kind);

/* A whole record without a roof, plans and operations. Takes the parts over. */
json_t *record_begin(json_t *run, json_t *device, json_t *workload);
/* Sets its ceilings, sweep, launches and sentinel. A roof that is NULL, here and below, was not measured. */
void record_set_roof(json_t *record, const wherry_roof *roof, const char *data_kind);
/* Its ceilings anew, where they were measured again: of two measurements of the same configuration the better one
 * counts, for ceilings are what the device can do. */
void record_set_ceilings(json_t *record, const wherry_roof *roof, const wherry_roof *again, const char *data_kind);
/* The sentinel, from the beginning of the first to the end of the last. */
void record_set_sentinel(json_t *record, const wherry_roof *roof, const wherry_roof *again);

#endif
