/* Attention with the product after it, in sessions of few rows: cl/attention_out.cl. */
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* A work-group computes all heads for its 64 queries, so that every head is computed as many times as there are heads:
 * more rows than two tiles would wait for that longer than for the launch that is saved. */
enum { MOST_ROWS = 128, HEAD_CHANNELS = 32, MOST_HEADS = 16 };

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t heads = call_get(call, CONST_HEADS, 0), width = heads * HEAD_CHANNELS;
    if (!call_fuses(call)) return variant_refuse(reason, "no product comes after");
    if (!s->f16) return variant_refuse(reason, "its operands have 16 bits");
    if (!call_get(call, CONST_ALIGNED, 0)) return variant_refuse(reason, "its rows start on 16 bytes");
    if (s->max_rows > MOST_ROWS) return variant_refuse(reason, "the session's batches have too many rows for it");
    if (call_get(call, CONST_HEAD_DIM, 0) != HEAD_CHANNELS || heads > MOST_HEADS)
        return variant_refuse(reason, "at most 16 heads of 32 channels");
    if (call_get(call, CONST_FORM, GEMM_NT) != GEMM_NT)
        return variant_refuse(reason, "it multiplies by a weight's rows only");
    if (call_get(call, CONST_N, 0) != width || call_get(call, CONST_K, 0) != width)
        return variant_refuse(reason, "a weight as wide as the heads");
    return true;
}

static void size(struct call *call, const struct sizes *s)
{
    call_set(call, CONST_LOCAL_SIZE, call_get(call, CONST_HEADS, 1) * 32);
    call_set(call, CONST_TILE_M, tile_queries(s->limits));
}

/* Sums of 16 queries, and values of 32 keys, for each head. */
static size_t shared_bytes(const struct call *call)
{
    return (size_t)call_get(call, CONST_HEADS, 1) * (16 * (HEAD_CHANNELS + 8) * sizeof(float) + 32 * HEAD_CHANNELS * 2);
}

/* ---- its traffic ---- */

/* Every work-group of a tile of queries computes all heads, 16 queries at a time, and a head's share of the columns. */
static void count_traffic(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), n = get(c, CONST_N, 32);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), tiles = divide_up(length, get(c, CONST_TILE_M, 64));
        uint64_t blocks = divide_up(length, 16), rows = length * n, of_a_block = rows * c->storage;
        reads(c, SLOT_X, rows * heads);
        reads_again(c, SLOT_X, rows * (heads - 1), of_a_block);
        for (uint8_t slot = SLOT_W; slot <= SLOT_V; slot++) {
            reads(c, slot, rows * blocks * heads);
            reads_again(c, slot, rows * (blocks * heads - 1), of_a_block);
        }
        reads(c, SLOT_EXTRA, n * n * tiles);
        reads_again(c, SLOT_EXTRA, n * n * (tiles - (s == 0)), n * n * c->storage);
        reads(c, SLOT_BIAS, rows);
        reads(c, SLOT_RELATIVE, length * round_up(length, 32) * heads * heads);
        reads(c, SLOT_RESIDUAL, rows);
        writes(c, SLOT_Y, rows);
    }
}

const struct variant variant_attention_out = {
    .kernel = "attention",
    .name = "attention_out",
    .rung = RUNG_SMALL_BATCH,
    .takes = {CONST_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE, CONST_X_OFFSET,
              CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET, CONST_N,
              CONST_K, CONST_ROWS, CONST_BIAS, CONST_RESIDUAL, CONST_FORM, CONST_RELATIVE},
    .why = "few rows: one launch for two",
    .fits = fits,
    .size = size,
    .shared_bytes = shared_bytes,
    .count = count_traffic,
};
