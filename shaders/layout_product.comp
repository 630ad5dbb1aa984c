#version 450
#extension GL_GOOGLE_include_directive : require
/* C[m][n] = the sum over k of A[m][k] B[k][n], for each product of a batch, with the letters of A, B and C in any orders,
 * for measuring alone (docs/layouts.md): no session runs it. Twin of cl/layout_product.cl;
 * core/interface/layouts.h says what the constants are.
 *
 * A work-group has a tile of 64 by 64, in steps of 16 along k through shared memory; a work-item 8 by 4 of it. A and B
 * are the two operands in X. They are read 16 bytes at a time where their fastest letter allows it. */
#include "common.glsl"
#include "layouts.h"

layout(constant_id = CONST_BATCHED) const uint BATCHED = 0x0aa4;
layout(constant_id = CONST_TILE_M) const uint TILE_M = 1;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 1;
layout(constant_id = CONST_TILE_K) const uint TILE_K = 1;
layout(constant_id = CONST_TILE_V) const uint TILE_V = 1;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 1;
layout(constant_id = CONST_THREAD_N) const uint THREAD_N = 1;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 0xfff0f1;
layout(constant_id = CONST_W_STRIDE) const uint W_STRIDE = 0xfff01f;
layout(constant_id = CONST_Y_STRIDE) const uint Y_STRIDE = 0xffff01;
layout(constant_id = CONST_V_STRIDE) const uint V_STRIDE = 0;

/* Numbers of turns, as something that is known when the pipeline is made: until then loops stay loops, and the module
 * small. */
const uint WIDTH = TILE_M > 0 ? VECTOR : 0;
const uint ROWS = TILE_M > 0 ? 8 : 0;
const uint COLUMNS = TILE_M > 0 ? 4 : 0;
const uint DEPTH = TILE_M > 0 ? LAYOUT_DEPTH : 0;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
OUTPUT_OF(SLOT_Y, storage, y);

#define GROUP(l) (BATCHED >> (2 * (l)) & 3u)
#define FASTER(order, l, m) LAYOUT_FASTER(order, l, m)
#define STRIDE(order, l)                                                                                               \
    (LAYOUT_RANK(order, l) == LAYOUT_ABSENT ? 0u                                                                       \
                                            : FASTER(order, l, 0) * FASTER(order, l, 1) * FASTER(order, l, 2) *        \
                                                  FASTER(order, l, 3) * FASTER(order, l, 4) * FASTER(order, l, 5))
/* Elements of a group that one value of letter l counts. */
#define AFTER(l, m) ((m) <= (l) ? 1u : GROUP(m) == GROUP(l) ? LAYOUT_SIZE(m) : 1u)
#define BELOW(l) (AFTER(l, 1) * AFTER(l, 2) * AFTER(l, 3) * AFTER(l, 4) * AFTER(l, 5))
#define IN(group, l) (GROUP(l) == (group) ? LAYOUT_SIZE(l) : 1u)
#define EXTENT(group) (IN(group, 0) * IN(group, 1) * IN(group, 2) * IN(group, 3) * IN(group, 4) * IN(group, 5))
/* Each letter's distance in a tensor, and how many values of its group it counts. */
#define ORDER(order)                                                                                                   \
    const uint order##_0 = STRIDE(order, 0);                                                                           \
    const uint order##_1 = STRIDE(order, 1);                                                                           \
    const uint order##_2 = STRIDE(order, 2);                                                                           \
    const uint order##_3 = STRIDE(order, 3);                                                                           \
    const uint order##_4 = STRIDE(order, 4);                                                                           \
    const uint order##_5 = STRIDE(order, 5);
ORDER(X_STRIDE)
ORDER(W_STRIDE)
ORDER(Y_STRIDE)
const uint BELOW_0 = BELOW(0);
const uint BELOW_1 = BELOW(1);
const uint BELOW_2 = BELOW(2);
const uint BELOW_3 = BELOW(3);
const uint BELOW_4 = BELOW(4);
const uint BELOW_5 = 1;
const uint EXTENT_M = EXTENT(LAYOUT_M);
const uint EXTENT_N = EXTENT(LAYOUT_N);
const uint EXTENT_K = EXTENT(LAYOUT_K);
const uint EXTENT_BATCH = EXTENT(LAYOUT_BATCH);
#define PART(order, group, l, i) (GROUP(l) == (group) ? (i) / BELOW_##l % LAYOUT_SIZE(l) * order##_##l : 0u)
/* Where value i of a group lies in a tensor. */
#define SPREAD(order, group, i)                                                                                        \
    (PART(order, group, 0, i) + PART(order, group, 1, i) + PART(order, group, 2, i) + PART(order, group, 3, i) +       \
     PART(order, group, 4, i) + PART(order, group, 5, i))
#define TILES(extent) ((extent + LAYOUT_TILE - 1u) / LAYOUT_TILE)

#define A_ALONG_K ((V_STRIDE & LAYOUT_A_ALONG_K) != 0u)
#define B_ALONG_K ((V_STRIDE & LAYOUT_B_ALONG_K) != 0u)
#define A_WIDE ((V_STRIDE & LAYOUT_A_WIDE) != 0u)
#define B_WIDE ((V_STRIDE & LAYOUT_B_WIDE) != 0u)
#define TURNS (LAYOUT_TILE * LAYOUT_DEPTH / LAYOUT_ITEMS / VECTOR)
#define ROW_WORDS (LAYOUT_TILE + 4)

/* A tile of one operand, 16 values of k by 64 of the group, to shared memory; 0 beyond the ends. */
#define LOAD_TILE(tile, order, group, extent, along_k, wide, from, first)                                              \
    for (uint load = 0; load < TURNS; load++) {                                                                        \
        const uint q = l + load * LAYOUT_ITEMS;                                                                        \
        const uint k = along_k ? q % (LAYOUT_DEPTH / VECTOR) * VECTOR : q / (LAYOUT_TILE / VECTOR);                    \
        const uint r = along_k ? q / (LAYOUT_DEPTH / VECTOR) : q % (LAYOUT_TILE / VECTOR) * VECTOR;                    \
        float v[VECTOR];                                                                                               \
        UNROLL for (uint c = 0; c < WIDTH; c++) v[c] = 0.0;                                                           \
        if (wide) {                                                                                                    \
            if (first + r < extent && k0 + k < EXTENT_K) {                                                             \
                LOAD_VECTOR(x, from + SPREAD(order, group, first + r) + SPREAD(order, LAYOUT_K, k0 + k), v);           \
            }                                                                                                          \
        } else {                                                                                                       \
            UNROLL for (uint c = 0; c < WIDTH; c++)                                                                   \
            {                                                                                                          \
                const uint kc = k0 + k + (along_k ? c : 0u), rc = first + r + (along_k ? 0u : c);                      \
                if (rc < extent && kc < EXTENT_K)                                                                      \
                    v[c] = LOAD(x, from + SPREAD(order, group, rc) + SPREAD(order, LAYOUT_K, kc));                     \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (uint c = 0; c < WIDTH; c++)                                                                       \
            tile[(k + (along_k ? c : 0u)) * ROW_WORDS + r + (along_k ? 0u : c)] = v[c];                                \
    }

shared float tile_a[LAYOUT_DEPTH * ROW_WORDS], tile_b[LAYOUT_DEPTH * ROW_WORDS];

void main()
{
    const uint l = local_number(), group = group_number();
    if (batch[LAYOUT_LIVE] != 0 && group < TILES(EXTENT_M) * TILES(EXTENT_N) * EXTENT_BATCH) {
        const uint n0 = group % TILES(EXTENT_N) * LAYOUT_TILE;
        const uint m0 = group / TILES(EXTENT_N) % TILES(EXTENT_M) * LAYOUT_TILE;
        const uint product = group / (TILES(EXTENT_N) * TILES(EXTENT_M));
        const uint from_a = batch[LAYOUT_INPUTS] + SPREAD(X_STRIDE, LAYOUT_BATCH, product);
        const uint from_b = batch[LAYOUT_INPUTS + 1] + SPREAD(W_STRIDE, LAYOUT_BATCH, product);
        const uint to = batch[LAYOUT_OUTPUTS] + SPREAD(Y_STRIDE, LAYOUT_BATCH, product);
        const uint row = l / 16 * 8, column = l % 16 * 4;
        float sum[8][4];
        UNROLL for (uint i = 0; i < ROWS; i++)
        {
            UNROLL for (uint j = 0; j < COLUMNS; j++) sum[i][j] = 0.0;
        }
        for (uint k0 = 0; k0 < EXTENT_K; k0 += LAYOUT_DEPTH) {
            LOAD_TILE(tile_a, X_STRIDE, LAYOUT_M, EXTENT_M, A_ALONG_K, A_WIDE, from_a, m0)
            LOAD_TILE(tile_b, W_STRIDE, LAYOUT_N, EXTENT_N, B_ALONG_K, B_WIDE, from_b, n0)
            barrier();
            UNROLL for (uint k = 0; k < DEPTH; k++)
            {
                float a[8], b[4];
                UNROLL for (uint i = 0; i < ROWS; i++) a[i] = tile_a[k * ROW_WORDS + row + i];
                UNROLL for (uint j = 0; j < COLUMNS; j++) b[j] = tile_b[k * ROW_WORDS + column + j];
                UNROLL for (uint i = 0; i < ROWS; i++)
                {
                    UNROLL for (uint j = 0; j < COLUMNS; j++) sum[i][j] = fma(a[i], b[j], sum[i][j]);
                }
            }
            barrier();
        }
        UNROLL for (uint i = 0; i < ROWS; i++)
        {
            UNROLL for (uint j = 0; j < COLUMNS; j++)
            {
                const uint m = m0 + row + i, n = n0 + column + j;
                if (m < EXTENT_M && n < EXTENT_N)
                    STORE(y, to + SPREAD(Y_STRIDE, LAYOUT_M, m) + SPREAD(Y_STRIDE, LAYOUT_N, n), sum[i][j]);
            }
        }
    }
}
