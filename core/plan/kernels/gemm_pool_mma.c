/* Weights of words by mma.sync: cl/gemm_pool_mma.cl. */
#include "base/round.h"
#include "base/text.h"
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

struct tile {
    uint32_t m, n, k, warp_m, warp_n, stages;
};

/* By the longest sequence: 64, 48 and 60 KB of shared memory. Sums of a work-item are 64, 32 and 32. */
static const struct tile tiles[] = {{128, 128, 32, 64, 32, 4}, {64, 128, 32, 32, 32, 4}, {32, 128, 64, 32, 32, 3}};

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t pool = call_get(call, CONST_POOL, POOL_NONE), k = call_get(call, CONST_K, 0);
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    if (!k || k % 8) return variant_refuse(reason, "its rows start on 16 bytes");
    if (pool != POOL_MAX && pool != POOL_SUM) return variant_refuse(reason, "it has the largest or the sum alone");
    return true;
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
    set_tile(call, &tiles[s->longest > 64 ? 0 : s->longest > 32 ? 1 : 2]);
}

static size_t shared_bytes(const struct call *call)
{
    return (size_t)(call_get(call, CONST_TILE_M, 0) + call_get(call, CONST_TILE_N, 0)) *
           call_get(call, CONST_TILE_K, 0) * 2 * call_get(call, CONST_STAGES, 1);
}

static void describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%ux%u, %ux%u a warp, %u stages", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1),
             (unsigned)call_get(call, CONST_WARP_M, 1), (unsigned)call_get(call, CONST_WARP_N, 1),
             (unsigned)call_get(call, CONST_STAGES, 1));
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
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .describe = describe,
};
