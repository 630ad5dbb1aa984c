/* Products with a weight of few rows by mma.sync, one trip to memory each: cl/gemm_small_batch.cl. */
#include "base/text.h"
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Warps that share k, 32 k for each in turn. */
enum { MOST_WARPS = 12, TILE_ROWS = 16, TILE_COLUMNS = 16 };

/* 32 k of a warp that stay in registers while rows are normalized (cl/gemm_small_batch.cl: MOST). */
enum { MOST_HELD = 8 };

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    if (!call_get(call, CONST_ALIGNED, 0)) return variant_refuse(reason, "its rows start on 16 bytes");
    if (call_get(call, CONST_RUNTIME, RUNTIME_FORM) != RUNTIME_FORM)
        return variant_refuse(reason, "it takes no operands in channel-major order");
    if (call_get(call, CONST_FORM, GEMM_NT) != GEMM_NT)
        return variant_refuse(reason, "it multiplies by a weight's rows only");
    if (call_get(call, CONST_COLUMN_SUMS, 0)) return variant_refuse(reason, "it sums no columns");
    if (call_get(call, CONST_NORM_Y, 0))
        return variant_refuse(reason, "its work-groups have no whole rows of a result");
    if (call_fuses(call) && (call_get(call, CONST_K, 32) + 31) / 32 > MOST_WARPS * MOST_HELD)
        return variant_refuse(reason, "rows that it can normalize stay in registers");
    if (s->max_rows > SMALL_BATCH_ROWS)
        return variant_refuse(reason, "the session's batches have too many rows for it");
    return call_pairs_fit(call, 8, reason);
}

static uint32_t warps_of(const struct call *call)
{
    uint32_t shares = (call_get(call, CONST_K, 32) + 31) / 32;
    return shares < MOST_WARPS ? shares : MOST_WARPS;
}

static void size(struct call *call, const struct sizes *s)
{
    (void)s;
    call_set(call, CONST_LOCAL_SIZE, 32 * warps_of(call));
    call_set(call, CONST_TILE_M, TILE_ROWS);
    call_set(call, CONST_TILE_N, TILE_COLUMNS);
}

static size_t shared_bytes(const struct call *call)
{
    uint32_t columns = call_get(call, CONST_TILE_N, TILE_COLUMNS), stride = columns == 8 ? 8 : columns + 8;
    uint32_t rows = call_get(call, CONST_LOCAL_SIZE, 32) / 32 * call_get(call, CONST_TILE_M, TILE_ROWS);
    return (size_t)rows * (stride + (call_get(call, CONST_NORM, 0) ? 2 : 0)) * sizeof(float);
}

static void describe(const struct call *call, struct text_writer *text)
{
    text_add(text, "%ux%u, %u warps share k", (unsigned)call_get(call, CONST_TILE_M, 1),
             (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_LOCAL_SIZE, 0) / 32);
}

/* ---- its traffic ---- */

/* Every result's maker loads its bias. */
static void count_traffic(struct count *c) { count_product(c, 1, get(c, CONST_TILE_M, 16)); }

const struct variant variant_gemm_small_batch = {
    .kernel = "gemm",
    .name = "gemm_small_batch",
    .rung = RUNG_SMALL_BATCH,
    .takes = {CONST_N,          CONST_K,          CONST_ROWS,
              CONST_BIAS,       CONST_ACTIVATION, CONST_RESIDUAL,
              CONST_SUM,        CONST_X_STRIDE,   CONST_X_OFFSET,
              CONST_W_STRIDE,   CONST_W_OFFSET,   CONST_Y_STRIDE,
              CONST_Y_OFFSET,   CONST_FORM,       CONST_DROPOUT,
              CONST_DERIVATIVE, CONST_KEPT,       CONST_NORM,
              CONST_GATE,       CONST_ROTARY,     CONST_QKV_INTERLEAVED,
              CONST_KEY_HEADS,  CONST_HEAD_DIM,   CONST_SCALES},
    .why = "few rows: all loads of a product at once, its warps share the sum",
    .fits = fits,
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
    .describe = describe,
};
