/* Fills the batch buffer and counts work-groups. */
#include "plan/batch.h"

#include <string.h>

#include "base/round.h"
#include "graph/distances.h"
#include "interface/interface.h"

/* Tiles of `tile` rows, 0: none. A sequence of length l has ceil(l / tile) <= l of them. */
static uint64_t tiles_most(uint32_t tile, const struct batch_shape *limits)
{
    uint64_t most = tile ? divide_up(limits->tokens, tile) + limits->sequences : 0;
    return most < limits->tokens ? most : limits->tokens;
}

/* Likewise; a sequence has ceil(l / tile) times as many of scores. */
static uint64_t score_tiles_most(uint32_t tile, const struct batch_shape *limits)
{
    return tile ? tiles_most(tile, limits) * divide_up(limits->longest, tile) : 0;
}

uint64_t batch_words_most(const struct batch_tables *tables, const struct batch_shape *limits)
{
    return HEADER_WORDS + 3 * (uint64_t)limits->sequences + 2 + limits->tokens +
           2 * tiles_most(tables->query_tile, limits) + 2 * score_tiles_most(tables->score_tile, limits) +
           (tables->relative_buckets ? 2 * (uint64_t)tables->relative_distance + 1 : 0);
}

uint64_t call_items_most(const struct call *call, bool f16, const struct batch_tables *tables,
                         const struct batch_shape *limits)
{
    uint64_t score_tiles = score_tiles_most(tables->score_tile, limits);
    uint32_t words[HEADER_WORDS] = {0};
    words[HEADER_TOKENS] = (uint32_t)limits->tokens;
    words[HEADER_SEQUENCES] = limits->sequences;
    words[HEADER_LABELLED] = (uint32_t)limits->labelled;
    words[HEADER_NEXT] = (uint32_t)limits->next;
    words[HEADER_QUERY_TILES] = (uint32_t)tiles_most(tables->query_tile, limits);
    words[HEADER_SCORE_TILES] = (uint32_t)(score_tiles < UINT32_MAX ? score_tiles : UINT32_MAX);
    struct grid grid = call_grid(call, f16, words);
    return (uint64_t)grid.x * grid.y * grid.z * call_get(call, CONST_LOCAL_SIZE, 1);
}

static uint32_t length_of(const struct batch_shape *batch, uint32_t sequence)
{
    return batch->offsets[sequence + 1] - batch->offsets[sequence];
}

/* Whether a has its place before b: work-groups that begin with what takes longest are done at the same time. */
static bool comes_before(const struct batch_shape *batch, uint32_t a, uint32_t b)
{
    uint32_t length_a = length_of(batch, a), length_b = length_of(batch, b);
    return length_a > length_b || (length_a == length_b && a > b);
}

/* Shell's sort, which needs no memory. */
static void fill_order(const struct batch_shape *batch, uint32_t *order)
{
    uint32_t n = batch->sequences, gap = 1;
    for (uint32_t i = 0; i < n; i++) order[i] = n - 1 - i;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            uint32_t moved = order[i], to = i;
            for (; to >= gap && comes_before(batch, moved, order[to - gap]); to -= gap) order[to] = order[to - gap];
            order[to] = moved;
        }
}

size_t batch_fill(const struct batch_tables *tables, const struct batch_shape *batch, uint32_t *words)
{
    uint32_t *at = words + HEADER_WORDS;
    memset(words, 0, HEADER_WORDS * sizeof *words);
    words[HEADER_TOKENS] = (uint32_t)batch->tokens;
    words[HEADER_SEQUENCES] = batch->sequences;
    words[HEADER_LABELLED] = (uint32_t)batch->labelled;
    words[HEADER_NEXT] = (uint32_t)batch->next;
    words[HEADER_AT_OFFSETS] = (uint32_t)(at - words);
    memcpy(at, batch->offsets, (batch->sequences + 1) * sizeof *at);
    at += batch->sequences + 1;
    const uint32_t *order = at;
    words[HEADER_AT_ORDER] = (uint32_t)(at - words);
    fill_order(batch, at);
    at += batch->sequences;
    words[HEADER_AT_SCORE_OFFSETS] = (uint32_t)(at - words);
    uint32_t *token_sequence = at + batch->sequences, pairs = 0;
    words[HEADER_AT_TOKEN_SEQUENCE] = (uint32_t)(token_sequence - words);
    for (uint32_t s = 0; s < batch->sequences; s++) {
        uint32_t length = length_of(batch, s);
        at[s] = pairs;
        pairs += length * length;
        for (uint32_t t = batch->offsets[s]; t < batch->offsets[s + 1]; t++) token_sequence[t] = s;
    }
    at = token_sequence + batch->tokens;
    words[HEADER_AT_QUERY_TILES] = (uint32_t)(at - words);
    for (uint32_t i = batch->sequences; tables->query_tile && i > 0; i--)
        for (uint32_t q = 0; q < length_of(batch, order[i - 1]); q += tables->query_tile) {
            *at++ = order[i - 1];
            *at++ = q;
            words[HEADER_QUERY_TILES]++;
        }
    words[HEADER_AT_SCORE_TILES] = (uint32_t)(at - words);
    for (uint32_t s = 0; tables->score_tile && s < batch->sequences; s++) {
        uint32_t tiles = (uint32_t)divide_up(length_of(batch, s), tables->score_tile);
        for (uint32_t j = 0; j < tiles; j++)
            for (uint32_t k = 0; k < tiles; k++) {
                *at++ = s;
                *at++ = j | k << 16;
                words[HEADER_SCORE_TILES]++;
            }
    }
    words[HEADER_AT_BUCKETS] = (uint32_t)(at - words);
    for (int32_t d = -(int32_t)tables->relative_distance; tables->relative_buckets; d++) {
        *at++ = distance_bucket(tables->relative_buckets, tables->relative_distance, d);
        if (d == (int32_t)tables->relative_distance) break;
    }
    return (size_t)(at - words);
}

uint64_t batch_rows(const struct batch_shape *batch, uint32_t header)
{
    switch (header) {
    case HEADER_SEQUENCES:
        return batch->sequences;
    case HEADER_LABELLED:
        return batch->labelled;
    case HEADER_NEXT:
        return batch->next;
    default:
        return batch->tokens;
    }
}

uint64_t call_parts(const struct call *call, uint64_t rows)
{
    bool rows_are_k = call_runtime(call) == RUNTIME_K;
    uint64_t divided = call->counters && !rows_are_k ? call_get(call, CONST_K, 1) : rows;
    uint64_t parts = divide_up(divided, call_get(call, CONST_PART_ROWS, 1)),
             most = call_get(call, CONST_PARTS, UINT32_MAX);
    return parts < most ? parts : most;
}

struct grid call_grid(const struct call *call, bool f16, const uint32_t *words)
{
    uint64_t rows = words[call_get(call, CONST_ROWS, HEADER_TOKENS)], n = call_get(call, CONST_N, 1), groups = 0, m,
             access;
    uint32_t runtime = call_runtime(call);
    uint64_t local = call_get(call, CONST_LOCAL_SIZE, 1), heads = call_get(call, CONST_HEADS, 1);
    switch (call->launch) {
    case LAUNCH_ELEMENTS:
        access = call_get(call, CONST_ALIGNED, 0) ? (f16 ? 8 : 4) : 1;
        groups = runtime == RUNTIME_N ? divide_up(divide_up(rows, access) * call_get(call, CONST_M, 1), local)
                                      : divide_up(rows * n, local * access);
        break;
    case LAUNCH_ROWS:
        groups = divide_up(rows, local / call_get(call, CONST_TEAM, (uint32_t)local));
        break;
    case LAUNCH_TILES:
        m = runtime == RUNTIME_M ? rows : call_get(call, CONST_M, 1);
        if (runtime == RUNTIME_N) n = rows;
        groups = divide_up(m, call_get(call, CONST_TILE_M, 1)) * divide_up(n, call_get(call, CONST_TILE_N, 1));
        if (call->counters || (runtime == RUNTIME_K && call_get(call, CONST_COLUMN_SUMS, 0)))
            groups *= call_parts(call, rows);
        break;
    case LAUNCH_SCORE_ROWS:
        groups = divide_up(rows * heads, local / call_get(call, CONST_TEAM, (uint32_t)local));
        break;
    case LAUNCH_QUERIES:
        groups = divide_up(words[HEADER_QUERY_TILES], call_get(call, CONST_ENTRIES, 1)) * heads;
        break;
    case LAUNCH_SEQUENCES:
        groups = (uint64_t)words[HEADER_SEQUENCES] * call_get(call, CONST_KEY_HEADS, (uint32_t)heads) *
                 call_get(call, CONST_PARTS, 1);
        break;
    case LAUNCH_WORDS:
        groups = (uint64_t)words[HEADER_SEQUENCES] * divide_up(n, call_get(call, CONST_TILE_N, 1));
        break;
    case LAUNCH_SCORES:
        groups = words[HEADER_SCORE_TILES] * heads;
        break;
    case LAUNCH_PARTS:
        groups = call_parts(call, rows) * divide_up(n, call_get(call, CONST_TILE_N, (uint32_t)n));
        break;
    case LAUNCH_COLUMNS:
        groups = divide_up(call_get(call, CONST_SETS, 1) * n, call_get(call, CONST_TILE_N, 1));
        break;
    case LAUNCH_EXPERTS:
        m = call_get(call, CONST_M, 0);
        groups = divide_up(n, call_get(call, CONST_TILE_N, 1)) * call_get(call, CONST_EXPERTS, 1);
        if (m)
            groups *= divide_up(m, call_get(call, CONST_TILE_M, 1));
        else
            groups += divide_up(rows * call_get(call, CONST_CHOSEN, 1), call_get(call, CONST_TILE_M, 1)) *
                      divide_up(n, call_get(call, CONST_TILE_N, 1));
        break;
    case LAUNCH_TABLE:
        groups = divide_up(call_get(call, CONST_M, 1), call_get(call, CONST_TILE_M, 1));
        if (call_get(call, CONST_COLUMN_SUMS, 0)) groups *= divide_up(rows, call_get(call, CONST_PART_ROWS, 1));
        break;
    }
    uint64_t most = call_get(call, CONST_GROUPS, 0);
    if (most && groups > most) groups = most;
    struct grid grid = {(uint32_t)(groups < GRID_WIDTH ? groups : GRID_WIDTH), (uint32_t)divide_up(groups, GRID_WIDTH),
                        1};
    return grid;
}
