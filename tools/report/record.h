/* The parts of a record (docs/report.schema.json): what was measured, as JSON that every output is made from. SI units;
 * null is what was not measured. */
#ifndef WHERRY_TOOLS_REPORT_RECORD_H
#define WHERRY_TOOLS_REPORT_RECORD_H

#include <jansson.h>
#include <wherry/wherry_measure.h>

#include "options.h"

#define RECORD_SCHEMA "rl-1"

/* A number, null where it is not finite. */
json_t *record_number(double value);
/* null where n is 0. `time` may be NULL. */
json_t *record_time(const wherry_time *time);
/* Of a float type, null where there is none. */
json_t *record_dtype(wherry_dtype dtype);
/* null where the timer was not tested. */
json_t *record_timer(const wherry_timer_info *timer);

/* What describes the device beside its name; zero: unknown. */
struct record_device {
    int dev; /* what other parts of the record call it */
    const wherry_device_info *info;
    const wherry_device_limits *limits; /* NULL: unknown */
    const wherry_timer_info *timer;     /* NULL: not tested */
    uint64_t cache_bytes;               /* by the sweep */
    double peak_bandwidth, peak_flops;  /* theoretical */
    const char *peak_source;            /* "user" or "driver", NULL without a peak */
};
json_t *record_device(const struct record_device *device);

/* Who measured where. `data_kind`: "uniform" or "zeros"; `roof` may be NULL: no sentinel. */
json_t *record_run(const struct options *options, const char *data_kind, const wherry_roof *roof);

/* Arrays; empty where `roof` is NULL. */
json_t *record_ceilings(const wherry_roof *roof, int dev, const char *data_kind);
json_t *record_sweep(const wherry_roof *roof, int dev);
json_t *record_launch(const wherry_roof *roof, int dev);

/* A whole record without plans and operators. Takes the parts over; `device` becomes the only entry of "devices". */
json_t *record_begin(json_t *run, json_t *device, json_t *workload);
/* Fills in ceilings, sweep and launches of a record. */
void record_add_roof(json_t *record, const wherry_roof *roof, int dev, const char *data_kind);

#endif
