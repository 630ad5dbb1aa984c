/* A bias of scores by the distance of key and query, for tiles whose scores lie [key][query] (attention.h).
 *
 * A head's row of biases is turned round: element `far - offset` is that of the keys `offset` tokens after the query,
 * so that neighbouring queries have neighbouring elements; TILE_COLUMNS copies of the outermost ones stand before and
 * after, and no element of a tile is looked up by itself. */
#ifndef WHERRY_CPU_DISTANCES_H
#define WHERRY_CPU_DISTANCES_H

#include "backends/cpu/step.h"
#include "tile.h"

/* Floats of a head's row; 0: there is no bias. */
static inline size_t distance_floats(const struct cpu_step *s)
{
    size_t far = s->value[CONST_RELATIVE];
    return far ? 2 * far + 1 + 2 * TILE_COLUMNS : 0;
}

/* The table's element for keys `offset` tokens after the query, and before where it is negative. */
static inline float distance_bias(const struct cpu_step *s, size_t head, ptrdiff_t offset)
{
    ptrdiff_t far = s->value[CONST_RELATIVE];
    const uint32_t *buckets = s->batch + s->batch[HEADER_AT_BUCKETS];
    offset = offset < -far ? -far : offset > far ? far : offset;
    return s->at[SLOT_RELATIVE][(size_t)buckets[offset + far] * s->value[CONST_HEADS] + head];
}

/* A head's row, times a factor. */
static inline void distances_load(const struct cpu_step *s, size_t head, float factor, float *row)
{
    size_t n = distance_floats(s);
    for (size_t i = 0; i < n; i++)
        row[i] = factor * distance_bias(s, head, (ptrdiff_t)(s->value[CONST_RELATIVE] + TILE_COLUMNS) - (ptrdiff_t)i);
}

/* Where in the row the first of a tile's queries has its element for a key; those after it follow. */
static inline size_t distances_at(const struct cpu_step *s, size_t key, size_t query)
{
    ptrdiff_t far = s->value[CONST_RELATIVE], at = far + TILE_COLUMNS + (ptrdiff_t)query - (ptrdiff_t)key;
    return at < 0 ? 0 : at > 2 * far + TILE_COLUMNS ? (size_t)(2 * far + TILE_COLUMNS) : (size_t)at;
}

/* Adds them to the scores of keys from `key` and queries from `query` on. */
static inline void distances_add(const struct cpu_step *s, const float *row, size_t key, size_t keys, size_t query,
                                 size_t queries, float *scores)
{
    for (size_t k = 0; distance_floats(s) && k < keys; k++, scores += TILE_COLUMNS) {
        const float *at = row + distances_at(s, key + k, query);
        FOR_VECTORS(i, queries) v_store(scores + i, v_load(scores + i) + v_load(at + i));
    }
}

/* The other way round: adds scores' gradients to a row of sums. */
static inline void distances_sum(const struct cpu_step *s, float *row, size_t key, size_t keys, size_t query,
                                 size_t queries, const float *changes)
{
    for (size_t k = 0; distance_floats(s) && k < keys; k++, changes += TILE_COLUMNS) {
        float *at = row + distances_at(s, key + k, query);
        FOR_VECTORS(i, queries) v_store(at + i, v_load(at + i) + v_load_at(changes, i, queries));
    }
}

/* Stores the sums of one sequence and head, times a factor, zeros after them. */
static inline void distances_store(const struct cpu_step *s, const struct stretch *own, size_t head, float factor,
                                   float *row)
{
    size_t heads = s->value[CONST_HEADS], far = s->value[CONST_RELATIVE], n = distance_floats(s);
    if (!n) return;
    float *y = s->at[SLOT_DISTANCES] + 2 * own->first * heads + head, *last = row + n - 1 - TILE_COLUMNS;
    for (size_t i = 0; i < TILE_COLUMNS; i++) {
        row[TILE_COLUMNS] += row[i];
        *last += last[1 + i];
    }
    size_t most = own->length - 1 < far ? own->length - 1 : far;
    for (size_t i = 0; i < 2 * own->length; i++)
        y[i * heads] = i <= 2 * most ? factor * row[TILE_COLUMNS + far + most - i] : 0.0f;
}

#endif
