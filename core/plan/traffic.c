/* Counts the bytes that kernels move, from the constants that they are launched with: a rule per portable kernel, here,
 * and per variant, in its own file (kernels/), says what its work-items ask of memory, how much of it they had asked
 * for before, and what was touched in between.
 *
 * What was read before is found in the cache again when the bytes that are touched between the two reads fit; else it
 * comes from memory a second time. For that, work-groups are taken in the order of their numbers, ITEMS_AT_ONCE
 * work-items at a time (a wave), which go through their loops in step. What the second of two kernels reads of the
 * first one's scratch counts unless all of it fits; that it is written counts always. */
#include "plan/traffic.h"

#include <stdio.h>
#include <string.h>

#include "plan/traffic_model.h"
#include "plan/variants.h"

/* ---- rows of N elements (cl/row.h) ---- */

/* Loads of a row: past its end a load repeats the last columns. */
static uint64_t row_loads(const struct count *c)
{
    uint64_t step = access_of(c) * team_of(c);
    return divide_up(get(c, CONST_N, 1), step) * step;
}

/* Rows that are read: teams after the last one repeat it. */
static uint64_t rows_walked(const struct count *c) { return divide_up(rows_of(c), teams_of(c)) * teams_of(c); }

/* A vector of N that is read for every one of `rows` rows in `loads`. */
static void reads_vector(struct count *c, uint8_t slot, uint64_t rows, uint64_t loads)
{
    reads(c, slot, rows * loads);
    if (rows) reads_again(c, slot, (rows - 1) * get(c, CONST_N, 1), count_row_bytes(c));
}

static void count_layernorm(struct count *c)
{
    uint64_t rows = rows_of(c), walked = rows_walked(c), n = get(c, CONST_N, 1), loads = row_loads(c);
    reads(c, SLOT_X, walked * loads);
    reads_vector(c, SLOT_BIAS, walked, loads);
    reads(c, SLOT_RESIDUAL, walked * loads);
    reads_vector(c, SLOT_GAMMA, walked, loads);
    reads_vector(c, SLOT_BETA, walked, loads);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

/* Which rows a list names is the batch's affair: words count as all different. */
static void count_embed(struct count *c)
{
    uint64_t rows = rows_of(c), walked = rows_walked(c), n = get(c, CONST_N, 1), loads = row_loads(c),
             items = team_of(c);
    reads(c, SLOT_X, walked * loads);
    reads(c, SLOT_IDS, walked * items);
    reads(c, SLOT_WORD, walked * loads);
    reads(c, SLOT_POSITIONS, walked * items);
    reads(c, SLOT_POSITION, walked * loads);
    if (rows > c->batch->longest)
        reads_again(c, SLOT_POSITION, (rows - c->batch->longest) * n, c->batch->longest * count_row_bytes(c));
    reads(c, SLOT_TYPES, walked * items);
    reads(c, SLOT_TYPE, walked * loads);
    reads_vector(c, SLOT_GAMMA, walked, loads);
    reads_vector(c, SLOT_BETA, walked, loads);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

static void count_map(struct count *c)
{
    bool channels = call_runtime(c->call) == RUNTIME_N;
    uint64_t rows = rows_of(c), n = get(c, channels ? CONST_M : CONST_N, 1);
    reads(c, SLOT_X, rows * n);
    if (channels)
        reads(c, SLOT_BIAS, divide_up(rows, access_of(c)) * n);
    else
        reads_vector(c, SLOT_BIAS, rows, n);
    reads(c, SLOT_RESIDUAL, rows * n);
    reads(c, SLOT_SAVED, rows * n);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

/* Every element once. */
static void count_transpose(struct count *c)
{
    uint64_t elements = (uint64_t)get(c, CONST_M, 32) * get(c, CONST_N, 32);
    reads(c, SLOT_X, elements);
    writes(c, SLOT_Y, elements);
}

/* Loads of a sequence's tokens: eight at a time (four of rows in several steps), or four that are left; some repeat. */
static uint64_t pool_loads(uint64_t tokens, uint64_t walkers, uint64_t many)
{
    uint64_t loads = 0;
    for (uint64_t walker = 0; walker < least(walkers, tokens); walker++) {
        uint64_t own = divide_up(tokens - walker, walkers);
        loads += own / many * many + (own % many > 4 ? many : own % many ? 4 : 0);
    }
    return loads;
}

/* A row that the work-items have room for is loaded by as many as it takes. */
static void count_pool(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), items = get(c, CONST_LOCAL_SIZE, 1), loads = 0;
    uint64_t row = divide_up(n, access_of(c)), pool = get(c, CONST_POOL, POOL_NONE);
    bool steps = row > items;
    if (pool == POOL_MEAN || pool == POOL_MAX)
        for (uint32_t s = 0; s < rows; s++)
            loads += pool_loads(length_of(c, s), steps ? 1 : items / row, steps ? 4 : 8);
    else
        loads = rows;
    reads(c, SLOT_X, loads * (steps ? row_loads(c) : n));
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

/* Of a mean every token's work-group reads its sequence's row. */
static void count_pool_backward(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), tokens = c->words[HEADER_TOKENS];
    bool largest = get(c, CONST_POOL, POOL_NONE) == POOL_MAX;
    reads(c, SLOT_X, rows * row_loads(c));
    if (get(c, CONST_POOL, POOL_NONE) != POOL_NONE && !largest)
        reads_again(c, SLOT_X, (rows - c->words[HEADER_SEQUENCES]) * n, count_row_bytes(c));
    reads(c, SLOT_SAVED, (largest ? tokens : rows) * row_loads(c));
    writes(c, SLOT_Y, (largest ? tokens : rows) * n);
}

static void count_delta(struct count *c)
{
    uint64_t rows = rows_of(c), heads = get(c, CONST_HEADS, 1), row = heads * get(c, CONST_HEAD_DIM, 32);
    reads(c, SLOT_X, rows * row);
    reads(c, SLOT_SAVED, rows * row);
    writes(c, SLOT_DELTA, rows * heads);
}

/* ---- sums over rows ---- */

/* Rows of a part are loaded `at_once`: at the end of the part some again. */
static uint64_t part_loads(uint64_t rows, uint64_t part_rows, uint64_t at_once)
{
    uint64_t last = rows % part_rows;
    return (rows / part_rows * divide_up(part_rows, at_once) + divide_up(last, at_once)) * at_once;
}

static void count_columns(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), part_rows = get(c, CONST_PART_ROWS, 1);
    uint64_t loads = part_loads(rows, part_rows, get(c, CONST_DERIVATIVE, ACTIVATION_NONE) ? 4 : 8);
    reads(c, SLOT_X, loads * n);
    reads(c, SLOT_SAVED, loads * n);
    writes_scratch(c, SLOT_PARTIALS, divide_up(rows, part_rows) * n);
    writes(c, SLOT_Y, rows * n);
}

static void count_layernorm_backward(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), at_once = get(c, CONST_PART_ROWS, 1);
    uint64_t loads = divide_up(rows, at_once) * at_once * row_loads(c), parts = call_parts(c->call, rows);
    uint64_t sets = 2 * get(c, CONST_NORM_DW, 0) + (get(c, CONST_BIAS_SUM, BIAS_SUM_NONE) != BIAS_SUM_NONE);
    reads(c, SLOT_X, loads);
    reads(c, SLOT_RESIDUAL, loads);
    reads_vector(c, SLOT_GAMMA, parts, row_loads(c));
    reads(c, SLOT_SAVED, loads);
    if (get(c, CONST_BIAS_SUM, BIAS_SUM_NONE) == BIAS_SUM_OPERAND) reads(c, SLOT_EXTRA, loads);
    if (sets) writes_scratch(c, SLOT_PARTIALS, parts * sets * n);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

static void count_reduce(struct count *c)
{
    uint64_t n = get(c, CONST_N, 1), sets = get(c, CONST_SETS, 1), columns = get(c, CONST_TILE_N, 8);
    reads(c, SLOT_PARTIALS, divide_up(sets * n, columns) * columns * call_parts(c->call, rows_of(c)));
    writes(c, SLOT_Y, n);
    writes(c, SLOT_SUM, n);
    writes(c, SLOT_EXTRA, n);
}

/* Every row of the table looks at the whole list; a row of x is read by the one that the list names. */
static void count_scatter(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), m = get(c, CONST_M, 1),
             window = 16 * get(c, CONST_LOCAL_SIZE, 1);
    bool in_parts = get(c, CONST_COLUMN_SUMS, 0) != 0;
    uint64_t part_rows = in_parts ? get(c, CONST_PART_ROWS, 1) : rows ? rows : 1;
    uint64_t ids = m * (rows / part_rows * divide_up(part_rows, window) + divide_up(rows % part_rows, window)) * window;
    uint8_t list = get(c, CONST_WORD, 0) ? SLOT_IDS : get(c, CONST_POSITION, 0) ? SLOT_POSITIONS : SLOT_TYPES;
    reads(c, SLOT_X, rows * row_loads(c));
    reads(c, list, ids);
    if (m) reads_again(c, list, (m - 1) * rows, rows * sizeof(uint32_t) + count_row_bytes(c));
    if (in_parts)
        writes_scratch(c, SLOT_SUM, divide_up(rows, part_rows) * m * n);
    else
        writes(c, SLOT_Y, m * n);
}

/* ---- rows of scores (cl/scores.h) ---- */

/* Teams after the last row repeat it. */
static uint64_t score_rows_repeated(const struct count *c)
{
    uint64_t rows = (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1);
    return divide_up(rows, teams_of(c)) * teams_of(c) - rows;
}

/* `operands` are read, and what does not stay in registers in every one of `passes`. */
static void count_score_rows(struct count *c, const uint8_t *operands, int n_operands, uint64_t passes)
{
    uint64_t items = team_of(c), block = items * vector_of(c);
    uint64_t heads = get(c, CONST_HEADS, 1), held = 16 / vector_of(c);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), blocks = divide_up(length, block), rows = length * heads;
        uint64_t repeated = s + 1 == c->words[HEADER_SEQUENCES] ? score_rows_repeated(c) : 0;
        uint64_t rest = blocks > held ? blocks - held : 0;
        uint64_t together = groups_at_once(c) * teams_of(c) * length * c->storage * (uint64_t)c->call->n_arguments;
        for (int i = 0; i < n_operands; i++) {
            reads(c, operands[i], (rows + repeated) * (least(blocks, held) + rest * passes) * block);
            if (rest) reads_again(c, operands[i], rows * (passes - 1) * (length - held * block), together);
        }
        writes(c, SLOT_Y, rows * length);
        writes(c, SLOT_SUM, rows * length);
    }
}

static void count_softmax(struct count *c)
{
    static const uint8_t operands[] = {SLOT_X};
    uint64_t rows = (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1);
    uint64_t items = team_of(c);
    uint32_t lse = get(c, CONST_LSE, LSE_NONE);
    count_score_rows(c, operands, 1, get(c, CONST_SOFTMAX, 1) && lse != LSE_READ ? 3 : 1);
    if (lse == LSE_READ) reads(c, SLOT_LSE, (rows + score_rows_repeated(c)) * items);
    if (lse == LSE_WRITE) writes(c, SLOT_LSE, rows);
}

static void count_softmax_backward(struct count *c)
{
    static const uint8_t operands[] = {SLOT_X, SLOT_SAVED};
    uint64_t rows = (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1);
    uint64_t items = team_of(c);
    count_score_rows(c, operands, 2, get(c, CONST_DELTA, 0) ? 1 : 2);
    reads(c, SLOT_DELTA, (rows + score_rows_repeated(c)) * items);
}

/* ---- products ---- */

/* Every work-item loads the bias of its columns, once for a tile. */
static void count_gemm(struct count *c) { count_product(c, 1, get(c, CONST_TILE_M, 32) / get(c, CONST_THREAD_M, 4)); }

/* The work-groups of a sequence's head are neighbours: between two reads lies no more than its operands. */
static void count_bgemm(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 32), tile_m = get(c, CONST_TILE_M, 32);
    bool scores = get(c, CONST_BATCHED, BATCHED_SCORES) == BATCHED_SCORES;
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
        writes(c, SLOT_Y, scores ? pairs : rows);
    }
}

/* ---- attention ---- */

/* For each of its tiles of keys a work-group walks over all queries: it reads them and their gradients twice, once as
 * scores' rows and once as factors, the keys' tile likewise, and adds to the partial sums. The parts of a head go in
 * step; the other work-groups that run at the same time touch as much between two tiles of keys. */
static void count_attention_backward(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 32), parts = get(c, CONST_PARTS, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32);
    uint64_t at_once = least(groups_at_once(c), (uint64_t)c->words[HEADER_SEQUENCES] * heads * parts);
    uint64_t of_a_step = at_once * dim * ((2 * tile_m + 2 * tile_n) * c->storage + tile_n * sizeof(float));
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads;
        uint64_t tiles = divide_up(length, tile_m), steps = divide_up(length, tile_n), used = least(tiles, parts);
        uint64_t turns = divide_up(tiles, parts);
        uint64_t of_a_tile = at_once * length * dim * (2 * c->storage + sizeof(float));
        reads(c, SLOT_X, 2 * rows * tiles);
        reads(c, SLOT_GRADIENT, 2 * rows * tiles);
        reads(c, SLOT_W, 2 * rows * steps);
        reads(c, SLOT_V, rows * steps);
        reads_again(c, SLOT_X, rows * (turns - 1), of_a_tile);
        reads_again(c, SLOT_GRADIENT, rows * (turns - 1), of_a_tile);
        reads_again(c, SLOT_W, rows * (steps - 1), of_a_step);
        reads_again(c, SLOT_V, rows * (steps - 1), of_a_step);
        reads(c, SLOT_LSE, length * tiles * heads);
        reads(c, SLOT_DELTA, steps * tile_n * tiles * heads); /* past the sequence's end the last one again */
        reads(c, SLOT_PARTIALS, rows * (tiles - used));
        reads_again(c, SLOT_PARTIALS, rows * (tiles - used), of_a_tile);
        writes_scratch(c, SLOT_PARTIALS, rows * used);
        writes(c, SLOT_PARTIALS, rows * (tiles - used));
        writes_again(c, SLOT_PARTIALS, rows * (tiles - used), of_a_tile);
        writes(c, SLOT_Y, 2 * rows);
    }
}

static void count_attention_dq(struct count *c)
{
    uint64_t row = (uint64_t)get(c, CONST_HEADS, 1) * get(c, CONST_HEAD_DIM, 32), parts = get(c, CONST_PARTS, 1);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), used = least(divide_up(length, get(c, CONST_TILE_M, 32)), parts);
        reads(c, SLOT_PARTIALS, length * row * used);
        writes(c, SLOT_Y, length * row);
    }
}

/* ---- the table ---- */

/* Of the portable kernels; a variant has its own. */
static const struct rule {
    const char *kernel;
    void (*count)(struct count *c);
} rules[] = {
    {"attention", count_attention},
    {"attention_backward", count_attention_backward},
    {"attention_dq", count_attention_dq},
    {"bgemm", count_bgemm},
    {"columns", count_columns},
    {"delta", count_delta},
    {"embed", count_embed},
    {"gemm", count_gemm},
    {"layernorm", count_layernorm},
    {"layernorm_backward", count_layernorm_backward},
    {"map", count_map},
    {"pool", count_pool},
    {"pool_backward", count_pool_backward},
    {"reduce", count_reduce},
    {"scatter", count_scatter},
    {"softmax", count_softmax},
    {"softmax_backward", count_softmax_backward},
    {"transpose", count_transpose},
};

/* NULL: there is none. */
static void (*rule_find(const char *kernel))(struct count *)
{
    const struct variant *variant = variant_find(kernel);
    if (variant) return variant->count;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].kernel, kernel)) return rules[i].count;
    return NULL;
}

bool traffic_has(const char *kernel) { return rule_find(kernel) != NULL; }

bool call_traffic(const struct graph *g, const struct batch_shape *b, const struct group *group,
                  const struct call *calls, int n_calls, bool f16, const uint32_t *batch_words, uint64_t cache_bytes,
                  wherry_traffic *out)
{
    struct count c = {.batch = b, .words = batch_words, .storage = f16 ? 2 : 4, .cache = cache_bytes, .out = out};
    *out = (wherry_traffic){0};
    group_bytes(g, b, group, c.storage, &out->unique_read, &out->unique_written);
    out->footprint = out->unique_read + out->unique_written;
    for (int i = 0; i < n_calls; i++)
        if (!rule_find(calls[i].kernel)) return false;
    for (int i = 0; i < n_calls; i++) {
        c.call = &calls[i];
        rule_find(calls[i].kernel)(&c);
    }
    out->model_read += out->unique_read + (c.scratch > cache_bytes ? c.scratch : 0);
    out->model_written += out->unique_written + c.scratch;
    out->footprint += c.scratch;
    return true;
}

void call_variant(const struct call *call, char text[64])
{
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 0), parts = call_get(call, CONST_PARTS, 1),
             part_rows = call_get(call, CONST_PART_ROWS, 0), team = call_get(call, CONST_TEAM, local);
    char more[32] = "";
    if (!strcmp(call->kernel, "attention_backward") || !strcmp(call->kernel, "attention_dq"))
        snprintf(more, sizeof more, ", %u part%s", (unsigned)parts, parts > 1 ? "s" : "");
    else if (!strcmp(call->kernel, "layernorm_backward"))
        snprintf(more, sizeof more, ", %u row%s at a time", (unsigned)part_rows, part_rows > 1 ? "s" : "");
    else if (team < local)
        snprintf(more, sizeof more, ", %u a row", (unsigned)team);
    else if (part_rows)
        snprintf(more, sizeof more, ", %u row%s a part", (unsigned)part_rows, part_rows > 1 ? "s" : "");
    if (call_get(call, CONST_WARP_M, 0))
        snprintf(text, 64, "%ux%ux%u, %ux%u a warp, %u stages%s", (unsigned)call_get(call, CONST_TILE_M, 1),
                 (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1),
                 (unsigned)call_get(call, CONST_WARP_M, 1), (unsigned)call_get(call, CONST_WARP_N, 1),
                 (unsigned)call_get(call, CONST_STAGES, 1), more);
    else if (!strcmp(call->kernel, "gemm_small_batch"))
        snprintf(text, 64, "%ux%u, %u warps share k", (unsigned)call_get(call, CONST_TILE_M, 1),
                 (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)local / 32);
    else if (!strcmp(call->kernel, "transpose"))
        snprintf(text, 64, "%ux%u, %u a work-group", (unsigned)call_get(call, CONST_TILE_M, 1),
                 (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)local);
    else if (!call_get(call, CONST_TILE_K, 0))
        snprintf(text, 64, "%u a work-group%s", (unsigned)local, more);
    else if (!call_get(call, CONST_THREAD_M, 0))
        snprintf(text, 64, "%ux%ux%u, %u a work-group%s", (unsigned)call_get(call, CONST_TILE_M, 1),
                 (unsigned)call_get(call, CONST_TILE_N, 1), (unsigned)call_get(call, CONST_TILE_K, 1), (unsigned)local,
                 more);
    else {
        uint32_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1),
                 thread_m = call_get(call, CONST_THREAD_M, 1);
        /* Of matrices it is a sub-group that has so many columns. */
        uint32_t columns = call_get(call, CONST_SUBGROUP, 0) ? call_get(call, CONST_THREAD_N, 0) : 0;
        snprintf(text, 64, "%ux%ux%u, %ux%u a %s%s", (unsigned)m, (unsigned)n,
                 (unsigned)call_get(call, CONST_TILE_K, 1), (unsigned)thread_m,
                 (unsigned)(columns ? columns
                            : local ? m * n / thread_m / local
                                    : 1),
                 columns ? "sub-group" : "work-item", more);
    }
}
