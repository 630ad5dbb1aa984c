/* Derives from a time, bytes and flop what docs/measuring.md defines: shares of the roofs, and what limits. */
#include <math.h>

#include "wherry/wherry_measure.h"

/* Limits this near to each other can't be told apart; measured ceilings are this far from what is true. */
static const double TIE = 0.9, TOLERANCE = 1.02;

/* What divides or is divided, NAN where it is unknown. */
static double known(double value) { return value > 0 && isfinite(value) ? value : NAN; }

/* Seconds that an amount takes at a rate. Nothing takes no time, even at a rate that nobody knows. */
static double seconds_of(double amount, double rate) { return amount == 0 ? 0 : amount / known(rate); }

/* As fmax, but NAN where either is unknown. */
static double larger(double a, double b)
{
    if (isnan(a) || isnan(b)) return NAN;
    return a > b ? a : b;
}

static bool in_cache(const wherry_peaks *peaks, const wherry_traffic *traffic, bool cold)
{
    return !cold && traffic->footprint && traffic->footprint <= peaks->cache_bytes;
}

static wherry_regime regime_of(const wherry_peaks *peaks, const wherry_traffic *traffic, double memory, double compute,
                               double seconds, bool cold)
{
    double launch = known(peaks->launch), largest = larger(larger(memory, compute), launch);
    if (isnan(seconds) || isnan(largest)) return WHERRY_REGIME_UNKNOWN;
    int ties = (memory > TIE * largest) + (compute > TIE * largest) + (launch > TIE * largest);
    if (ties > 1) return WHERRY_REGIME_UNKNOWN;
    if (seconds < 2 * launch) return WHERRY_REGIME_LAUNCH;
    if (compute >= largest) return WHERRY_REGIME_COMPUTE;
    if (!cold && (!peaks->cache_bytes || !traffic->footprint)) return WHERRY_REGIME_UNKNOWN;
    return in_cache(peaks, traffic, cold) ? WHERRY_REGIME_CACHE : WHERRY_REGIME_MEMORY;
}

void wherry_derive(const wherry_peaks *peaks, const wherry_traffic *traffic, double flops, double seconds, bool cold,
                   bool timer_ok, wherry_derived *out)
{
    double t = known(seconds), f = flops >= 0 && isfinite(flops) ? flops : NAN;
    double q = known((double)traffic->unique_read + (double)traffic->unique_written);
    double d = known((double)traffic->model_read + (double)traffic->model_written);
    double requested = known((double)traffic->requested_read + (double)traffic->requested_written);
    double memory = seconds_of(q, peaks->bandwidth), compute = seconds_of(f, peaks->flops);

    out->bandwidth = d / t;
    out->bandwidth_unique = q / t;
    out->bandwidth_requested = requested / t;
    out->flops_per_second = f / t;
    out->intensity = f / q;
    out->intensity_model = f / d;
    /* F / t over min(P, F / D * B) is the longer of F / P and D / B over t, and that is there without flop, too. */
    out->roof_memory = larger(compute, seconds_of(d, peaks->bandwidth)) / t;
    out->roof_cache = larger(compute, seconds_of(requested, peaks->cache_bandwidth)) / t;
    out->copy_share = seconds_of(d, peaks->copy) / t;
    out->mue = memory / t;
    out->mue_theoretical = seconds_of(q, peaks->theoretical_bandwidth) / t;
    out->q_over_d = q / d;
    out->b_over_peak = seconds_of(d, peaks->bandwidth) / t;
    out->limit_seconds = larger(larger(memory, compute), known(peaks->launch));
    out->headroom = t / out->limit_seconds;
    out->regime = timer_ok ? regime_of(peaks, traffic, memory, compute, t, cold) : WHERRY_REGIME_UNKNOWN;
    /* Comparisons with NAN are false: what is unknown is not above anything. */
    out->over_peak = (!in_cache(peaks, traffic, cold) && out->b_over_peak > TOLERANCE) ||
                     seconds_of(requested, peaks->cache_bandwidth) / t > TOLERANCE || compute / t > TOLERANCE;
}

const char *wherry_regime_name(wherry_regime regime)
{
    static const char *const names[] = {[WHERRY_REGIME_UNKNOWN] = "unknown",
                                        [WHERRY_REGIME_LAUNCH] = "launch",
                                        [WHERRY_REGIME_CACHE] = "cache",
                                        [WHERRY_REGIME_MEMORY] = "memory",
                                        [WHERRY_REGIME_COMPUTE] = "compute"};
    return (unsigned)regime < sizeof names / sizeof *names ? names[regime] : "unknown";
}
