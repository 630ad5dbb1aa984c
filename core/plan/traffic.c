/* Counts the bytes that kernels move, from the constants that they are launched with: a rule per kernel says what its
 * work-items ask of memory, how much of it they had asked for before, and what was touched in between.
 *
 * What was read before is found in the cache again when the bytes that are touched between the two reads fit; else it
 * comes from memory a second time. For that, work-groups are taken in the order of their numbers, ITEMS_AT_ONCE
 * work-items at a time (a wave), which go through their loops in step. What the second of two kernels reads of the
 * first one's scratch counts unless all of it fits; that it is written counts always. */
#include "plan/traffic.h"

#include <stdio.h>
#include <string.h>

#include "kernel/interface.h"

/* What a large GPU (132 multiprocessors) runs of kernels that take many registers; for row kernels it makes no
 * difference. A core of a CPU runs one work-group after the other: there the rule finds too much in the cache where
 * neighbouring work-groups share operands that do not fit it. */
enum { ITEMS_AT_ONCE = 67584 };

struct count {
    const struct call *call;
    const struct batch_shape *batch;
    const uint32_t *words;
    size_t storage;
    uint64_t cache;
    wherry_traffic *out; /* of the group so far: requested_*; in model_* what comes on top of Q */
    uint64_t scratch;    /* bytes of it that were written */
};

static uint64_t divide_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit; }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Bytes of an element of the argument, 0 where the call has no such slot. */
static uint64_t element_of(const struct count *c, uint8_t slot)
{
    for (int i = 0; i < c->call->n_arguments; i++) {
        const struct call_argument *a = &c->call->arguments[i];
        /* LSE, DELTA and PARTIALS have the lists' slots. */
        bool words = slot == SLOT_IDS || slot == SLOT_POSITIONS || slot == SLOT_TYPES || a->tensor == TENSOR_SCRATCH;
        if (a->slot == slot) return words ? 4 : c->storage;
    }
    return 0;
}

/* Elements that work-items ask for. */
static void reads(struct count *c, uint8_t slot, uint64_t elements)
{
    c->out->requested_read += elements * element_of(c, slot);
}

static void writes(struct count *c, uint8_t slot, uint64_t elements)
{
    c->out->requested_written += elements * element_of(c, slot);
}

/* Elements that were read before, `distance` bytes ago. */
static void reads_again(struct count *c, uint8_t slot, uint64_t elements, uint64_t distance)
{
    if (distance > c->cache || !c->cache) c->out->model_read += elements * element_of(c, slot);
}

/* The same of what is written again: without a cache it would have gone to memory in between. */
static void writes_again(struct count *c, uint8_t slot, uint64_t elements, uint64_t distance)
{
    if (distance > c->cache || !c->cache) c->out->model_written += elements * element_of(c, slot);
}

static void writes_scratch(struct count *c, uint8_t slot, uint64_t elements)
{
    writes(c, slot, elements);
    c->scratch += elements * sizeof(float);
}

static uint32_t get(const struct count *c, uint8_t id, uint32_t otherwise) { return call_get(c->call, id, otherwise); }

static uint64_t rows_of(const struct count *c) { return c->words[get(c, CONST_ROWS, HEADER_TOKENS)]; }

static uint64_t length_of(const struct count *c, uint32_t sequence)
{
    const uint32_t *offsets = c->words + c->words[HEADER_AT_OFFSETS];
    return offsets[sequence + 1] - offsets[sequence];
}

static uint64_t vector_of(const struct count *c) { return 16 / c->storage; }

/* Elements of one load or store in kernels for any row length. */
static uint64_t access_of(const struct count *c) { return get(c, CONST_ALIGNED, 0) ? vector_of(c) : 1; }

static uint64_t groups_at_once(const struct count *c)
{
    uint64_t n = ITEMS_AT_ONCE / get(c, CONST_LOCAL_SIZE, 1);
    return n ? n : 1;
}

/* ---- rows of N elements (cl/row.h) ---- */

/* Loads of a row: past its end a load repeats the last columns. */
static uint64_t row_loads(const struct count *c)
{
    uint64_t step = access_of(c) * get(c, CONST_LOCAL_SIZE, 1);
    return divide_up(get(c, CONST_N, 1), step) * step;
}

/* Bytes of one row of all operands: the distance to what every row reads again. */
static uint64_t row_bytes(const struct count *c)
{
    return (uint64_t)c->call->n_arguments * get(c, CONST_N, 1) * c->storage;
}

/* A vector of N that is read for every one of `rows` rows in `loads`. */
static void reads_vector(struct count *c, uint8_t slot, uint64_t rows, uint64_t loads)
{
    reads(c, slot, rows * loads);
    if (rows) reads_again(c, slot, (rows - 1) * get(c, CONST_N, 1), row_bytes(c));
}

static void count_layernorm(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), loads = row_loads(c);
    reads(c, SLOT_X, rows * loads);
    reads_vector(c, SLOT_BIAS, rows, loads);
    reads(c, SLOT_RESIDUAL, rows * loads);
    reads_vector(c, SLOT_GAMMA, rows, loads);
    reads_vector(c, SLOT_BETA, rows, loads);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

/* Which rows a list names is the batch's affair: words count as all different. */
static void count_embed(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), loads = row_loads(c), items = get(c, CONST_LOCAL_SIZE, 1);
    reads(c, SLOT_X, rows * loads);
    reads(c, SLOT_IDS, rows * items);
    reads(c, SLOT_WORD, rows * loads);
    reads(c, SLOT_POSITIONS, rows * items);
    reads(c, SLOT_POSITION, rows * loads);
    if (rows > c->batch->longest)
        reads_again(c, SLOT_POSITION, (rows - c->batch->longest) * n, c->batch->longest * row_bytes(c));
    reads(c, SLOT_TYPES, rows * items);
    reads(c, SLOT_TYPE, rows * loads);
    reads_vector(c, SLOT_GAMMA, rows, loads);
    reads_vector(c, SLOT_BETA, rows, loads);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

static void count_map(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1);
    reads(c, SLOT_X, rows * n);
    reads_vector(c, SLOT_BIAS, rows, n);
    reads(c, SLOT_RESIDUAL, rows * n);
    reads(c, SLOT_SAVED, rows * n);
    writes(c, SLOT_Y, rows * n);
    writes(c, SLOT_SUM, rows * n);
}

static void count_pool(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1);
    bool tokens = get(c, CONST_POOL, POOL_NONE) == POOL_MEAN || get(c, CONST_POOL, POOL_NONE) == POOL_MAX;
    reads(c, SLOT_X, (tokens ? c->words[HEADER_TOKENS] : rows) * row_loads(c));
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
        reads_again(c, SLOT_X, (rows - c->words[HEADER_SEQUENCES]) * n, row_bytes(c));
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

/* Rows that layernorm_backward takes at a time: the kernel's head says why. */
static uint64_t layernorm_backward_rows(const struct count *c)
{
    uint64_t access = access_of(c), items = get(c, CONST_LOCAL_SIZE, 1), part_rows = get(c, CONST_PART_ROWS, 1);
    uint64_t steps = divide_up(get(c, CONST_N, 1), access * items), dx = get(c, CONST_NORM_DX, 0);
    uint64_t operands = 1 + get(c, CONST_RESIDUAL, 0) + (dx || get(c, CONST_NORM_DW, 0)) +
                        (get(c, CONST_BIAS_SUM, BIAS_SUM_NONE) == BIAS_SUM_OPERAND);
    uint64_t registers = (2 * steps * access + operands * steps * (access > 1 ? 4 : 1)) * items;
    uint64_t most = dx ? 7168 : 12288;
    return part_rows >= 4 && 4 * registers <= most ? 4 : part_rows >= 2 && 2 * registers <= most ? 2 : 1;
}

static void count_layernorm_backward(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 1), part_rows = get(c, CONST_PART_ROWS, 1);
    uint64_t loads = part_loads(rows, part_rows, layernorm_backward_rows(c)) * row_loads(c);
    uint64_t parts = divide_up(rows, part_rows);
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

/* A work-item adds every SHARERS-th part, four at a time; at the end some are loaded again. */
static void count_reduce(struct count *c)
{
    uint64_t n = get(c, CONST_N, 1), sets = get(c, CONST_SETS, 1), columns = get(c, CONST_TILE_N, 8);
    uint64_t parts = divide_up(rows_of(c), get(c, CONST_PART_ROWS, 1)), sharers = get(c, CONST_LOCAL_SIZE, 1) / columns;
    uint64_t loads = 0;
    for (uint64_t s = 0; s < least(sharers, parts); s++) loads += 4 * divide_up(parts - s, 4 * sharers);
    reads(c, SLOT_PARTIALS, divide_up(sets * n, columns) * columns * loads);
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
    if (m) reads_again(c, list, (m - 1) * rows, rows * sizeof(uint32_t) + row_bytes(c));
    if (in_parts)
        writes_scratch(c, SLOT_SUM, divide_up(rows, part_rows) * m * n);
    else
        writes(c, SLOT_Y, m * n);
}

/* ---- rows of scores (cl/scores.h) ---- */

/* `operands` are read, and what does not stay in registers in every one of `passes`. */
static void count_score_rows(struct count *c, const uint8_t *operands, int n_operands, uint64_t passes)
{
    uint64_t items = get(c, CONST_LOCAL_SIZE, 1), block = items * vector_of(c), held = 16 / vector_of(c);
    uint64_t heads = get(c, CONST_HEADS, 1);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), blocks = divide_up(length, block), rows = length * heads;
        uint64_t rest = blocks > held ? blocks - held : 0;
        uint64_t together = groups_at_once(c) * length * c->storage * (uint64_t)c->call->n_arguments;
        for (int i = 0; i < n_operands; i++) {
            reads(c, operands[i], rows * (least(blocks, held) + rest * passes) * block);
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
    uint32_t lse = get(c, CONST_LSE, LSE_NONE);
    count_score_rows(c, operands, 1, get(c, CONST_SOFTMAX, 1) && lse != LSE_READ ? 3 : 1);
    if (lse == LSE_READ) reads(c, SLOT_LSE, rows * get(c, CONST_LOCAL_SIZE, 1));
    if (lse == LSE_WRITE) writes(c, SLOT_LSE, rows);
}

static void count_softmax_backward(struct count *c)
{
    static const uint8_t operands[] = {SLOT_X, SLOT_SAVED};
    uint64_t rows = (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1);
    count_score_rows(c, operands, 2, get(c, CONST_DELTA, 0) ? 1 : 2);
    reads(c, SLOT_DELTA, rows * get(c, CONST_LOCAL_SIZE, 1));
}

/* ---- products ---- */

/* A grid of tiles, columns fastest, whose rows share x and whose columns share w. A wave of work-groups goes through
 * its sums in step, so that in it each panel is read once; the next wave reads its panels anew. */
struct panels {
    uint64_t rows, columns, parts; /* of tiles; parts are slowest and have panels of their own */
    uint64_t x, w;                 /* elements of both operands */
    uint64_t others;               /* bytes of the rest, which a wave has its share of */
    uint64_t slabs;                /* steps of a sum */
};

static void reads_panels(struct count *c, const struct panels *p)
{
    uint64_t tiles = p->rows * p->columns * p->parts, wave = groups_at_once(c), waves = divide_up(tiles, wave);
    uint64_t x_panels = 0, w_panels = 0;
    reads(c, SLOT_X, p->x * p->columns);
    reads(c, SLOT_W, p->w * p->rows);
    if (!tiles) return;
    for (uint64_t first = 0; first < tiles; first += wave) {
        uint64_t last = least(first + wave, tiles) - 1, part = p->rows * p->columns;
        x_panels += last / p->columns - first / p->columns + 1;
        for (uint64_t at = first; at <= last; at = (at / part + 1) * part)
            w_panels += least(p->columns, least(last + 1, (at / part + 1) * part) - at);
    }
    uint64_t x = p->x * x_panels / (p->rows * p->parts), w = p->w * w_panels / (p->columns * p->parts);
    x = x > p->x ? x : p->x;
    w = w > p->w ? w : p->w;
    uint64_t of_a_wave = ((x + w) * c->storage + p->others) / waves;
    reads_again(c, SLOT_X, p->x * p->columns - x, of_a_wave / p->slabs);
    reads_again(c, SLOT_W, p->w * p->rows - w, of_a_wave / p->slabs);
    reads_again(c, SLOT_X, x - p->x, of_a_wave);
    reads_again(c, SLOT_W, w - p->w, of_a_wave);
}

static void count_gemm(struct count *c)
{
    uint64_t rows = rows_of(c), n = get(c, CONST_N, 32), k = get(c, CONST_K, 32), m = get(c, CONST_M, 32);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32), slab = get(c, CONST_TILE_K, 16);
    bool weight = get(c, CONST_FORM, GEMM_NT) == GEMM_TN, sums = get(c, CONST_COLUMN_SUMS, 0) != 0;
    uint64_t out_rows = weight ? m : rows, depth = weight ? rows : k;
    struct panels p = {.rows = divide_up(out_rows, tile_m), .columns = divide_up(n, tile_n), .parts = 1};
    if (weight && sums) {
        p.parts = divide_up(rows, get(c, CONST_PART_ROWS, 1));
        depth = get(c, CONST_PART_ROWS, 1);
    }
    uint64_t partials = !sums ? 0 : weight ? p.parts * m * n : p.rows * n;
    p.x = weight ? rows * m : rows * k;
    p.w = weight ? rows * n : n * k;
    p.slabs = depth ? divide_up(depth, slab) : 1;
    p.others =
        out_rows * n *
        (element_of(c, SLOT_Y) + element_of(c, SLOT_SUM) + element_of(c, SLOT_RESIDUAL) + element_of(c, SLOT_SAVED));
    reads_panels(c, &p);
    /* Every work-item loads the bias of its columns, once for a tile. */
    uint64_t sharers = tile_m / get(c, CONST_THREAD_M, 4);
    reads(c, SLOT_BIAS, p.rows * sharers * n);
    if (p.rows) reads_again(c, SLOT_BIAS, (p.rows - 1) * n, row_bytes(c));
    reads(c, SLOT_RESIDUAL, out_rows * n);
    reads(c, SLOT_SAVED, out_rows * n);
    writes(c, SLOT_Y, out_rows * n);
    writes(c, SLOT_SUM, out_rows * n);
    if (partials) writes_scratch(c, SLOT_PARTIALS, partials);
}

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

static void count_attention(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 32);
    bool slabs = dim > get(c, CONST_TILE_K, 32); /* else the queries stay in shared memory */
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads, of_a_head = 4 * length * dim * c->storage;
        uint64_t tiles = divide_up(length, get(c, CONST_TILE_M, 32));
        uint64_t steps = slabs ? divide_up(length, get(c, CONST_TILE_N, 32)) : 1;
        reads(c, SLOT_X, rows * steps);
        reads_again(c, SLOT_X, rows * (steps - 1), of_a_head);
        for (uint8_t slot = SLOT_W; slot <= SLOT_V; slot++) {
            reads(c, slot, rows * tiles);
            reads_again(c, slot, rows * (tiles - 1), of_a_head);
        }
        writes(c, SLOT_Y, rows);
        writes(c, SLOT_LSE, length * heads);
    }
}

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
};

static const struct rule *rule_find(const char *kernel)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].kernel, kernel)) return &rules[i];
    return NULL;
}

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
        rule_find(calls[i].kernel)->count(&c);
    }
    out->model_read += out->unique_read + (c.scratch > cache_bytes ? c.scratch : 0);
    out->model_written += out->unique_written + c.scratch;
    out->footprint += c.scratch;
    return true;
}

void call_variant(const struct call *call, char text[64])
{
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 0), parts = call_get(call, CONST_PARTS, 1),
             part_rows = call_get(call, CONST_PART_ROWS, 0);
    char more[32] = "";
    if (!strcmp(call->kernel, "attention_backward") || !strcmp(call->kernel, "attention_dq"))
        snprintf(more, sizeof more, ", %u part%s", (unsigned)parts, parts > 1 ? "s" : "");
    else if (part_rows)
        snprintf(more, sizeof more, ", %u row%s a part", (unsigned)part_rows, part_rows > 1 ? "s" : "");
    if (!call_get(call, CONST_TILE_K, 0))
        snprintf(text, 64, "%u a work-group%s", (unsigned)local, more);
    else {
        uint32_t m = call_get(call, CONST_TILE_M, 1), n = call_get(call, CONST_TILE_N, 1),
                 thread_m = call_get(call, CONST_THREAD_M, 1);
        snprintf(text, 64, "%ux%ux%u, %ux%u a work-item%s", (unsigned)m, (unsigned)n,
                 (unsigned)call_get(call, CONST_TILE_K, 1), (unsigned)thread_m,
                 (unsigned)(local ? m * n / thread_m / local : 1), more);
    }
}
