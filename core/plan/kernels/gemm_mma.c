/* Products with a weight by mma.sync, any number of rows: cl/gemm_mma.cl. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/mma_tiles.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum { MOST_PARTS = 8, LEAST_PART_ROWS = 256 };

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
    return -tile_speed(call, s, &mma_tiles[tile], parts);
}

static void size(struct call *call, const struct sizes *s)
{
    static const struct tile_search search = {MMA_TILES_DENSE, 1, 0, mma_tile_fits, tile_slowness};
    uint64_t parts;
    mma_tile_set(call, &mma_tiles[tile_search(&search, call, s, &parts)]);
    call_sums_tiles(call);
}

/* Seconds of a product in `parts` on a large GPU, 400 TFLOP/s when all of it is busy. */
static double divided_seconds(const struct call *call, const struct sizes *s, int tile, uint64_t parts)
{
    struct extents all = call_extents(call, s);
    double product = 2.0 * (double)(all.m * all.n * all.k) / (400e12 * tile_speed(call, s, &mma_tiles[tile], parts));
    return product + parts_seconds(all.m, all.n, parts);
}

static void divide(struct call calls[GROUP_MAX_CALLS], int *count, const struct sizes *s)
{
    static const struct tile_search search = {MMA_TILES_DENSE, MOST_PARTS, LEAST_PART_ROWS, mma_tile_fits,
                                              divided_seconds};
    uint64_t parts;
    const struct mma_tile *best = &mma_tiles[tile_search(&search, &calls[0], s, &parts)];
    if (parts == 1) return;
    mma_tile_set(&calls[0], best);
    calls_split(calls, count, s, rows_in_parts(s->max_rows, parts, best->k));
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
