/* Weights of words by mma.sync: cl/gemm_pool_mma.cl. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/mma_tiles.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* By the longest sequence: 64, 48 and 60 KB of shared memory. Sums of a work-item are 64, 32 and 32. */
static const struct mma_tile tiles[] = {
    {.m = 128, .n = 128, .k = 32, .warp_m = 64, .warp_n = 32, .stages = 4},
    {.m = 64, .n = 128, .k = 32, .warp_m = 32, .warp_n = 32, .stages = 4},
    {.m = 32, .n = 128, .k = 64, .warp_m = 32, .warp_n = 32, .stages = 3},
};

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t pool = call_get(call, CONST_POOL, POOL_NONE), k = call_get(call, CONST_K, 0);
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    if (!k || k % 8) return variant_refuse(reason, "its rows start on 16 bytes");
    if (pool != POOL_MAX && pool != POOL_SUM) return variant_refuse(reason, "it has the largest or the sum alone");
    return true;
}

static void size(struct call *call, const struct sizes *s)
{
    mma_tile_set(call, &tiles[s->longest > 64 ? 0 : s->longest > 32 ? 1 : 2]);
}

/* Eight lanes of each warp of rows load a column's bias. */
static void count_traffic(struct count *c) { count_words(c, get(c, CONST_TILE_M, 128) / get(c, CONST_WARP_M, 64) * 8); }

const struct variant variant_gemm_pool_mma = {
    .kernel = "gemm_pool",
    .name = "gemm_pool_mma",
    .rung = RUNG_MMA,
    .takes = {CONST_N, CONST_K, CONST_ROWS, CONST_BIAS, CONST_ACTIVATION, CONST_FORM, CONST_POOL},
    .why = "tensor cores by mma.sync",
    .fits = fits,
    .size = size,
    .shared_bytes = mma_shared_bytes,
    .count = count_traffic,
    .describe = mma_describe,
};
