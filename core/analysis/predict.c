/* Limit times from the graph's counts and a device's peaks. */
#include <math.h>
#include <string.h>

#include "analysis/device_sheets.h"
#include "wherry/wherry_measure.h"

const wherry_device_spec *wherry_device_spec_at(size_t index)
{
    const struct device_sheet *sheet = device_sheet_at(index);
    return sheet ? &sheet->spec : NULL;
}

static double matrix_rate(const wherry_device_spec *spec, wherry_dtype dtype)
{
    return dtype == WHERRY_DTYPE_F32 ? spec->f32_flops : spec->matrix_flops;
}

double wherry_device_spec_ridge(const wherry_device_spec *spec, wherry_class class_, wherry_dtype dtype)
{
    double rate = class_ == WHERRY_CLASS_CONTRACTION ? matrix_rate(spec, dtype) : spec->f32_flops;
    return rate > 0 && spec->bandwidth > 0 ? rate / spec->bandwidth : NAN;
}

/* What nothing is known about takes no time. */
static double quotient(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

void wherry_predict(const wherry_device_spec *spec, wherry_dtype dtype, const wherry_work *work, wherry_prediction *out)
{
    double flops = work->contraction_flops + work->other_flops, bytes = (double)work->bytes,
           most = fmax(matrix_rate(spec, dtype), spec->f32_flops);
    memset(out, 0, sizeof *out);
    out->intensity = bytes > 0 ? flops / bytes : NAN;
    out->memory_seconds = quotient(bytes, spec->bandwidth);
    out->compute_seconds = dtype == WHERRY_DTYPE_F32 ? quotient(flops, spec->f32_flops)
                                                     : fmax(quotient(work->contraction_flops, spec->matrix_flops),
                                                            quotient(work->other_flops, spec->f32_flops));
    bool fits = work->bytes <= spec->cache_bytes && spec->cache_bandwidth > 0;
    out->cache_seconds = fits ? bytes / spec->cache_bandwidth : NAN;
    out->limit_seconds = fmax(out->memory_seconds, out->compute_seconds);
    if (out->limit_seconds > 0)
        out->bound = out->compute_seconds >= out->memory_seconds ? WHERRY_REGIME_COMPUTE : WHERRY_REGIME_MEMORY;
    if (spec->launch_seconds > out->limit_seconds) {
        out->limit_seconds = spec->launch_seconds;
        out->bound = WHERRY_REGIME_LAUNCH;
    }
    out->flops_share = out->limit_seconds > 0 && most > 0 ? flops / out->limit_seconds / most : 0;
}

void wherry_operator_work(const wherry_cost *cost, wherry_work *out)
{
    bool contraction = cost->class_ == WHERRY_CLASS_CONTRACTION;
    *out = (wherry_work){.bytes = cost->bytes_read + cost->bytes_written,
                         .contraction_flops = contraction ? cost->flops : 0,
                         .other_flops = contraction ? 0 : cost->flops};
}

double wherry_predict_fusion(const wherry_device_spec *spec, wherry_dtype dtype, const wherry_fusion *fusion)
{
    const wherry_work *a = &fusion->work[0], *b = &fusion->work[1];
    wherry_work both = {.bytes = a->bytes + b->bytes - fusion->bytes_saved,
                        .contraction_flops = a->contraction_flops + b->contraction_flops,
                        .other_flops = a->other_flops + b->other_flops};
    wherry_prediction first, second, one;
    wherry_predict(spec, dtype, a, &first);
    wherry_predict(spec, dtype, b, &second);
    wherry_predict(spec, dtype, &both, &one);
    return first.limit_seconds + second.limit_seconds - one.limit_seconds;
}

double wherry_fusion_gain(double contraction_seconds, double other_seconds, double stays)
{
    double after = contraction_seconds + stays * other_seconds;
    if (!(contraction_seconds >= 0 && other_seconds >= 0 && stays >= 0 && stays <= 1) || after <= 0) return NAN;
    return (contraction_seconds + other_seconds) / after;
}
