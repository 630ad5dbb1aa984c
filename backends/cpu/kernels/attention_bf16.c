/* attention in bf16: queries, keys, values and weights are rounded to it before they are multiplied; scores, softmax
 * and sums are in f32, those of attention.c. For inference: it drops nothing and keeps nothing. */
#include "attention.h"
#include "tile_bf16.h"

enum { KEYS_BF16 = 128 }; /* of a step */

struct memory {
    struct softmax f32; /* without queries */
    uint16_t *queries;  /* a panel [channel / 2][query][2], times the scale and log2 e */
    uint16_t *weights;  /* a panel [key / 2][query][2] */
    uint16_t *keys;     /* [key][channel] */
    uint16_t *values;   /* [channel][key] */
};

static size_t tile_rows_of(size_t rows) { return blocks_of(rows, BF16_DEPTH_UNIT) * BF16_DEPTH_UNIT; }

static struct memory memory_of(const struct cpu_step *s, float *scratch)
{
    size_t dim = tile_rows_of(s->value[CONST_HEAD_DIM]);
    struct memory m = {.f32 = {.scores = scratch, .sums = scratch + KEYS_BF16 * TILE_COLUMNS}};
    m.f32.largest = m.f32.sums + dim * TILE_COLUMNS;
    m.f32.total = m.f32.largest + TILE_COLUMNS;
    m.f32.biases = m.f32.total + TILE_COLUMNS;
    m.queries = (uint16_t *)(void *)(m.f32.biases + distance_floats(s));
    m.weights = m.queries + dim * TILE_COLUMNS;
    m.keys = m.weights + KEYS_BF16 * TILE_COLUMNS;
    m.values = m.keys + KEYS_BF16 * BF16_A_ROW;
    return m;
}

static size_t attention_scratch(const struct cpu_step *s)
{
    size_t dim = tile_rows_of(s->value[CONST_HEAD_DIM]);
    size_t floats = (KEYS_BF16 + dim + 2) * TILE_COLUMNS + distance_floats(s),
           halves = (dim + KEYS_BF16) * TILE_COLUMNS + (KEYS_BF16 + dim) * BF16_A_ROW;
    return floats + (halves + 1) / 2;
}

/* ---- 16 x 16 words ---- */

static inline void turn(__m512i r[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) { /* a quarter of r[i + c] is four rows of column c, 4 + c, 8 + c or 12 + c */
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int c = 0; c < 4; c++) {
        __m512i even = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88), odd = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xdd),
                even2 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88),
                odd2 = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xdd);
        t[c] = _mm512_shuffle_i32x4(even, even2, 0x88);
        t[4 + c] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
        t[8 + c] = _mm512_shuffle_i32x4(even, even2, 0xdd);
        t[12 + c] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
    }
    for (int i = 0; i < 16; i++) r[i] = t[i];
}

INLINE vec row_part(const float *row, size_t i, size_t n) { return i < n ? v_load_at(row, i, n) : v_zero(); }

/* Two rows' elements in turns, rounded. */
INLINE __m512i in_turns(vec even, vec odd)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, bf16_round(even, odd));
}

/* ---- operands ---- */

static void queries_pack(const float *x, size_t stride, size_t count, size_t dim, float factor, uint16_t *to)
{
    for (size_t q = 0; q < TILE_COLUMNS; q += 16)
        for (size_t p = 0; p < dim; p += BF16_DEPTH_UNIT) {
            __m512i rows[16];
            for (size_t r = 0; r < 16; r++) {
                const float *row = x + (q + r) * stride;
                rows[r] = q + r < count ? bf16_round(row_part(row, p, dim) * v_set(factor),
                                                     row_part(row, p + LANES, dim) * v_set(factor))
                                        : _mm512_setzero_si512();
            }
            turn(rows);
            for (size_t r = 0; r < 16; r++) _mm512_storeu_si512(to + (p / 2 + r) * 2 * TILE_COLUMNS + 2 * q, rows[r]);
        }
}

/* Zeros after the last key and the last channel. */
static void keys_pack(const float *w, size_t stride, size_t count, size_t dim, uint16_t *to)
{
    for (size_t k = 0; k < tile_rows_of(count); k++, w += stride, to += BF16_A_ROW)
        for (size_t p = 0; p < dim; p += BF16_DEPTH_UNIT)
            _mm512_storeu_si512(to + p, k < count ? bf16_round(row_part(w, p, dim), row_part(w, p + LANES, dim))
                                                  : _mm512_setzero_si512());
}

static void values_pack(const float *v, size_t stride, size_t count, size_t dim, uint16_t *to)
{
    for (size_t k = 0; k < count; k += BF16_DEPTH_UNIT)
        for (size_t p = 0; p < tile_rows_of(dim); p += 16) {
            __m512i rows[16];
            for (size_t r = 0; r < 16; r++) {
                size_t key = k + 2 * r;
                vec even = key < count ? row_part(v + key * stride, p, dim) : v_zero(),
                    odd = key + 1 < count ? row_part(v + (key + 1) * stride, p, dim) : v_zero();
                rows[r] = in_turns(even, odd);
            }
            turn(rows);
            for (size_t r = 0; r < 16; r++) _mm512_storeu_si512(to + (p + r) * BF16_A_ROW + k, rows[r]);
        }
}

static void weights_pack(const float *scores, size_t count, uint16_t *to)
{
    for (size_t k = 0; k < tile_rows_of(count); k += 2)
        for (size_t q = 0; q < TILE_COLUMNS; q += LANES) {
            const float *at = scores + k * TILE_COLUMNS + q;
            vec even = k < count ? v_load(at) : v_zero(), odd = k + 1 < count ? v_load(at + TILE_COLUMNS) : v_zero();
            _mm512_storeu_si512(to + k * TILE_COLUMNS + 2 * q, in_turns(even, odd));
        }
}

static void multiply(const uint16_t *a, size_t rows, const uint16_t *panel, size_t depth, float *c, bool add)
{
    bf16_begin();
    for (size_t r = 0; r < rows; r += BF16_TILE_ROWS)
        bf16_tile(rows - r, a + r * BF16_A_ROW, panel, NULL, bf16_depth(depth), c + r * TILE_COLUMNS, TILE_COLUMNS,
                  add);
    bf16_end();
}

/* ---- a tile ---- */

static void finish(const struct softmax *m, size_t queries, size_t dim, float *y, size_t stride)
{
    for (size_t q = 0; q < queries; q += 16) {
        vec share = v_set(1.0f) / v_load(m->total + q);
        for (size_t p = 0; p < dim; p += 16) {
            __m512i rows[16];
            for (size_t r = 0; r < 16; r++) rows[r] = (__m512i)(v_load(m->sums + (p + r) * TILE_COLUMNS + q) * share);
            turn(rows);
            for (size_t r = 0; r < 16 && q + r < queries; r++) v_store_at(y + (q + r) * stride, p, dim, (vec)rows[r]);
        }
    }
}

static void tile(const struct cpu_step *s, const struct tile_place *t, float *scratch)
{
    struct memory m = memory_of(s, scratch);
    size_t dim = s->value[CONST_HEAD_DIM], x_stride = s->value[CONST_X_STRIDE], w_stride = s->value[CONST_W_STRIDE],
           v_stride = s->value[CONST_V_STRIDE], y_stride = s->value[CONST_Y_STRIDE];
    size_t queries = t->length - t->at < TILE_COLUMNS ? t->length - t->at : TILE_COLUMNS, row = t->first + t->at;
    const float *x = s->at[SLOT_X] + s->value[CONST_X_OFFSET] + row * x_stride + step_head(s, t->head, x_stride);
    const float *w =
        s->at[SLOT_W] + s->value[CONST_W_OFFSET] + t->first * w_stride + step_key_head(s, t->head, w_stride);
    const float *v =
        s->at[SLOT_V] + s->value[CONST_V_OFFSET] + t->first * v_stride + step_key_head(s, t->head, v_stride);
    float *y = s->at[SLOT_Y] + s->value[CONST_Y_OFFSET] + row * y_stride + step_head(s, t->head, y_stride);
    float scale;
    memcpy(&scale, &s->value[CONST_SCALE], sizeof scale);
    queries_pack(x, x_stride, queries, dim, scale * V_LOG2E, m.queries);
    distances_load(s, t->head, V_LOG2E, m.f32.biases);
    soften_begin(&m.f32, tile_rows_of(dim));
    m.f32.masked = is_masked(s);
    struct key_range met = tile_keys(s, t->at, queries, t->length, KEY_UNIT);
    for (size_t key = met.first; key < met.end; key += KEYS_BF16) {
        size_t keys = met.end - key < KEYS_BF16 ? met.end - key : KEYS_BF16;
        keys_pack(w + key * w_stride, w_stride, keys, dim, m.keys);
        multiply(m.keys, keys, m.queries, dim, m.f32.scores, false);
        distances_add(s, m.f32.biases, key, keys, t->at, queries, m.f32.scores);
        mask_add(s, alibi_slope(s, t->head) * V_LOG2E, key, keys, t->at, queries, m.f32.scores);
        for (size_t lane = 0; lane < queries; lane += LANES) soften(&m.f32, keys, dim, lane);
        weights_pack(m.f32.scores, keys, m.weights);
        values_pack(v + key * v_stride, v_stride, keys, dim, m.values);
        multiply(m.values, dim, m.weights, keys, m.f32.sums, true);
    }
    finish(&m.f32, queries, dim, y, y_stride);
}

static void attention_run(const struct cpu_step *s, size_t item, float *scratch)
{
    tiles_run(s, item, TILE_COLUMNS, tile, scratch);
}

const struct cpu_kernel CPU_NAME(cpu_attention_bf16) = {.name = "attention",
                                                        .items = tiles_items,
                                                        .run = attention_run,
                                                        .scratch = attention_scratch,
                                                        .count = attention_count};
