/* bgemm: the products of stored scores, one for each sequence and head. */
#include "interface/interface.h"
#include "plan/class_sizes.h"
#include "plan/kernels/tiled.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

static bool makes_scores(const struct call *call)
{
    return call_get(call, CONST_BATCHED, BATCHED_SCORES) == BATCHED_SCORES;
}

/* Narrow tiles of the context for narrow heads. */
static void size(struct call *call, const struct sizes *s)
{
    uint32_t rows = tile_scores(s->limits);
    bool narrow = !makes_scores(call) && call_get(call, CONST_HEAD_DIM, 1) <= 32;
    const struct class_row *row = class_row(call->kernel, s->limits);
    uint32_t thread_m = row && s->f16 ? row->thread_m : rows / 8;
    tile_set(call, &(struct tile){rows, narrow ? 32 : rows, thread_m, 4, 4, 0, 0}, s->vector);
}

/* The batch's tables give the rows, of scores the columns, too. */
static void candidates(const struct call *sized, const struct sizes *s, struct choices *list)
{
    bool scores = makes_scores(sized);
    uint32_t m = call_get(sized, CONST_TILE_M, 1), columns = call_get(sized, CONST_TILE_N, 1);
    for (uint32_t n = scores ? columns : 32; n <= (scores ? columns : 128); n *= 2)
        for (uint32_t thread_m = 4; thread_m <= 8; thread_m *= 2)
            for (uint32_t thread_n = 4; thread_n <= 8; thread_n *= 2)
                for (uint32_t vectors = 2; vectors <= 8; vectors *= 2) {
                    struct call call = *sized;
                    const struct tile t = {m, n, thread_m, thread_n, vectors, 0, 0};
                    if (!tile_candidate(&t)) continue;
                    tile_set(&call, &t, s->vector);
                    choices_add(list, &call);
                }
}

/* ---- its traffic ---- */

/* The work-groups of a sequence's head are neighbours: between two reads lies no more than its operands. */
static void count_traffic(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 32), tile_m = get(c, CONST_TILE_M, 32);
    bool scores = makes_scores(c->call), transposed = get(c, CONST_BATCHED, BATCHED_SCORES) == BATCHED_TRANSPOSED;
    uint64_t members = heads / get(c, CONST_KEY_HEADS, (uint32_t)heads);
    uint64_t steps = scores ? 1 : divide_up(dim, get(c, CONST_TILE_N, 32));
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), tiles = divide_up(length, tile_m), pairs = length * length * heads;
        uint64_t rows = length * dim * heads, of_a_head = (2 * rows + pairs) / heads * c->storage;
        reads(c, SLOT_X, scores ? rows * tiles : pairs * steps);
        if (scores)
            reads_again(c, SLOT_X, rows * (tiles - 1), of_a_head);
        else
            reads_again(c, SLOT_X, pairs * (steps - 1), groups_at_once(c) * tile_m * length * c->storage);
        reads(c, SLOT_W, rows * tiles);
        reads_again(c, SLOT_W, rows * (tiles - 1), of_a_head);
        if (transposed)
            writes(c, SLOT_Y, rows / members);
        else
            reads_again(c, SLOT_W, rows - rows / members, of_a_head), writes(c, SLOT_Y, scores ? pairs : rows);
    }
}

const struct variant variant_bgemm = {
    .kernel = "bgemm",
    .name = "bgemm",
    .takes = {CONST_HEADS, CONST_KEY_HEADS, CONST_HEAD_DIM, CONST_QKV_INTERLEAVED, CONST_BATCHED, CONST_X_STRIDE,
              CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET},
    .why = "tiles of the batch's tables, narrow ones for narrow heads",
    .size = size,
    .shared_bytes = tiled_shared_bytes,
    .count = count_traffic,
    .candidates = candidates,
    .registers = tiled_registers,
};
