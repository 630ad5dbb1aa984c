/* What attention and its backward pass share. A tile has TILE_COLUMNS queries of one head, one a lane: scores lie
 * [key][query], so that a query's softmax goes down its lane, keys and values are read where they lie, and no lane
 * needs another. */
#ifndef WHERRY_CPU_ATTENTION_H
#define WHERRY_CPU_ATTENTION_H

#include "distances.h"
#include "dropout.h"
#include "formulas.h"
#include "masked.h"
#include "tile.h"
#include "tokens.h"
#include "traffic.h"

TILE_ALONG(1, false)
TILE_ALONG(2, false)
TILE_ALONG(3, false)
TILE_BESIDE(1)
TILE_BESIDE(2)
TILE_BESIDE(3)

enum { KEYS = 64 }; /* of a step, each of which goes on from the sums of the one before */

static inline void along(int vectors, int rows, const struct tile_rows *a, const float *b, size_t depth, float *c)
{
    if (vectors == 1)
        tile_along_1(rows, a, b, NULL, depth, c, TILE_COLUMNS, false);
    else if (vectors == 2)
        tile_along_2(rows, a, b, NULL, depth, c, TILE_COLUMNS, false);
    else
        tile_along_3(rows, a, b, NULL, depth, c, TILE_COLUMNS, false);
}

static inline void beside(int vectors, const float *a, size_t a_step, const float *b, size_t depth, float *c, bool add)
{
    if (vectors == 1)
        tile_beside_1(a, a_step, b, depth, c, TILE_COLUMNS, add);
    else if (vectors == 2)
        tile_beside_2(a, a_step, b, depth, c, TILE_COLUMNS, add);
    else
        tile_beside_3(a, a_step, b, depth, c, TILE_COLUMNS, add);
}

/* to[channel][query] = factor * the `count` rows from `from` on; zeros in other lanes. */
static inline void rows_transpose(const float *from, size_t stride, size_t count, size_t dim, float factor, float *to)
{
    for (size_t q = 0; q < TILE_COLUMNS; q++)
        for (size_t p = 0; p < dim; p++) to[p * TILE_COLUMNS + q] = q < count ? factor * from[q * stride + p] : 0.0f;
}

/* The other way round. */
static inline void rows_transpose_back(const float *from, size_t count, size_t dim, float *to, size_t stride)
{
    for (size_t q = 0; q < count; q++)
        for (size_t p = 0; p < dim; p++) to[q * stride + p] = from[p * TILE_COLUMNS + q];
}

/* to[row][query] = `rows` rows of `dim` channels, from `from` on, times transposed rows. */
static inline void score(int vectors, const float *from, size_t stride, size_t rows, const float *transposed,
                         size_t dim, float *to)
{
    for (size_t r = 0; r < rows; r += TILE_ROWS) {
        int few = rows - r < TILE_ROWS ? (int)(rows - r) : TILE_ROWS;
        struct tile_rows a = tile_rows_at(from + r * stride, stride, few);
        along(vectors, few, &a, transposed, dim, to + r * TILE_COLUMNS);
    }
}

/* ---- the forward pass: softmax as keys come ---- */

struct softmax {
    float *queries; /* [channel][query], times the scale and log2 e */
    float *scores;  /* [key][query], later weights */
    float *sums;    /* [channel][query] */
    float *largest, *total;
    float *biases; /* by distance, times log2 e (distances.h) */
    bool masked;   /* some scores are hidden */
};

static inline void soften_begin(const struct softmax *m, size_t dim)
{
    memset(m->sums, 0, dim * TILE_COLUMNS * sizeof(float));
    for (size_t q = 0; q < TILE_COLUMNS; q++) m->largest[q] = -3.0e38f, m->total[q] = 0.0f;
}

/* One vector's queries: weights relative to the largest score so far, and the sums before shrunk to it. */
static inline void soften(const struct softmax *m, size_t keys, size_t dim, size_t lane)
{
    vec before = v_load(m->largest + lane), now = before, total = v_load(m->total + lane);
    for (size_t k = 0; k < keys; k++) now = v_max(now, v_load(m->scores + k * TILE_COLUMNS + lane));
    vec shrink = v_exp2(before - now);
    total *= shrink;
    for (size_t k = 0; k < keys; k++) {
        float *at = m->scores + k * TILE_COLUMNS + lane;
        vec weight = mask_weight(m->masked, v_load(at), v_exp2(v_load(at) - now));
        total += weight;
        v_store(at, weight);
    }
    v_store(m->largest + lane, now);
    v_store(m->total + lane, total);
    for (size_t p = 0; p < dim; p++) {
        float *at = m->sums + p * TILE_COLUMNS + lane;
        v_store(at, v_load(at) * shrink);
    }
}

/* What the forward pass moves: in items that have tiles of a sequence keys and values are read once, those that one of
 * the tiles meets. */
enum { KEY_UNIT = 8 }; /* steps begin at a multiple of so many keys */

static inline uint64_t count_keys(const struct cpu_step *s, struct stretch own)
{
    uint64_t keys = 0, end = 0;
    size_t last = SIZE_MAX;
    for (size_t at = 0; at < own.length; at += TILE_COLUMNS) {
        size_t item = (own.first + at) / TOKENS_AT_ONCE, left = own.length - at;
        struct key_range met = tile_keys(s, at, left < TILE_COLUMNS ? left : TILE_COLUMNS, own.length, KEY_UNIT);
        keys += met.end - (item == last ? end : met.first);
        end = met.end;
        last = item;
    }
    return keys;
}

/* Stretches of tokens in which some tile begins: items of a head that have work. */
static inline uint64_t count_blocks(const struct cpu_step *s)
{
    size_t blocks = 0, last = SIZE_MAX;
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++) {
        struct stretch own = step_sequence(s, i);
        for (size_t at = own.first; at < own.first + own.length; at += TILE_COLUMNS) {
            blocks += at / TOKENS_AT_ONCE != last;
            last = at / TOKENS_AT_ONCE;
        }
    }
    return blocks;
}

/* Each item that has a tile reads its head's column of the table. */
static inline void count_relative(const struct cpu_step *s, struct count *c, uint64_t items)
{
    uint64_t elements = buckets_of(c);
    if (items) count_again(c, SLOT_RELATIVE, items * elements, elements * s->value[CONST_HEADS], 0);
}

static inline void attention_count(const struct cpu_step *s, struct count *c)
{
    uint64_t heads = s->value[CONST_HEADS], dim = s->value[CONST_HEAD_DIM];
    for (uint32_t i = 0; i < s->batch[HEADER_SEQUENCES]; i++) {
        uint64_t length = length_of(c, i), keys = heads * dim * count_keys(s, step_sequence(s, i)),
                 of_a_tile = 2 * dim * (length + TILE_COLUMNS) * sizeof(float);
        reads(c, SLOT_X, heads * length * dim);
        count_again(c, SLOT_W, keys, heads * dim * length, heads * of_a_tile);
        count_again(c, SLOT_V, keys, heads * dim * length, heads * of_a_tile);
        writes(c, SLOT_Y, heads * length * dim);
        if (s->value[CONST_LSE] == LSE_WRITE) writes(c, SLOT_LSE, heads * length);
    }
    count_relative(s, c, heads * count_blocks(s));
}

/* Scratch memory of a step's scores: a tile more than keys. */
#define SCORE_FLOATS ((KEYS + TILE_ROWS) * TILE_COLUMNS)

#endif
