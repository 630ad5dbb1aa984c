/* Attention on Hopper's tensor cores: cl/attention_wgmma.cl, cl/attention_backward_wgmma.cl. */
#include "base/round.h"
#include "interface/interface.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* Of the kernels' macros. */
enum {
    WARPGROUPS_SIZE = 384, /* two that compute, one that copies */
    WARPGROUPS_LONG = 512, /* three that compute */
    TILE_QUERIES = 128,    /* of the forward pass; keys have as many in both */
    TILE_LONG = 192,       /* of three warpgroups */
    LONG = 512,            /* tokens: sequences of more may have them */
    TILE_KEYS = 128,
    STEP_QUERIES = 64, /* of the backward pass */
    DRAW_KEYS = 8,     /* of dropout's generator: the forward pass begins at a multiple of these */
    STAGES = 3,
    STAGES_WIDE = 2, /* of heads of WIDE channels */
    WIDE = 128,
    ROW_BYTES = 128,
    ROW_CHANNELS = 64,
    SHARED_MOST = 232448 /* of a Hopper multiprocessor for one work-group, whatever the driver says */
};

static bool fits(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t scale = call_get(call, CONST_SCALE, 0x3f800000);
    *reason = !s->f16                             ? "Hopper's products are of f16"
              : !call_get(call, CONST_ALIGNED, 0) ? "rows do not begin on 16 bytes"
              : scale == 0 || scale >> 31         ? "scores are multiplied by 0 or less"
                                                  : NULL;
    return !*reason;
}

/* Other heads would need other tiles. */
static bool fits_forward(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 0);
    if (dim != 32 && dim != 64 && dim != WIDE)
        return variant_refuse(reason, "heads have neither 32 nor 64 nor 128 channels");
    return fits(call, s, reason);
}

/* Of 128 channels, sums and operands of its five products no longer stay in registers. */
static bool fits_backward(const struct call *call, const struct sizes *s, const char **reason)
{
    uint32_t dim = call_get(call, CONST_HEAD_DIM, 0);
    if (dim != 32 && dim != 64) return variant_refuse(reason, "heads have neither 32 nor 64 channels");
    return fits(call, s, reason);
}

/* One work-group for each multiprocessor, which goes on from tile to tile: against one for each tile, 32 x 512 tokens
 * of 16 heads take 100 us instead of 122 on an H200, 96 x 128 36 instead of 55, because the next tile is on its way
 * while the last one is written. */
static void size_groups(struct call *call, const struct sizes *s)
{
    call_set(call, CONST_LOCAL_SIZE, WARPGROUPS_SIZE);
    if (s->limits->compute_units) call_set(call, CONST_GROUPS, s->limits->compute_units);
}

/* Whether three warpgroups compute. They keep the tensor cores busier, but behind the end of a sequence their tiles
 * leave more to do for nothing, and dropout or wide heads want more registers than they have. In us on an H200, of 16
 * heads, tiles of 128 and of 192 queries: 4 x 8192 tokens 2899 and 2198, 16 x 2048 687 and 589, 32 x 512 96 and 95, 64
 * x 128 25 and 29; 4 x 8192 with dropout 3640 and 3680. Sessions for sequences of 512 tokens have shorter ones most of
 * the time. */
static bool takes_long(const struct call *call, const struct sizes *s)
{
    uint64_t filled = round_up(s->longest, TILE_QUERIES), filled_long = round_up(s->longest, TILE_LONG);
    bool plain = !call_get(call, CONST_RELATIVE, 0) && !call_get(call, CONST_DROPOUT, 0) &&
                 call_get(call, CONST_HEAD_DIM, 0) != WIDE;
    return plain && s->longest > LONG && filled_long * 7 <= filled * 8;
}

/* Tiles of 64 keys, of which two work-groups fit a multiprocessor, are slower: 119 us. */
static void size_forward(struct call *call, const struct sizes *s)
{
    bool three = takes_long(call, s);
    size_groups(call, s);
    if (three) call_set(call, CONST_LOCAL_SIZE, WARPGROUPS_LONG);
    call_set(call, CONST_TILE_M, three ? TILE_LONG : TILE_QUERIES);
    call_set(call, CONST_TILE_N, TILE_KEYS);
}

static size_t shared_forward(const struct call *call)
{
    size_t biases = call_get(call, CONST_RELATIVE, 0) ? 2 * (4 * TILE_KEYS - 1) * sizeof(float) : 0,
           queries = call_get(call, CONST_TILE_M, TILE_QUERIES), dim = call_get(call, CONST_HEAD_DIM, 0),
           stages = dim == WIDE ? STAGES_WIDE : STAGES, row = divide_up(dim, ROW_CHANNELS) * ROW_BYTES;
    return 2 * (queries + stages * TILE_KEYS) * row + (4 * stages + 2) * 8 + 2 * 16 + biases;
}

static size_t shared_backward(const struct call *call)
{
    uint32_t rows = call_get(call, CONST_QUERY_ROWS, 0), slots = rows ? rows / STEP_QUERIES : 4;
    size_t sums = (size_t)slots * STEP_QUERIES * call_get(call, CONST_HEAD_DIM, 64) * sizeof(float);
    size_t keep = call_get(call, CONST_DROPOUT, 0) ? TILE_KEYS * STEP_QUERIES / 8 : 4;
    size_t stages = rows ? 2 : 3, pairs = rows ? 1 : 2, farthest = call_get(call, CONST_RELATIVE, 0);
    size_t distances = farthest ? (4 * TILE_KEYS + 2 * STEP_QUERIES - 1 + 16) * sizeof(float) +
                                      2 * (2 * ((farthest + 6) / 8) + 1) * 32 * 2 * sizeof(float)
                                : 0;
    return distances + (2 * pairs + 1) * TILE_KEYS * ROW_BYTES +
           stages * (2 * STEP_QUERIES * ROW_BYTES + STEP_QUERIES * 8 + keep) + sums + (2 * stages + 2 * pairs + 8) * 8;
}

/* Parts of the keys of a head: of a head's tiles each part takes its share, and all work-groups run in rounds, one on a
 * multiprocessor. As many as take the least time, told in fifths of that of a tile: to add the parts of all heads takes
 * about one fifth for each part, where every multiprocessor has a head. A tenth of the time has to be won. */
static uint64_t least_parts(uint64_t heads, uint64_t tiles, uint64_t units)
{
    uint64_t whole = 5 * divide_up(heads, units) * tiles, least_time = whole, best = 1;
    for (uint64_t parts = 2; parts <= tiles; parts++) {
        uint64_t time = 5 * divide_up(heads * parts, units) * divide_up(tiles, parts) + parts * divide_up(heads, units);
        if (time >= least_time || time * 10 > whole * 9) continue;
        least_time = time;
        best = parts;
    }
    return best;
}

/* The queries' sums stay in shared memory where that is enough for the longest sequence, 512 queries of 64 channels:
 * through memory, 32 x 512 tokens take 367 us instead of 321. Less than 192 would leave so much of the memory that the
 * assembler reckons with a second work-group, and then refuses to move registers between warpgroups; for 32 channels,
 * half as wide, that is 512. The kernel that adds parts costs 26 us at 32 x 512. */
static void size_backward(struct call *call, const struct sizes *s)
{
    uint64_t sequences = s->longest ? divide_up(s->max_rows, s->longest) : 1, tiles = divide_up(s->longest, TILE_KEYS);
    uint64_t heads = sequences * call_get(call, CONST_HEADS, 1);
    uint64_t parts = heads ? least_parts(heads, tiles, device_units(s->limits)) : 1;
    uint32_t least = call_get(call, CONST_HEAD_DIM, 64) == 64 ? 192 : 512;
    uint32_t rows = (uint32_t)divide_up(s->longest, STEP_QUERIES) * STEP_QUERIES;
    if (call_get(call, CONST_RELATIVE, 0)) parts = 1; /* sums by distance are of all keys */
    size_groups(call, s);
    call_set(call, CONST_TILE_M, TILE_KEYS);
    call_set(call, CONST_TILE_N, STEP_QUERIES);
    call_set(call, CONST_PARTS, (uint32_t)parts);
    call_set(call, CONST_QUERY_ROWS, rows < least ? least : rows);
    if (shared_backward(call) > SHARED_MOST) call_set(call, CONST_QUERY_ROWS, 0);
    if (parts > 1 || !call_get(call, CONST_QUERY_ROWS, 0)) return;
    call_take_away(call, SLOT_PARTIALS);
}

/* ---- its traffic ---- */

/* Work-groups have the next tile or head on the way while they write, and are as many as multiprocessors: between two
 * reads of a tile lie the heads that run at the same time. */

static uint64_t heads_at_once(const struct count *c, uint64_t length, uint64_t groups_of_a_head)
{
    uint64_t groups = get(c, CONST_GROUPS, 0) ? get(c, CONST_GROUPS, 0) : groups_at_once(c);
    uint64_t heads = divide_up(groups, groups_of_a_head) + 1;
    return heads * 4 * length * get(c, CONST_HEAD_DIM, 64) * c->storage;
}

static void count_forward(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 64);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads, tile_m = get(c, CONST_TILE_M, TILE_QUERIES),
                 tiles = divide_up(length, tile_m),
                 met = heads * dim * keys_walked(c, length, tile_m, TILE_KEYS, DRAW_KEYS);
        reads(c, SLOT_X, rows);
        for (uint8_t slot = SLOT_W; slot <= SLOT_V; slot++) {
            reads(c, slot, met);
            if (tiles) reads_again(c, slot, met - rows, heads_at_once(c, length, tiles));
        }
        writes(c, SLOT_Y, rows);
        writes(c, SLOT_LSE, length * heads);
        if (get(c, CONST_RELATIVE, 0)) reads(c, SLOT_RELATIVE, tiles * heads * (4 * TILE_KEYS - 1));
    }
}

/* Keys and values are read once, queries, their gradients and statistics for every tile of keys. The queries' sums go
 * to the partial sums for every tile, or once for every part (QUERY_ROWS), or not at all. */
static void count_backward(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 64), parts = get(c, CONST_PARTS, 1);
    bool kept = get(c, CONST_QUERY_ROWS, 0) != 0, whole = kept && parts == 1;
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads;
        uint64_t tiles = divide_up(length, TILE_KEYS), used = least(tiles, parts);
        if (!tiles) continue;
        uint64_t distance = heads_at_once(c, length, used) + (kept ? 0 : heads_at_once(c, length, used) / 2);
        uint64_t queries = queries_walked(c, length, TILE_KEYS, STEP_QUERIES), met = dim * heads * queries;
        uint64_t sums = dim * heads * parts_walked(c, length, TILE_KEYS, STEP_QUERIES, parts);
        uint64_t again = rows * (divide_up(divide_up(queries, length), parts) - 1);
        reads(c, SLOT_X, met);
        reads(c, SLOT_GRADIENT, met);
        reads_again(c, SLOT_X, again, distance);
        reads_again(c, SLOT_GRADIENT, again, distance);
        reads(c, SLOT_W, rows);
        reads(c, SLOT_V, rows);
        reads(c, SLOT_LSE, queries * heads);
        reads(c, SLOT_DELTA, queries * heads);
        if (!whole) writes_scratch(c, SLOT_PARTIALS, sums);
        if (!kept) {
            reads(c, SLOT_PARTIALS, met - sums);
            reads_again(c, SLOT_PARTIALS, met - sums, distance);
            writes(c, SLOT_PARTIALS, met - sums);
            writes_again(c, SLOT_PARTIALS, met - sums, distance);
        }
        writes(c, SLOT_Y, (whole ? 3 : 2) * rows);
        if (get(c, CONST_RELATIVE, 0)) reads(c, SLOT_RELATIVE, heads * (5 * TILE_KEYS - 1));
        writes(c, SLOT_DISTANCES, 2 * length * heads);
    }
    reads_turn(c, heads * (whole ? 2 : 1), 4); /* keys, and queries that are whole: four work-items have a row */
}

const struct variant variant_attention_wgmma = {
    .kernel = "attention",
    .name = "attention_wgmma",
    .rung = RUNG_WGMMA,
    .takes = {CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE,
              CONST_Y_OFFSET, CONST_DROPOUT, CONST_LSE, CONST_RELATIVE, CONST_BEFORE, CONST_AFTER, CONST_ALIBI},
    .why = "Hopper's tensor cores multiply scores and weights where they are, in registers",
    .fits = fits_forward,
    .size = size_forward,
    .shared_bytes = shared_forward,
    .count = count_forward,
};

const struct variant variant_attention_backward_wgmma = {
    .kernel = "attention_backward",
    .name = "attention_backward_wgmma",
    .rung = RUNG_WGMMA,
    .takes = {CONST_HEADS,    CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED,  CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET,        CONST_V_STRIDE, CONST_V_OFFSET,
              CONST_Y_STRIDE, CONST_Y_OFFSET, CONST_DROPOUT,         CONST_LSE,      CONST_DELTA,
              CONST_RELATIVE, CONST_BEFORE,   CONST_AFTER,           CONST_ALIBI,    CONST_ROTARY},
    .why = "Hopper's tensor cores make all five products, and dropout's bits beside them",
    .fits = fits_backward,
    .size = size_backward,
    .shared_bytes = shared_backward,
    .count = count_backward,
};
