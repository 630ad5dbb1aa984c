/* attention_backward: gradients of queries, keys and values from weights that are made again (cl/attention_backward.cl
 * says what is computed). An item is a sequence and a head of K, whose keys' and values' sums are added up in memory,
 * tile after tile of queries. */
#include "attention.h"
#include "traffic.h"

/* A panel has TILE_COLUMNS channels of a tile's queries: [query][channel]. */
static size_t panels_of_dim(size_t dim) { return blocks_of(dim, TILE_COLUMNS); }

struct memory {
    float *queries, *gradients;            /* [channel][query] */
    float *query_panels, *gradient_panels; /* [panel][query][channel] */
    float *weights, *changes;              /* [key][query]: what values' and keys' gradients are made of */
    float *sums;                           /* [channel][query]: the queries' gradient */
    float *lse, *delta;                    /* [query] */
    float *product;                        /* [key][channel] of one panel */
    float *biases, *distances;             /* by distance: what scores get, times log2 e; sums of their gradients */
};

static struct memory memory_of(const struct cpu_step *s, float *scratch)
{
    size_t dim = s->value[CONST_HEAD_DIM], transposed = dim * TILE_COLUMNS,
           panels = panels_of_dim(dim) * TILE_COLUMNS * TILE_COLUMNS;
    struct memory m = {.queries = scratch};
    m.gradients = m.queries + transposed;
    m.query_panels = m.gradients + transposed;
    m.gradient_panels = m.query_panels + panels;
    m.weights = m.gradient_panels + panels;
    m.changes = m.weights + SCORE_FLOATS;
    m.sums = m.changes + SCORE_FLOATS;
    m.lse = m.sums + transposed;
    m.delta = m.lse + TILE_COLUMNS;
    m.product = m.delta + TILE_COLUMNS;
    m.biases = m.product + SCORE_FLOATS;
    m.distances = m.biases + distance_floats(s);
    return m;
}

static size_t backward_scratch(const struct cpu_step *s)
{
    size_t dim = s->value[CONST_HEAD_DIM];
    return 3 * dim * TILE_COLUMNS + 2 * panels_of_dim(dim) * TILE_COLUMNS * TILE_COLUMNS + 3 * SCORE_FLOATS +
           2 * TILE_COLUMNS + 2 * distance_floats(s);
}

/* What an item works on, one head of Q after the other. */
struct work {
    const struct cpu_step *s;
    const struct stretch *own;
    struct memory m;
    struct dropout drop;
    size_t head, key_head, dim, heads, x_stride, w_stride, v_stride;
    const float *x, *w, *v, *gradient;
    float scale;
};

static void pack_panels(const float *from, size_t stride, size_t count, size_t dim, float factor, float *to)
{
    for (size_t p = 0; p < dim; p += TILE_COLUMNS, to += TILE_COLUMNS * TILE_COLUMNS)
        for (size_t q = 0; q < count; q++)
            for (size_t c = 0; c < TILE_COLUMNS; c++)
                to[q * TILE_COLUMNS + c] = p + c < dim ? factor * from[q * stride + p + c] : 0.0f;
}

/* The tile's queries: transposed, in panels, and their statistics. */
static void load_queries(const struct work *o, size_t query, size_t queries)
{
    const struct memory *m = &o->m;
    size_t g_stride = o->heads * o->dim, row = o->own->first + query;
    const float *x = o->x + query * o->x_stride, *gradient = o->gradient + query * g_stride;
    rows_transpose(x, o->x_stride, queries, o->dim, o->scale * V_LOG2E, m->queries);
    rows_transpose(gradient, g_stride, queries, o->dim, 1.0f, m->gradients);
    pack_panels(x, o->x_stride, queries, o->dim, o->scale, m->query_panels);
    pack_panels(gradient, g_stride, queries, o->dim, 1.0f, m->gradient_panels);
    for (size_t q = 0; q < TILE_COLUMNS; q++) {
        size_t at = (row + (q < queries ? q : queries - 1)) * o->heads + o->head;
        m->lse[q] = o->s->at[SLOT_LSE][at] * V_LOG2E;
        m->delta[q] = o->s->at[SLOT_DELTA][at];
    }
}

/* Weights after dropout, and what the scores change by, of one key. `factors` are dropout's, NULL: there is none. */
static void weigh(const struct memory *m, size_t key, size_t queries, const float *factors, bool masked)
{
    float *weights = m->weights + key * TILE_COLUMNS, *changes = m->changes + key * TILE_COLUMNS;
    FOR_VECTORS(i, queries)
    {
        vec score = v_load(weights + i), change = v_load(changes + i);
        vec weight = mask_weight(masked, score, v_exp2(score - v_load(m->lse + i)));
        vec kept = weight;
        if (factors) {
            change *= v_load(factors + i);
            kept *= v_load(factors + i);
        }
        v_store(weights + i, kept);
        v_store(changes + i, weight * (change - v_load(m->delta + i)));
    }
}

/* to[key][channel] (add ? += : =) the tile's sums over its queries. */
static void add_keys(const struct work *o, const float *of_queries, const float *panels, size_t keys, size_t queries,
                     float *to, size_t stride, bool add)
{
    for (size_t p = 0; p < o->dim; p += TILE_COLUMNS, panels += TILE_COLUMNS * TILE_COLUMNS) {
        size_t channels = o->dim - p < TILE_COLUMNS ? o->dim - p : TILE_COLUMNS;
        int vectors = (int)blocks_of(channels, LANES);
        score(vectors, of_queries, TILE_COLUMNS, keys, panels, queries, o->m.product);
        for (size_t k = 0; k < keys; k++) FOR_VECTORS(c, channels)
            {
                vec sum = v_load(o->m.product + k * TILE_COLUMNS + c);
                if (add) sum += v_load_at(to + k * stride + p, c, channels);
                v_store_at(to + k * stride + p, c, channels, sum);
            }
    }
}

/* KEYS keys from `key` on with the tile of queries. `met`: an earlier tile has met them; `first`: the tile's first. */
static void step_keys(const struct work *o, size_t key, size_t query, size_t queries, bool met, bool first)
{
    const struct memory *m = &o->m;
    const struct cpu_step *s = o->s;
    size_t keys = o->own->length - key < KEYS ? o->own->length - key : KEYS, row = o->own->first + key;
    int vectors = (int)blocks_of(queries, LANES);
    bool add = met || o->head % step_members(s) > 0;
    float factors[8 * TILE_COLUMNS]; /* of eight keys */
    score(vectors, o->w + key * o->w_stride, o->w_stride, keys, m->queries, o->dim, m->weights);
    distances_add(s, m->biases, key, keys, query, queries, m->weights);
    mask_add(s, alibi_slope(s, o->head) * V_LOG2E, key, keys, query, queries, m->weights);
    score(vectors, o->v + key * o->v_stride, o->v_stride, keys, m->gradients, o->dim, m->changes);
    for (size_t k = 0; k < keys; k++) {
        if (o->drop.threshold && k % 8 == 0) {
            for (size_t i = 0; i < 8 * TILE_COLUMNS; i++) factors[i] = 1.0f;
            columns_drop(&o->drop, factors, TILE_COLUMNS, 8, queries,
                         (uint32_t)((o->own->first + query) * o->heads + o->head), (uint32_t)o->heads,
                         (uint32_t)(key + k));
        }
        weigh(m, k, queries, o->drop.threshold ? factors + k % 8 * TILE_COLUMNS : NULL, is_masked(s));
    }
    distances_sum(s, m->distances, key, keys, query, queries, m->changes);
    float *y = s->at[SLOT_Y];
    add_keys(o, m->weights, m->gradient_panels, keys, queries,
             y + s->value[CONST_V_OFFSET] + row * o->v_stride + step_head(s, o->key_head, o->v_stride), o->v_stride,
             add);
    add_keys(o, m->changes, m->query_panels, keys, queries,
             y + s->value[CONST_W_OFFSET] + row * o->w_stride + step_head(s, o->key_head, o->w_stride), o->w_stride,
             add);
    for (size_t p = 0; p < o->dim; p += TILE_ROWS)
        beside(vectors, o->w + key * o->w_stride + p, o->w_stride, m->changes, keys, m->sums + p * TILE_COLUMNS,
               !first);
}

static void backward_head(const struct cpu_step *s, size_t sequence, size_t head, float *scratch)
{
    size_t heads = s->value[CONST_HEADS], dim = s->value[CONST_HEAD_DIM];
    struct stretch own = step_sequence(s, sequence);
    struct work o = {.s = s,
                     .own = &own,
                     .m = memory_of(s, scratch),
                     .drop = dropout_of(s),
                     .head = head,
                     .key_head = head / step_members(s),
                     .dim = dim,
                     .heads = heads,
                     .x_stride = s->value[CONST_X_STRIDE],
                     .w_stride = s->value[CONST_W_STRIDE],
                     .v_stride = s->value[CONST_V_STRIDE]};
    memcpy(&o.scale, &s->value[CONST_SCALE], sizeof o.scale);
    o.x = s->at[SLOT_X] + s->value[CONST_X_OFFSET] + own.first * o.x_stride + step_head(s, head, o.x_stride);
    o.w = s->at[SLOT_W] + s->value[CONST_W_OFFSET] + own.first * o.w_stride + step_key_head(s, head, o.w_stride);
    o.v = s->at[SLOT_V] + s->value[CONST_V_OFFSET] + own.first * o.v_stride + step_key_head(s, head, o.v_stride);
    o.gradient = s->at[SLOT_GRADIENT] + own.first * heads * dim + head * dim;
    distances_load(s, head, V_LOG2E, o.m.biases);
    memset(o.m.distances, 0, distance_floats(s) * sizeof *o.m.distances);
    size_t met = 0; /* keys up to here have sums already */
    for (size_t query = 0; query < own.length; query += TILE_COLUMNS) {
        size_t queries = own.length - query < TILE_COLUMNS ? own.length - query : TILE_COLUMNS;
        load_queries(&o, query, queries);
        struct key_range range = tile_keys(s, query, queries, own.length, KEYS);
        for (size_t key = range.first; key < range.end; key += KEYS)
            step_keys(&o, key, query, queries, key < met, key == range.first);
        met = (range.end + KEYS - 1) / KEYS * KEYS;
        rows_transpose_back(o.m.sums, queries, dim,
                            s->at[SLOT_PARTIALS] + (own.first + query) * heads * dim + head * dim, heads * dim);
    }
    distances_store(s, &own, head, o.scale, o.m.distances);
}

static void backward_run(const struct cpu_step *s, size_t item, float *scratch)
{
    size_t members = step_members(s), owners = s->value[CONST_HEADS] / members;
    for (size_t m = 0; m < members; m++) backward_head(s, item / owners, item % owners * members + m, scratch);
}

static size_t backward_items(const struct cpu_step *s)
{
    return (size_t)s->batch[HEADER_SEQUENCES] * s->value[CONST_HEADS] / step_members(s);
}

/* Keys' and values' gradients of an item are in its core's caches until all queries have added to them. */
static void backward_count(const struct cpu_step *s, struct count *c)
{
    static const uint8_t operands[] = {SLOT_X, SLOT_W, SLOT_V, SLOT_GRADIENT};
    uint64_t rows = (uint64_t)s->batch[HEADER_TOKENS] * s->value[CONST_HEADS], all = rows * s->value[CONST_HEAD_DIM];
    uint64_t members = step_members(s);
    for (size_t i = 0; i < sizeof operands; i++) reads(c, operands[i], all);
    reads_again(c, SLOT_W, all - all / members, all / rows * sizeof(float));
    reads_again(c, SLOT_V, all - all / members, all / rows * sizeof(float));
    reads(c, SLOT_LSE, rows);
    reads(c, SLOT_DELTA, rows);
    writes(c, SLOT_Y, 2 * all / members);
    writes_scratch(c, SLOT_PARTIALS, all);
    count_relative(s, c, backward_items(s));
    writes(c, SLOT_DISTANCES, 2 * rows);
}

const struct cpu_kernel CPU_NAME(cpu_attention_backward) = {.name = "attention_backward",
                                                            .items = backward_items,
                                                            .run = backward_run,
                                                            .scratch = backward_scratch,
                                                            .count = backward_count};
