/* Limit times from the graph's counts and a device's peaks, with the peaks of some devices. */
#include <math.h>
#include <string.h>

#include "wherry/wherry_measure.h"

/* Data sheets give f16 rates of sparse matrices beside those of dense ones, or instead of them: dense is meant here. No
 * data sheet gives a cache's bandwidth or the cost of a launch. */
static const wherry_device_spec specs[] = {
    {.name = "v100",
     .bandwidth = 900e9,     /* V100 data sheet, SXM2 */
     .matrix_flops = 125e12, /* V100 data sheet, SXM2, tensor cores */
     .f32_flops = 15.7e12,   /* V100 data sheet, SXM2 */
     .cache_bytes = 6291456, /* Volta whitepaper: 6144 KB */
     .source = "NVIDIA V100 data sheet (SXM2); cache: Volta whitepaper"},
    {.name = "a100",
     .bandwidth = 2039e9,     /* A100 data sheet, 80 GB SXM (that of 40 GB: 1555) */
     .matrix_flops = 312e12,  /* A100 data sheet, dense */
     .f32_flops = 19.5e12,    /* A100 data sheet, without TF32 */
     .cache_bytes = 41943040, /* Ampere whitepaper: 40 MB */
     .source = "NVIDIA A100 data sheet (80 GB SXM); cache: Ampere whitepaper"},
    {.name = "h100",
     .bandwidth = 3350e9,     /* H100 data sheet, SXM */
     .matrix_flops = 990e12,  /* H100 data sheet, SXM: 1979 with sparsity, half of it dense, 989.5 */
     .f32_flops = 67e12,      /* H100 data sheet, SXM */
     .cache_bytes = 52428800, /* Hopper whitepaper: 50 MB */
     .source = "NVIDIA H100 data sheet (SXM; f16 rounded to 990); cache: Hopper whitepaper"},
    {.name = "h200",
     .bandwidth = 4800e9,     /* H200 data sheet, SXM */
     .matrix_flops = 989e12,  /* H200 data sheet, SXM: 1979 with sparsity, half of it dense */
     .f32_flops = 67e12,      /* H200 data sheet, SXM */
     .cache_bytes = 62914560, /* as the driver reports it: 60 MB */
     .source = "NVIDIA H200 data sheet (SXM); cache: as its driver reports"},
};

const wherry_device_spec *wherry_device_spec_at(size_t index)
{
    return index < sizeof specs / sizeof *specs ? &specs[index] : NULL;
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
