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

#include "base/round.h"
#include "interface/interface.h"
#include "plan/batch.h"

/* What a large GPU runs of kernels that take many registers; for row kernels it makes no
 * difference. A core of a CPU runs one work-group after the other: there the rule finds too much in the cache where
 * neighbouring work-groups share operands that do not fit it. */
enum { ITEMS_AT_ONCE = 512 * LARGE_GPU_UNITS };

struct count {
    const struct call *call;
    const struct batch_shape *batch;
    const uint32_t *words;
    size_t storage;
    uint64_t cache;
    wherry_traffic *out; /* of the group so far: requested_*; in model_* what comes on top of Q */
    uint64_t scratch;    /* bytes of it that were written */
};

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

/* Work-items that share a row, and how often a work-group has so many. */
static uint64_t team_of(const struct count *c) { return get(c, CONST_TEAM, get(c, CONST_LOCAL_SIZE, 1)); }

static uint64_t teams_of(const struct count *c) { return get(c, CONST_LOCAL_SIZE, 1) / team_of(c); }

/* ---- rows of N elements (cl/row.h) ---- */

/* Loads of a row: past its end a load repeats the last columns. */
static uint64_t row_loads(const struct count *c)
{
    uint64_t step = access_of(c) * team_of(c);
    return divide_up(get(c, CONST_N, 1), step) * step;
}

/* Rows that are read: teams after the last one repeat it. */
static uint64_t rows_walked(const struct count *c) { return divide_up(rows_of(c), teams_of(c)) * teams_of(c); }

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
        reads_again(c, SLOT_POSITION, (rows - c->batch->longest) * n, c->batch->longest * row_bytes(c));
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
    if (m) reads_again(c, list, (m - 1) * rows, rows * sizeof(uint32_t) + row_bytes(c));
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

/* A grid of tiles, whose rows share x and whose columns share w: in bands of so many rows, rows fastest inside; with
 * one row in a band columns are fastest. A wave of work-groups goes through its sums in step, so that in it each panel
 * is read once; the next wave reads its panels anew. */
struct panels {
    uint64_t rows, columns, parts; /* of tiles; parts are slowest and have panels of their own */
    uint64_t band;
    uint64_t x, w;    /* elements of both operands */
    uint64_t others;  /* bytes of the rest, which a wave has its share of */
    uint64_t k_tiles; /* steps of a sum */
};

static void reads_panels(struct count *c, const struct panels *p)
{
    uint64_t tiles = p->rows * p->columns * p->parts, wave = groups_at_once(c), waves = divide_up(tiles, wave);
    uint64_t x_panels = 0, w_panels = 0;
    reads(c, SLOT_X, p->x * p->columns);
    reads(c, SLOT_W, p->w * p->rows);
    if (!tiles) return;
    for (uint64_t first = 0; first < tiles; first += wave) {
        uint64_t end = least(first + wave, tiles), part = p->rows * p->columns, of_part = 0, next;
        for (uint64_t at = first; at < end; at = next) { /* what of a band is in the wave */
            uint64_t in_part = at % part, row = in_part / (p->band * p->columns) * p->band;
            uint64_t wide = least(p->band, p->rows - row), begin = at - (in_part - row * p->columns);
            next = least(begin + wide * p->columns, end);
            x_panels += least(wide, next - at);
            of_part += (next - 1 - begin) / wide - (at - begin) / wide + 1;
            if (next % part && next < end) continue;
            w_panels += least(p->columns, of_part);
            of_part = 0;
        }
    }
    uint64_t x = p->x * x_panels / (p->rows * p->parts), w = p->w * w_panels / (p->columns * p->parts);
    x = x > p->x ? x : p->x;
    w = w > p->w ? w : p->w;
    uint64_t of_a_wave = ((x + w) * c->storage + p->others) / waves;
    reads_again(c, SLOT_X, p->x * p->columns - x, of_a_wave / p->k_tiles);
    reads_again(c, SLOT_W, p->w * p->rows - w, of_a_wave / p->k_tiles);
    reads_again(c, SLOT_X, x - p->x, of_a_wave);
    reads_again(c, SLOT_W, w - p->w, of_a_wave);
}

/* Of a product: one of them is the batch's number of rows. */
struct extents {
    uint64_t m, n, k;
};

static struct extents extents_of(const struct count *c)
{
    uint32_t runtime = call_runtime(c->call);
    return (struct extents){.m = runtime == RUNTIME_M ? rows_of(c) : get(c, CONST_M, 32),
                            .n = runtime == RUNTIME_N ? rows_of(c) : get(c, CONST_N, 32),
                            .k = runtime == RUNTIME_K ? rows_of(c) : get(c, CONST_K, 32)};
}

/* `band`: of tiles; `sharers`: work-items that load the bias of a tile's column, and what scales and shifts it. Where a
 * bias is a row's, so do all who have eight results of it. The tokens that wide accesses reach after a batch's last
 * one are not counted. */
static void count_product(struct count *c, uint64_t band, uint64_t sharers)
{
    uint32_t runtime = call_runtime(c->call);
    struct extents all = extents_of(c);
    uint64_t rows = rows_of(c), m = all.m, n = all.n, k = all.k, depth = k, part_rows = get(c, CONST_PART_ROWS, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32), tile_k = get(c, CONST_TILE_K, 16);
    bool weight = runtime == RUNTIME_K, channels = runtime == RUNTIME_N, sums = get(c, CONST_COLUMN_SUMS, 0) != 0;
    struct panels p = {.rows = divide_up(m, tile_m), .columns = divide_up(n, tile_n), .parts = 1, .band = band};
    if (weight && sums) {
        p.parts = divide_up(rows, part_rows);
        depth = part_rows;
    }
    uint64_t partials = !sums ? 0 : weight ? p.parts * m * n : divide_up(rows, part_rows) * (channels ? m : n);
    uint64_t second = m * (weight ? 1 : get(c, CONST_NORM, 0) ? k : n); /* output */
    p.x = m * k;
    p.w = n * k;
    p.k_tiles = depth ? divide_up(depth, tile_k) : 1;
    p.others = m * n * (element_of(c, SLOT_Y) + element_of(c, SLOT_RESIDUAL) + element_of(c, SLOT_SAVED)) +
               second * element_of(c, SLOT_SUM);
    reads_panels(c, &p);
    reads(c, SLOT_BIAS, channels ? m * divide_up(n, 8) : p.rows * sharers * n);
    if (p.rows && p.columns) reads_again(c, SLOT_BIAS, channels ? (p.columns - 1) * m : (p.rows - 1) * n, row_bytes(c));
    /* gemm_small_batch's layernorm: one vector for all of a work-group's rows. */
    uint64_t factors = get(c, CONST_NORM_Y, 0) ? p.rows * sharers * n : p.rows * p.columns * 8 * k;
    reads(c, SLOT_GAMMA, factors);
    reads(c, SLOT_BETA, factors);
    reads(c, SLOT_RESIDUAL, m * n);
    reads(c, SLOT_SAVED, m * n);
    writes(c, SLOT_Y, m * n);
    writes(c, SLOT_SUM, second);
    if (partials) writes_scratch(c, SLOT_PARTIALS, partials);
}

/* Every work-item loads the bias of its columns, once for a tile. */
static void count_gemm(struct count *c) { count_product(c, 1, get(c, CONST_TILE_M, 32) / get(c, CONST_THREAD_M, 4)); }

/* Bands of 2048 rows; eight lanes of a warp have the same columns. */
static void count_gemm_mma(struct count *c)
{
    uint64_t tile_m = get(c, CONST_TILE_M, 128);
    count_product(c, 2048 / tile_m, tile_m / get(c, CONST_WARP_M, 64) * 8);
}

/* Every result's maker loads its bias. */
static void count_gemm_small_batch(struct count *c) { count_product(c, 1, get(c, CONST_TILE_M, 16)); }

/* Seven warps make a tile's results; lanes with the same eight columns load the same bias. For a row that is normalized
 * it is loaded again. */
static void count_gemm_wgmma(struct count *c)
{
    count_product(c, 8,
                  get(c, CONST_NORM_Y, 0) ? get(c, CONST_TILE_M, 64) : 7 * (32 / (get(c, CONST_TILE_N, 256) / 8)));
}

/* Where a tile has more rows than there are, and a stage more of k, the last ones are loaded again, and so is the last
 * of many stages. */
static void count_gemm_coopmat(struct count *c)
{
    struct extents all = extents_of(c);
    uint64_t m = all.m, n = all.n, k = all.k;
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32), tile_k = get(c, CONST_TILE_K, 16);
    bool weight = call_runtime(c->call) == RUNTIME_K;
    uint64_t part = weight && get(c, CONST_COLUMN_SUMS, 0) ? get(c, CONST_PART_ROWS, 1) : k;
    uint64_t k_tiles = part ? divide_up(k, part) * divide_up(part, tile_k) : 0;
    uint64_t loaded = (k_tiles + (!weight && k >= 32 * tile_k)) * tile_k;
    uint64_t tiles_m = divide_up(m, tile_m), tiles_n = divide_up(n, tile_n);
    count_product(c, 8, 8 * (uint64_t)get(c, CONST_LOCAL_SIZE, 1) / tile_n);
    reads(c, SLOT_X, (tiles_m * tile_m * loaded - m * k) * tiles_n);
    reads(c, SLOT_W, (tiles_n * tile_n * loaded - n * k) * tiles_m);
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
    /* Else the queries stay where they are: in shared memory, or in registers. */
    bool in_stages = !strcmp(c->call->kernel, "attention") && dim > get(c, CONST_TILE_K, 32);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads, of_a_head = 4 * length * dim * c->storage;
        uint64_t tiles = divide_up(length, get(c, CONST_TILE_M, 32));
        uint64_t steps = in_stages ? divide_up(length, get(c, CONST_TILE_N, 32)) : 1;
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

/* Every work-group of a tile of queries computes all heads, 16 queries at a time, and a head's share of the columns. */
static void count_attention_out(struct count *c)
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
        reads(c, SLOT_RESIDUAL, rows);
        writes(c, SLOT_Y, rows);
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

/* Rows that a group on cooperative matrices loads as it walks over a sequence: past the end, and for the step after
 * the last, the last row again. */
static uint64_t walked_rows(const struct count *c, uint64_t length)
{
    uint64_t step = get(c, CONST_TILE_N, 32);
    return (divide_up(length, step) + 1) * step;
}

static void count_attention_coopmat(struct count *c)
{
    uint64_t row = (uint64_t)get(c, CONST_HEADS, 1) * get(c, CONST_HEAD_DIM, 32), tile_m = get(c, CONST_TILE_M, 32);
    count_attention(c);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), tiles = divide_up(length, tile_m);
        reads(c, SLOT_X, row * (tiles * tile_m - length));
        for (uint8_t slot = SLOT_W; slot <= SLOT_V; slot++)
            reads(c, slot, row * tiles * (walked_rows(c, length) - length));
    }
}

/* Groups of keys walk over all queries and their gradients, groups of queries over all keys and values; what is their
 * own they load once. The groups of a sequence's head are neighbours. */
static void count_attention_backward_coopmat(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), row = heads * get(c, CONST_HEAD_DIM, 32),
             items = get(c, CONST_LOCAL_SIZE, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), query_rows = get(c, CONST_QUERY_ROWS, 32),
             step = get(c, CONST_TILE_N, 32);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), walked = walked_rows(c, length),
                 of_a_head = 4 * length * row / heads * c->storage;
        uint64_t tiles = divide_up(length, tile_m), query_tiles = divide_up(length, query_rows);
        const struct {
            uint8_t slot;
            uint64_t loads, again;
        } operands[] = {{SLOT_X, query_tiles * query_rows + tiles * walked, tiles},
                        {SLOT_GRADIENT, query_tiles * query_rows + tiles * walked, tiles},
                        {SLOT_W, tiles * tile_m + query_tiles * walked, query_tiles},
                        {SLOT_V, tiles * tile_m + query_tiles * walked, query_tiles}};
        for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
            reads(c, operands[i].slot, row * operands[i].loads);
            reads_again(c, operands[i].slot, row * length * operands[i].again, of_a_head);
        }
        /* Every work-item loads statistics. */
        uint64_t statistics =
            query_tiles * round_up(query_rows, items) + tiles * (walked / step) * round_up(step, items);
        reads(c, SLOT_LSE, heads * statistics);
        reads(c, SLOT_DELTA, heads * statistics);
        writes(c, SLOT_Y, 3 * length * row);
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

/* ---- attention by wgmma ----
 * Work-groups have the next tile or head on the way while they write, and are as many as multiprocessors: between two
 * reads of a tile lie the heads that run at the same time. */

enum { WGMMA_TILE = 128 }; /* queries of the forward pass, keys of both */

static uint64_t heads_at_once(const struct count *c, uint64_t length, uint64_t groups_of_a_head)
{
    uint64_t groups = get(c, CONST_GROUPS, 0) ? get(c, CONST_GROUPS, 0) : groups_at_once(c);
    uint64_t heads = divide_up(groups, groups_of_a_head) + 1;
    return heads * 4 * length * get(c, CONST_HEAD_DIM, 64) * c->storage;
}

static void count_attention_wgmma(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 64);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads, tiles = divide_up(length, WGMMA_TILE);
        reads(c, SLOT_X, rows);
        for (uint8_t slot = SLOT_W; slot <= SLOT_V; slot++) {
            reads(c, slot, rows * tiles);
            if (tiles) reads_again(c, slot, rows * (tiles - 1), heads_at_once(c, length, tiles));
        }
        writes(c, SLOT_Y, rows);
        writes(c, SLOT_LSE, length * heads);
    }
}

/* Keys and values are read once, queries, their gradients and statistics for every tile of keys. The queries' sums go
 * to the partial sums for every tile, or once for every part (QUERY_ROWS), or not at all. */
static void count_attention_backward_wgmma(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 64), parts = get(c, CONST_PARTS, 1);
    bool kept = get(c, CONST_QUERY_ROWS, 0) != 0, whole = kept && parts == 1;
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads;
        uint64_t tiles = divide_up(length, WGMMA_TILE), used = least(tiles, parts), turns = divide_up(tiles, parts);
        if (!tiles) continue;
        uint64_t distance = heads_at_once(c, length, used) + (kept ? 0 : heads_at_once(c, length, used) / 2);
        reads(c, SLOT_X, rows * tiles);
        reads(c, SLOT_GRADIENT, rows * tiles);
        reads_again(c, SLOT_X, rows * (turns - 1), distance);
        reads_again(c, SLOT_GRADIENT, rows * (turns - 1), distance);
        reads(c, SLOT_W, rows);
        reads(c, SLOT_V, rows);
        reads(c, SLOT_LSE, length * tiles * heads);
        reads(c, SLOT_DELTA, length * tiles * heads);
        if (!whole) writes_scratch(c, SLOT_PARTIALS, rows * used);
        if (!kept) {
            reads(c, SLOT_PARTIALS, rows * (tiles - used));
            reads_again(c, SLOT_PARTIALS, rows * (tiles - used), distance);
            writes(c, SLOT_PARTIALS, rows * (tiles - used));
            writes_again(c, SLOT_PARTIALS, rows * (tiles - used), distance);
        }
        writes(c, SLOT_Y, (whole ? 3 : 2) * rows);
    }
}

/* ---- the table ---- */

static const struct rule {
    const char *kernel;
    void (*count)(struct count *c);
} rules[] = {
    {"attention", count_attention},
    {"attention_mma", count_attention},
    {"attention_out", count_attention_out},
    {"attention_backward", count_attention_backward},
    {"attention_backward_wgmma", count_attention_backward_wgmma},
    {"attention_backward_coopmat", count_attention_backward_coopmat},
    {"attention_coopmat", count_attention_coopmat},
    {"attention_dq", count_attention_dq},
    {"attention_wgmma", count_attention_wgmma},
    {"bgemm", count_bgemm},
    {"columns", count_columns},
    {"delta", count_delta},
    {"embed", count_embed},
    {"gemm", count_gemm},
    {"gemm_coopmat", count_gemm_coopmat},
    {"gemm_small_batch", count_gemm_small_batch},
    {"gemm_mma", count_gemm_mma},
    {"gemm_wgmma", count_gemm_wgmma},
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

static const struct rule *rule_find(const char *kernel)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(rules[i].kernel, kernel)) return &rules[i];
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
