/* Attention's forward pass by mma.sync: cl/attention_mma.cl. Twice: in small sessions it comes before what is faster
 * for large ones, because it needs nothing made ready before it. */
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

enum { QUERIES = 64, KEYS = 64, WARP_QUERIES = 16 };

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t head_dim = call_get(call, CONST_HEAD_DIM, 0);
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    if (!call_get(call, CONST_ALIGNED, 0)) return variant_refuse(reason, "its rows start on 16 bytes");
    if (head_dim != 32 && head_dim != 64 && head_dim != 128)
        return variant_refuse(reason, "heads of 32, 64 or 128 channels");
    if (tile_queries(s->limits) != QUERIES) return variant_refuse(reason, "its work-groups have 64 queries");
    return true;
}

static bool fits_small_batch(const struct call *call, const struct sizes *s, const char **reason)
{
    if (s->max_rows > SMALL_BATCH_ROWS)
        return variant_refuse(reason, "the session's batches have too many rows for it");
    return fits(call, s, reason);
}

static void size(struct call *call, const struct sizes *s)
{
    (void)s;
    call_set(call, CONST_LOCAL_SIZE, QUERIES / WARP_QUERIES * 32);
    call_set(call, CONST_TILE_M, QUERIES);
    call_set(call, CONST_TILE_N, KEYS);
}

/* Keys and values of two steps, and biases by distance. */
static size_t shared_bytes(const struct call *call)
{
    return (size_t)4 * KEYS * call_get(call, CONST_HEAD_DIM, 0) * 2 + call_bias_bytes(call);
}

const struct variant variant_attention_mma = {
    .kernel = "attention",
    .name = "attention_mma",
    .rung = RUNG_MMA,
    .takes = {CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE,
              CONST_Y_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_RELATIVE, CONST_BEFORE, CONST_AFTER, CONST_ALIBI},
    .why = "tensor cores by mma.sync",
    .fits = fits,
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_attention,
};

const struct variant variant_attention_small_batch = {
    .kernel = "attention",
    .name = "attention_mma",
    .rung = RUNG_SMALL_BATCH,
    .takes = {CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE,
              CONST_Y_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_RELATIVE, CONST_BEFORE, CONST_AFTER, CONST_ALIBI},
    .why = "few rows: a head is a work-group's, soon done",
    .fits = fits_small_batch,
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_attention,
};
