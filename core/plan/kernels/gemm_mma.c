/* Products with a weight by mma.sync, any number of rows: cl/gemm_mma.cl. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

struct tile {
    uint32_t m, n, k, warp_m, warp_n, stages;
    double speed;    /* when every multiprocessor is busy, relative to the first */
    uint32_t groups; /* work-groups that run at the same time on a multiprocessor */
    bool roomy;      /* wants more shared memory than every such chip has */
};

/* A warp's 64 x 64 sums are as many as its registers hold. Two work-groups of four warps hide each other's beginnings
 * and ends; one of eight reads less: 128 x 128 wants 6.3 TB/s of an H200's L2 cache for 400 TFLOP/s, 128 x 256 a
 * quarter less. There 8192^3 ran at 446, 431, 405 and 376 TFLOP/s with the first four, 4096 x 3072 x 1024 at 397, 385,
 * 374 and 367. The last one is for outputs that give the others no work; its speed is an estimate. 96 KB are what every
 * chip from sm_80 on gives one work-group (sm_86: 99), A100 and Hopper give 163 and more. */
static const struct tile tiles[] = {
    {128, 256, 64, 64, 64, 3, 1.0, 1, true},   /* 144 KB */
    {128, 256, 32, 64, 64, 4, 0.97, 1, false}, /* 96 KB */
    {128, 128, 64, 64, 64, 3, 0.91, 2, true},  /* 96 KB for each of two */
    {128, 128, 32, 64, 64, 4, 0.84, 2, false}, /* 64 KB */
    {64, 64, 64, 32, 32, 3, 0.6, 2, false},    /* 48 KB */
};
enum { TILES = sizeof tiles / sizeof *tiles, MOST_PARTS = 8 };

static bool tile_fits(const struct tile *t, const struct device_limits *limits)
{
    return !t->roomy || limits->nvidia_sm == 80 || limits->nvidia_sm == 90;
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    if (call_get(call, CONST_RUNTIME, RUNTIME_FORM) != RUNTIME_FORM)
        return variant_refuse(reason, "it takes no operands in channel-major order");
    if (!call_get(call, CONST_ALIGNED, 0)) return variant_refuse(reason, "its rows start on 16 bytes");
    return true;
}

/* Work-groups run in rounds, and the last one is seldom full. */
static double tile_speed(const struct tile *t, const struct device_limits *limits, uint64_t groups)
{
    uint64_t at_once = (uint64_t)t->groups * device_units(limits);
    return t->speed * (double)groups / (double)(divide_up(groups, at_once) * at_once);
}

static void set_tile(struct call *call, const struct tile *t)
{
    call_set(call, CONST_LOCAL_SIZE, t->m / t->warp_m * (t->n / t->warp_n) * 32);
    call_set(call, CONST_TILE_M, t->m);
    call_set(call, CONST_TILE_N, t->n);
    call_set(call, CONST_TILE_K, t->k);
    call_set(call, CONST_WARP_M, t->warp_m);
    call_set(call, CONST_WARP_N, t->warp_n);
    call_set(call, CONST_STAGES, t->stages);
}

static void size(struct call *call, const struct sizes *s)
{
    uint64_t m = call_get(call, CONST_M, 0), n = call_get(call, CONST_N, 1), rows = m ? m : s->max_rows;
    const struct tile *best = &tiles[TILES - 1];
    double best_speed = 0;
    for (int i = 0; i < TILES; i++) {
        if (!tile_fits(&tiles[i], s->limits)) continue;
        double speed = tile_speed(&tiles[i], s->limits, divide_up(rows, tiles[i].m) * divide_up(n, tiles[i].n));
        if (speed <= best_speed) continue;
        best = &tiles[i];
        best_speed = speed;
    }
    set_tile(call, best);
    if (call_get(call, CONST_COLUMN_SUMS, 0)) call_set(call, CONST_PART_ROWS, best->m);
}

/* Seconds of a product in `parts` on a large GPU, 400 TFLOP/s when all of it is busy. */
static double divided_seconds(const struct tile *t, const struct device_limits *limits, uint64_t m, uint64_t n,
                              uint64_t rows, uint64_t parts)
{
    double speed = tile_speed(t, limits, divide_up(m, t->m) * divide_up(n, t->n) * parts);
    double product = 2.0 * (double)(m * n * rows) / (400e12 * speed);
    return product + parts_seconds(m, n, parts);
}

static void divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s)
{
    uint64_t m = call_get(&calls[0], CONST_M, 0), n = call_get(&calls[0], CONST_N, 1), parts = 1;
    const struct tile *best = NULL;
    double least = 0;
    for (int i = 0; i < TILES; i++)
        for (uint64_t p = 1; p <= MOST_PARTS && (p == 1 || p * 256 <= s->max_rows); p++) {
            double seconds = divided_seconds(&tiles[i], s->limits, m, n, s->max_rows, p);
            if (!tile_fits(&tiles[i], s->limits) || (best && seconds >= least)) continue;
            best = &tiles[i];
            parts = p;
            least = seconds;
        }
    if (parts == 1) return;
    set_tile(&calls[0], best);
    calls_split(calls, count, s->limits, (uint32_t)(divide_up(divide_up(s->max_rows, parts), best->k) * best->k));
}

static size_t shared_bytes(const struct call *call)
{
    return (size_t)(call_get(call, CONST_TILE_M, 0) + call_get(call, CONST_TILE_N, 0)) *
           call_get(call, CONST_TILE_K, 0) * 2 * call_get(call, CONST_STAGES, 1);
}

/* ---- its traffic ---- */

/* Bands of 2048 rows; eight lanes of a warp have the same columns. */
static void count_traffic(struct count *c)
{
    uint64_t tile_m = get(c, CONST_TILE_M, 128);
    count_product(c, 2048 / tile_m, tile_m / get(c, CONST_WARP_M, 64) * 8);
}

const struct variant variant_gemm_mma = {.kernel = "gemm",
                                         .name = "gemm_mma",
                                         .rung = RUNG_MMA,
                                         .why = "tensor cores by mma.sync",
                                         .fits = fits,
                                         .size = size,
                                         .divide = divide,
                                         .shared_bytes = shared_bytes,
                                         .count = count_traffic};
