/* What the traffic models of several kernels share: products in tiles, attention. */
#include "plan/traffic_model.h"

#include "graph/rotary.h"

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

struct extents extents_of(const struct count *c)
{
    uint32_t runtime = call_runtime(c->call);
    return (struct extents){.m = runtime == RUNTIME_M ? rows_of(c) : get(c, CONST_M, 32),
                            .n = runtime == RUNTIME_N ? rows_of(c) : get(c, CONST_N, 32),
                            .k = runtime == RUNTIME_K ? rows_of(c) : get(c, CONST_K, 32)};
}

uint64_t angle_rows_of(const struct count *c)
{
    for (int i = 0; i < c->call->n_arguments; i++) {
        const struct call_argument *a = &c->call->arguments[i];
        if (a->tensor >= 0 && c->graph->tensors[a->tensor].data == BATCH_ANGLES && c->batch->offsets)
            return rotary_rows_count(c->graph->rotary_trained, c->batch->sequences, c->batch->offsets);
    }
    return c->batch->longest;
}

/* Of rows of Q, K and V: each of eight neighbours reads its token's position, each pair of Q and K both of its numbers.
 */
static void reads_angles(struct count *c, uint64_t rows, uint64_t n)
{
    uint64_t units = rows * divide_up(n, 8), dim = get(c, CONST_HEAD_DIM, 2), keys = get(c, CONST_KEY_HEADS, 0),
             angles = rows * (keys ? n - keys * dim : n / 3 * 2);
    reads(c, SLOT_POSITIONS, units);
    reads_again(c, SLOT_POSITIONS, units - rows, dim * sizeof(float));
    reads(c, SLOT_POSITION, angles);
    reads_again(c, SLOT_POSITION, angles - rows * dim, dim * sizeof(float));
    if (rows) reads_again(c, SLOT_POSITION, (rows - angle_rows_of(c)) * dim, angle_rows_of(c) * count_row_bytes(c));
}

void reads_turn(struct count *c, uint64_t heads, uint64_t sharers)
{
    uint64_t rows = c->words[HEADER_TOKENS], dim = get(c, CONST_HEAD_DIM, 2), row = dim * sizeof(float);
    if (!get(c, CONST_ROTARY, ROTARY_NONE) || !rows) return;
    reads(c, SLOT_TURN_POSITIONS, rows * heads * sharers);
    reads_again(c, SLOT_TURN_POSITIONS, rows * (heads * sharers - 1), row);
    reads(c, SLOT_TURN, rows * heads * dim);
    reads_again(c, SLOT_TURN, rows * (heads - 1) * dim, c->batch->longest * row);
    reads_again(c, SLOT_TURN, (rows - angle_rows_of(c)) * dim, angle_rows_of(c) * count_row_bytes(c));
}

void count_moments(struct count *c)
{
    uint32_t moments = get(c, CONST_MOMENTS, MOMENTS_NONE);
    uint64_t rows = rows_of(c), each = get(c, CONST_RMS, RMS_NONE) ? 1 : 2, n = get(c, CONST_N, 1);
    uint64_t columns = divide_up(n, get(c, CONST_TILE_N, 256)), strips = get(c, CONST_K, 1) / MOMENTS_STRIP;
    if (moments == MOMENTS_WRITTEN) writes(c, SLOT_MOMENTS, rows * (n / MOMENTS_STRIP) * each);
    if (moments != MOMENTS_READ) return;
    reads(c, SLOT_MOMENTS, rows * strips * each * columns);
    reads_again(c, SLOT_MOMENTS, rows * strips * each * (columns - 1), count_row_bytes(c));
}

/* Where a bias is a row's, all who have eight results of it load it. The tokens that wide accesses reach after a
 * batch's last one are not counted. */
void count_product(struct count *c, uint64_t band, uint64_t sharers)
{
    uint32_t runtime = call_runtime(c->call);
    struct extents all = extents_of(c);
    uint64_t rows = rows_of(c), m = all.m, n = all.n, k = all.k, depth = k, part_rows = get(c, CONST_PART_ROWS, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32), tile_k = get(c, CONST_TILE_K, 16);
    bool weight = runtime == RUNTIME_K, channels = runtime == RUNTIME_N, sums = get(c, CONST_COLUMN_SUMS, 0) != 0;
    struct panels p = {.rows = divide_up(m, tile_m), .columns = divide_up(n, tile_n), .parts = 1, .band = band};
    if (c->call->counters || (weight && sums)) {
        p.parts = divide_up(k, part_rows);
        depth = part_rows;
    }
    uint64_t partials = !sums || c->call->counters ? 0
                        : weight                   ? p.parts * m * n
                                                   : divide_up(rows, part_rows) * (channels ? m : n);
    uint64_t second = m * (weight ? 1 : get(c, CONST_NORM, 0) ? k : n); /* output */
    p.x = m * k;
    p.w = n * k;
    p.k_tiles = depth ? divide_up(depth, tile_k) : 1;
    /* With a gate a pair of columns gives one result; in its gradient a column two, which are of two that were kept. */
    bool gated = get(c, CONST_GATE, GATE_NONE), gradient = gated && get(c, CONST_DERIVATIVE, ACTIVATION_NONE);
    uint64_t results = gradient ? 2 * m * n : gated ? m * n / 2 : m * n, saved = gradient ? 2 * m * n : m * n;
    p.others = results * element_of(c, SLOT_Y) + m * n * element_of(c, SLOT_RESIDUAL) +
               saved * element_of(c, SLOT_SAVED) + second * element_of(c, SLOT_SUM);
    reads_panels(c, &p);
    reads(c, SLOT_BIAS, channels ? m * divide_up(n, 8) : p.rows * sharers * n);
    if (p.rows && p.columns)
        reads_again(c, SLOT_BIAS, channels ? (p.columns - 1) * m : (p.rows - 1) * n, count_row_bytes(c));
    /* gemm_small_batch's layernorm: one vector for all of a work-group's rows. Of moments one value for each row. */
    uint64_t factors = get(c, CONST_NORM_Y, 0)    ? p.rows * sharers * n
                       : get(c, CONST_MOMENTS, 0) ? p.columns * m
                                                  : p.rows * p.columns * 8 * k;
    reads(c, SLOT_GAMMA, factors);
    reads(c, SLOT_BETA, factors);
    reads(c, SLOT_RESIDUAL, m * n);
    reads(c, SLOT_SAVED, saved);
    writes(c, SLOT_Y, results);
    writes(c, SLOT_SUM, second);
    if (get(c, CONST_ROTARY, ROTARY_NONE)) /* positions have DELTA's slot */
        reads_angles(c, m, n);
    else
        writes(c, SLOT_DELTA, m * (n / get(c, CONST_HEAD_DIM, 1)));
    if (partials) writes_scratch(c, SLOT_PARTIALS, partials);
}

/* Of the work-groups that run at the same time, those of all sequences share words; each reads them once for each of
 * its tiles of tokens. */
void count_words(struct count *c, uint64_t sharers)
{
    uint64_t n = get(c, CONST_N, 32), k = get(c, CONST_K, 32), tile_m = get(c, CONST_TILE_M, 32);
    uint64_t sequences = c->words[HEADER_SEQUENCES], tokens = c->words[HEADER_TOKENS], tiles = 0;
    uint64_t columns = divide_up(n, get(c, CONST_TILE_N, 32));
    for (uint32_t s = 0; s < sequences; s++) tiles += divide_up(length_of(c, s), tile_m);
    if (!tiles) return;
    uint64_t of_words = (tokens + sequences * get(c, CONST_TILE_N, 32)) * k * c->storage;
    reads(c, SLOT_X, tokens * k * columns);
    reads_again(c, SLOT_X, tokens * k * (columns - 1), of_words);
    reads(c, SLOT_W, n * k * tiles);
    reads_again(c, SLOT_W, n * k * (tiles - 1), of_words);
    reads(c, SLOT_BIAS, sequences * sharers * n);
    reads_again(c, SLOT_BIAS, (sequences - 1) * n, of_words);
    writes(c, SLOT_Y, sequences * n);
}

/* Of the list: what work-items read of it, and its length. */
static void reads_list(struct count *c, uint64_t ends, uint64_t rows, uint64_t length)
{
    uint64_t all = ends * get(c, CONST_LOCAL_SIZE, 64) + rows;
    reads(c, SLOT_IDS, all);
    if (all > length) reads_again(c, SLOT_IDS, all - length, length * sizeof(uint32_t));
}

/* With as many rows for each expert: how many each really has is known when route has run. Of weights, which are read
 * once for a tile of rows, it may be one tile more or less for each expert, and as many more or fewer ends of rows that
 * are passed. Columns of tiles are neighbours, which share rows and an expert's weights. */
void count_experts(struct count *c)
{
    uint64_t rows = rows_of(c), all = rows * get(c, CONST_CHOSEN, 1), experts = get(c, CONST_EXPERTS, 1),
             with_rows = least(all, experts), each = experts_rows(c->call, rows);
    uint64_t m = get(c, CONST_M, 0), n = get(c, CONST_N, 1), k = get(c, CONST_K, 1);
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32);
    uint64_t columns = divide_up(n, tile_n), tiles_of_rows = divide_up(each, tile_m), vector = vector_of(c);
    if (m) { /* of a weight's gradient */
        uint64_t tiles_m = divide_up(m, tile_m), distance = each * (m + n) * c->storage;
        uint64_t right = get(c, CONST_TOKEN_ROWS, 0) ? rows : all;
        reads(c, SLOT_X, all * m * columns);
        reads_again(c, SLOT_X, all * m * (columns - 1), distance);
        reads(c, SLOT_W, all * n * tiles_m);
        reads_again(c, SLOT_W, (all * tiles_m - right) * n, distance);
        /* The first expert's rows begin at 0; a row of the list is read for each vector of both operands. */
        reads_list(c, (2 * experts - 1) * tiles_m * columns,
                   all * (columns * divide_up(m, vector) + tiles_m * divide_up(n, vector)), all + experts);
        writes(c, SLOT_Y, experts * m * n);
        return;
    }
    uint64_t left = get(c, CONST_TOKEN_ROWS, 0) ? rows : all, distance = (tile_m * k + n * k) * c->storage;
    reads(c, SLOT_X, all * k * columns);
    reads_again(c, SLOT_X, (all * columns - left) * k, distance);
    reads(c, SLOT_W, with_rows * tiles_of_rows * n * k);
    reads_again(c, SLOT_W, with_rows * (tiles_of_rows - 1) * n * k, distance);
    /* For each vector of a stage, and for eight results. */
    reads_list(c, columns * ends_walked(divide_up(all, tile_m) + experts, tiles_of_rows, with_rows, experts),
               all * (columns * (get(c, CONST_TILE_K, 16) / vector) + divide_up(n, 8)), all + experts);
    reads(c, SLOT_SAVED, all * n);
    writes(c, SLOT_Y, all * n);
    writes(c, SLOT_SUM, all * n);
}

/* What the tile from `at` on meets of the other side of the scores, where it sees so many before and after: steps from
 * a multiple of `unit` on, whole ones, or to the sequence's end. */
struct stretch {
    uint64_t first, end;
};

static struct stretch met_by(uint64_t length, uint64_t at, uint64_t rows, uint64_t step, uint64_t unit, uint64_t before,
                             uint64_t after)
{
    uint64_t last = least(at + rows, length) - 1, first = before && at >= before ? (at - before + 1) / unit * unit : 0;
    uint64_t end = after && last + after < length ? last + after : length;
    return (struct stretch){first, least(first + round_up(end - first, step), length)};
}

static uint64_t walked(uint64_t length, uint64_t rows, uint64_t step, uint64_t unit, uint64_t before, uint64_t after)
{
    uint64_t n = 0;
    for (uint64_t at = 0; at < length; at += rows) {
        struct stretch met = met_by(length, at, rows, step, unit, before, after);
        n += met.end - met.first;
    }
    return n;
}

uint64_t keys_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step, uint64_t unit)
{
    return walked(length, rows, step, unit, get(c, CONST_BEFORE, 0), get(c, CONST_AFTER, 0));
}

uint64_t queries_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step)
{
    return walked(length, rows, step, step, get(c, CONST_AFTER, 0), get(c, CONST_BEFORE, 0));
}

static uint64_t steps_of(uint64_t length, uint64_t rows, uint64_t step, uint64_t before, uint64_t after)
{
    uint64_t n = 0;
    for (uint64_t at = 0; at < length; at += rows) {
        struct stretch met = met_by(length, at, rows, step, step, before, after);
        n += divide_up(met.end - met.first, step);
    }
    return n;
}

uint64_t steps_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step)
{
    return steps_of(length, rows, step, get(c, CONST_AFTER, 0), get(c, CONST_BEFORE, 0));
}

uint64_t key_steps_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step)
{
    return steps_of(length, rows, step, get(c, CONST_BEFORE, 0), get(c, CONST_AFTER, 0));
}

uint64_t parts_walked(const struct count *c, uint64_t length, uint64_t rows, uint64_t step, uint64_t parts)
{
    uint64_t n = 0;
    for (uint64_t at = 0; at < length; at += step) {
        struct stretch met = met_by(length, at, step, rows, rows, get(c, CONST_BEFORE, 0), get(c, CONST_AFTER, 0));
        n += least(divide_up(met.end - met.first, rows), parts) * least(step, length - at);
    }
    return n;
}

void count_attention(struct count *c)
{
    uint64_t heads = get(c, CONST_HEADS, 1), dim = get(c, CONST_HEAD_DIM, 32), groups = 0;
    uint64_t tile_m = get(c, CONST_TILE_M, 32), tile_n = get(c, CONST_TILE_N, 32),
             members = heads / get(c, CONST_KEY_HEADS, (uint32_t)heads);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), rows = length * dim * heads, of_a_head = 4 * length * dim * c->storage;
        uint64_t met = keys_walked(c, length, tile_m, tile_n, tile_n) * dim * heads;
        groups += divide_up(length, tile_m) * heads;
        reads(c, SLOT_X, rows);
        for (uint8_t slot = SLOT_W; slot <= SLOT_V; slot++) {
            reads(c, slot, met);
            reads_again(c, slot, met - rows / members, of_a_head);
        }
        writes(c, SLOT_Y, rows);
        writes(c, SLOT_LSE, length * heads);
    }
    reads_biases(c, groups);
}
