/* Ceilings of arithmetic: chains of fused multiply-add, long enough that launching them does not count. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/roof.h"

enum { CHAINS = 8 }; /* of one vector of the kernel */

/* Near -1, so that values keep changing; in 16 bits smaller, so that roundings don't add up. */
static double factor_of(const struct work *w) { return w->ceiling.dtype == WHERRY_DTYPE_F16 ? -0.75 : -0.9999; }

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void arithmetic_turns(struct work *w, uint32_t turns)
{
    double items = (double)w->groups * call_get(&w->call, CONST_LOCAL_SIZE, 1);
    w->words[ROOF_TURNS] = turns;
    w->ceiling.amount = 2.0 * items * w->items * CHAINS * ROOF_UNROLLED * turns;
}

struct work *arithmetic_work(struct bench *b, const char *id, bool f16, uint32_t items, uint32_t local, struct error *e)
{
    struct work *w = work_add(b, id, WORK_ARITHMETIC, e);
    if (!w) return NULL;
    w->items = items;
    w->groups = b->limits->cpu ? 256 : 16384;
    w->call = (struct call){.kernel = "roof_arithmetic", .launch = LAUNCH_ELEMENTS};
    call_set(&w->call, CONST_LOCAL_SIZE, local);
    call_set(&w->call, CONST_THREAD_M, items);
    if (f16 && b->limits->nvidia_sm) call_set(&w->call, CONST_FORM, ROOF_PTX);
    w->ceiling.unit = WHERRY_UNIT_FLOPS;
    w->ceiling.dtype = f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
    w->ceiling.footprint_bytes = (uint64_t)w->groups * local * sizeof(float);
    snprintf(w->ceiling.config, sizeof w->ceiling.config, "%u chains a work-item, %u in a work-group",
             (unsigned)items * CHAINS, (unsigned)local);
    w->words[ROOF_GROUPS] = w->groups;
    w->words[ROOF_FACTOR] = float_bits((float)factor_of(w));
    w->words[ROOF_ADDEND] = float_bits(1.0f);
    arithmetic_turns(w, 1);
    return w;
}

bool work_calibrate(struct bench *b, struct work *w, double seconds, struct error *e)
{
    enum { TRIES = 4, MOST = 1 << 20 };
    for (int i = 0; i < TRIES; i++) {
        double once = 0;
        TRY(work_sample(b, w, &once, e));
        double turns = w->words[ROOF_TURNS] * fmin(seconds / once, 64);
        arithmetic_turns(w, turns < 1 ? 1 : turns > MOST ? MOST : (uint32_t)turns);
        TRY(work_write_words(b, w, e));
        if (once > seconds / 2) return true;
    }
    return true;
}

/* After n steps a chain that began at s is f^n s + (1 - f^n) / (1 - f); y has the sum of a work-item's. */
bool arithmetic_verify(struct bench *b, struct work *w, struct error *e)
{
    bool f16 = w->ceiling.dtype == WHERRY_DTYPE_F16;
    uint32_t local = call_get(&w->call, CONST_LOCAL_SIZE, 1);
    double host, seconds[WORK_STEPS], f = factor_of(w), chains = (double)w->items * CHAINS;
    double rest = pow(fabs(f), (double)ROOF_UNROLLED * w->words[ROOF_TURNS]); /* an even number of steps */
    float last[2];
    TRY(work_run(b, w, 1, b->host_clock ? NULL : seconds, &host, e));
    if (!(w->first > 0)) w->first = b->host_clock ? host : seconds[0];
    uint64_t at = ((uint64_t)w->groups * local - 2) * sizeof(float);
    TRY(b->backend->buffer_read(b->handle, b->results, at, last, sizeof last, e));
    for (uint32_t i = 0; i < 2; i++) {
        double start = chains * (local - 2 + i) / 1024.0;
        start += CHAINS * 0.125 * w->items * (w->items - 1) / 2.0 + 0.28 * w->items;
        double expected = rest * start + (1 - rest) * chains / (1 - f);
        if (fabs(last[i] - expected) <= (f16 ? 0.05 : 0.01) * fabs(expected)) continue;
        return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                    "%s: %s (%s) gives %g in the place of %g: report it to the driver's vendor", b->device->info.id,
                    w->ceiling.id, w->ceiling.config, last[i], expected);
    }
    return true;
}

bool compute_add(struct bench *b, struct error *e)
{
    static const uint32_t gpu[][2] = {{2, 256}, {4, 256}, {2, 128}}, cpu[][2] = {{8, 64}, {2, 64}};
    size_t n = b->limits->cpu ? sizeof cpu / sizeof *cpu : sizeof gpu / sizeof *gpu;
    const uint32_t(*configs)[2] = b->limits->cpu ? cpu : gpu;
    for (size_t i = 0; i < n; i++) {
        if (configs[i][1] > b->limits->max_local_size) continue;
        if (bench_wants(b, "compute.f32"))
            TRY(arithmetic_work(b, "compute.f32", false, configs[i][0], configs[i][1], e));
        if (bench_wants(b, "compute.f16") && b->limits->f16_arithmetic)
            TRY(arithmetic_work(b, "compute.f16", true, configs[i][0], configs[i][1], e));
    }
    return true;
}
