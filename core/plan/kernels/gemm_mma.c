/* Products with a weight by mma.sync, any number of rows: cl/gemm_mma.cl. */
#include "base/round.h"
#include "plan/kernels/mma.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* A warp's 64 x 64 sums are as many as its registers hold. Two work-groups of four warps hide each other's beginnings
 * and ends; one of eight reads less: 128 x 128 wants 6.3 TB/s of an H200's L2 cache for 400 TFLOP/s, 128 x 256 a
 * quarter less. There 8192^3 ran at 446, 431, 405 and 376 TFLOP/s with the first four, 4096 x 3072 x 1024 at 397, 385,
 * 374 and 367. The last one is for outputs that give the others no work; its speed is an estimate. */
static const struct mma_tile tiles[] = {
    {128, 256, 64, 64, 64, 3, 1.0, 1, true},   /* 144 KB */
    {128, 256, 32, 64, 64, 4, 0.97, 1, false}, /* 96 KB */
    {128, 128, 64, 64, 64, 3, 0.91, 2, true},  /* 96 KB for each of two */
    {128, 128, 32, 64, 64, 4, 0.84, 2, false}, /* 64 KB */
    {64, 64, 64, 32, 32, 3, 0.6, 2, false},    /* 48 KB */
};
enum { TILES = sizeof tiles / sizeof *tiles, MOST_PARTS = 8, LEAST_PART_ROWS = 256 };

static bool tile_fits(const struct call *call, const struct sizes *s, int tile)
{
    (void)call;
    return mma_tile_fits(&tiles[tile], s);
}

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    if (call_get(call, CONST_RUNTIME, RUNTIME_FORM) != RUNTIME_FORM)
        return variant_refuse(reason, "it takes no operands in channel-major order");
    if (!call_get(call, CONST_ALIGNED, 0)) return variant_refuse(reason, "its rows start on 16 bytes");
    return call_pairs_fit(call, 8, reason);
}

/* Work-groups run in rounds, and the last one is seldom full. */
static double tile_speed(const struct call *call, const struct sizes *s, const struct mma_tile *t, uint64_t parts)
{
    struct extents all = call_extents(call, s);
    uint64_t groups = divide_up(all.m, t->m) * divide_up(all.n, t->n) * parts;
    uint64_t at_once = (uint64_t)t->groups * device_units(s->limits);
    return t->speed * (double)groups / (double)(divide_up(groups, at_once) * at_once);
}

static double tile_slowness(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    return -tile_speed(call, s, &tiles[tile], parts);
}

static void size(struct call *call, const struct sizes *s)
{
    static const struct tile_search search = {TILES, 1, 0, tile_fits, tile_slowness};
    uint64_t parts;
    mma_tile_set(call, &tiles[tile_search(&search, call, s, &parts)]);
    call_sums_tiles(call);
}

/* Seconds of a product in `parts` on a large GPU, 400 TFLOP/s when all of it is busy. */
static double divided_seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    struct extents all = call_extents(call, s);
    double product = 2.0 * (double)(all.m * all.n * all.k) / (400e12 * tile_speed(call, s, &tiles[tile], parts));
    return product + parts_seconds(all.m, all.n, parts);
}

static void divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s)
{
    static const struct tile_search search = {TILES, MOST_PARTS, LEAST_PART_ROWS, tile_fits, divided_seconds};
    uint64_t parts;
    const struct mma_tile *best = &tiles[tile_search(&search, &calls[0], s, &parts)];
    if (parts == 1) return;
    mma_tile_set(&calls[0], best);
    calls_split(calls, count, s->limits, rows_in_parts(s->max_rows, parts, best->k));
}

static void describe(const struct call *call, struct text_writer *text)
{
    mma_describe(call, text);
    describe_rows(call, text);
}

/* ---- its traffic ---- */

/* Bands of 2048 rows; eight lanes of a warp have the same columns. */
static void count_traffic(struct count *c)
{
    uint64_t tile_m = get(c, CONST_TILE_M, 128);
    count_product(c, 2048 / tile_m, tile_m / get(c, CONST_WARP_M, 64) * 8);
}

const struct variant variant_gemm_mma = {
    .kernel = "gemm",
    .name = "gemm_mma",
    .rung = RUNG_MMA,
    .takes = {CONST_N,           CONST_K,
              CONST_ROWS,        CONST_BIAS,
              CONST_ACTIVATION,  CONST_RESIDUAL,
              CONST_SUM,         CONST_X_STRIDE,
              CONST_X_OFFSET,    CONST_W_STRIDE,
              CONST_W_OFFSET,    CONST_Y_STRIDE,
              CONST_Y_OFFSET,    CONST_FORM,
              CONST_DROPOUT,     CONST_DERIVATIVE,
              CONST_KEPT,        CONST_M,
              CONST_COLUMN_SUMS, CONST_GATE,
              CONST_ROTARY,      CONST_QKV_INTERLEAVED,
              CONST_KEY_HEADS,   CONST_HEAD_DIM},
    .why = "tensor cores by mma.sync",
    .fits = fits,
    .size = size,
    .divide = divide,
    .shared_bytes = mma_shared_bytes,
    .count = count_traffic,
    .describe = describe,
};
