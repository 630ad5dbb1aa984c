/* Ceilings of arithmetic: chains of fused multiply-add, long enough that launching them does not count. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/number.h"
#include "measure/roof.h"

enum { CHAINS = 8 }; /* of one vector of the kernel */

/* Of the matrix kernel: a sub-group has TILES_A by `items` products of ROWS x DEPTH by DEPTH x COLUMNS. */
enum { TILES_A = 2, ROWS = 16, COLUMNS = 8, DEPTH = 16, SUBGROUP = 32, MATRIX_SM = 80 };

/* Near -1, so that values keep changing; in 16 bits smaller, so that roundings don't add up. */
static double factor_of(const struct work *w) { return w->ceiling.dtype == WHERRY_DTYPE_F16 ? -0.75 : -0.9999; }

void arithmetic_turns(struct work *w, uint32_t turns)
{
    double items = (double)w->groups * call_get(&w->call, CONST_LOCAL_SIZE, 1);
    double operations = items * w->items * CHAINS;
    if (w->kind == WORK_MATRIX) operations = items / SUBGROUP * TILES_A * w->items * ROWS * COLUMNS * DEPTH;
    w->words[ROOF_TURNS] = turns;
    w->one = 0;
    w->ceiling.amount = 2.0 * operations * ROOF_UNROLLED * turns;
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
    snprintf(w->ceiling.config, sizeof w->ceiling.config, "%u chains, %u/group", (unsigned)items * CHAINS,
             (unsigned)local);
    w->words[ROOF_GROUPS] = w->groups;
    w->words[ROOF_FACTOR] = float_bits((float)factor_of(w));
    w->words[ROOF_ADDEND] = float_bits(1.0f);
    arithmetic_turns(w, 1);
    return w;
}

static struct work *matrix_work(struct bench *b, const char *id, uint32_t items, uint32_t local, struct error *e)
{
    struct work *w = arithmetic_work(b, id, true, items, local, e);
    if (!w) return NULL;
    w->kind = WORK_MATRIX;
    /* Fewer on the host's cores: what a group multiplies is made first. */
    if (b->limits->cpu) w->groups = w->words[ROOF_GROUPS] = 64;
    w->ceiling.footprint_bytes = (uint64_t)w->groups * local * sizeof(float);
    w->call = (struct call){.kernel = "roof_matrix", .launch = LAUNCH_ELEMENTS};
    call_set(&w->call, CONST_LOCAL_SIZE, local);
    call_set(&w->call, CONST_THREAD_M, items);
    snprintf(w->ceiling.config, sizeof w->ceiling.config, "%u products, %u/group", (unsigned)(TILES_A * items),
             (unsigned)local);
    arithmetic_turns(w, 1);
    return w;
}

/* Of the host's clock one run is asked: what five take more than one says nothing before they take long. */
static bool calibrate_sample(struct bench *b, struct work *w, double *once, struct error *e)
{
    if (!b->host_clock) return work_sample(b, w, once, e);
    return work_run(b, w, 1, NULL, once, e);
}

bool work_calibrate(struct bench *b, struct work *w, double seconds, struct error *e)
{
    enum { TRIES = 12, MOST = 1 << 20 };
    for (int i = 0; i < TRIES; i++) {
        double once = 0;
        TRY(calibrate_sample(b, w, &once, e));
        double turns = w->words[ROOF_TURNS] * fmin(seconds / once, 64);
        arithmetic_turns(w, turns < 1 ? 1 : turns > MOST ? MOST : (uint32_t)turns);
        TRY(work_write_words(b, w, e));
        if (once > seconds / 2) return true;
    }
    return true;
}

static double a_value(uint32_t row, uint32_t k) { return (row * 5 + k * 3) % 16 * 0.125 - 1; }
static double b_value(uint32_t k, uint32_t column) { return (k * 7 + column * 11) % 16 * 0.125 - 1; }

static double product(uint32_t row, uint32_t column)
{
    double sum = 0;
    for (uint32_t k = 0; k < DEPTH; k++) sum += a_value(row, k) * b_value(k, column);
    return sum;
}

/* What work-item `item` writes: of each of its sub-group's products four elements, in two rows and two columns. */
static double expected_matrix(const struct work *w, uint32_t item)
{
    double sum = 0;
    uint32_t lane = item % SUBGROUP, row = lane / 4, column = lane % 4 * 2;
    for (uint32_t i = 0; i < TILES_A; i++)
        for (uint32_t j = 0; j < w->items; j++)
            for (uint32_t q = 0; q < 4; q++)
                sum += (q + 1) * product(i * ROWS + row + q / 2 * 8, j * COLUMNS + column + q % 2);
    return sum * ROOF_UNROLLED * w->words[ROOF_TURNS];
}

/* After n steps a chain that began at s is f^n s + (1 - f^n) / (1 - f); y has the sum of a work-item's. */
static double expected_chains(const struct work *w, uint32_t item)
{
    double f = factor_of(w), chains = (double)w->items * CHAINS, start = chains * item / 1024.0;
    double rest = pow(fabs(f), (double)ROOF_UNROLLED * w->words[ROOF_TURNS]); /* an even number of steps */
    start += CHAINS * 0.125 * w->items * (w->items - 1) / 2.0 + 0.28 * w->items;
    return rest * start + (1 - rest) * chains / (1 - f);
}

bool arithmetic_verify(struct bench *b, struct work *w, struct error *e)
{
    bool f16 = w->ceiling.dtype == WHERRY_DTYPE_F16;
    uint32_t local = call_get(&w->call, CONST_LOCAL_SIZE, 1);
    double host, seconds[WORK_STEPS];
    float last[2];
    TRY(work_run(b, w, 1, b->host_clock ? NULL : seconds, &host, e));
    if (!(w->first > 0)) w->first = b->host_clock ? host : seconds[0];
    uint64_t at = ((uint64_t)w->groups * local - 2) * sizeof(float);
    TRY(b->backend->buffer_read(b->handle, b->results, at, last, sizeof last, e));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t item = local - 2 + i;
        double expected = w->kind == WORK_MATRIX ? expected_matrix(w, item) : expected_chains(w, item);
        double margin = w->kind == WORK_MATRIX ? 1e-3 : f16 ? 0.05 : 0.01;
        if (fabs(last[i] - expected) <= margin * fabs(expected)) continue;
        return fail(e, WHERRY_STATUS_VERIFY_FAILED,
                    "%s: %s (%s) gives %s in the place of %s: report it to the driver's vendor", b->device->info.id,
                    w->ceiling.id, w->ceiling.config, NUMBER("%g", last[i]), NUMBER("%g", expected));
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
    if (b->limits->bf16 && bench_wants(b, "compute.matrix")) {
        struct work *w = matrix_work(b, "compute.matrix", 6, 64, e);
        if (w) w->ceiling.dtype = WHERRY_DTYPE_BF16;
        return w != NULL;
    }
    if (b->limits->nvidia_sm < MATRIX_SM || !bench_wants(b, "compute.matrix")) return true;
    return matrix_work(b, "compute.matrix", 4, 256, e) && matrix_work(b, "compute.matrix", 8, 256, e) &&
           matrix_work(b, "compute.matrix", 4, 128, e);
}
