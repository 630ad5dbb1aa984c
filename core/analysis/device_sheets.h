/* What vendors' data sheets say of their GPUs. */
#ifndef WHERRY_CORE_ANALYSIS_DEVICE_SHEETS_H
#define WHERRY_CORE_ANALYSIS_DEVICE_SHEETS_H

#include <wherry/wherry_measure.h>

/* A GPU's peaks, and beside them the facts that they can be computed from: a slip in one of the two shows
 * (tests/test_device_sheets.c). SI units. */
struct device_sheet {
    const char *vendor;
    wherry_device_spec spec; /* matrix_flops: of the matrix units, where there are some, else f16_flops */
    struct {
        uint32_t lanes; /* fused multiply-adds in f32 a clock, of the whole device */
        double clock;   /* the highest that the rates are given for */
    } arithmetic;
    struct {
        uint32_t bits;
        double pin_rate; /* bits per second of each of them */
    } memory;
    double unit_flops; /* matrix units: f16 operands, dense, f32 sums where both are given; 0: it has none */
};

/* index from 0, NULL after the last; vendors together. */
const struct device_sheet *device_sheet_at(size_t index);

#endif
